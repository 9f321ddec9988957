package replicator

import (
	"fmt"
	"time"

	"lockstep/internal/kafka"
	"lockstep/internal/model"
	"lockstep/offsetsync"
)

// intent is what an operator ordered for a lane's next opening. The opener carries it out: only there is the lane's
// position certain. It is kept in memory alone, since everything that it changes is durable in an order which the next start
// understands without it:
//
//   - skip, and retry behind a gap: ledger entry, then opening. A death in between leaves an entry for a range that the lane
//     has not passed, and the lane where it was: the same order again writes the same entry, which counts once.
//   - rebuild: ledger entry, marker, opening that is copied anew, deletion, then the first record. An opening anew promises
//     that its target log begins at its origin; whoever takes the lane up next keeps the promise first (see emptied).
//   - accept and adopt: marker, ledger entry, opening. Before the opening the lane is what it was, afterwards it is done.
type intent struct {
	kind      model.OrderKind
	reason    string
	was       refusal // what the lane was stopped for
	retried   bool    // it was not: it tried again and again
	opening   uint64  // the lane's newest opening when it was ordered: a newer one has taken the order
	to        int64   // skip: the source offset to go on at
	behindGap bool    // retry: go on behind what the source has deleted
	from      int64   // adopt: what to ask the source's leader for
	waits     bool    // rebuild: until the lane is offered with a target topic that is not the lost one
	lost      model.TopicID
	written   model.Gap  // what went to the ledger
	answer    chan error // one element: nil once the lane goes, or why it does not
}

// stopError is what an order hears when its lane stops instead of going.
func stopError(r model.Reason, detail string) error {
	return fmt.Errorf("stopped as %s: %s", r, detail)
}

// answer tells whoever ordered it what became of an intent.
func (l *lane) answer(it *intent, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answerLocked(it, err)
}

func (l *lane) answerLocked(it *intent, err error) {
	if it == nil || l.intent != it {
		return
	}
	l.intent = nil
	it.answer <- err
}

// leaveOpener notes that a group's work on lanes is over.
func leaveOpener(es []*entry) {
	for _, e := range es {
		e.lane.mu.Lock()
		e.lane.atOpener--
		e.lane.mu.Unlock()
	}
}

// atRest reports whether nothing of a stopped lane is under way any more, so that its end is known for what it is.
func (l *lane) atRest() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.restsLocked()
}

func (l *lane) restsLocked() bool {
	return l.atOpener == 0 && len(l.inflight) == 0 && l.planning == 0 && !l.preparing && l.verdict == goOn
}

// obey gives a stopped lane to the opener with an intent. It returns false when the lane is not stopped any more. A lane
// whose target topic has to be made first waits until it is offered anew.
func (l *lane) obey(it *intent, waits bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != model.StateStopped || l.intent != nil {
		return false
	}
	l.intent, l.corrupt, l.brokerErr, l.seqFault, l.singlyTo = it, 0, 0, 0, 0
	l.corruptSrc, l.srcFaults = 0, 0
	if it.waits = waits; waits {
		l.fault, l.attempts = time.Time{}, 0
		l.setLocked(model.StateWaiting, model.ReasonNone, "its target topic is being made", l.m.now())
		return true
	}
	l.reenterLocked()
	return true
}

// waitsLocked reports whether the lane waits, by order, for its target topic to be made: whatever is still under way for the
// lost one is no trouble of it.
func (l *lane) waitsLocked() bool { return l.intent != nil && l.intent.waits }

// reenterLocked gives a lane that does not run to the opener, with the topics that were offered last.
func (l *lane) reenterLocked() {
	if l.ident.DstTopic != l.offered.DstTopic {
		l.unwantLocked()
	}
	if otherID(l.ident.Src, l.offered.Src) { // the old topic's ends say nothing about the new one's
		l.unknownEndsLocked()
		l.points = lagPoints{}
	}
	l.joinsLocked(l.offered)
	l.entering, l.endedWell, l.leave, l.draining = true, false, nil, l.m.closing.Load()
	l.fault, l.attempts = time.Time{}, 0
	if l.intent != nil {
		l.intent.waits = false
	}
	l.wantLocked()
	l.setLocked(model.StateOpening, model.ReasonNone, "", l.m.now())
	l.m.openQ.push(l)
}

