package replicator

import (
	"context"
	"time"

	"lockstep/internal/kafka"
)

// trimEvery is how often the state topic is freed of what only concerns records that the target has deleted.
const trimEvery = time.Minute

// trim keeps the state topic as small as the target's logs allow. It asks for the starts of all target logs, one request a broker, and trims lanes whose log start moved.
func (m *Manager) trim(ctx context.Context) {
	lanes := make(map[kafka.Part]*lane)
	var parts []kafka.Part
	for _, l := range m.all() {
		if p, ok := l.trimmable(); ok {
			lanes[p] = l
			parts = append(parts, p)
		}
	}
	ask, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	for p, start := range m.dst.ListOffsets(ask, parts, kafka.AtStart, false) {
		l := lanes[p]
		if start.Err != nil || !l.deleted(start.Offset) {
			continue
		}
		n, err := m.store.Trim(ctx, l.id, start.Offset)
		if err != nil {
			m.log.Debug("trim state", "lane", l.id.String(), "error", err)
			continue
		}
		l.trimmed(start.Offset)
		m.log.Debug("trimmed state", "lane", l.id.String(), "dst_start", start.Offset, "removed", n)
	}
}

func (l *lane) trimmable() (kafka.Part, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dstPart(), l.open
}

// deleted reports whether the target log begins later than when the lane was last trimmed.
func (l *lane) deleted(start int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open && start > l.dstStart
}

func (l *lane) trimmed(start int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dstStart = start
}
