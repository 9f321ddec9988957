// Package replicator is the copy plane: it fetches record batches from the source's leaders, numbers them, and
// produces them to the target's leaders, each exactly once and in order.
//
// A Manager runs one link. A lane (lane.go) is one partition's state; it is passive and has no goroutine. Loops work
// on lanes: a fetcher per source broker and shard, preparers (check, choose the form, number, plan), a planner that
// makes jumps durable before the batches behind them, a sender per target broker, an opener that establishes
// positions, and a flusher that stores cursors. A record's way is fetcher → lane.accept → preparer → planner → sender
// → lane.settle.
//
// Invariants, enforced in lane.go and settle.go:
//   - a batch carries, as its sequence, the number of records that the lane copied in its term before it;
//   - nothing is sent before the opening, and the plan up to it, are durable in the state topic;
//   - at most one batch is unanswered until the first answer of an opening, at most five afterwards;
//   - a batch whose outcome is unknown is sent again byte for byte, or the term ends with a seal; nothing else;
//   - lane.mu is never held across I/O, and queue and budget locks are leaves below it.
//
// The package knows nothing of Raft, of topics' settings or of groups.
package replicator
