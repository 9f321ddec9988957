package replicator

import (
	"context"
	"errors"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"

	"lockstep/internal/kafka"
	"lockstep/internal/model"
	"lockstep/offsetsync"
	"lockstep/replicator/batch"
	"lockstep/replicator/term"
)

// recover seals lanes that did not end cleanly, and then reads from the target what landed. It returns the entries
// whose next opening is known; the others stop or come up again.
func (m *Manager) recover(ctx context.Context, es []*entry) []*entry {
	if len(es) == 0 {
		return nil
	}
	above := uint64(0)
	for _, e := range es {
		above = max(above, e.above, e.state.Opening.Term.N)
	}
	t, err := m.terms.above(ctx, above)
	if err != nil {
		m.laterAll(es, "take a term", err)
		return nil
	}
	sealed, err := m.seal(ctx, t, es)
	if err != nil {
		m.laterAll(es, "store seals", err)
		return nil
	}
	failpoint("after_seal")
	// The old worker may have planned up to the marker: only now is its plan complete.
	if err := m.view.Barrier(ctx); err != nil {
		m.laterAll(es, "read the state topic", err)
		return nil
	}
	var known []*entry
	for _, e := range es {
		if out := sealed[e.part]; out.Err != nil && !errors.Is(out.Err, term.ErrDenied) {
			if errors.Is(out.Err, term.ErrSuperseded) {
				e.lane.outrank(t.N)
			}
			m.laterErr(e.lane, "seal", out.Err)
			continue
		}
		known = append(known, e)
	}
	joined := make([]bool, len(known))
	atOnce(m.atOnce, len(known), func(i int) { joined[i] = m.join(ctx, known[i], t, sealed[known[i].part]) })
	var ready []*entry
	for i, e := range known {
		if joined[i] {
			ready = append(ready, e)
		}
	}
	return ready
}

// atOnce calls f for 0 … n-1, at most limit calls at a time. With a limit of 1 it calls them itself, in order.
func atOnce(limit, n int, f func(int)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, limit)
	for i := range n {
		if limit == 1 {
			f(i)
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			f(i)
		})
	}
	wg.Wait()
}

// outrank makes the next attempt look whose newer marker stands there, and take a term above n: this one writes nothing on
// the lane any more. Without another owner or a stop it was the coordinator's, for a seal that somebody did not finish.
func (l *lane) outrank(n uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.termAbove, l.seeStop = max(l.termAbove, n), true
}

// join reads what the old term appended up to its marker, and joins it with the plan: the lane's exact position.
func (m *Manager) join(ctx context.Context, e *entry, t model.Term, out term.Outcome) bool {
	st, ok := m.view.Lane(e.lane.id)
	if !ok || st.Opening.N != e.state.Opening.N || st.Opening.Nonce != e.state.Opening.Nonce {
		m.later(e.lane, model.ReasonSuperseded, "another opening appeared while this one was under way")
		return false
	}
	e.state = st
	end := out.Marker + 1
	if out.Err != nil { // no way to seal is allowed: the next batch's higher epoch ends the older term
		now := m.dst.ListOffsets(ctx, []kafka.Part{e.part}, kafka.AtEnd, false)[e.part]
		if now.Err != nil {
			m.laterErr(e.lane, "ask the target leader for the log's end", now.Err)
			return false
		}
		end = now.Offset
	}
	tail, err := landed(ctx, m.dst, e.part, st, e.start, end, out.Was)
	if err != nil {
		m.joinFailed(e, err)
		return false
	}
	at := tail.Cursor
	if at.SrcEpoch, err = m.sourceEpoch(ctx, e, at); err != nil {
		m.joinFailed(e, err)
		return false
	}
	if err := m.match(ctx, e, tail); err != nil {
		m.joinFailed(e, err)
		return false
	}
	prev := st.Opening
	e.next = offsetsync.Opening{Lane: e.lane.id, N: prev.N + 1, Prev: prev.Nonce, Term: t, Identity: e.ident,
		Origin: model.Cursor{Src: at.Src, Dst: end, Count: 0, SrcEpoch: at.SrcEpoch},
		Closed: &offsetsync.Closed{Cursor: at, Landings: tail.Landings}}
	return true
}

func (m *Manager) joinFailed(e *entry, err error) {
	switch {
	case errors.Is(err, errLost):
		e.lane.stop(model.ReasonPlanLost, err.Error())
	case errors.Is(err, offsetsync.ErrDiverged), errors.Is(err, errMismatch):
		e.lane.stop(model.ReasonDiverged, err.Error())
	default:
		m.laterErr(e.lane, "read what landed", err)
	}
}

// sourceEpoch returns the leader epoch that goes with a cursor. The stored one belongs to the stored source offset
// only; for another, the last copied record is read again.
func (m *Manager) sourceEpoch(ctx context.Context, e *entry, at model.Cursor) (int32, error) {
	if at.Src == e.state.Cursor.Src {
		return e.state.Cursor.SrcEpoch, nil
	}
	h, ok, err := headerAt(ctx, m.src, e.lane.srcPart(), at.Src-1)
	if err != nil || !ok {
		return -1, err
	}
	return h.LeaderEpoch, nil
}

// headerAt returns the header of the batch that holds an offset, if the log still has it.
func headerAt(ctx context.Context, c cluster, p kafka.Part, off int64) (batch.Header, bool, error) {
	for h, err := range Headers(ctx, c, p, off, off+1) {
		if errors.Is(err, kerr.OffsetOutOfRange) {
			return h, false, nil
		}
		if err != nil {
			return h, false, err
		}
		return h, h.BaseOffset <= off && h.LastOffset() >= off, nil
	}
	return batch.Header{}, false, nil
}
