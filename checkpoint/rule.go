package checkpoint

import (
	"fmt"
	"time"

	"lockstep/offsetsync"
)

// place is one position that is being planned: what is known of it, and the row that becomes of it.
type place struct {
	p     *planner
	s     *subject
	r     *Row
	lane  Lane
	base  Base
	known bool // there is a base
	mine  bool // and it tells of this target group, not of the one that groups.rename made before
	// unseen is why the target's position is not known.
	unseen error
	// fresh says that the position became suspect in this plan, in a way that lasts.
	fresh bool
}

// plan fills in the row.
func (q *place) plan() {
	r := q.r
	r.Target, q.unseen = q.s.target.theirs(Key{q.lane.DstTopic, r.Partition})
	switch {
	case q.lane.Map == nil:
		r.State = StateNotYetCopied
		q.stay()
	case q.lane.Held != "":
		q.keep(StateLaneHeld, string(q.lane.Held))
	case q.s.unreadable != nil:
		q.keep(StateSourceUnreadable, q.s.unreadable.Error())
	case q.s.src.Unstable[r.Key] != nil:
		q.keep(StateUnstable, q.s.src.Unstable[r.Key].Error())
	case q.unsure():
		q.keep(StatePending, fmt.Sprintf("whether the source's log reaches up to %d is not known just now", r.Source))
	default:
		q.follow()
	}
	q.settle()
}

// settle says what the row means for the group, and holds writes back where nothing is to be written.
func (q *place) settle() {
	r := q.r
	if r.State != StateSynced && r.Translated >= 0 && q.lane.Map != nil {
		r.Again = q.again()
	}
	if q.p.Rules.Sync {
		return
	}
	if r.Write {
		r.Write = false
		if r.State == StatePending {
			r.State = StateSyncOff
		}
	}
	r.Save = false
}

// last shows what is known from before, where the present position is not known or not to be followed.
func (q *place) last() {
	if !q.known {
		return
	}
	q.r.Translated = q.base.Next
	if q.r.Source < 0 {
		q.r.Source = q.base.Source
	}
}

// keep leaves the target as it is, shows what is known from before, and stays.
func (q *place) keep(state State, detail string) {
	q.r.State, q.r.Detail = state, detail
	q.last()
	q.stay()
}

// stay lets the target not forget what lockstep wrote there, however long nothing new is written.
func (q *place) stay() {
	if q.mine && q.s.blocked == "" && q.unseen == nil && q.r.Target == q.base.Next {
		q.refresh()
	}
}

// refresh writes the target's position again before the target drops it for its age: it has no members there that would
// keep it.
func (q *place) refresh() {
	age := 12 * time.Hour
	if half := q.p.Rules.Retention / 2; half > 0 {
		age = min(age, half)
	}
	if since := q.p.Now.Sub(q.base.At); since >= 0 && since < age { // a clock that was wrong keeps nothing from it
		return
	}
	r := q.r
	r.Base.At = q.p.Now
	r.Translated, r.Write, r.Save = q.base.Next, true, true
	if r.State == StateSynced {
		r.State, r.Detail = StatePending, "written again before the target forgets it"
		return
	}
	// The source's metadata belongs to its own position.
	r.Metadata = q.s.target.Offsets[Key{q.lane.DstTopic, r.Partition}].Metadata
}

// follow plans a position whose place on the source is known, or has vanished there.
func (q *place) follow() {
	if q.suspect() {
		return
	}
	q.translate()
	q.decide()
}

// translate finds where the group goes on. What the target's log no longer holds is left out, as its consumers would
// have to.
func (q *place) translate() {
	r, t := q.r, q.lane.Map.Translate(q.r.Source)
	r.Kind, r.Off, r.Translated = t.Kind, t.Off, q.raise(t.Offset)
	switch {
	case r.Translated > t.Offset:
		r.Detail = fmt.Sprintf("target offsets %d to %d are no longer in the target's log", t.Offset, min(q.lane.DstStart, r.Translated)-1)
	case t.Kind == offsetsync.BeforeStart:
		r.Detail = fmt.Sprintf("source offsets %d to %d were never copied", r.Source, r.Source+t.Off-1)
	}
}

// raise moves a translation that the target's log no longer holds to the first copied record that it does, at most to the
// cursor. What begins the log may be no such record, but one of a branch that the source has lost.
func (q *place) raise(dst int64) int64 {
	if dst >= q.lane.DstStart {
		return dst
	}
	m := q.lane.Map
	return m.Translate(m.Invert(q.lane.DstStart).Offset).Offset
}

