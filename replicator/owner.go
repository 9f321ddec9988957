package replicator

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"lockstep/internal/model"
	"lockstep/offsetsync"
)

const (
	// beatEvery is how often an owner shows that it is alive, silentAfter how long a judge hears nothing, on its own
	// clock, before it takes the owner for dead.
	beatEvery   = 3 * time.Second
	silentAfter = 30 * time.Second
	lookEvery   = 100 * time.Millisecond
)

// OwnedError says that the link may not be run here, and why.
type OwnedError struct {
	Link, Owner string
	Why         string
}

// Error implements error.
func (e *OwnedError) Error() string {
	return fmt.Sprintf("link %s is not ours (owner %s): %s", e.Link, e.Owner, e.Why)
}

// Owned is closed once this process owns the link: nothing may be changed on the target before.
func (m *Manager) Owned() <-chan struct{} { return m.owned }

// own makes this lockstep cluster the link's owner, or returns an OwnedError. It looks before it claims: while another
// owner beats, nothing is written and no producer id asked for, unless Options.TakeOver says so. With Options.Wait it
// stands by as long as that lasts.
func (m *Manager) own(ctx context.Context) error {
	src, err := m.src.ID(ctx)
	if err != nil {
		return fmt.Errorf("reach cluster %s: %w", m.src.Name(), err)
	}
	dst, err := m.dst.ID(ctx)
	if err != nil {
		return fmt.Errorf("reach cluster %s: %w", m.dst.Name(), err)
	}
	ours := offsetsync.Claim{Owner: m.opt.Owner, Link: m.opt.Link, SourceCluster: src, TargetCluster: dst}
	for {
		won, err := m.tryOwn(ctx, ours)
		if err != nil {
			return err
		}
		if won {
			m.standby.Store(nil)
			if r, _ := m.Replaced(); r != nil {
				m.showHeld()
			}
			close(m.owned)
			return nil
		}
	}
}

// tryOwn claims the link when its present owner is gone. It returns false when there is another owner to be judged.
func (m *Manager) tryOwn(ctx context.Context, ours offsetsync.Claim) (bool, error) {
	if err := m.view.Barrier(ctx); err != nil {
		return false, err
	}
	if err := m.stopped(); err != nil {
		return false, err
	}
	held, found := m.view.Claim()
	other := found && otherSource(held, ours.SourceCluster)
	if other {
		// The link is ours to look after, but its claim names the old source until an operator accepts the new one.
		m.replaced(otherSourceText(m.src.Name(), held, ours.SourceCluster))
		ours.SourceCluster = held.SourceCluster
	}
	if found && !held.Released {
		switch {
		case held.Owner == m.opt.Owner:
			return true, nil
		case m.opt.TakeOver:
			m.log.Warn("taking the link over without waiting for its owner's silence", "owner", held.Owner)
		default:
			if gone, err := m.judge(ctx, held); err != nil || !gone {
				return false, err
			}
		}
	}
	return m.claim(ctx, held, ours)
}

// claim writes the successor of a claim. Of several successors the first in the log is valid.
func (m *Manager) claim(ctx context.Context, held, ours offsetsync.Claim) (bool, error) {
	ours.ID, ours.Prev, ours.At, ours.AcceptedTerm = uuid.NewString(), held.ID, m.now(), held.AcceptedTerm
	if err := m.store.PutClaim(ctx, ours); err != nil {
		return false, fmt.Errorf("claim link: %w", err)
	}
	if err := m.view.Barrier(ctx); err != nil {
		return false, err
	}
	now, _ := m.view.Claim()
	switch {
	case now.ID == ours.ID:
		m.log.Info("claimed the link", "owner", m.opt.Owner)
		return true, nil
	case m.opt.Wait:
		return false, nil
	}
	return false, &OwnedError{Link: m.opt.Link, Owner: now.Owner, Why: "another instance claimed it at the same moment"}
}