// withdraw takes an intent back that nobody waits for any more. The lane goes on without it: to the opener, which finds it
// as it was, or back to its stop.
func (l *lane) withdraw(it *intent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.intent != it {
		return
	}
	l.intent = nil
	if it.waits {
		l.stopLocked(it.was.reason, it.was.detail)
	}
}

// stillOrdered reports whether an entry's intent holds. Whoever ordered what was withdrawn has heard that it is not done: the
// lane comes up again without it.
func (m *Manager) stillOrdered(e *entry) bool {
	e.lane.mu.Lock()
	defer e.lane.mu.Unlock()
	holds := e.intent == nil || e.lane.intent == e.intent
	if !holds {
		m.openQ.push(e.lane)
	}
	return holds
}

// asks returns the special offset or the time stamp that the source's leader is asked for; false when the intent needs none.
func (it *intent) asks() (at int64, ok bool) {
	switch {
	case it == nil:
		return 0, false
	case it.kind == model.OrderAdopt:
		return it.from, true
	case it.kind == model.OrderRebuild, it.kind == model.OrderAccept, it.behindGap:
		return kafka.AtStart, true
	}
	return 0, false
}

// repositions reports whether an entry is to be sealed and then placed where the operator said. It is false once an opening
// has taken the order.
func (it *intent) repositions(e *entry, owner string) bool {
	if it == nil || e.found && e.state.Opening.N > it.opening {
		return false
	}
	was := e.state.Opening.Identity
	switch it.kind {
	case model.OrderAdopt:
		return !e.found
	case model.OrderRebuild:
		return e.found
	case model.OrderAccept:
		return e.found && otherID(was.Src, e.ident.Src) && sameTarget(was, e.ident)
	case model.OrderSkip:
		back := it.to < e.state.Cursor.Src
		return e.found && !otherID(was.Src, e.ident.Src) && sameTarget(was, e.ident) && (back || !e.clean(owner))
	case model.OrderRetry:
		return it.behindGap && e.found && !otherID(was.Src, e.ident.Src) && sameTarget(was, e.ident) && !e.clean(owner)
	case model.OrderPause, model.OrderResume:
	}
	return false
}

// otherID reports whether two ids are known, and differ.
func otherID(a, b model.TopicID) bool { return !a.IsZero() && !b.IsZero() && a != b }

func sameTarget(was, now model.Identity) bool {
	return was.DstTopic == now.DstTopic && !otherID(was.Dst, now.Dst)
}

// lostEnd reports whether a lane's target log ends before what was copied, as far as that is stored.
func lostEnd(st offsetsync.LaneState, end int64) bool { return end < st.Cursor.Dst }

// certain is how far a target log that ends at end still holds what was copied into it. Count is in the newest opening's
// term; it is that opening's origin when nothing of it is left.
func certain(st offsetsync.LaneState, end int64) model.Cursor {
	if !lostEnd(st, end) || st.Map == nil {
		return st.Cursor
	}
	lost := int64(0)
	for s := range st.Map.Spans() {
		lost += min(s.N, max(0, s.Dst+s.N-end))
	}
	return model.Cursor{Src: st.Map.Invert(end).Offset, Dst: end, Count: max(st.Opening.Origin.Count, st.Cursor.Count-lost), SrcEpoch: -1}
}

// leftOf says up to where a lane's source is still on its target, when the target lost its log's end.
func leftOf(st offsetsync.LaneState, end int64) string {
	if st.Map == nil {
		return ""
	}
	return fmt.Sprintf("; what is left of them reaches up to source offset %d", certain(st, end).Src)
}
