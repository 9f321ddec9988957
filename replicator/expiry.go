package replicator

import (
	"context"
	"strconv"
	"time"
)

// defaultExpiry is Kafka's default of producer.id.expiration.ms.
const defaultExpiry = 24 * time.Hour

// learnExpiry asks the target after how long, by record time, it forgets a producer. Without an answer Kafka's default
// is taken.
func (m *Manager) learnExpiry(ctx context.Context) {
	m.producerExpiry = defaultExpiry
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	text, ok, err := m.opt.Target.BrokerConfig(ctx, "producer.id.expiration.ms")
	if err != nil {
		m.log.Warn("producer.id.expiration.ms of the target is not known; taking Kafka's default of a day", "error", err)
		return
	}
	if ms, err := strconv.ParseInt(text, 10, 64); ok && err == nil && ms > 0 {
		m.producerExpiry = time.Duration(min(ms, int64(365*24*time.Hour/time.Millisecond))) * time.Millisecond
	}
}
