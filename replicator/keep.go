package replicator

import (
	"context"
	"errors"
	"time"

	"lockstep/replicator/term"
)

const (
	// keepFirst and keepEvery are how long after the start, and how often from then on, a term is taken for nothing but
	// the coordinator's memory: it forgets a transactional id that nobody used for a week, and hands out another producer
	// id then, whose markers end no older term. Soon after the start, since a process may be restarted every day.
	keepFirst = time.Hour
	keepEvery = 24 * time.Hour
)

// keep uses the transactional id daily. No lane has to enter the terms that this takes.
func (t *terms) keep(ctx context.Context) {
	for wait := keepFirst; ; {
		pauseFor(ctx, wait)
		if ctx.Err() != nil {
			return
		}
		wait = keepEvery
		if err := t.use(ctx); err != nil && ctx.Err() == nil {
			t.m.log.Warn("take the daily term", "error", err)
			wait = keepFirst
		}
	}
}

// use takes a term that nobody needs. Where the transactional id is not allowed there is nothing to remember.
func (t *terms) use(ctx context.Context) error {
	if !t.enter(ctx) {
		return ctx.Err()
	}
	defer t.leave()
	ask, cancel := context.WithTimeout(ctx, askTimeout) // lanes that need a term wait meanwhile
	defer cancel()
	next, err := term.Take(ask, t.m.opt.Target, t.m.opt.Link, t.newest(), t.m.opt.Owner)
	if errors.Is(err, term.ErrDenied) {
		return nil
	}
	if err != nil {
		return err
	}
	return t.announce(ctx, next)
}