// judge listens to the owner of another claim. It returns true once the owner has been silent for long enough on our own
// clock, false when the claim is not the newest any more or was released. While the owner lives it goes on with
// Options.Wait, else it returns an OwnedError.
func (m *Manager) judge(ctx context.Context, held offsetsync.Claim) (gone bool, err error) {
	m.log.Info("another instance owns the link; looking whether it lives", "owner", held.Owner, "seconds", silentAfter.Seconds())
	if m.opt.Wait {
		m.standby.Store(&Standby{Owner: held.Owner, Claimed: held.At, Since: m.now()})
	}
	heard, _ := m.view.LastBeat()
	alive := false
	for since := m.now(); ; {
		if m.now().Sub(since) >= silentAfter {
			// Who does not hear may be deaf: what was said up to now counts.
			if err := m.view.Barrier(ctx); err != nil {
				return false, err
			}
		}
		if c, _ := m.view.Claim(); c.ID != held.ID || c.Released {
			return false, nil
		}
		beat, ok := m.view.LastBeat()
		switch {
		case ok && !beat.Seen.Equal(heard.Seen) && !m.opt.Wait:
			return false, &OwnedError{Link: m.opt.Link, Owner: beat.Owner, Why: "its owner is alive; stop that instance first, or stand by " +
				"until it is gone (run --wait), or take the link away from it (run --take-over)"}
		case ok && !beat.Seen.Equal(heard.Seen):
			heard, since = beat, m.now()
			if !alive {
				alive = true
				m.log.Info("the owner is alive; standing by until it is gone", "owner", held.Owner)
			}
		case m.now().Sub(since) >= silentAfter:
			m.log.Warn("the owner is silent; taking the link over", "owner", held.Owner)
			return true, nil
		}
		m.pause(ctx, lookEvery)
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
	}
}

// Standby says that this instance waits for a link that another one owns.
type Standby struct {
	Owner   string
	Claimed time.Time // when that owner took the link, by its own clock
	Since   time.Time // since when this instance stands by
}

// Standby returns whom this instance waits for, nil when it does not stand by.
func (m *Manager) Standby() *Standby { return m.standby.Load() }

// guard ends the manager as soon as another claim or a stop appears.
func (m *Manager) guard(ctx context.Context) error {
	for ctx.Err() == nil {
		changed := m.view.Changed()
		if err := m.superseded(); err != nil {
			m.fail(err)
			return nil
		}
		select {
		case <-changed:
			pauseFor(ctx, lookEvery) // many changes are looked at together
		case <-ctx.Done():
		}
	}
	return nil
}

// beat shows that the owner lives.
func (m *Manager) beat(ctx context.Context) error {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	failing := false
	for n := uint64(1); ; n++ {
		claim, _ := m.view.Claim()
		b := offsetsync.Beat{Claim: claim.ID, Owner: m.opt.Owner, Node: m.opt.Process, Seq: n, At: m.now()}
		err := m.store.PutBeat(ctx, b)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !failing:
			m.log.Warn("write heartbeat", "error", err)
		case err == nil && failing:
			m.log.Info("heartbeats are written again")
		}
		failing = err != nil
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// Superseded says that the link is not ours any more, as far as the state topic was read; nil while it is.
func (m *Manager) Superseded() error { return m.superseded() }

// superseded returns an error when the state topic says that somebody else owns the link, or that it was stopped.
func (m *Manager) superseded() error {
	if err := m.stopped(); err != nil {
		return err
	}
	if c, ok := m.view.Claim(); ok && c.Owner != m.opt.Owner {
		return &OwnedError{Link: m.opt.Link, Owner: c.Owner, Why: "another instance took it over"}
	}
	return nil
}

// stopped returns an error when a stop of the link is in force.
func (m *Manager) stopped() error {
	for _, s := range m.view.Stops() {
		if !s.Lifted {
			return &OwnedError{Link: m.opt.Link, Owner: s.By, Why: fmt.Sprintf("it was stopped at %s (%s)", s.At.Format(time.RFC3339), s.Reason)}
		}
	}
	return nil
}

// stillOurs looks at the state after a batch was refused for its epoch.
func (m *Manager) stillOurs(ctx context.Context, es []*entry) bool {
	if err := m.view.Barrier(ctx); err != nil {
		m.laterAll(es, "read the state topic", err)
		return false
	}
	if err := m.superseded(); err != nil {
		for _, e := range es {
			e.lane.stop(model.ReasonSuperseded, err.Error())
		}
		m.fail(err)
		return false
	}
	return true
}

// KeepClaim lets the claim stand when Run ends: the link is about to be started again by its present owner.
func (m *Manager) KeepClaim() { m.keeps.Store(true) }

// disown marks the claim as given up, after everything ended cleanly, so that another instance need not wait.
func (m *Manager) disown(ctx context.Context) {
	c, ok := m.view.Claim()
	if !ok || c.Owner != m.opt.Owner || m.keeps.Load() {
		return
	}
	c.Released = true
	if err := m.store.PutClaim(ctx, c); err != nil {
		m.log.Warn("release the link", "error", err)
	}
}
