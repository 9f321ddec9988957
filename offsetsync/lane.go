package offsetsync

import (
	"errors"
	"fmt"
	"slices"

	"lockstep/internal/model"
)

// lane is what the state topic says of one lane, in the order of the log. It is passive and without a lock.
//
// Openings form a chain: the first one in the log that names the newest valid one as its predecessor is valid, all others
// are void. An opening is joined into the map as its cursor moves; once its successor has said how it ended, the rest of
// it is joined and it is forgotten. If compaction left an older opening's entries behind a newer opening, the newer one
// waits in the queue.
type lane struct {
	m      *Map
	ident  model.Identity // of the openings that answer; ids that a newer one does not know are kept from older ones
	queue  []*opened      // valid openings that are not joined to their end; the last is the newest
	count  int64          // the count, in the term of queue[0], of the next record to join
	at     cursorValue
	gaps   []model.Gap
	behind *int64      // see trimValue; nil: nothing was trimmed
	void   []openingID // void openings that are still in the log
	past   []past      // valid ones that are joined to their end and still in the log, oldest first
	fault  error
}

// past is an opening that is joined to its end.
type past struct {
	openingID
	end        int64 // target offset where its successor begins
	plan, land int   // its last segments' numbers
}

// opened is a valid opening.
type opened struct {
	Opening
	chained    bool // its predecessor was read
	plan, land line
	// seen is the newest stored cursor, good the newest one whose entries have been read.
	seen, good *cursorValue
}

func (o *opened) id() openingID { return openingID{o.N, o.Nonce} }

// newest returns the newest valid opening, nil when there is none.
func (l *lane) newest() *opened {
	if len(l.queue) == 0 {
		return nil
	}
	return l.queue[len(l.queue)-1]
}

// find returns a valid opening that is not joined to its end.
func (l *lane) find(id openingID) *opened {
	for _, o := range l.queue {
		if o.id() == id {
			return o
		}
	}
	return nil
}

// open takes an opening record.
func (l *lane) open(o Opening) {
	last := l.newest()
	if last != nil && !last.followedBy(o) {
		if last.id() != (openingID{o.N, o.Nonce}) {
			l.void = append(l.void, openingID{o.N, o.Nonce})
		}
		return
	}
	chained := last != nil && o.Prev == last.Nonce
	if last != nil && !chained {
		l.void, l.queue, last = append(l.void, last.id()), nil, nil
	}
	n := &opened{chained: chained, Opening: o, plan: newLine(point{o.Origin.Count, o.Origin.Src}), land: newLine(point{o.Origin.Count, o.Origin.Dst})}
	known, same := merge(l.ident, o.Identity)
	l.ident = known
	if last == nil || !same || o.Anew {
		l.retire() // another topic, or copied anew: what was copied before never answers again
		l.queue, l.m, l.behind = []*opened{n}, nil, nil
		l.begin(n)
	} else {
		l.queue = append(l.queue, n)
	}
	l.settle()
}

// retire lets everything that is stored of the openings so far be removed by the next Trim.
func (l *lane) retire() {
	for _, o := range l.queue {
		l.past = append(l.past, past{openingID: o.id(), plan: o.plan.seg, land: o.land.seg})
	}
	for i := range l.past {
		l.past[i].end = 0
	}
}

// merge reports whether two identities can be of the same two topics, and returns all that is known of them. A cluster
// without topic ids shows zeros.
func merge(old, now model.Identity) (known model.Identity, same bool) {
	known = now
	for _, id := range []struct{ known, old *model.TopicID }{{&known.Src, &old.Src}, {&known.Dst, &old.Dst}} {
		switch {
		case id.known.IsZero():
			*id.known = *id.old
		case !id.old.IsZero() && *id.old != *id.known:
			return now, false
		}
	}
	return known, old.DstTopic == now.DstTopic
}

// followedBy reports whether n is the valid successor of o, or takes its place.
//
// Who writes an opening has read to the end of the log that its predecessor is valid. So a number that leaves some out
// proves that those in between were valid and were removed, because what they concern is below the target's log start. And
// where the first opening that is left of a lane is not the one that its successor names, it is a void one that outlived
// the valid one of its number: compaction removes what has been trimmed bit by bit.
func (o *opened) followedBy(n Opening) bool {
	switch {
	case n.N > o.N+1:
		return true
	case n.N == o.N+1:
		return n.Prev == o.Nonce || !o.chained
	}
	return false
}

// drop takes an opening's tombstone. Without its newest opening a lane has no state.
func (l *lane) drop(id openingID) {
	l.void = slices.DeleteFunc(l.void, func(v openingID) bool { return v == id })
	l.past = slices.DeleteFunc(l.past, func(p past) bool { return p.openingID == id })
	i := slices.IndexFunc(l.queue, func(o *opened) bool { return o.id() == id })
	if i < 0 {
		return
	}
	l.queue, l.m, l.fault = slices.Delete(l.queue, 0, i+1), nil, nil
	if len(l.queue) > 0 {
		l.begin(l.queue[0])
		l.settle()
	}
}

