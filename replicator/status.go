package replicator

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"lockstep/internal/model"
	"lockstep/replicator/term"
)

// LinkStatus is a link's present state.
type LinkStatus struct {
	Link  string
	Owner string
	Term  uint64
	Seal  term.Way // how this link seals; empty until it had to
	// Reason, Detail, Remedy and Since tell what holds the link as a whole, where something does.
	Reason  model.Reason
	Detail  string
	Remedy  string
	Since   time.Time
	Lanes   []model.LaneStatus
	Batches map[string]int64 // by form
}

// Status returns the present state of the link and of all its lanes, in order.
func (m *Manager) Status() LinkStatus {
	if b := m.Standby(); b != nil {
		return LinkStatus{Link: m.opt.Link, Owner: b.Owner, Seal: m.sealWay(), Batches: map[string]int64{}, Reason: model.ReasonSuperseded, Since: b.Since,
			Detail: fmt.Sprintf("standing by: instance %s owns the link since %s", b.Owner, b.Claimed.UTC().Format(time.RFC3339)),
			Remedy: "by itself when that instance ends or is silent for half a minute; lockstep run --take-over does not wait"}
	}
	s := LinkStatus{Link: m.opt.Link, Owner: m.opt.Owner, Term: m.terms.newest().N, Seal: m.sealWay(), Batches: make(map[string]int64)}
	now, held := m.now(), m.holds()
	if r, _ := m.Replaced(); r != nil {
		s.Reason, s.Detail, s.Since = model.ReasonSourceReplaced, r.Detail, r.Since
	} else if p, ok := held.link(); ok {
		s.Reason, s.Detail, s.Since = model.ReasonPaused, pauseText(p), p.At
	}
	s.Remedy = model.Remedy(s.Reason, model.Lane{Link: m.opt.Link})
	for _, l := range m.all() {
		ls := l.status(now)
		if p, ok := held.of(l.id.Topic); ok && ls.Reason == model.ReasonPaused {
			ls.Remedy = resumes(p, l.id)
		}
		s.Lanes = append(s.Lanes, ls)
		l.countForms(s.Batches)
	}
	slices.SortFunc(s.Lanes, func(a, b model.LaneStatus) int { return cmp.Or(a.Lane.Compare(b.Lane)) })
	return s
}

func (l *lane) status(now time.Time) model.LaneStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := model.LaneStatus{
		Lane: l.id, DstTopic: l.ident.DstTopic, State: l.state, Reason: l.reason, Detail: l.detail, Since: l.since,
		Remedy: model.Remedy(l.reason, l.id), Term: l.term.N, Opening: l.opening, Cursor: l.cursor,
		SrcStart: l.srcStart, SrcStable: l.srcStable, SrcEnd: l.srcEnd, Readable: l.readable(), DstEnd: l.dstEnd,
		Records: l.copied.records, Bytes: l.copied.bytes,
	}
	if l.opening > 0 {
		s.LagSeconds = l.waitedLocked(now).Seconds()
	}
	if s.State == model.StateCopying && s.LagRecords() > 0 {
		if detail := l.throttledLocked(now); detail != "" {
			s.Reason, s.Detail, s.Remedy = model.ReasonThrottled, detail, model.Remedy(model.ReasonThrottled, l.id)
		}
	}
	return s
}

func (l *lane) countForms(into map[string]int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for f := range formCount {
		into[f.String()] += l.forms[f]
	}
}

// Reached reports whether every given lane has copied everything below its source offset. Lanes that stopped, are paused or
// were released are returned apart: they will not get there by themselves.
func (m *Manager) Reached(ends map[model.Lane]int64) (done bool, stopped []model.LaneStatus) {
	done = true
	now := m.now()
	for id, end := range ends {
		l := m.lane(id)
		if l == nil {
			done = false
			continue
		}
		switch s := l.status(now); s.State {
		case model.StateStopped, model.StatePaused, model.StateClosed:
			stopped = append(stopped, s)
			continue
		case model.StateWaiting, model.StateOpening, model.StateCopying, model.StateRetrying, model.StateDraining:
		}
		done = done && l.reached(end)
	}
	return done, stopped
}
