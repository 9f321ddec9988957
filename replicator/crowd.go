package replicator

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// What happens to a broker or a topic happens to thousands of lanes at once. Of one event the first crowdTold are logged
// by themselves, the others that come within crowdFor as their number.
const (
	crowdTold = 10
	crowdFor  = 10 * time.Second
)

// event is what many lanes may share: a message with the attribute that tells them apart.
type event struct {
	level           slog.Level
	msg, key, value string
}

// crowd counts events. A burst begins with its first one, and ends crowdFor later.
type crowd struct {
	mu     sync.Mutex // guards bursts; a leaf, also below a lane's lock
	bursts map[event]*burst
}

type burst struct {
	since time.Time
	n     int
}

// tells notes an event, and reports whether it is to be logged by itself.
func (c *crowd) tells(e event, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bursts == nil {
		c.bursts = make(map[event]*burst)
	}
	b := c.bursts[e]
	if b == nil {
		b = &burst{since: now}
		c.bursts[e] = b
	}
	b.n++
	return b.n <= crowdTold
}

// untold is an event with the number of those that were not logged by themselves.
type untold struct {
	event
	n int
}

// over ends the bursts that began before a time and returns what they left untold, in a fixed order.
func (c *crowd) over(before time.Time) (out []untold) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for e, b := range c.bursts {
		if b.since.After(before) {
			continue
		}
		delete(c.bursts, e)
		if b.n > crowdTold {
			out = append(out, untold{e, b.n - crowdTold})
		}
	}
	slices.SortFunc(out, func(a, b untold) int { return cmp.Or(cmp.Compare(a.msg, b.msg), cmp.Compare(a.value, b.value)) })
	return out
}

// tell logs an event with what is particular to a lane, or counts it.
func (m *Manager) tell(e event, attrs ...any) {
	if m.crowd.tells(e, m.now()) {
		m.log.Log(context.Background(), e.level, e.msg, attrs...) //nolint:sloglint // the event's message is a constant where it is told
	}
}

// tellRest logs the numbers of bursts that began before a time.
func (m *Manager) tellRest(before time.Time) {
	for _, u := range m.crowd.over(before) {
		m.log.Log(context.Background(), u.level, u.msg, "more", u.n, u.key, u.value) //nolint:sloglint // as above
	}
}