// segment takes a version of a plan or landing segment.
func (l *lane) segment(kind string, id openingID, seg int, value []byte) error {
	o := l.find(id)
	if o == nil { // of a void opening, or of one that has been joined to its end
		l.late(kind, id, seg)
		return nil
	}
	line := &o.plan
	if kind == kindLand {
		line = &o.land
	}
	if err := line.apply(seg, value); err != nil {
		return err
	}
	l.settle()
	return nil
}

// forget takes a segment's tombstone. What was read of it has been joined, or is kept.
func (l *lane) forget(r laneRecord) {
	if o := l.find(r.id); o != nil {
		o.plan.forgetIf(r.kind == kindPlan, r.seg)
		o.land.forgetIf(r.kind == kindLand, r.seg)
	}
}

// late remembers that a segment of a past opening is in the log: its own worker did not know that it had ended.
func (l *lane) late(kind string, id openingID, seg int) {
	for i := range l.past {
		p := &l.past[i]
		switch {
		case p.openingID != id:
		case kind == kindPlan:
			p.plan = max(p.plan, seg)
		default:
			p.land = max(p.land, seg)
		}
	}
}

// trim takes the news that old entries of an opening were removed.
func (l *lane) trim(id openingID, t trimValue) error {
	o := l.find(id)
	if o == nil {
		return nil
	}
	if err := errors.Join(o.plan.trimmed(t.PlanN), o.land.trimmed(t.LandN)); err != nil {
		return err
	}
	if l.behind = t.Behind; l.m != nil && l.m.start.Dst <= t.Dst {
		l.m.startAt(l.behind)
	}
	l.settle()
	return nil
}

// cursor takes a stored cursor.
func (l *lane) cursor(id openingID, c cursorValue) {
	o := l.find(id)
	if o == nil || o.seen != nil && c.Count < o.seen.Count {
		return
	}
	o.seen = &c
	l.settle()
}

// settle joins what can be joined.
func (l *lane) settle() {
	for _, o := range l.queue {
		o.accept()
	}
	l.fault = nil
	for len(l.queue) > 1 {
		if l.fault = l.finish(l.queue[0], l.queue[1].Closed); l.fault != nil {
			return
		}
		done := l.queue[0]
		l.queue = slices.Delete(l.queue, 0, 1)
		l.past = append(l.past, past{done.id(), l.queue[0].Origin.Dst, done.plan.seg, done.land.seg})
		l.begin(l.queue[0])
	}
	l.fault = l.advance(l.queue[0])
}

// accept makes the newest cursor count once all entries that it builds upon have been read: a cursor that compaction left
// in front of its plan would be joined with an older one.
func (o *opened) accept() {
	if c := o.seen; c != nil && c != o.good && o.plan.total >= c.PlanN && o.land.total >= c.LandN {
		o.good = c
	}
}

// begin makes an opening the one that is joined. From its origin on it answers instead of all before it.
func (l *lane) begin(o *opened) {
	origin := o.Origin
	l.count, l.at = origin.Count, cursorValue{Cursor: origin}
	if l.m == nil {
		l.startMap(origin.Src, origin.Dst)
		return
	}
	if origin.Src > l.m.start.Src && origin.Dst >= l.m.start.Dst {
		l.m.cut(origin.Src, origin.Dst)
		if c := o.Closed; c != nil && l.m.stop.Dst > c.Cursor.Dst {
			l.m.cut(origin.Src, c.Cursor.Dst) // the target lost its log's end: a marker stands where records stood
		}
		l.mark(origin)
		return
	}
	l.m = NewMap(origin.Src, origin.Dst)
}

// mark notes in the map that an opening begins.
func (l *lane) mark(origin model.Cursor) {
	if err := l.m.Append(model.Span{Src: origin.Src, Dst: origin.Dst}); err != nil {
		l.m = NewMap(origin.Src, origin.Dst) // cannot be: all behind the origin was cut away
	}
}

// advance joins the newest opening up to its cursor.
func (l *lane) advance(o *opened) error {
	if o.good == nil {
		if o.seen != nil {
			return missing(o, o.seen.PlanN, o.seen.LandN)
		}
		return nil
	}
	if err := o.agrees(o.good.Cursor); err != nil {
		return err
	}
	if err := l.join(o, o.good.Count); err != nil {
		return err
	}
	if err := l.m.SetEnd(o.good.Src, o.good.Dst); err != nil {
		return fmt.Errorf("opening %d: the stored cursor is %d → %d: %w", o.N, o.good.Src, o.good.Dst, err)
	}
	l.at = *o.good
	if o.good != o.seen {
		return missing(o, o.seen.PlanN, o.seen.LandN)
	}
	return nil
}

