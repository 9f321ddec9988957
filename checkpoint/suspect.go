package checkpoint

import (
	"fmt"
	"time"
)

// suspect judges the source's position, and keeps the target where it is if it looks like a mistake. It reports whether
// the row is settled with that.
func (q *place) suspect() bool {
	r := q.r
	if r.Source < 0 && q.s.accept {
		q.forget()
		return true
	}
	why := q.why()
	if why == "" && q.base.Suspect != nil {
		r.Base.Suspect, r.Save = nil, true // it came back: what was suspect has passed
	}
	if why == "" || q.s.accept {
		return false
	}
	s := q.suspicion(why)
	if !s.Forever && q.p.Now.Sub(s.Since) >= q.p.Rules.RewindHold {
		return false
	}
	if why.back() && (q.base.Suspect == nil || q.base.Suspect.Forever != s.Forever) {
		q.fresh = q.base.Suspect == nil
		r.Base.Suspect, r.Save = s, true
	}
	if r.Source < 0 {
		q.last()
		r.Source, r.State, r.Detail = -1, StateSuspectSource, s.Why
		return true
	}
	q.keep(StateSuspectSource, s.Why+q.until(s))
	return true
}

// until says when a suspect position is followed if nobody does anything; "" is never.
func (q *place) until(s *Suspicion) string {
	if s.Forever {
		return ""
	}
	return ", and is followed from " + s.Since.Add(q.p.Rules.RewindHold).UTC().Format(time.RFC3339) + " on"
}

// objection is what is wrong with a source position.
type objection string

const (
	vanished objection = "vanished"
	beyond   objection = "beyond the end"
	rewound  objection = "rewound"
)

// back says that the objection is to be remembered until the position is back where it was. What is beyond the log's end
// is seen anew each time.
func (o objection) back() bool { return o == vanished || o == rewound }

func (q *place) why() objection {
	switch {
	case q.r.Source < 0:
		return vanished
	case q.lane.SrcEnd >= 0 && q.r.Source > q.lane.SrcEnd && !(q.followed() && q.base.Ahead): // an operator has accepted it
		return beyond
	case q.known && q.base.Source-q.r.Source > q.p.Rules.MaxRewind:
		return rewound
	}
	return ""
}

// followed reports whether the position is the one that was followed last.
func (q *place) followed() bool { return q.known && q.base.Source == q.r.Source }

// unsure reports whether the position is new, ahead of what was copied, and may be beyond the source's log, whose end
// nobody knows at present.
func (q *place) unsure() bool {
	copied, _ := q.lane.Map.End()
	return q.lane.SrcEnd < 0 && q.r.Source > copied && !q.followed() && !q.s.accept
}

// suspicion is what there is to say of an objection. One that stands since an earlier plan goes on, also if the position
// moves meanwhile, and one that only an operator ends stays so.
func (q *place) suspicion(why objection) *Suspicion {
	r := q.r
	s := &Suspicion{Source: r.Source, Since: q.p.Now, Forever: true}
	switch why {
	case vanished:
		s.Why = fmt.Sprintf("it vanished from the source, where it stood at %d", q.base.Source)
	case beyond:
		s.Why = fmt.Sprintf("%d is beyond the end of the source's log, %d", r.Source, q.lane.SrcEnd)
	case rewound:
		s.Forever = r.Source <= max(q.lane.SrcStart, 0)
		s.Why = fmt.Sprintf("it went back by %d, from %d to %d", q.base.Source-r.Source, q.base.Source, r.Source)
		if s.Forever {
			s.Why += ", where the source's log begins"
		}
	}
	if old := q.base.Suspect; old != nil && why.back() {
		s.Since, s.Forever = old.Since, s.Forever || old.Forever
	}
	return s
}

// forget ends what is known of a position that vanished. The target keeps it.
func (q *place) forget() {
	q.last()
	q.r.Source, q.r.State, q.r.Forget = -1, StatePending, true
	q.r.Detail = "accepted: it is no longer followed, the target keeps what it has"
}

// many finds out whether so many groups became suspect at once that something happened to the source as a whole. Then
// none of them is followed before an operator has looked, however long that takes.
func (p *planner) many() {
	if all := max(p.Known, len(p.Bases)); p.freshGroups < 3 || 10*p.freshGroups <= all {
		return
	}
	for _, i := range p.fresh {
		r := &p.rows[i]
		s := *r.Base.Suspect
		if !s.Forever {
			s.Forever = true
			s.Why += fmt.Sprintf(", and %d groups became suspect at once", p.freshGroups)
		}
		r.Base.Suspect, r.Detail = &s, s.Why
	}
}
