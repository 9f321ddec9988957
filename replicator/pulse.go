package replicator

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/internal/model"
)

const (
	// pulseEvery is how often this process notes that it runs, asleepAfter the silence that makes it doubt whether the link
	// is still its own.
	pulseEvery  = time.Second
	asleepAfter = 5 * time.Second
	// checkPatience bounds one attempt to read the state topic after a silence.
	checkPatience = 3 * time.Second
)

// pulse notices that this process did not run for a while, and holds back what is sent until ownership was looked at.
// It watches two clocks: the monotonic one stands still while a virtual machine is suspended, the wall clock does not,
// but may be set by hand, which costs one look for nothing.
//
// It is a best effort: between a look at a clock and the system call that sends, a process may stop at any time. What
// proves that a stale owner writes nothing is the seal.
type pulse struct {
	clocks     func() (mono, wall time.Duration)
	mono, wall atomic.Int64 // when the process was last seen running
	closed     atomic.Bool  // ownership has to be looked at first

	mu     sync.Mutex // orders falling asleep and opening
	sleeps int        // how often the process did not run
}

func newPulse() *pulse {
	base := time.Now()
	p := &pulse{clocks: func() (mono, wall time.Duration) {
		return time.Since(base), time.Duration(time.Now().UnixNano())
	}}
	p.begin()
	return p
}

// begin starts the watch: what was before does not count.
func (p *pulse) begin() {
	mono, wall := p.clocks()
	p.mono.Store(int64(mono))
	p.wall.Store(int64(wall))
}

// silence is how long the process has not been seen running, by whichever clock says more.
func (p *pulse) silence() time.Duration {
	mono, wall := p.clocks()
	return max(mono-time.Duration(p.mono.Load()), (wall - time.Duration(p.wall.Load())).Abs())
}

// awake reports whether sending is allowed.
func (p *pulse) awake() bool { return !p.closed.Load() && p.silence() <= asleepAfter }

// beat notes that the process runs. It returns for how long it did not, 0 when all is well, and whether it was this that
// closed the gate.
func (p *pulse) beat() (slept time.Duration, closing bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if was := p.silence(); was > asleepAfter {
		slept, closing = was, !p.closed.Swap(true) // before the clocks say that all is well
		p.sleeps++
	}
	p.begin()
	return slept, closing
}

// open allows sending again, unless the process fell asleep once more since sleeps were n.
func (p *pulse) open(n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sleeps == n {
		p.closed.Store(false)
	}
	return p.sleeps == n
}

func (p *pulse) slept() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sleeps
}

// await returns once sending is allowed, or false when ctx has ended. Without a pulse, which Run makes, it always is.
func (p *pulse) await(ctx context.Context) bool {
	for p != nil && !p.awake() {
		pauseFor(ctx, lookEvery)
		if ctx.Err() != nil {
			return false
		}
	}
	return true
}

// runPulse keeps the pulse. After a silence it gives up the connections to the target, whose requests may have waited
// for their turn since before it, and reads from the state topic whether the link is still ours.
func (m *Manager) runPulse(ctx context.Context) {
	var checking sync.WaitGroup
	defer checking.Wait()
	every(ctx, pulseEvery, func(ctx context.Context) {
		d, closing := m.pulse.beat()
		if d == 0 {
			return
		}
		m.log.Warn("this process did not run for a while; nothing is sent before ownership was looked at", "seconds", d.Seconds())
		m.leaveAll()
		if closing {
			checking.Go(func() { m.checkOwnership(ctx, d) })
		}
	})
}

// checkOwnership looks until the state topic has told whether the link is still ours, and then lets senders go on or
// ends the manager.
func (m *Manager) checkOwnership(ctx context.Context, d time.Duration) {
	b := newBackoff()
	for ctx.Err() == nil {
		n := m.pulse.slept()
		err := m.reread(ctx)
		switch {
		case err == nil && m.superseded() != nil:
			m.fail(m.superseded())
			return
		case err == nil && m.pulse.open(n):
			m.log.Info("the link is still ours")
			return
		case err != nil:
			m.waitForState(fmt.Sprintf("ownership cannot be looked at after a silence of %s: %v", d.Round(time.Second), err))
		}
		b.wait(ctx)
	}
}

func (m *Manager) reread(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkPatience)
	defer cancel()
	return m.view.Barrier(ctx)
}

// waitForState shows lanes that have something to send as held back by the state topic.
func (m *Manager) waitForState(why string) {
	for _, l := range m.all() {
		if l.sendable() {
			l.trouble(model.ReasonStateTopic, why)
		}
	}
}
