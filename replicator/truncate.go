package replicator

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

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
	failpoint("before_cut")
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
		if f.common >= tail.Cursor.Src { // only offsets without records are gone
			on.from.Src = f.common
			break
		}
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
		on.from.SrcEpoch = -1
		if n := len(on.epochs); n > 0 {
			on.from.SrcEpoch = on.epochs[n-1].Epoch
		}
	}
	return on
}

// beyond looks at records whose leader epochs are not known: those that landed after the last stored cursor, from source
// offset from on. While the source's log is of one epoch there, the last record stands for all; else each is compared.
func (m *Manager) beyond(ctx context.Context, e *entry, tail offsetsync.Tailed, f fork, on onward, from int64) (onward, error) {
	p, at := e.lane.srcPart(), on.closed
	end := m.src.ListOffsets(ctx, []kafka.Part{p}, kafka.AtEnd, false)[p]
	if end.Err != nil {
		return on, end.Err
	}
	sure := end.Offset >= at.Src && (len(on.epochs) == 0 || f.end >= at.Src)
	if sure {
		compared, err := m.matched(ctx, e, tail)
		if err != nil && !errors.Is(err, errMismatch) {
			return on, err
		}
		sure = err == nil && compared
	}
	if !sure {
		common, err := m.firstDifference(ctx, e, tail, from, min(at.Src, end.Offset))
		if err != nil {
			return on, err
		}
		if common < tail.Cursor.Src {
			f.common, f.split = common, true
			return m.cutAt(ctx, e, tail, f, on)
		}
	}
	if at.Src > 0 && (at.Src > from || on.from.SrcEpoch < 0) {
		h, ok, err := headerAt(ctx, m.src, p, at.Src-1)
		switch {
		case err != nil:
			return on, err
		case !ok:
			on.from.SrcEpoch = -1
		default:
			on.from.SrcEpoch = h.LeaderEpoch
			if at.Src > from {
				on.epochs = model.AppendEpoch(on.epochs, h.LeaderEpoch, min(max(f.end, from), at.Src-1))
			}
		}
	}
	return on, nil
}

// cutAt lets a lane go on at the common offset of a truncated source. The last common record is compared first: epochs say
// which branch an offset is of, and trusting them blindly would tear the copy apart if they lied.
func (m *Manager) cutAt(ctx context.Context, e *entry, tail offsetsync.Tailed, f fork, on onward) (onward, error) {
	if f.rewound() && !m.accepted(e.state.Opening.Term.N) {
		m.replaced(rewoundText(e.lane, f, tail.Cursor.Src))
		return on, errReplaced
	}
	whole, err := e.state.Extend(tail)
	if err != nil {
		return on, err
	}
	src, dst, ok := lastBelow(whole.Map, f.common)
	if ok {
		same, compared, err := m.same(ctx, e, src, dst)
		if err != nil {
			return on, err
		}
		if compared && !same {
			return on, fmt.Errorf("%w: source offset %d and target offset %d; the branches should part at source offset %d, read was up to %d",
				errForked, src, dst, f.common, tail.Cursor.Src)
		}
	}
	e.orphans = &model.Gap{Lane: e.lane.id, From: f.common, To: tail.Cursor.Src, Reason: string(model.ReasonSourceTruncated), At: m.now(),
		DstFrom: whole.Map.Translate(f.common).Offset, DstTo: tail.Cursor.Dst}
	e.orphaned, e.fork = recordsFrom(whole.Map, f.common), f
	failpoint("before_orphans")
	if err := m.store.Gap(ctx, *e.orphans); err != nil {
		return on, fmt.Errorf("write to the ledger: %w", err)
	}
	failpoint("after_orphans")
	on.from.Src = f.common
	return on.settled(f.common), nil
}

// lastBelow returns where the last copied record below a source offset stands.
func lastBelow(m *offsetsync.Map, off int64) (src, dst int64, ok bool) {
	for s := range m.Spans() {
		if s.Src >= off {
			break
		}
		if n := min(s.N, off-s.Src); n > 0 {
			src, dst, ok = s.Src+n-1, s.Dst+n-1, true
		}
	}
	return src, dst, ok
}

// recordsFrom counts the copied records at and behind a source offset.
func recordsFrom(m *offsetsync.Map, off int64) (n int64) {
	for s := range m.Spans() {
		n += max(0, s.N-max(0, off-s.Src))
	}
	return n
}

// firstDifference compares what was copied in [from, to) with what the source holds there now, record by record, and
// returns the source offset of the first that is another one; to if all are the same. A record that one side does not have
// any more, because its log was compacted or trimmed, tells nothing.
func (m *Manager) firstDifference(ctx context.Context, e *entry, tail offsetsync.Tailed, from, to int64) (int64, error) {
	whole, err := e.state.Extend(tail)
	if err != nil || from >= to {
		return to, err
	}
	have, err := m.digests(ctx, m.dst, e.part, whole.Map.Translate(from).Offset, tail.Cursor.Dst)
	if err != nil {
		return to, err
	}
	first := to
	for h, b := range Batches(ctx, m.src, e.lane.srcPart(), from, to) {
		switch {
		case errors.Is(b.Err, kerr.OffsetOutOfRange):
			return to, nil // retention is past it
		case b.Err != nil:
			return to, b.Err
		case h.Control():
			continue
		}
		err := m.digestBatch(b.Raw, func(off int64, d digest) {
			t := whole.Map.Translate(off)
			was, ok := have[t.Offset]
			if off >= from && off < first && t.Kind == offsetsync.Exact && ok && was != d {
				first = off
			}
		})
		if err != nil {
			return to, err
		}
		if first < h.Next() {
			break
		}
	}
	return first, nil
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
