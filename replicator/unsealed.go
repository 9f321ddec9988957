package replicator

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"lockstep/internal/kafka"
	"lockstep/internal/model"
	"lockstep/replicator/term"
)

// sealMost is the longest pause between two attempts to seal a lane.
const sealMost = 10 * time.Second

// verdictOn says what an outcome of a seal means for the lane: it goes on (true), or it comes up again later. A lane
// whose older term has not ended writes nothing new, however long that takes, except where no marker can ever end it.
func (m *Manager) verdictOn(e *entry, t model.Term, out term.Outcome) bool {
	switch {
	case out.Sealed():
		e.term, e.marker = t, out.Marker
		if out.LeaderEpoch >= 0 {
			e.dstEpoch = out.LeaderEpoch
		}
		e.lane.sealed()
		return true
	case errors.Is(out.Err, term.ErrSuperseded):
		// Either somebody else took the link, or the coordinator ended a transaction of ours that a dead sealer left
		// open. The state tells which; in the second case only a newer term gets through.
		e.lane.outrun(t.N)
		m.later(e.lane, model.ReasonSuperseded, out.Err.Error())
		return false
	case m.withoutSeal(out):
		e.term, e.marker = t, -1
		if errors.Is(out.Err, term.ErrOldID) {
			e.term = heir(t, e.state.Opening.Term, m.view.Terms())
		}
		e.lane.sealed()
		return true
	}
	_, reason := kafka.Classify(out.Err) // whatever it is, it is tried again: nobody has to act for a seal
	m.later(e.lane, reason, out.Err.Error())
	return false
}

// noSeal reports whether neither way to seal is allowed: nothing is unsealed then, since nothing is ever sealed.
func (m *Manager) noSeal() bool { return m.sealWay() == term.WayNone }

// withoutSeal reports whether no marker can end the lane's older term on this link: neither way is allowed, or the term
// is of a producer id that the coordinator forgot and direct markers are not allowed. There the next batch's higher
// epoch ends it, and what the older term appends before that batch is found by its header (see between).
func (m *Manager) withoutSeal(out term.Outcome) bool {
	if errors.Is(out.Err, term.ErrOldID) {
		return m.sealWay() != term.WayDirect
	}
	return m.noSeal() && errors.Is(out.Err, term.ErrDenied)
}

// heir is the term of a lane whose former producer id no marker can end. The lane stays with that id: a batch of another
// one would end nothing. Its epoch is above all that this link is known to have used, and every opening is stored before
// it is used. Where epochs have run out there is nothing left but the new id.
func heir(t, old model.Term, known []model.Term) model.Term {
	top := old.Epoch
	for _, k := range known {
		if k.PID == old.PID {
			top = max(top, k.Epoch)
		}
	}
	if top == math.MaxInt16 {
		return t
	}
	t.PID, t.Epoch = old.PID, top+1
	return t
}

// sealed notes that nothing of an older term can be appended any more, or that nothing more can be done about it.
func (l *lane) sealed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unsealed = false
}

// outrun asks for a term above n, and for a look at the state before.
func (l *lane) outrun(n uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.termAbove, l.seeStop = max(l.termAbove, n), true
}

// needsSeal notes that the lane's older term has to be ended before anything is written.
func (l *lane) needsSeal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unsealed = true
}

// unsealedLocked replaces what holds an unsealed lane up by that fact: until it is sealed, an older term may still write.
func (l *lane) unsealedLocked(r model.Reason, detail string) (model.Reason, string) {
	if !l.unsealed || !l.entering || r == model.ReasonSuperseded || l.m.noSeal() {
		return r, detail
	}
	since := l.fault
	if since.IsZero() {
		since = l.m.now()
	}
	detail = fmt.Sprintf("target %s/%d is not sealed since %s: %s", l.ident.DstTopic, l.id.Partition, since.UTC().Format(time.RFC3339), detail)
	if l.state == model.StateOpening {
		l.setLocked(model.StateOpening, model.ReasonUnsealed, detail, l.m.now())
	}
	return model.ReasonUnsealed, detail
}

// knowUnsealed looks in the state whether a lane that was never opened here has to be sealed. It is asked while its
// leader is away, before anything else can be.
func (m *Manager) knowUnsealed(l *lane) {
	l.mu.Lock()
	known := l.unsealed || l.opening > 0 || l.sealKnown
	l.sealKnown = true
	l.mu.Unlock()
	if known {
		return
	}
	if st, ok := m.view.Lane(l.id); ok && (!st.Clean || st.Opening.Term.Owner != m.opt.Owner) {
		l.needsSeal()
	}
}

// recheck reads the state to its end behind a seal: only now is the old worker's plan complete, and whoever took the
// link meanwhile is seen before anything is opened.
func (m *Manager) recheck(ctx context.Context) error {
	if err := m.view.Barrier(ctx); err != nil {
		return err
	}
	if err := m.superseded(); err != nil {
		m.fail(err)
		return err
	}
	return nil
}
