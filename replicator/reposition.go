package replicator

import (
	"context"
	"errors"
	"fmt"

	"lockstep/internal/failpoint"
	"lockstep/internal/kafka"
	"lockstep/internal/model"
	"lockstep/offsetsync"
	"lockstep/replicator/term"
)

// asked asks the source's leaders for what intents have to know. A lane whose leader does not answer comes up again.
func (m *Manager) asked(ctx context.Context, es []*entry) (ok []*entry) {
	var parts []kafka.Part
	var ats []int64
	for _, e := range es {
		if at, needs := e.intent.asks(); needs {
			parts, ats = append(parts, e.srcPart()), append(ats, at)
		}
	}
	got := m.positions(ctx, parts, ats)
	for _, e := range es {
		o := got[e.srcPart()] // the zero value for those that need none
		if o.Err != nil {
			m.laterErr(e.lane, "ask the source leader for the position", o.Err)
			continue
		}
		e.from = o.Offset
		ok = append(ok, e)
	}
	return ok
}

func (e *entry) srcPart() kafka.Part {
	return kafka.Part{Topic: e.lane.id.Topic, ID: e.ident.Src, Partition: e.lane.id.Partition}
}

// moved places the next opening of a cleanly ended lane where an operator said, in the same term: nothing of the old
// position is in doubt. It reports false when the lane does not go.
func (m *Manager) moved(ctx context.Context, e *entry) bool {
	it := e.intent
	if it == nil || e.state.Opening.N > it.opening {
		return true
	}
	to := e.state.Cursor.Src
	switch {
	case it.kind == model.OrderSkip:
		to = it.to
	case it.behindGap:
		to = max(to, e.from)
	}
	if to == e.state.Cursor.Src {
		return true
	}
	if !m.enterLedger(ctx, e, skipped(e, e.state.Cursor, to)) {
		return false
	}
	// Under which epochs the offsets in between were written is not known: the history ends here.
	e.next.Origin.Src, e.next.Origin.SrcEpoch, e.next.Epochs = to, -1, nil
	return true
}

// skipped is the ledger entry of going on at another source offset. Going back happens only where the source lost what the
// target holds.
func skipped(e *entry, at model.Cursor, to int64) model.Gap {
	g := model.Gap{Lane: e.lane.id, From: at.Src, To: to, Reason: byRetention}
	if e.intent.kind == model.OrderSkip {
		g.Reason = "skipped: " + e.intent.reason
	}
	if to < at.Src {
		g.From, g.To = to, at.Src
		g.DstFrom, g.DstTo = e.state.Map.Translate(to).Offset, at.Dst
	}
	return g
}

// enterLedger makes a lost range durable before the lane passes it.
func (m *Manager) enterLedger(ctx context.Context, e *entry, g model.Gap) bool {
	if g == e.intent.written {
		return true // an attempt before this one came so far
	}
	if !m.stillOrdered(e) {
		return false
	}
	if err := m.leaveOut(ctx, g); err != nil {
		m.laterErr(e.lane, "write the ledger", err)
		return false
	}
	e.intent.written = g
	return true
}

// joined makes the next opening of a lane that was sealed: at its recovered position, or where an operator said.
func (m *Manager) joined(ctx context.Context, e *entry, out term.Outcome) bool {
	if !e.ordered {
		return m.join(ctx, e, out)
	}
	end, err := m.sealedEnd(ctx, e, out)
	if err != nil {
		m.laterErr(e.lane, "ask the target leader for the log's end", err)
		return false
	}
	e.next = offsetsync.Opening{Lane: e.lane.id, N: 1, Term: e.term, Identity: e.ident, Origin: model.Cursor{Src: e.from, Dst: end, SrcEpoch: -1}}
	if !e.found {
		return true // adopted
	}
	closed, err := m.closed(ctx, e, end, out.Was)
	if err != nil {
		m.joinFailed(e, err)
		return false
	}
	prev := e.state.Opening
	e.next.N, e.next.Prev, e.next.Closed = prev.N+1, prev.Nonce, &closed
	switch e.intent.kind {
	case model.OrderRebuild:
		return m.anew(ctx, e)
	case model.OrderAccept:
		at := closed.Cursor.Src
		return m.enterLedger(ctx, e, model.Gap{Lane: e.lane.id, From: at, To: at, Reason: "recreated: what the old topic held behind this offset is unknown"})
	case model.OrderSkip, model.OrderRetry, model.OrderAdopt, model.OrderPause, model.OrderResume:
	}
	return m.elsewhere(ctx, e, closed.Cursor)
}

