package replicator

import (
	"context"
	"fmt"

	"lockstep/internal/model"
	"lockstep/offsetsync"
)

// Offer tells the manager of lanes that it is to copy; it may be called again with the same ones. A lane whose topic
// was created again on either side stops. One that was released is taken up again, unless a pause holds it.
func (m *Manager) Offer(as []Assignment) {
	m.offers.Lock()
	defer m.offers.Unlock()
	held := m.holds()
	var fresh []*lane
	for _, a := range as {
		l, found := m.take(a)
		switch pause, paused := held.of(a.Lane.Topic); {
		case l == nil:
		case found:
			l.offer(a)
		case paused:
			l.hold(m.view, pause)
		default:
			fresh = append(fresh, l)
		}
	}
	m.enterAll(fresh)
	m.outnumbered(as)
}

// enterAll gives lanes to the opener, together, so that lanes of one broker are opened by one round of questions.
func (m *Manager) enterAll(lanes []*lane) {
	for _, l := range lanes {
		l.mu.Lock()
		l.entering = true
		l.wantLocked()
		l.setLocked(model.StateOpening, model.ReasonNone, "", m.now())
		l.mu.Unlock()
	}
	m.openQ.push(lanes...)
}

// offer takes over what is offered anew of a known lane.
func (l *lane) offer(a Assignment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.offered = a.Identity
	switch {
	case l.leave != nil:
		l.limits, l.born, l.returns = a.Limits, a.Born, true
	case l.releasedLocked():
		l.limits, l.born = a.Limits, a.Born
		l.takeUpLocked()
	case l.waitsLocked():
		if a.Identity.Dst != l.intent.lost { // what an order waits for
			l.limits = a.Limits
			l.reenterLocked()
		}
	default:
		l.compareLocked(a)
	}
}

// compareLocked takes over changed limits, and stops a lane whose topics are other ones now. A source topic that was gone
// and is there again, as it was, goes on.
func (l *lane) compareLocked(a Assignment) {
	was := l.ident
	back := l.state == model.StateStopped && l.reason == model.ReasonSourceDeleted
	switch {
	case l.state == model.StateStopped && !back:
	case otherID(was.Src, a.Identity.Src):
		l.stopLocked(model.ReasonRecreated, fmt.Sprintf("source topic has id %s now, copied was %s", a.Identity.Src, was.Src))
	case otherID(was.Dst, a.Identity.Dst):
		l.stopLocked(model.ReasonTargetLost, fmt.Sprintf("target topic has id %s now, copied to was %s", a.Identity.Dst, was.Dst))
	case back:
		l.limits = a.Limits
		l.m.spawn(func(context.Context) { l.m.again(model.ReasonSourceDeleted, l) })
	default:
		l.limits = a.Limits
	}
}

// outnumbered stops the lanes of partitions that a target topic which was made again lacks, also those of an earlier run:
// nobody offers them, and their topic is as lost as the others'.
func (m *Manager) outnumbered(as []Assignment) {
	now := make(map[string]model.Identity)
	for _, a := range as {
		now[a.Lane.Topic] = a.Identity
	}
	for _, l := range m.all() {
		if id, ok := now[l.id.Topic]; ok {
			l.outlived(id)
		}
	}
	m.Gone(m.leftBehind(as), model.ReasonTargetLost)
}

// leftBehind returns lanes that only an earlier run copied, into a target topic that was another one than what is offered
// now for other lanes of their topic.
func (m *Manager) leftBehind(as []Assignment) (lanes []model.Lane) {
	lost := make(map[string]model.TopicID)
	for _, a := range as {
		if m.movedAway(a.Lane, a.Identity.Dst) {
			lost[a.Lane.Topic] = a.Identity.Dst
		}
	}
	if len(lost) == 0 {
		return nil
	}
	for _, id := range m.view.Lanes() {
		if now, ok := lost[id.Topic]; ok && m.lane(id) == nil && m.movedAway(id, now) {
			lanes = append(lanes, id)
		}
	}
	return lanes
}

// movedAway reports whether a lane copied the present source topic, into another target topic than the present one.
func (m *Manager) movedAway(id model.Lane, dst model.TopicID) bool {
	st, ok := m.view.Lane(id)
	l := m.lane(id)
	return ok && otherID(st.Opening.Identity.Dst, dst) && (l == nil || !otherID(st.Opening.Identity.Src, l.picture().now.Src))
}

// outlived stops a lane that goes on copying into a topic which is another one now.
func (l *lane) outlived(now model.Identity) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != model.StateStopped && !l.releasedLocked() && l.intent == nil && otherID(l.offered.Dst, now.Dst) {
		l.stopLocked(model.ReasonTargetLost, fmt.Sprintf("target topic has id %s now and lacks this partition, copied to was %s", now.Dst, l.offered.Dst))
	}
}

// Gone stops lanes whose topic does not exist any more, also lanes that only an earlier run copied: they are shown.
func (m *Manager) Gone(lanes []model.Lane, why model.Reason) {
	if why == model.ReasonSourceDeleted {
		m.noteVanished(lanes)
	}
	for _, id := range lanes {
		a := Assignment{Lane: id}
		st, known := m.view.Lane(id)
		if known {
			a.Identity = st.Opening.Identity
		}
		l, found := m.take(a)
		if l == nil {
			continue
		}
		if !found && known {
			l.show(st)
		}
		l.stop(why, "the topic does not exist any more")
	}
}

// show takes over the stored figures of a lane that is not opened.
func (l *lane) show(st offsetsync.LaneState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.opening == 0 {
		l.cursor, l.saved, l.savedEnd = st.Cursor, st.Cursor, st.Clean
		l.term, l.opening = st.Opening.Term, st.Opening.N
	}
}
