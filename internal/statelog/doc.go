// Package statelog owns the topic lockstep.<link>.state on the target: its settings, the order in which entries reach
// it, and reading all of it from the start.
//
// It knows keys and bytes, not what they mean; offsetsync, checkpoint and topicsync give them meaning.
//
// Invariants that the readers of the state build upon:
//   - entries that one Put holds for one partition, and those of Puts that came one after the other, stand in the log in
//     this order, without one being written twice;
//   - Follow delivers a partition's entries in the order of the log, each once, and stops with an error rather than
//     leaving one out;
//   - Barrier returns when everything that stood in the log at the time of the call has been delivered, also when
//     compaction has left offsets without a record at the end of the log.
//
// Goroutines: the producing client runs its own; Follow is a blocking loop of its caller, which calls the given
// function from one goroutine and has at most one short goroutine per broker for an outstanding fetch.
package statelog
