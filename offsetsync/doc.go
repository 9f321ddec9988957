// Package offsetsync says which source offset stands where on the target: for every record that ever landed, exactly,
// from the target alone.
//
// Per opening of a lane the plan tells from which source offset record number count comes, the landing at which target
// offset it stands. Joined they give spans, and the spans of all openings the offset map. Plan, landing, cursor and
// openings are stored in the state topic by [Store] and followed by [View]; [Tail] recovers what the state does not say
// yet from the headers of the target's own log.
//
// It knows nothing of Kafka clients (internal/statelog does that), of fetching and producing, or of consumer groups.
//
// Invariants:
//   - an opening's plan and landing only grow, and only by one process; what a stale process adds behind the opening's
//     end is void;
//   - a cursor names how many plan and landing entries it builds upon. A reader joins nothing before it has read them,
//     whatever compaction left of the log;
//   - every picture that [View] hands out is immutable and consistent in itself.
//
// Goroutines: View.Run is a blocking loop of its caller; all else runs in the callers' goroutines.
package offsetsync
