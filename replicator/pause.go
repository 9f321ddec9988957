package replicator

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"lockstep/internal/model"
	"lockstep/offsetsync"
)

// A pause is durable before the first lane leaves, and lifted before the first one comes back. Whoever dies in between leaves
// a link that starts paused, or copying; ordering the same again finishes it.

// pauses are the pauses in force.
type pauses []model.Pause

func (m *Manager) holds() pauses { return m.view.Pauses() }

// link returns the pause of the whole link.
func (ps pauses) link() (model.Pause, bool) { return ps.find("") }

// of returns the pause that holds a topic's lanes.
func (ps pauses) of(topic string) (model.Pause, bool) {
	if p, ok := ps.link(); ok {
		return p, true
	}
	return ps.find(topic)
}

func (ps pauses) find(topic string) (model.Pause, bool) {
	i := slices.IndexFunc(ps, func(p model.Pause) bool { return p.Topic == topic })
	if i < 0 {
		return model.Pause{}, false
	}
	return ps[i], true
}

func pauseText(p model.Pause) string {
	text := "paused at " + p.At.UTC().Format(time.RFC3339)
	if p.By != "" {
		text += " by " + p.By
	}
	if p.Reason != "" {
		text += ": " + p.Reason
	}
	return text
}

// resumes is the remedy of a lane that a pause holds: it lifts the pause of its topic where the link is not paused.
func resumes(p model.Pause, l model.Lane) string {
	if p.Topic == "" {
		return model.Remedy(model.ReasonPaused, l)
	}
	return "lockstep topics resume " + l.Link + ":" + l.Topic
}

// hold shows a lane as paused that was not opened, with its stored figures.
func (l *lane) hold(v *offsetsync.View, p model.Pause) {
	if st, ok := v.Lane(l.id); ok {
		l.show(st)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.setLocked(model.StatePaused, model.ReasonPaused, pauseText(p), l.m.now())
}

// planPause says what pausing or resuming the link, or one topic of it, would do. held is the pause in force, if one is.
func planPause(o model.Order, subject string, held *model.Pause, lanes int) model.OrderStep {
	s := model.OrderStep{Subject: subject, State: "not paused", CanUndo: true}
	if held != nil {
		s.State = pauseText(*held)
	}
	switch pause := o.Kind == model.OrderPause; {
	case pause && held == nil:
		s.Does = fmt.Sprintf("ends %s cleanly; it stays paused until it is resumed, also over restarts", countLanes(lanes))
	case pause && lanes == 0:
		s.Does = "is paused already"
	case pause:
		s.Does = fmt.Sprintf("is paused already; ends %s that did not end yet", countLanes(lanes))
	case lanes == 0:
		s.Does = "lifts the pause; no lane is opened by that"
	default:
		s.Does = fmt.Sprintf("opens %s again, each where it ended", countLanes(lanes))
	}
	if o.Kind == model.OrderResume && held == nil && lanes == 0 {
		s.Refused = "it is not paused"
	}
	return s
}

func countLanes(n int) string {
	if n == 1 {
		return "1 lane"
	}
	return fmt.Sprintf("%d lanes", n)
}

// orderPause pauses or resumes the link, or topics of it.
func (m *Manager) orderPause(ctx context.Context, o model.Order) ([]model.OrderStep, error) {
	topics := o.Topics
	if len(topics) == 0 {
		topics = []string{""}
	}
	var steps []model.OrderStep
	for _, topic := range topics {
		subject := m.opt.Link
		if topic != "" {
			subject += ":" + topic
		}
		if !m.begins(subject) {
			steps = append(steps, model.OrderStep{Subject: subject, Refused: busy})
			continue
		}
		steps = append(steps, m.pauseOne(ctx, o, topic, subject))
		m.ended(subject)
	}
	return steps, nil
}

func (m *Manager) pauseOne(ctx context.Context, o model.Order, topic, subject string) model.OrderStep {
	var held *model.Pause
	if p, ok := m.holds().find(topic); ok {
		held = &p
	}
	lanes := m.pausable(o.Kind, topic)
	step := planPause(o, subject, held, len(lanes))
	if topic != "" && held == nil && len(m.sorted(func(p picture) bool { return p.lane.Topic == topic })) == 0 {
		step.Refused = "the link has no lane of this topic"
	}
	if o.DryRun || step.Refused != "" {
		return step
	}
	var err error
	if o.Kind == model.OrderPause {
		err = m.hold(ctx, o, topic, held)
	} else {
		err = m.resume(ctx, o, topic)
	}
	return m.done(o, step, err)
}

// pausable lists the lanes that a pause of a topic, "" for all, would end, or lifting it would open.
func (m *Manager) pausable(kind model.OrderKind, topic string) (lanes []*lane) {
	held := slices.DeleteFunc(m.holds(), func(p model.Pause) bool { return p.Topic == topic })
	for _, l := range m.all() {
		l.mu.Lock()
		paused, out := l.state == model.StatePaused, l.state == model.StateStopped || l.state == model.StateClosed
		paused = paused || kind == model.OrderResume && l.pausingLocked()
		l.mu.Unlock()
		_, other := held.of(l.id.Topic)
		mine := topic == "" || topic == l.id.Topic
		if mine && !out && (kind == model.OrderPause && !paused || kind == model.OrderResume && paused && !other) {
			lanes = append(lanes, l)
		}
	}
	return lanes
}

func (m *Manager) hold(ctx context.Context, o model.Order, topic string, held *model.Pause) error {
	if held == nil {
		held = &model.Pause{ID: uuid.NewString(), Topic: topic, By: o.By, Reason: o.Reason, At: m.now()}
		if err := m.store.PutPause(ctx, *held); err != nil {
			return fmt.Errorf("store pause: %w", err)
		}
		if err := m.view.Barrier(ctx); err != nil {
			return err
		}
	}
	m.offers.Lock() // lanes that are taken up from here on see the pause; those before are in this list
	lanes := m.pausable(model.OrderPause, topic)
	m.offers.Unlock()
	if !m.release(ctx, lanes, departure{model.StatePaused, model.ReasonPaused, pauseText(*held)}) {
		return fmt.Errorf("not every lane has ended yet: they go on ending: %w", context.Cause(ctx))
	}
	return nil
}

func (m *Manager) resume(ctx context.Context, o model.Order, topic string) error {
	for _, p := range m.holds() {
		if p.Topic != topic {
			continue
		}
		p.Lifted, p.By, p.Reason, p.At = true, o.By, o.Reason, m.now()
		if err := m.store.PutPause(ctx, p); err != nil {
			return fmt.Errorf("lift pause: %w", err)
		}
	}
	if err := m.view.Barrier(ctx); err != nil {
		return err
	}
	for _, l := range m.pausable(model.OrderResume, topic) {
		l.unpause()
	}
	return nil
}

// pausingLocked reports whether the lane is still ending for a pause.
func (l *lane) pausingLocked() bool { return l.leave != nil && l.leave.state == model.StatePaused }

func (l *lane) unpause() {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.pausingLocked():
		l.returns = true // only a lane that has ended is opened again
	case l.state == model.StatePaused:
		l.takeUpLocked()
	}
}
