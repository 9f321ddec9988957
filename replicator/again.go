package replicator

import (
	"context"
	"slices"
	"time"

	"lockstep/internal/model"
)

// again lets lanes go on that stopped for a reason which does not hold any more, each once nothing of it is under way.
func (m *Manager) again(was model.Reason, lanes ...*lane) {
	wait := slices.DeleteFunc(lanes, func(l *lane) bool { return l.again(was) })
	if len(wait) == 0 {
		return
	}
	m.spawn(func(ctx context.Context) {
		tick := time.NewTicker(releaseLook)
		defer tick.Stop()
		for len(wait) > 0 {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			wait = slices.DeleteFunc(wait, func(l *lane) bool { return l.again(was) })
		}
	})
}

// again lets the lane go on. It returns false while something of it is under way.
func (l *lane) again(was model.Reason) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.state != model.StateStopped || l.reason != was || l.intent != nil: // something else came first
	case !l.restsLocked():
		return false
	default:
		l.takeUpLocked()
	}
	return true
}

// takeUpLocked lets a lane go on that is at rest: it is opened again, or paused where a pause holds its topic. A pause is
// seen here once it is durable, and whoever made it looks at each lane afterwards.
func (l *lane) takeUpLocked() {
	l.returns = false
	if p, ok := l.m.holds().of(l.id.Topic); ok {
		l.setLocked(model.StatePaused, model.ReasonPaused, pauseText(p), l.m.now())
		l.unwantLocked()
		return
	}
	l.reenterLocked()
}
