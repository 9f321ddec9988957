package replicator

import (
	"context"
	"testing"
	"time"

	"lockstep/internal/kafkatest"
)

// handClock is two clocks that a test moves.
type handClock struct{ mono, wall time.Duration }

func handPulse() (*pulse, *handClock) {
	c := &handClock{wall: time.Duration(1_700_000_000) * time.Second}
	p := newPulse()
	p.clocks = func() (mono, wall time.Duration) { return c.mono, c.wall }
	p.begin()
	return p, c
}

func TestPulse_EitherClockTellsOfASilence(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mono, wall time.Duration
		awake      bool
	}{
		"running":                             {time.Second, time.Second, true},
		"stopped by a signal":                 {6 * time.Second, 6 * time.Second, false},
		"suspended: the monotonic one stands": {0, time.Hour, false},
		"the wall clock was set back":         {6 * time.Second, time.Second, false},
		"the wall clock was set far back":     {time.Second, -time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, clock := handPulse()
			clock.mono += c.mono
			clock.wall += c.wall
			if got := p.awake(); got != c.awake {
				t.Errorf("awake before the next beat: %t", got)
			}
			slept, closing := p.beat()
			if got := slept == 0; got != c.awake || closing == c.awake {
				t.Errorf("the beat tells of %s, closing %t", slept, closing)
			}
			if got := p.awake(); got != c.awake {
				t.Errorf("awake after the beat: %t; only a look at ownership opens", got)
			}
		})
	}
}

func TestPulse_OpensOnlyForTheNewestSilence(t *testing.T) {
	t.Parallel()
	p, clock := handPulse()
	clock.mono += time.Minute
	p.beat()
	n := p.slept()
	clock.wall += time.Minute // once more, while the state topic is being read
	if _, closing := p.beat(); closing {
		t.Error("a second silence starts a second look")
	}
	if p.open(n) || p.awake() {
		t.Fatal("a look that began before the newest silence lets senders go on")
	}
	if !p.open(p.slept()) || !p.awake() {
		t.Fatal("a look that nothing disturbed does not")
	}
}

func TestPulse_AwaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	p, clock := handPulse()
	clock.mono += time.Minute
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if p.await(ctx) {
		t.Error("await lets a sender go on without a look at ownership")
	}
}

// Nothing is taken from a lane, and so nothing can be sent, before ownership was looked at.
func TestPulse_SenderTakesNothingAfterASilence(t *testing.T) {
	t.Parallel()
	m, l, _ := newOpenLane(t)
	p, clock := handPulse()
	m.pulse = p
	feed(t, l, 100, 1)
	clock.wall += time.Minute
	p.beat()
	if !l.sendable() {
		t.Fatal("the lane has nothing to send: the test proves nothing")
	}
	m.sendMu.Lock()
	s := m.startSenderLocked(1)
	m.sendMu.Unlock()
	s.ready.push(l)
	kafkatest.Eventually(t, 5*time.Second, func() (bool, string) { // the sender has the lane in hand
		s.ready.mu.Lock()
		defer s.ready.mu.Unlock()
		return len(s.ready.items) == 0, "the lane waits"
	})
	m.stopWork(errStopped)
	m.tasks.Wait()
	if !l.sendable() {
		t.Error("a batch was taken")
	}
}
