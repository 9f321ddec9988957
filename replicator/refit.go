package replicator

import (
	"context"

	"lockstep/replicator/batch"
)

// refit reads a topic's limits again for lanes whose last batch was refused for its size. When that brings nothing
// smaller, three quarters of what was refused is tried.
func (m *Manager) refit(ctx context.Context, es []*entry) {
	for _, e := range es {
		size := e.lane.refused()
		if size == 0 {
			continue
		}
		ask, cancel := context.WithTimeout(ctx, askTimeout)
		limits := e.lane.present()
		if m.opt.Limits != nil {
			now, err := m.opt.Limits(ask, e.ident.DstTopic)
			if err == nil {
				limits = now
			}
		}
		cancel()
		if limits.MaxBytes <= 0 || limits.MaxBytes >= size {
			limits.MaxBytes = size / 4 * 3
		}
		e.lane.fit(limits)
	}
}

// refused returns the size of the batch that the target found too large, 0 for none.
func (l *lane) refused() int32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.outgrown
}

func (l *lane) present() batch.Limits {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.limits
}

func (l *lane) fit(limits batch.Limits) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limits, l.outgrown = limits, 0
}
