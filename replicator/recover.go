package replicator

import (
	"context"
	"errors"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"

	"lockstep/internal/failpoint"
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
	t, err := m.terms.forOpening(ctx, above)
	if err != nil {
		m.laterAll(es, "take a term", err)
		return nil
	}
	sealed, err := m.seal(ctx, t, es)
	if err != nil {
		m.laterAll(es, "store seals", err)
		return nil
	}
	failpoint.Pass("after_seal")
	if err := m.recheck(ctx); err != nil {
		m.laterAll(es, "read the state topic", err)
		return nil
	}
	var known []*entry
	for _, e := range es {
		if !m.verdictOn(e, t, sealed[e.part]) {
			continue
		}
		known = append(known, e)
	}
	joined := make([]bool, len(known))
	atOnce(m.atOnce, len(known), func(i int) { joined[i] = m.joined(ctx, known[i], sealed[known[i].part]) })
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

// join reads what the old term appended up to its marker, and joins it with the plan: the lane's exact position.
func (m *Manager) join(ctx context.Context, e *entry, out term.Outcome) bool {
	st, ok := m.view.Lane(e.lane.id)
	if !ok || st.Opening.N != e.state.Opening.N || st.Opening.Nonce != e.state.Opening.Nonce {
		m.later(e.lane, model.ReasonSuperseded, "another opening appeared while this one was under way")
		return false
	}
	e.state = st
	end, err := m.sealedEnd(ctx, e, out)
	if err != nil {
		m.laterErr(e.lane, "ask the target leader for the log's end", err)
		return false
	}
	tail, err := landed(ctx, m.dst, e.part, st, e.start, end, out.Was)
	if err != nil {
		m.joinFailed(e, err)
		return false
	}
	if err := m.whole(ctx, e, tail, end); err != nil {
		m.joinFailed(e, err)
		return false
	}
	on, err := m.onSource(ctx, e, tail)
	if err != nil {
		m.joinFailed(e, err)
		return false
	}
	prev := st.Opening
	e.next = offsetsync.Opening{Lane: e.lane.id, N: prev.N + 1, Prev: prev.Nonce, Term: e.term, Identity: e.ident,
		Origin: model.Cursor{Src: on.from.Src, Dst: end, Count: 0, SrcEpoch: on.from.SrcEpoch}, Epochs: on.epochs,
		Closed: &offsetsync.Closed{Cursor: on.closed, Landings: tail.Landings}}
	return true
}

// sealedEnd is the target offset behind the marker, at or behind which nothing of an older term stands.
func (m *Manager) sealedEnd(ctx context.Context, e *entry, out term.Outcome) (int64, error) {
	if out.Sealed() {
		return out.Marker + 1, nil
	}
	// No way to seal is allowed: the next batch's higher epoch ends the older term.
	now := m.dst.ListOffsets(ctx, []kafka.Part{e.part}, kafka.AtEnd, false)[e.part]
	return now.Offset, now.Err
}

func (m *Manager) joinFailed(e *entry, err error) {
	switch {
	case errors.Is(err, errReplaced): // the whole link has been stopped
	case errors.Is(err, errForked):
		e.lane.stop(model.ReasonSourceTruncated, err.Error())
	case errors.Is(err, errLost):
		e.lane.stop(model.ReasonPlanLost, err.Error())
	case errors.Is(err, offsetsync.ErrDiverged), errors.Is(err, errMismatch), errors.Is(err, errGone):
		e.lane.stop(model.ReasonDiverged, err.Error())
	default:
		m.laterErr(e.lane, "read what landed", err)
	}
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
