package replicator

import (
	"context"
	"errors"
	"time"

	"lockstep/internal/model"
)

// departure is how a lane that ends cleanly is shown afterwards.
type departure struct {
	state  model.State
	reason model.Reason
	detail string
}

// releaseLook is how often lanes that are leaving are looked at.
const releaseLook = 5 * time.Millisecond

// Release ends lanes cleanly, while all others go on: nothing more of them is sent, what was sent is waited for, and their
// clean ends are stored. Then they show state s and reason r, and Offer takes them up again in the same term, without a
// marker. Lanes that this process does not know are left out. A lane that an operator has to act upon stays as it is, unless
// s is StateClosed.
//
// Release returns when all have left or ctx ends. What has not left by then goes on leaving: a target that does not answer
// may keep a lane for long. One whose last batch is in doubt leaves without a clean end, and is sealed when it comes back.
func (m *Manager) Release(ctx context.Context, lanes []model.Lane, s model.State, r model.Reason) {
	var ls []*lane
	for _, id := range lanes {
		if l := m.lane(id); l != nil {
			ls = append(ls, l)
		}
	}
	m.release(ctx, ls, departure{state: s, reason: r})
}

// release is Release for lanes at hand. It reports whether all of them have left.
func (m *Manager) release(ctx context.Context, lanes []*lane, d departure) bool {
	for _, l := range lanes {
		l.depart(&d)
	}
	left := make(chan struct{})
	m.spawn(func(ctx context.Context) {
		defer close(left)
		m.seeOff(ctx, lanes, &d)
	})
	select {
	case <-left:
		return m.work.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// seeOff waits until lanes have left.
func (m *Manager) seeOff(ctx context.Context, lanes []*lane, d *departure) {
	tick := time.NewTicker(releaseLook)
	defer tick.Stop()
	b := newBackoff() // between attempts to store: a state topic that refuses does so at once
	for ctx.Err() == nil {
		var rest []*lane
		save := false
		for _, l := range lanes {
			gone, drained := l.gone(d)
			if !gone {
				rest = append(rest, l)
			}
			save = save || drained
		}
		if len(rest) < len(lanes) {
			b.reset()
		}
		if lanes = rest; len(lanes) == 0 {
			return
		}
		if save {
			m.save(ctx, lanes, true)
			if m.unsaved(lanes, d) {
				m.pause(ctx, b.step())
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// unsaved reports whether the clean end of a lane is still to be stored.
func (m *Manager) unsaved(lanes []*lane, d *departure) bool {
	for _, l := range lanes {
		if _, drained := l.gone(d); drained {
			return true
		}
	}
	return false
}

// depart begins to end the lane. One that is leaving already leaves as d says.
func (l *lane) depart(d *departure) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d.state != model.StateClosed && (l.state == model.StateStopped || l.state == model.StateClosed) {
		return
	}
	l.leave, l.draining, l.returns = d, true, false
	if l.open {
		l.setLocked(model.StateDraining, d.reason, d.detail, l.m.now())
	}
}

// gone ends the lane if nothing of it is under way any more. drained says that only its clean end is still to be stored.
func (l *lane) gone(d *departure) (gone, drained bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.leave != d: // it was taken up again, or leaves in another way
		return true, false
	case l.state == model.StateStopped && d.state != model.StateClosed:
		l.leave, l.draining = nil, false // an operator has to act, whatever else is to be
		return true, false
	case l.atOpener > 0 || len(l.inflight) > 0 || l.planning > 0 || l.preparing || l.verdict != goOn:
		return false, false
	case l.open && l.drainedLocked() && (l.cursor != l.saved || !l.savedEnd || len(l.landings) > 0),
		l.endedWell && (l.cursor != l.saved || !l.savedEnd || len(l.landings) > 0):
		return false, true
	}
	l.leftLocked(d)
	return true, false
}

// errReleased is what an order for the lane hears.
var errReleased = errors.New("the lane was paused or released meanwhile")

func (l *lane) leftLocked(d *departure) {
	l.leave, l.draining, l.open, l.entering, l.endedWell = nil, false, false, false, false
	l.verdict, l.ranged, l.fault = goOn, false, time.Time{}
	l.answerLocked(l.intent, errReleased)
	l.dropBuffersLocked()
	if d.state != model.StatePaused {
		l.unknownEndsLocked() // nobody asks any more: unknown is no figure
	}
	l.setLocked(d.state, d.reason, d.detail, l.m.now())
	l.unwantLocked()
	if l.returns {
		l.takeUpLocked()
	}
}

// wantLocked has the leaders of the lane's partitions looked for, unwantLocked ends that.
func (l *lane) wantLocked() {
	if !l.wanted {
		l.wanted = true
		l.m.srcLeaders.Want(l.srcPart())
		l.m.dstLeaders.Want(l.dstPart())
	}
}

func (l *lane) unwantLocked() {
	if l.wanted {
		l.wanted = false
		l.m.srcLeaders.Drop(l.srcPart())
		l.m.dstLeaders.Drop(l.dstPart())
	}
	if f := l.fetch; f != nil {
		l.fetch = nil
		l.m.spawn(func(context.Context) { f.dismiss(l) }) // its lock is taken before a lane's
	}
}

// dismiss takes a lane off the fetcher, unless it came back meanwhile.
func (f *fetcher) dismiss(l *lane) {
	f.m.mu.Lock() // whoever places lanes holds it
	defer f.m.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fetch != f {
		delete(f.lanes, l)
	}
}

// releasedLocked reports whether the lane was released, and waits to be taken up again.
func (l *lane) releasedLocked() bool {
	return l.state == model.StatePaused || l.state == model.StateClosed
}
