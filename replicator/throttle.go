package replicator

import (
	"fmt"
	"sync/atomic"
	"time"
)

// throttle remembers when a broker's quota last asked to wait, and how long. The client obeys by itself; this is for
// people, and keeps the wait from being taken for a fault. The zero value is ready to use.
type throttle struct {
	at     atomic.Int64 // unix nanoseconds
	millis atomic.Int32
}

// throttleShown is how long a quota's wait is shown after the broker last asked for one.
const throttleShown = 10 * time.Second

// The sides of a link, as metrics name them.
const (
	sideSource = "source"
	sideTarget = "target"
)

// throttled takes a broker's word that a quota holds the answerer back.
func (m *Manager) throttled(side string, t *throttle, millis int32) {
	if millis <= 0 {
		return
	}
	t.millis.Store(millis)
	t.at.Store(m.now().UnixNano())
	m.metrics.throttle.WithLabelValues(m.opt.Link, side).Add((time.Duration(millis) * time.Millisecond).Seconds())
}

// recent returns the wait that the broker asked for in the last seconds, 0 for none.
func (t *throttle) recent(now time.Time) time.Duration {
	wait := time.Duration(t.millis.Load()) * time.Millisecond
	if at := t.at.Load(); at == 0 || now.Sub(time.Unix(0, at)) > throttleShown+wait {
		return 0
	}
	return wait
}

// throttledLocked says which broker's quota holds the lane back, "" for none.
func (l *lane) throttledLocked(now time.Time) string {
	if f := l.fetch; f != nil {
		if wait := f.throttle.recent(now); wait > 0 {
			return fmt.Sprintf("a quota on source broker %d asked to wait %s", f.broker, wait)
		}
	}
	if s := l.via; s != nil {
		if wait := s.throttle.recent(now); wait > 0 {
			return fmt.Sprintf("a quota on target broker %d asked to wait %s", s.broker, wait)
		}
	}
	return ""
}
