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
// owner beats, nothing is written and no producer id asked for.
func (m *Manager) own(ctx context.Context) error {
	src, err := m.src.ID(ctx)
	if err != nil {
		return fmt.Errorf("reach cluster %s: %w", m.src.Name(), err)
	}
	dst, err := m.dst.ID(ctx)
	if err != nil {
		return fmt.Errorf("reach cluster %s: %w", m.dst.Name(), err)
	}
	if err := m.view.Barrier(ctx); err != nil {
		return err
	}
	if err := m.stopped(); err != nil {
		return err
	}
	held, found := m.view.Claim()
	if found && held.SourceCluster != "" && held.SourceCluster != src {
		return &OwnedError{Link: m.opt.Link, Owner: held.Owner, Why: fmt.Sprintf(
			"it copied from cluster id %s, but %s is cluster id %s now: if the source was replaced on purpose, copy under another link name",
			held.SourceCluster, m.src.Name(), src)}
	}
	if !found || held.Owner != m.opt.Owner || held.Released {
		if err := m.claim(ctx, held, found, src, dst); err != nil {
			return err
		}
	}
	close(m.owned)
	return nil
}

func (m *Manager) claim(ctx context.Context, held offsetsync.Claim, found bool, src, dst string) error {
	if found && held.Owner != m.opt.Owner && !held.Released {
		if err := m.awaitSilence(ctx, held); err != nil {
			return err
		}
	}
	c := offsetsync.Claim{ID: uuid.NewString(), Prev: held.ID, Owner: m.opt.Owner, Link: m.opt.Link, SourceCluster: src, TargetCluster: dst, At: m.now()}
	if err := m.store.PutClaim(ctx, c); err != nil {
		return fmt.Errorf("claim link: %w", err)
	}
	if err := m.view.Barrier(ctx); err != nil {
		return err
	}
	if now, _ := m.view.Claim(); now.ID != c.ID {
		return &OwnedError{Link: m.opt.Link, Owner: now.Owner, Why: "another instance claimed it at the same moment"}
	}
	m.log.Info("claimed the link", "owner", m.opt.Owner)
	return nil
}

// awaitSilence waits until the present owner has been silent for long enough on our own clock.
func (m *Manager) awaitSilence(ctx context.Context, held offsetsync.Claim) error {
	m.log.Info("another instance owns the link; looking whether it lives", "owner", held.Owner, "seconds", silentAfter.Seconds())
	heard, _ := m.view.LastBeat()
	for since := m.now(); m.now().Sub(since) < silentAfter; {
		m.pause(ctx, lookEvery)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		now, ok := m.view.LastBeat()
		if ok && !now.Seen.Equal(heard.Seen) {
			return &OwnedError{Link: m.opt.Link, Owner: now.Owner, Why: "its owner is alive; stop that instance first"}
		}
	}
	m.log.Warn("the owner is silent; taking the link over", "owner", held.Owner)
	return nil
}

// beat shows that the owner lives, and ends the manager when another claim or a stop appears.
func (m *Manager) beat(ctx context.Context) error {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for n := uint64(1); ; n++ {
		claim, _ := m.view.Claim()
		b := offsetsync.Beat{Claim: claim.ID, Owner: m.opt.Owner, Node: m.opt.Process, Seq: n, At: m.now()}
		if err := m.store.PutBeat(ctx, b); err != nil && ctx.Err() == nil {
			m.log.Warn("write heartbeat", "error", err)
		}
		if err := m.superseded(); err != nil {
			m.fail(err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

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

// disown marks the claim as given up, after everything ended cleanly, so that another instance need not wait.
func (m *Manager) disown(ctx context.Context) {
	c, ok := m.view.Claim()
	if !ok || c.Owner != m.opt.Owner {
		return
	}
	c.Released = true
	if err := m.store.PutClaim(ctx, c); err != nil {
		m.log.Warn("release the link", "error", err)
	}
}
