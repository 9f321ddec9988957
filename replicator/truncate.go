package replicator

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"lockstep/internal/failpoint"
	"lockstep/internal/kafka"
	"lockstep/internal/model"
	"lockstep/offsetsync"
)

// A source log is truncated when an unclean election makes a replica leader that lacks records which had been read. The
// lane then stands on a branch that the source does not have any more. It heals in a new term: its map is cut where the
// branches part, the records behind that stay on the target and are named in the ledger, and the new branch follows behind
// the marker.

var (
	// errForked says that the records right below the place where the branches should part are not the same.
	errForked = errors.New("source and target hold different records below the point where the source was truncated")
	// errElected says that the source elected a leader while both logs were compared.
	errElected = errors.New("the source elected another leader meanwhile")
	// errReplaced says that the source as a whole is an older copy of itself; the link has been stopped.
	errReplaced = errors.New("the source was replaced")
)

// lookForFork asks the source's leader whether it really has another branch below off, or ends before it. It is the
// leader's word alone that counts: a follower that lags says so too.
func (m *Manager) lookForFork(ctx context.Context, l *lane, off int64, epoch int32) (f fork, err error) {
	if epoch < 0 {
		return fork{leader: -1, last: -1}, nil
	}
	a := m.src.EpochEnds(ctx, map[kafka.Part]int32{l.srcPart(): epoch})[l.srcPart()]
	return fork{split: a.Err == nil && (a.Epoch != epoch || a.End < off), leader: a.Leader, last: epoch, end: a.End}, a.Err
}

// cutOff lets a lane go to a new term, where its position is found anew, once all that was sent has been answered. What
// was fetched of the old branch and not sent is dropped.
func (l *lane) cutOff(opening uint64) {
	failpoint.Pass("before_cut")
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ranged = false
	if !l.open || l.opening != opening {
		return
	}
	l.forked = true
	l.turnLocked()
}

// onward is where a lane goes on in a new term.
type onward struct {
	closed model.Cursor // how the old term ended
	from   model.Cursor // only Src and SrcEpoch count
	epochs []model.EpochStart
}

// onSource compares what a recovery found on the target with what the source's log holds now, and says where the lane goes
// on: behind its last record, or where the source's log took another branch. In that case what the target holds of the old
// branch is in the ledger when it returns.
func (m *Manager) onSource(ctx context.Context, e *entry, tail offsetsync.Tailed) (onward, error) {
	known := e.known(tail.Cursor)
	at := tail.Cursor
	if at.Count == known.cursor.Count {
		at.Src, at.SrcEpoch = max(at.Src, known.cursor.Src), known.cursor.SrcEpoch
	}
	on := onward{closed: at, from: at, epochs: known.epochs}
	f := fork{common: at.Src, leader: -1, last: -1}
	if len(known.epochs) > 0 {
		var err error
		if f, err = m.findFork(ctx, e.lane.srcPart(), known.epochs, known.cursor.Src); err != nil {
			return on, err
		}
	}
	switch {
	case f.split:
		return m.cutAt(ctx, e, tail, f, on)
	case at.Src > known.cursor.Src, len(known.epochs) == 0:
		return m.beyond(ctx, e, tail, f, on, known.cursor.Src)
	default:
		if err := m.match(ctx, e, tail); err != nil {
			return on, err
		}
	}
	return on.settled(f.common), nil
}

// known is the furthest cursor whose leader epochs are known: the lane's own when it copied in this opening, else the
// stored one.
func (e *entry) known(at model.Cursor) copied {
	st := e.state
	k := e.lane.copiedSoFar()
	if k.opening != st.Opening.N || k.term != st.Opening.Term.N || k.cursor.Count > at.Count || k.cursor.Count < st.Cursor.Count {
		k = copied{opening: st.Opening.N, term: st.Opening.Term.N, cursor: st.Cursor, epochs: st.Epochs}
	}
	k.epochs = historyOf(k.cursor, k.epochs)
	return k
}

// settled completes a position below which both sides are the same: its epoch is that of the history.
func (on onward) settled(common int64) onward {
	on.epochs = model.EpochsBelow(on.epochs, on.from.Src)
	if common < on.closed.Src {
		on.from.SrcEpoch = newestEpoch(on.epochs)
	}
	return on
}

// beyond looks at records whose leader epochs are not known: those that landed after the last stored cursor, from source
// offset from on. What both logs hold is compared; as far as they are the same, the source's epochs are those of the copy.
func (m *Manager) beyond(ctx context.Context, e *entry, tail offsetsync.Tailed, f fork, on onward, from int64) (onward, error) {
	p := e.lane.srcPart()
	log, err := m.epochStarts(ctx, p, newestEpoch(on.epochs))
	if err != nil {
		return on, err
	}
	common, err := m.commonOffset(ctx, e, tail, log, from, on.closed.Src)
	if err != nil {
		return on, err
	}
	if leader, err := m.leaderEpoch(ctx, p); err != nil || leader != log.leader || f.leader >= 0 && f.leader != leader {
		return on, cmp.Or(err, errElected)
	}
	if f.leader = log.leader; len(log.starts) == 0 && f.end < common {
		on.epochs = nil // of what both have in common, nobody tells the epochs
	}
	for _, s := range model.EpochsBelow(log.starts, common) {
		on.epochs = model.AppendEpoch(on.epochs, s.Epoch, s.Src)
	}
	if f.split = common < tail.Cursor.Src; f.split {
		f.common = common
		return m.cutAt(ctx, e, tail, f, on)
	}
	on.from.Src, on.from.SrcEpoch = common, newestEpoch(on.epochs)
	return on, nil
}

