package replicator

import (
	"sync"
	"time"

	"lockstep/internal/model"
)

// More than alarmAbove source topics that vanish within alarmWindow are hardly what somebody meant: they raise an alarm.
const (
	alarmAbove  = 3
	alarmWindow = time.Minute
)

// vanishing counts source topics that vanish.
type vanishing struct {
	mu sync.Mutex  // guards at
	at []time.Time // of each topic that vanished within the window
}

// note counts n topics that vanished now. It returns how many did within the window, and whether that is news: the alarm is
// raised once, and again only after fewer vanished for as long as the window is.
func (v *vanishing) note(now time.Time, n int) (lately int, alarm bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	old := 0
	for old < len(v.at) && now.Sub(v.at[old]) >= alarmWindow {
		old++
	}
	v.at = v.at[old:]
	before := len(v.at)
	for range n {
		v.at = append(v.at, now)
	}
	return len(v.at), before <= alarmAbove && len(v.at) > alarmAbove
}

// noteVanished counts the topics of lanes that end since their source topics are gone.
func (m *Manager) noteVanished(lanes []model.Lane) {
	topics := make(map[string]bool)
	for _, l := range lanes {
		topics[l.Topic] = true
	}
	if len(topics) == 0 {
		return
	}
	m.metrics.sourceGone.WithLabelValues(m.opt.Link).Add(float64(len(topics)))
	if lately, alarm := m.vanishing.note(m.now(), len(topics)); alarm {
		m.log.Error("many source topics are gone", "topics", lately, "within", alarmWindow,
			"remedy", "find out who deletes topics on the source; the target keeps its copies")
	}
}