// agrees refuses a cursor that lies before the record in front of it, by plan or by landing.
func (o *opened) agrees(c model.Cursor) error {
	src, _, ok1 := o.plan.at(c.Count - 1)
	dst, _, ok2 := o.land.at(c.Count - 1)
	if c.Count > o.Origin.Count && (ok1 && c.Src <= src || ok2 && c.Dst <= dst) {
		return fmt.Errorf("opening %d: the cursor %d → %d disagrees with plan and landing, which put record %d at %d → %d", o.N, c.Src, c.Dst, c.Count-1, src, dst)
	}
	return nil
}

func missing(o *opened, planN, landN int64) error {
	return fmt.Errorf("opening %d: %d of %d plan entries and %d of %d landing entries have been read", o.N, min(o.plan.total, planN), planN, min(o.land.total, landN), landN)
}

// finish joins an opening to the end that its successor found. An error leaves it where it is: nothing behind it is
// joined, and the map ends at what is certain.
func (l *lane) finish(o *opened, c *Closed) error {
	if c == nil {
		return l.advance(o)
	}
	if o.plan.total < c.PlanN || o.land.total < c.LandN {
		return missing(o, c.PlanN, c.LandN)
	}
	o.plan.close(c.PlanN)
	o.land.close(c.LandN)
	if len(c.Landings) > 0 {
		first := c.Landings[0].Count
		l.rewind(o, first)
		o.land.replaceFrom(first, landPoints(c.Landings))
	}
	l.rewind(o, c.Cursor.Count)
	if err := o.agrees(c.Cursor); err != nil {
		return err
	}
	return l.join(o, c.Cursor.Count)
}

// rewind takes records from number to on out of the map again, and puts back the plan entries they were joined by.
func (l *lane) rewind(o *opened, to int64) {
	if to = max(to, o.Origin.Count); to >= l.count {
		return
	}
	var pts []point
	cut := l.m.cutRecords(l.count - to)
	n := l.count
	for i := len(cut) - 1; i >= 0; i-- {
		n -= cut[i].N
		pts = append(pts, point{n, cut[i].Src})
	}
	slices.Reverse(pts)
	rest := slices.DeleteFunc(slices.Clone(o.plan.pts), func(p point) bool { return p.Count < l.count })
	o.plan.pts = append(pts, rest...)
	l.count = n
	if to == o.Origin.Count && n == to {
		l.mark(o.Origin)
	}
}

// join appends the records up to number to, exclusively.
func (l *lane) join(o *opened, to int64) error {
	if err := l.skipTrimmed(o, to); err != nil {
		return err
	}
	for l.count < to {
		src, untilSrc, ok1 := o.plan.at(l.count)
		dst, untilDst, ok2 := o.land.at(l.count)
		if !ok1 || !ok2 {
			return fmt.Errorf("opening %d: nothing says where record %d comes from and stands", o.N, l.count)
		}
		n := min(to, untilSrc, untilDst) - l.count
		if err := l.m.Append(model.Span{Src: src, Dst: dst, N: n}); err != nil {
			return fmt.Errorf("opening %d: record %d: %w", o.N, l.count, err)
		}
		l.count += n
	}
	o.plan.pass(l.count)
	o.land.pass(l.count)
	return nil
}

// skipTrimmed moves over records whose entries were removed because they are below the target's log start.
func (l *lane) skipTrimmed(o *opened, to int64) error {
	p, ok1 := o.plan.from()
	d, ok2 := o.land.from()
	from := max(p, d)
	if l.count >= to || ok1 && ok2 && from <= l.count {
		return nil
	}
	if !ok1 || !ok2 || from >= to {
		return fmt.Errorf("opening %d: no stored entry reaches record %d", o.N, to-1)
	}
	src, _, _ := o.plan.at(from)
	dst, _, _ := o.land.at(from)
	l.startMap(src, dst)
	l.count = from
	return nil
}

// startMap begins a map of which everything before is trimmed.
func (l *lane) startMap(src, dst int64) {
	l.m = NewMap(src, dst)
	l.m.startAt(l.behind)
}

// state returns a picture. It shares memory with the lane, but nothing that changes.
func (l *lane) state() LaneState {
	o := l.newest()
	s := LaneState{
		Opening: o.Opening, Cursor: o.Origin, Epochs: o.Epochs, Gaps: slices.Clip(l.gaps), Map: l.m.Clone(), Fault: l.fault,
		Plan: jumps(o.plan.pts), Landings: landings(o.land.pts), planN: o.plan.total, landN: o.land.total,
	}
	if o.good != nil {
		s.Cursor, s.Clean = o.good.Cursor, o.good.Clean
		if len(o.good.Epochs) > 0 {
			s.Epochs = o.good.Epochs
		}
	}
	return s
}