// commonOffset returns the source offset below which what was copied in [from, to) and what the source holds are the same.
// Without an election since the newest known epoch there is no other branch. After one, what compaction or retention took
// from one side behind the last record that both have may have been another one: it is copied again rather than missed.
func (m *Manager) commonOffset(ctx context.Context, e *entry, tail offsetsync.Tailed, log sourceLog, from, to int64) (int64, error) {
	if log.end >= to {
		compared, err := m.matched(ctx, e, tail)
		switch elected := log.leader < 0 || log.leader > max(log.known, 0); {
		case err != nil && (!elected || !errors.Is(err, errMismatch)):
			return to, err
		case err == nil && (compared || !elected):
			return to, nil
		}
	}
	to = min(to, log.end)
	same, other, err := m.compared(ctx, e, tail, min(from, to), to)
	switch {
	case err != nil:
		return to, err
	case log.leader < 0: // it knows no epochs
		return other, nil
	case same >= tail.Cursor.Src:
		return to, nil
	}
	return same, nil
}

// cutAt lets a lane go on at the common offset of a truncated source. The last common record is compared first: epochs say
// which branch an offset is of, and trusting them blindly would tear the copy apart if they lied.
func (m *Manager) cutAt(ctx context.Context, e *entry, tail offsetsync.Tailed, f fork, on onward) (onward, error) {
	if f.common < tail.Cursor.Src && f.rewound() && !m.accepted(e.state.Opening.Term.N) {
		m.replaced(rewoundText(e.lane, f, tail.Cursor.Src))
		return on, errReplaced
	}
	whole, err := e.state.Extend(tail)
	if err != nil {
		return on, err
	}
	again, _ := whole.Map.Start()
	if last, ok := whole.Map.Newest(f.common - 1); ok {
		again = last.Src + 1
		same, compared, err := m.same(ctx, e, last.Src, last.Dst)
		if err != nil {
			return on, err
		}
		if compared && !same {
			return on, fmt.Errorf("%w: source offset %d and target offset %d; the branches should part at source offset %d, read was up to %d",
				errForked, last.Src, last.Dst, f.common, tail.Cursor.Src)
		}
	}
	// Epochs are known of records alone: offsets behind the last common one, of which nothing was copied, may be of either
	// branch. Compaction may have emptied one replica there and not the other; they are looked at again.
	f.common = min(f.common, again)
	n := recordsFrom(whole.Map, f.common)
	if n == 0 { // only offsets without records are gone
		on.from.Src = f.common
		return on.settled(f.common), nil
	}
	e.orphans = &model.Gap{Lane: e.lane.id, From: f.common, To: tail.Cursor.Src, Reason: string(model.ReasonSourceTruncated), At: m.now(),
		DstFrom: whole.Map.Translate(f.common).Offset, DstTo: tail.Cursor.Dst}
	e.orphaned, e.fork = n, f
	failpoint.Pass("before_orphans")
	if err := m.store.Gap(ctx, *e.orphans); err != nil {
		return on, fmt.Errorf("write to the ledger: %w", err)
	}
	failpoint.Pass("after_orphans")
	on.from.Src = f.common
	return on.settled(f.common), nil
}

// recordsFrom counts the copied records at and behind a source offset.
func recordsFrom(m *offsetsync.Map, off int64) (n int64) {
	for s := range m.Spans() {
		n += max(0, s.N-max(0, off-s.Src))
	}
	return n
}

// compared compares what was copied in [from, to) with what the source holds there now, record by record. It returns the
// source offset behind the last record that is the same on both sides, from if there is none, and that of the first one
// behind it that is not, to if there is none. A record that one side does not have any more tells nothing.
func (m *Manager) compared(ctx context.Context, e *entry, tail offsetsync.Tailed, from, to int64) (same, other int64, err error) {
	same, other = from, to
	whole, err := e.state.Extend(tail)
	if err != nil || from >= to {
		return same, other, err
	}
	src, dst := e.lane.srcPart(), e.part
	srcStart := m.src.ListOffsets(ctx, []kafka.Part{src}, kafka.AtStart, false)[src]
	dstStart := m.dst.ListOffsets(ctx, []kafka.Part{dst}, kafka.AtStart, false)[dst]
	if err := firstErr(srcStart.Err, dstStart.Err); err != nil || srcStart.Offset >= to {
		return same, other, err
	}
	have, err := m.digests(ctx, m.dst, dst, max(whole.Map.Translate(from).Offset, dstStart.Offset), tail.Cursor.Dst)
	if err != nil {
		return same, other, err
	}
	for h, b := range Batches(ctx, m.src, src, max(from, srcStart.Offset), to) {
		if b.Err != nil {
			return same, other, b.Err
		}
		if h.Control() {
			continue
		}
		err := m.digestBatch(b.Raw, func(off int64, d digest) {
			t := whole.Map.Translate(off)
			was, ok := have[t.Offset]
			switch {
			case off < from || off >= other || t.Kind != offsetsync.Exact || !ok:
			case was == d:
				same = off + 1
			default:
				other = off
			}
		})
		if err != nil || other < h.Next() {
			return same, other, err
		}
	}
	return same, other, nil
}

// reportCut tells once that a lane goes on on another branch of its source.
func (m *Manager) reportCut(e *entry) {
	g := e.orphans
	if g == nil {
		return
	}
	m.metrics.truncations.WithLabelValues(m.opt.Link).Inc()
	m.metrics.orphans.WithLabelValues(m.opt.Link).Add(float64(e.orphaned))
	m.log.Warn("the source was truncated; the lane goes on on its new branch", "topic", g.Lane.Topic, "partition", g.Lane.Partition,
		"src_from", g.From, "src_to", g.To, "dst_from", g.DstFrom, "dst_to", g.DstTo, "records", e.orphaned,
		"epoch_was", e.fork.last, "epoch", e.fork.leader)
}
