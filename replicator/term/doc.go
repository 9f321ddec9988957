// Package term takes terms, a link's right to write to its target, and ends older ones by sealing partitions.
//
// A term is a producer id and an epoch that the target's transaction coordinator handed out for the transactional id
// "lockstep.<link>", and a number of lockstep's own. The lanes of a link write plain (not transactional) idempotent
// batches with that producer id. A seal is a control marker of a higher epoch in a partition's own log: from there on
// that partition's leader answers INVALID_PRODUCER_EPOCH to every older term, also to a process that was frozen, and
// no consumer sees the marker.
//
// Only the partition's own leader is proof. A partition is reported as sealed when its marker was read back from its
// log, whatever a coordinator answered.
//
// # Order
//
// The caller announces itself durably in the state topic first, then calls Take, then reads the state to its end,
// then acts. Of two actors the one with the higher epoch sees the announcement of the other. Seal comes after that,
// and the state is read to its end once more behind it, before positions are worked out.
//
// # When the producer id changes
//
// A coordinator that forgot the transactional id (7 days without use, transactional.id.expiration.ms), or whose epochs
// ran out (see rotateAt), hands out another producer id with epoch 0. Three things follow. Terms are compared by N,
// never by epoch. A marker of the new id fences nobody who writes with the old one, so a lane of the old id is sealed
// *under the old id*. And the marker's epoch is then the highest there is, 32767, not "the old epoch plus one": the
// epochs that a coordinator gave to somebody between the last term that is known and the change are not known, a
// forgotten id is never handed out again, and no coordinator gives 32767 to a client. Such a marker can only be
// written directly, since a coordinator writes markers of its present id alone: where direct markers are not allowed,
// such a lane stays unsealed (ErrOldID), and only the checks of ownership, log end and headers protect it.
// A lane may be opened late under any id that the link had since it was last opened: whoever opens no lane of its own, as
// a failover does not, seals under all of them (replicator.Shut).
//
// The package starts goroutines only for the length of a call, keeps nothing on disk and knows nothing of lanes,
// plans or the state topic.
package term
