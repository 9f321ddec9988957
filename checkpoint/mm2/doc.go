// Package mm2 writes what MirrorMaker 2 would have written for a link, so that its readers keep working: Java's
// MirrorClient and RemoteClusterUtils, the console formatters, and a MirrorMaker that takes over again.
//
//   - Checkpoints, on the target, say where groups of the source stand, translated.
//   - Offset syncs, on the target or the source, say at which offset a record was stored. Translation by them is coarse,
//     MirrorMaker's own way; it never leads behind the exact one.
//   - Heartbeats, on the target, say that the link lives.
//
// The formats are pure ([Checkpoint], [OffsetSync], [Heartbeat]), and so are the rules of what is written ([Options] has
// none of them): [Writer] hears of every pass over the groups and writes what is new of it.
package mm2
