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
	var (
		ready []*entry
		mu    sync.Mutex // guards ready
		wg    sync.WaitGroup
		slots = make(chan struct{}, readAtOnce)
	)
	for _, e := range es {
		out := sealed[e.part]
		if out.Err != nil && !errors.Is(out.Err, term.ErrDenied) {
			m.laterErr(e.lane, "seal", out.Err)
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if m.join(ctx, e, t, out) {
				mu.Lock()
				defer mu.Unlock()
				ready = append(ready, e)
			}
		})
	}
	wg.Wait()
	return ready
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
		now := m.opt.Target.ListOffsets(ctx, []kafka.Part{e.part}, kafka.AtEnd, false)[e.part]
		if now.Err != nil {
			m.laterErr(e.lane, "ask the target leader for the log's end", now.Err)
			return false
		}
		end = now.Offset
	}
	tail, err := landed(ctx, m.opt.Target, e.part, st, e.start, end, out.Was)
	if err != nil {
		m.joinFailed(e, err)
		return false
	}
	on, err := m.onSource(ctx, e, tail)
	if err != nil {
		m.joinFailed(e, err)
		return false
	}
	prev := st.Opening
	e.next = offsetsync.Opening{Lane: e.lane.id, N: prev.N + 1, Prev: prev.Nonce, Term: t, Identity: e.ident,
		Origin: model.Cursor{Src: on.from.Src, Dst: end, Count: 0, SrcEpoch: on.from.SrcEpoch}, Epochs: on.epochs,
		Closed: &offsetsync.Closed{Cursor: on.closed, Landings: tail.Landings}}
	return true
}

func (m *Manager) joinFailed(e *entry, err error) {
	switch {
	case errors.Is(err, errReplaced): // the whole link has been stopped
	case errors.Is(err, errForked):
		e.lane.stop(model.ReasonSourceTruncated, err.Error())
	case errors.Is(err, errLost):
		e.lane.stop(model.ReasonPlanLost, err.Error())
	case errors.Is(err, offsetsync.ErrDiverged), errors.Is(err, errMismatch):
		e.lane.stop(model.ReasonDiverged, err.Error())
	default:
		m.laterErr(e.lane, "read what landed", err)
	}
}

// headerAt returns the header of the batch that holds an offset, if the log still has it.
func headerAt(ctx context.Context, c *kafka.Cluster, p kafka.Part, off int64) (batch.Header, bool, error) {
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
