// Package topicsync keeps the topics of a link's target in step with its source, and offers the lanes that can be
// copied: those whose target partition's leader answers.
//
// It observes both clusters, plans (purely: values in, actions with reasons out), applies, and looks again. It creates
// missing topics with the source's number of partitions and explicit settings, and makes topics grow. It never shrinks
// or deletes a topic, never creates one again that it once saw on the target unless an operator ordered it (Remake), and
// never touches what nobody asked it to copy.
//
// A Syncer runs one pass at a time, in the goroutine that called Run or Once; requests inside of a pass may run beside
// each other, and have all returned when the pass ends. Nothing is stored but which topics it created; a new Syncer learns
// everything else from the two clusters and from Options.Known.
//
// A Keeper looks after what belongs to the topics, with a part for each kind: settings (configs), permissions (acl), quotas
// and users (quota), and sizes.
package topicsync