// closed is how the lane's last opening ended, as far as that is certain: what the headers say, or, where they say nothing or
// nothing that fits, what is stored; cut to what the target still holds. Where the target lost its log's end and others have
// written in its place, nobody knows what that is (errGone): such a lane can only be rebuilt.
func (m *Manager) closed(ctx context.Context, e *entry, end int64, was *kafka.Producer) (offsetsync.Closed, error) {
	st, ok := m.view.Lane(e.lane.id)
	if !ok || st.Opening.Nonce != e.state.Opening.Nonce {
		return offsetsync.Closed{}, errors.New("another opening appeared while this one was under way")
	}
	e.state = st
	if !sameTarget(st.Opening.Identity, e.ident) {
		return offsetsync.Closed{Cursor: st.Cursor}, nil // its log is gone
	}
	if lostEnd(st, e.end) {
		return offsetsync.Closed{Cursor: certain(st, e.end)}, nil
	}
	tail, err := landed(ctx, m.dst, e.part, st, e.start, end, was)
	if err == nil && e.intent.kind != model.OrderRebuild && e.intent.kind != model.OrderAccept {
		err = firstErr(m.whole(ctx, e, tail, end), m.match(ctx, e, tail))
	}
	switch {
	case errors.Is(err, errLost), errors.Is(err, offsetsync.ErrDiverged), errors.Is(err, errMismatch):
		return offsetsync.Closed{Cursor: st.Cursor}, nil
	case err != nil:
		return offsetsync.Closed{}, err
	}
	return offsetsync.Closed{Cursor: tail.Cursor, Landings: tail.Landings}, nil
}

// elsewhere goes on at another source offset. What the target certainly holds is never copied a second time.
func (m *Manager) elsewhere(ctx context.Context, e *entry, at model.Cursor) bool {
	to := e.intent.to
	if e.intent.behindGap {
		to = max(at.Src, e.from)
	}
	if to < at.Src && e.intent.was.reason != model.ReasonSourceTruncated {
		it := e.intent
		e.lane.answer(it, errors.New(twice(to, at)))
		if !it.retried {
			e.lane.stop(it.was.reason, it.was.detail)
			return false
		}
		to, e.intent = at.Src, nil // it goes on trying where it stands
	}
	e.next.Origin.Src = to
	return to == at.Src || m.enterLedger(ctx, e, skipped(e, at, to))
}

// twice says why a lane cannot go on at a source offset.
func twice(to int64, at model.Cursor) string {
	return fmt.Sprintf("to go on at source offset %d would copy records twice: the target holds everything below source offset %d, up to target offset %d",
		to, at.Src, at.Dst)
}

// anew copies a lane from the source log's start on. What is neither on the source nor, afterwards, on the target is lost.
func (m *Manager) anew(ctx context.Context, e *entry) bool {
	holds, err := m.holdsRecords(ctx, e.part, e.start, e.next.Origin.Dst)
	if err != nil {
		m.laterErr(e.lane, "read what the target holds", err)
		return false
	}
	e.next.Anew = holds || sameTarget(e.state.Opening.Identity, e.ident)
	if from := firstHeld(e.state, e.ident, e.start); from < e.from {
		return m.enterLedger(ctx, e, model.Gap{Lane: e.lane.id, From: from, To: e.from, Reason: "rebuilt"})
	}
	return true
}

// firstHeld is the first source offset of which a lane's target holds, or held, the record.
func firstHeld(st offsetsync.LaneState, now model.Identity, dstStart int64) int64 {
	mp := st.Map.Clone()
	if sameTarget(st.Opening.Identity, now) {
		mp.DropBefore(dstStart)
	}
	src, _ := mp.Start()
	return src
}

// holdsRecords reports whether a range of a target log holds anything but markers.
func (m *Manager) holdsRecords(ctx context.Context, p kafka.Part, from, to int64) (bool, error) {
	for h, err := range Headers(ctx, m.dst, p, from, to) {
		if err != nil {
			return false, err
		}
		if !h.Control() {
			return true, nil
		}
	}
	return false, nil
}

// emptied keeps the promise of openings that copy a lane anew: their target log begins at their origin. It is kept before
// the first record is sent, and by whoever takes the lane up if the one who made the opening died in between. A lane whose
// records cannot be deleted does not go.
func (m *Manager) emptied(ctx context.Context, es []*entry) (ok []*entry) {
	due := make(map[kafka.Part]int64)
	for _, e := range es {
		to, err := m.due(ctx, e)
		switch {
		case err != nil:
			m.laterErr(e.lane, "read what the target holds", err)
			continue
		case to > 0:
			due[e.part] = to
		}
		ok = append(ok, e)
	}
	if len(due) == 0 {
		return ok
	}
	failpoint.Pass("before_delete")
	ask, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	deleted := m.opt.Target.DeleteRecords(ask, due)
	failpoint.Pass("after_delete")
	ready := ok[:0]
	for _, e := range ok {
		d, asked := deleted[e.part]
		if asked && d.Err != nil {
			m.laterErr(e.lane, "delete the target's records", d.Err)
			continue
		}
		if asked {
			e.start = max(e.start, due[e.part])
		}
		ready = append(ready, e)
	}
	return ready
}

// due returns up to where an entry's target log has to be emptied, 0 when it need not be. A log that lost its end, with the
// marker in front of the origin, has nothing to be deleted there, and Kafka refuses to.
func (m *Manager) due(ctx context.Context, e *entry) (int64, error) {
	o, to := e.next, e.next.Origin.Dst
	if o.N == 0 {
		o, to = e.state.Opening, min(e.state.Opening.Origin.Dst, e.end)
	}
	if !o.Anew || e.start >= to || e.end == 0 || !sameTarget(o.Identity, e.ident) {
		return 0, nil
	}
	holds, err := m.holdsRecords(ctx, e.part, e.start, to)
	if !holds || err != nil {
		return 0, err
	}
	return to, nil
}
