package replicator

import (
	"context"
	"time"

	"lockstep/internal/kafka"
	"lockstep/internal/model"
)

// The source's ends come with fetch answers, which mention a lane whenever they change. Of lanes that fetch nothing, or are
// refused, nobody would hear: their lag would stand still where it was, perhaps at 0, while records pile up.

const (
	// lookEach is how often the source is asked for the ends of lanes that hear nothing of them.
	lookEach = 5 * time.Second
	// staleAfter is how old ends may be that cannot be asked for; then they are not known any more.
	staleAfter = 15 * time.Second
)

// watchEnds keeps the source's ends of lanes that nobody reads, so that their lag is seen to grow. Ends that the source
// does not tell become unknown: no figure rather than an old one.
func (m *Manager) watchEnds(ctx context.Context) {
	replaced, _ := m.Replaced()
	deaf := make(map[kafka.Part]*lane)
	var parts []kafka.Part
	for _, l := range m.all() {
		switch {
		case !l.deaf(m.now()):
		case replaced != nil: // its offsets mean other records
			l.forgetEnds(m.now())
		default:
			deaf[l.srcPart()] = l
			parts = append(parts, l.srcPart())
		}
	}
	if len(parts) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	logs, stable := ends(ctx, m.src, parts), m.src.ListOffsets(ctx, parts, kafka.AtEnd, true)
	for p, l := range deaf {
		if logs[p].err == nil && stable[p].Err == nil {
			l.noteEnds(logs[p].start, stable[p].Offset, logs[p].end, m.now())
		} else {
			l.forgetEnds(m.now())
		}
	}
}

// deaf reports whether no fetch answer would tell the lane of the source's ends, or none has told them.
func (l *lane) deaf(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.opening == 0 && l.state != model.StatePaused, l.state == model.StateClosed:
		return false // without a position there is no lag
	case now.Sub(l.told) < lookEach:
		return false
	}
	return l.srcEnd < 0 || !l.fault.IsZero() || !l.asksLocked(now)
}

// asksLocked reports whether the lane is in its fetcher's requests.
func (l *lane) asksLocked(now time.Time) bool {
	return l.open && !l.draining && !l.ranged && !l.forked && l.verdict == goOn && l.refusal == nil && l.held < laneBuffer &&
		l.fetch != nil && !l.fetch.held.Load() && l.throttledLocked(now) == ""
}

// noteEnds notes the source's offsets as they are now.
func (l *lane) noteEnds(start, stable, end int64, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endsLocked(start, stable, end, now)
}

func (l *lane) endsLocked(start, stable, end int64, now time.Time) {
	nothingWaited := l.srcStable >= l.srcEnd
	l.srcStart, l.srcEnd, l.told = start, end, now
	if stable < 0 {
		stable = end
	}
	if stable != l.srcStable || stable >= end || nothingWaited {
		l.stableAt = now
		if l.hanging {
			l.healthyLocked(now)
		}
	}
	l.srcStable = stable
	l.points.add(l.readable(), now)
}

// forgetEnds notes that the source's offsets cannot be asked for.
func (l *lane) forgetEnds(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.told) >= staleAfter {
		l.unknownEndsLocked()
	}
}

func (l *lane) unknownEndsLocked() { l.srcStart, l.srcStable, l.srcEnd = -1, -1, -1 }
