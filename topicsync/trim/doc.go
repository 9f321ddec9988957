// Package trim has a mirror drop what its source has dropped, while the mirror's own retention is open.
//
// It never deletes by a clock or a size of its own: it asks where the source's logs begin, and moves the target's to the
// translation of that. What it holds to:
//
//   - only topics that lockstep made, whose retention.ms on the target is -1 and whose cleanup.policy has delete;
//   - only lanes whose durable offset map joins just the topic ids that both sides have now; both have to be known;
//   - never at or behind the durable cursor: recovery reads the target's headers from there on, and the newest record, or the
//     marker, below it tells whether an election cut the log. So a mirror always keeps its newest record;
//   - nothing for a lane whose source did not answer, or whose start went back;
//   - a start is followed only after it stood for a while (Options.Hold), and after all starts before it. One that leaves
//     nothing of what the log held a look ago is followed after a day (Options.EmptiedHold), also when new records come
//     meanwhile: nothing tells retention of an idle topic from somebody's mistake, and the mirror is what such a mistake is
//     mended from. What was seen is kept in memory only. A new process waits anew; of a log that was emptied before it
//     began, and has records again, it does not know that, and waits the short time.
//
// Only the owner of a link runs it.
package trim
