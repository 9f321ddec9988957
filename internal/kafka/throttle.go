package kafka

import (
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// throttles is a hook of all clients of a cluster: it remembers until when brokers asked to wait.
type throttles struct{ until atomic.Int64 } // nanoseconds

// OnBrokerThrottle implements kgo.HookBrokerThrottle.
func (t *throttles) OnBrokerThrottle(_ kgo.BrokerMetadata, d time.Duration, _ bool) {
	now := time.Now().Add(d).UnixNano()
	for was := t.until.Load(); was < now && !t.until.CompareAndSwap(was, now); was = t.until.Load() {
	}
}

// ThrottledSince reports whether a quota of the cluster made clients wait at or after a moment. What was not answered
// in time since then is late because of it: the broker lives, and asking again gets there.
func (c *Cluster) ThrottledSince(t time.Time) bool { return c.throttles.until.Load() >= t.UnixNano() }
