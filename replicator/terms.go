package replicator

import (
	"context"
	"errors"
	"fmt"

	"lockstep/internal/failpoint"
	"lockstep/internal/model"
	"lockstep/replicator/term"
)

// terms hands out the link's terms. A term serves all lanes that need one newer than theirs.
type terms struct {
	m    *Manager
	gate chan struct{} // one taker at a time
	// ask asks the coordinator for the term behind last.
	ask func(ctx context.Context, last model.Term) (model.Term, error)
}

func newTerms(m *Manager) *terms {
	t := &terms{m: m, gate: make(chan struct{}, 1)}
	t.ask = t.take
	return t
}

// above returns the newest term of this owner if it is newer than n, else takes the next one and makes it durable
// before it is used.
func (t *terms) above(ctx context.Context, n uint64) (model.Term, error) {
	if !t.enter(ctx) {
		return model.Term{}, ctx.Err()
	}
	defer t.leave()
	last := t.newest()
	if last.Owner == t.m.opt.Owner && last.N > n {
		return last, nil
	}
	for {
		next, err := t.ask(ctx, last)
		if err != nil {
			return model.Term{}, err
		}
		failpoint.Pass("after_take")
		if err := t.announce(ctx, next); err != nil {
			return model.Term{}, err
		}
		if last = t.newest(); last == next {
			return next, nil
		}
		// Somebody took one at the same moment. Which of the two the coordinator gave first is not known when their
		// producer ids differ, so neither may be ended as the older one.
	}
}

// forOpening is above for whoever opens lanes: it gives no term when somebody else has taken or stopped the link.
func (t *terms) forOpening(ctx context.Context, n uint64) (model.Term, error) {
	next, err := t.above(ctx, n)
	if err != nil {
		return next, err
	}
	if err := t.m.superseded(); err != nil {
		t.m.fail(err)
		return model.Term{}, err
	}
	return next, nil
}

func (t *terms) enter(ctx context.Context) bool {
	select {
	case t.gate <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (t *terms) leave() { <-t.gate }

// announce makes a term durable, and then reads the state to its end: whoever claimed or stopped the link did so before
// asking for an epoch, so of two actors the one with the higher epoch sees the other's announcement now. Where the
// coordinator does not order terms, this reading alone does.
func (t *terms) announce(ctx context.Context, next model.Term) error {
	if err := t.m.store.PutTerm(ctx, next); err != nil {
		return fmt.Errorf("store term %d: %w", next.N, err)
	}
	if err := t.m.view.Barrier(ctx); err != nil {
		return err
	}
	t.m.log.Info("took a term", "term", next.N, "producer_id", next.PID, "epoch", next.Epoch)
	return nil
}

// take asks the coordinator for the next term. A target that does not allow the transactional id gives plain terms,
// which only the claims in the state topic order. A coordinator that keeps its answer back, as for a transaction that
// hangs, is given up after a while, so that the lanes which wait for the term say so.
func (t *terms) take(ctx context.Context, last model.Term) (model.Term, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	next, err := term.Take(ctx, t.m.opt.Target, t.m.opt.Link, last, t.m.opt.Owner)
	if !errors.Is(err, term.ErrDenied) {
		return next, err
	}
	t.m.log.Warn("the target does not allow the transactional id; taking a plain term", "error", err)
	return term.TakePlain(ctx, t.m.opt.Target, last, t.m.opt.Owner)
}

func (t *terms) newest() model.Term {
	all := t.m.view.Terms()
	if len(all) == 0 {
		return model.Term{}
	}
	return all[len(all)-1]
}
