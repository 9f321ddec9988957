package replicator

import (
	"context"

	"golang.org/x/time/rate"
)

// Tuning is what may change while lanes copy.
type Tuning struct {
	Start          Start // where lanes begin that were never copied
	PauseOnGap     bool  // a lane stops when the source deleted records before they were read
	BytesPerSecond int64 // of the link in this process; 0 is no limit
}

// Tune takes over other settings. They count from the next lane that is opened, the next gap and the next fetch answer on; no
// lane is disturbed.
func (m *Manager) Tune(t Tuning) {
	m.tuned.Store(&t)
	if t.BytesPerSecond <= 0 {
		m.limiter.SetLimit(rate.Inf)
		return
	}
	m.limiter.SetBurst(int(t.BytesPerSecond))
	m.limiter.SetLimit(rate.Limit(t.BytesPerSecond))
}

func (m *Manager) tuning() Tuning { return *m.tuned.Load() }

// limit holds the reader back so that a link stays under its bytes per second. It asks for a second's worth at a time, so
// that another limit is felt soon.
func (m *Manager) limit(ctx context.Context, n int64) {
	for n > 0 && m.limiter.Limit() != rate.Inf {
		part := min(n, int64(m.limiter.Burst()))
		switch err := m.limiter.WaitN(ctx, int(part)); {
		case err == nil:
			n -= part
		case part <= int64(m.limiter.Burst()):
			return // ctx has ended
		} // else the limit sank meanwhile, and less is asked for
	}
}
