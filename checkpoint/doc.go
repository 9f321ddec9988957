// Package checkpoint keeps consumer groups on the target where they stand on the source.
//
// A pass observes the groups of both clusters ([Observe]), plans what follows from that ([Plan], which is pure and so is
// also what a dry run shows), stores what it is about to write ([Bases]) and commits it ([Apply]). [Syncer] repeats
// passes as long as the link is ours.
//
// Offsets are translated with the exact offset map, never estimated. What others moved on the target is left alone: a
// position is written only where the target still has what lockstep wrote last, and never into a group that has members.
package checkpoint
