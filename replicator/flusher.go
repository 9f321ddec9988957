package replicator

import (
	"context"
	"errors"
	"slices"
	"time"

	"lockstep/internal/failpoint"
	"lockstep/internal/model"
	"lockstep/offsetsync"
)

// flushEvery is how often moved cursors are stored. They are a lower bound that saves reading, never the truth.
const flushEvery = time.Second

// runFlusher stores the cursors of lanes that moved.
func (m *Manager) runFlusher(ctx context.Context) {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-m.flushNow:
		case <-ctx.Done():
			return
		}
		m.flush(ctx, false)
	}
}

func (m *Manager) flushSoon() {
	select {
	case m.flushNow <- struct{}{}:
	default:
	}
}

// flush stores what moved; with clean it marks lanes that have nothing unanswered as cleanly ended.
func (m *Manager) flush(ctx context.Context, clean bool) { m.save(ctx, m.all(), clean) }

// save is flush for some lanes.
func (m *Manager) save(ctx context.Context, of []*lane, clean bool) {
	select {
	case m.flushing <- struct{}{}: // one at a time, or landings would be stored twice
		defer func() { <-m.flushing }()
	case <-ctx.Done():
		return
	}
	var ps []offsetsync.Progress
	for _, l := range of {
		if p, ok := l.progress(clean); ok {
			ps = append(ps, p)
		}
	}
	if len(ps) == 0 {
		return
	}
	failpoint.Pass("before_state")
	ps, err := m.saveGood(ctx, ps)
	if err != nil {
		if ctx.Err() == nil {
			m.log.Warn("store cursors", "error", err)
		}
		return
	}
	failpoint.Pass("after_state")
	for _, p := range ps {
		if l := m.lane(p.Lane); l != nil {
			l.stored(p)
		}
	}
	m.metrics.lastSave.WithLabelValues(m.opt.Link).Set(float64(m.now().Unix()))
}

// saveGood stores progress and returns what is durable. A lane that was opened anew meanwhile, or whose landing contradicts
// what was stored before, keeps nobody else from being stored.
func (m *Manager) saveGood(ctx context.Context, ps []offsetsync.Progress) ([]offsetsync.Progress, error) {
	for {
		err := m.store.Save(ctx, ps)
		wrong, ok := errors.AsType[*offsetsync.LaneError](err)
		if !ok {
			return ps, err
		}
		if !errors.Is(wrong, offsetsync.ErrNotOpen) {
			m.contradicted(wrong)
		}
		rest := slices.DeleteFunc(slices.Clone(ps), func(p offsetsync.Progress) bool { return p.Lane == wrong.Lane })
		if len(rest) == len(ps) {
			return nil, err
		}
		ps = rest
	}
}

// progress returns what has to be stored of the lane.
func (l *lane) progress(clean bool) (offsetsync.Progress, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.opening == 0 || !l.open && !l.endedWell {
		return offsetsync.Progress{}, false
	}
	clean = l.endedWell || clean && l.drainedLocked()
	// A clean end that is stored stays: whoever stores cursors afterwards must not take it back.
	if l.cursor == l.saved && len(l.landings) == 0 && (l.savedEnd || !clean) {
		return offsetsync.Progress{}, false
	}
	return offsetsync.Progress{Lane: l.id, Opening: l.opening, Cursor: l.cursor, Clean: clean,
		Landings: append([]model.Landing(nil), l.landings...), Epochs: l.epochsLocked()}, true
}

// stored takes note of what is durable now.
func (l *lane) stored(p offsetsync.Progress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.opening != p.Opening {
		return
	}
	l.landings = l.landings[len(p.Landings):]
	l.saved, l.savedEnd = p.Cursor, p.Clean
	l.copied.sinceSave = 0
}

// drainedLocked reports whether everything that was sent and planned has been answered, so that nothing of it can land
// later.
func (l *lane) drainedLocked() bool {
	return l.draining && l.open && l.verdict == goOn && len(l.inflight) == 0 && len(l.failed) == 0 && l.planning == 0 &&
		!l.preparing && !l.unsureLocked()
}

// drain stops fetching and sending, waits for all answers, and stores clean ends. What ctx cuts short is not clean, and
// will be sealed at the next start. It reports whether every open lane ended cleanly.
func (m *Manager) drain(ctx context.Context) bool {
	m.beginDrain()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !m.drained() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			m.flush(context.WithoutCancel(ctx), true)
			return false
		}
	}
	m.flush(ctx, true)
	return true
}

// beginDrain takes no more lanes, and lets none send anything new.
func (m *Manager) beginDrain() {
	m.mu.Lock()
	m.closing.Store(true) // whoever takes up a lane after this leaves it draining
	m.mu.Unlock()
	for _, l := range m.all() {
		l.mu.Lock()
		l.draining = true
		l.mu.Unlock()
	}
}

// drained reports whether nothing is under way any more: no opener at work, no lane with something unanswered.
func (m *Manager) drained() bool {
	if m.opening.Load() > 0 {
		return false
	}
	for _, l := range m.all() {
		l.mu.Lock()
		busy := l.open && !l.drainedLocked() && !(l.unsureLocked() && len(l.inflight) == 0 && l.verdict == goOn)
		l.mu.Unlock()
		if busy {
			return false
		}
	}
	return true
}

// Flush stores every cursor that moved, now.
func (m *Manager) Flush(ctx context.Context) { m.flush(ctx, false) }
