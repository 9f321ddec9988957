// Package reset moves committed positions of consumer groups by hand: what kafka-consumer-groups.sh --reset-offsets
// does, with the plan shown first, the old positions kept, and what was written read back.
//
// [Parse] reads positions from files, [Plan] says what follows from what is wanted and what stands in the cluster (it is
// pure, and so is also what a dry run shows), [Apply] keeps the old positions and writes the new ones, [Undo] brings kept
// ones back. It knows nothing of links but the log in which old positions are kept.
package reset