// decide is the three-way rule: base is what lockstep wrote last, theirs what the target has, ours what it should have.
func (q *place) decide() {
	r, ours, theirs := q.r, q.r.Translated, q.r.Target
	switch {
	case q.s.blocked != "":
		r.State, r.Detail = q.s.blocked, q.s.detail
	case q.unseen != nil:
		r.State, r.Detail = StateTargetUnreadable, q.unseen.Error()
	case theirs == ours:
		q.synced()
	case q.s.accept:
		q.write("accepted")
	case theirs >= 0 && !q.mine:
		r.State, r.Detail = StateExistsOnTarget, fmt.Sprintf("the target had %d before lockstep wrote anything", theirs)
	case theirs >= 0 && !q.base.wrote(theirs, q.p.Now):
		r.State, r.Detail = StateMovedOnTarget, fmt.Sprintf("lockstep wrote %d, somebody else %d", q.base.Next, theirs)
	case q.mine && ours < q.base.Next:
		q.back()
	default:
		q.write("")
	}
}

// synced is where the target has what it should. A base that says otherwise is brought in line: somebody else wrote the
// very same, or what was suspect has passed. After a while nothing else that lockstep wrote can arrive, and what stood there
// before is anybody's: who puts the group back to it means that.
func (q *place) synced() {
	q.r.State = StateSynced
	if !q.mine || q.base.Next != q.r.Translated || q.base.Suspect != nil {
		q.r.Base, q.r.Save = q.next(), true
		return
	}
	if len(q.base.Was) > 0 && q.p.Now.Sub(q.base.At) >= rememberFor {
		q.r.Base.Was, q.r.Save = nil, true
	}
	q.refresh()
}

// back moves the target back, which needs a reason: the source's position was moved back, or another map is in force
// under what was written. Within an opening a map only grows, so one that ends earlier is merely older.
func (q *place) back() {
	_, cursor := q.lane.Map.End()
	var now int64
	if q.base.Source >= 0 {
		now = q.raise(q.lane.Map.Translate(q.base.Source).Offset)
	}
	switch reopened := q.lane.Opening != q.base.Opening; {
	case !reopened && cursor < q.base.Next:
		q.r.State, q.r.Detail = StatePending, fmt.Sprintf("waits for news of the copying: %d was written, and its picture ends at %d", q.base.Next, cursor)
	case q.r.Source < q.base.Source:
		q.write(fmt.Sprintf("moved back from %d to %d on the source", q.base.Source, q.r.Source))
	case reopened && now < q.base.Next:
		q.write(fmt.Sprintf("source offset %d stood at %d and stands at %d since the lane was opened anew", q.base.Source, q.base.Next, now))
	default:
		q.r.State, q.r.Detail = StatePending, fmt.Sprintf("stays at %d: nothing tells why it should go back to %d", q.base.Next, q.r.Translated)
	}
}

// write plans to commit ours.
func (q *place) write(why string) {
	r := q.r
	r.State, r.Write = StatePending, true
	if !q.repeated() {
		r.Base, r.Save = q.next(), true
	}
	r.Backwards = r.Translated < r.Target || q.mine && r.Target < 0 && r.Translated < q.base.Next
	if why != "" {
		r.Detail = alsoSaying(why, r.Detail)
	}
}

// repeated reports whether what is stored already says that this is about to be written: a target that refuses commits
// must not fill the state topic.
func (q *place) repeated() bool {
	b, n := q.base, len(q.base.Was)
	return q.mine && b.Next == q.r.Translated && b.Source == q.r.Source && b.Opening == q.lane.Opening && b.Suspect == nil &&
		(q.r.Target < 0 || n > 0 && b.Was[n-1].Offset == q.r.Target) && q.p.Now.Sub(b.At) < storeAgain
}

// next is the base behind a write of ours.
func (q *place) next() Base {
	b := Base{Source: q.r.Source, Next: q.r.Translated, At: q.p.Now, Opening: q.lane.Opening, Ahead: q.r.Kind == offsetsync.Ahead}
	if q.s.dst != q.s.name {
		b.DstGroup = q.s.dst
	}
	was := q.base
	if !q.mine {
		was = Base{}
	}
	b.Was = was.before(q.mine, q.r.Translated, q.r.Target, q.p.Now)
	return b
}

// again counts what the group would read a second time if it moved now, from the start of the log if it has no position.
func (q *place) again() int64 {
	theirs, ours := q.r.Target, q.r.Translated
	if theirs < 0 {
		_, theirs = q.lane.Map.Start()
		theirs = max(theirs, q.lane.DstStart)
	}
	return q.lane.Map.Records(theirs, ours) - q.lane.Map.Records(ours, theirs)
}

func alsoSaying(a, b string) string {
	if b == "" {
		return a
	}
	return a + "; " + b
}
