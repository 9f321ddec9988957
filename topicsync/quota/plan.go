package quota

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"lockstep/topicsync/drift"
)

// input is what a plan is made from.
type input struct {
	link           string
	source, target map[limit]float64
	bases          map[limit]base // what lockstep wrote
	own            []string       // client ids of lockstep's clients
	takeover       bool           // overwrite what somebody else set
	full           bool           // show what only the target has, too
	confirm        int            // removals that an operator agrees to
}

// write is one change of the target; a nil value removes the limit.
type write struct {
	limit
	value *float64
}

// plan is what has to be done, and how the limits stand.
type plan struct {
	writes []write
	notes  map[limit]*base // to be stored before anything is written
	items  map[limit]*drift.Item
}

// few removals are done without anybody's word: more than that, and more than one in ten, may be a source that answers
// with less than it has.
const few = 10

// plan compares. It is pure, and a plan made after all of it was done is empty.
func (in input) plan() plan {
	p := plan{notes: make(map[limit]*base), items: make(map[limit]*drift.Item)}
	var gone []limit
	for _, l := range in.limits() {
		i := &drift.Item{Kind: drift.Quota, Name: l.String(), Source: text(value(in.source, l)), Target: text(value(in.target, l)), State: drift.InSync}
		p.items[l] = i
		if in.judge(l, i, &p) {
			gone = append(gone, l)
		}
	}
	p.removals(in, gone)
	for l, i := range p.items {
		if i.State == drift.InSync {
			delete(p.items, l)
		}
	}
	return p
}

// limits returns every limit that there is on a side, or that lockstep wrote, in order.
func (in input) limits() []limit {
	all := make(map[limit]bool)
	for l := range in.source {
		all[l] = true
	}
	for l := range in.target {
		all[l] = true
	}
	for l := range in.bases {
		all[l] = true
	}
	return slices.SortedFunc(maps.Keys(all), limit.compare)
}

// judge says how one limit stands and plans its write. It reports true for one that is to be removed.
func (in input) judge(l limit, i *drift.Item, p *plan) (remove bool) {
	wanted, theirs := value(in.source, l), value(in.target, l)
	b, ours := in.bases[l]
	switch {
	case l.entity.of(in.own):
		if in.full && !same(wanted, theirs) {
			i.State, i.Why = drift.Excluded, "the client is lockstep's own"
		}
	case same(wanted, theirs):
		p.settle(l, b, ours, theirs)
	case wanted == nil && !ours:
		if in.full {
			i.State, i.Side, i.Why = drift.Kept, drift.Target, "lockstep did not set it"
		}
	case wanted == nil && b.is(theirs) && !b.Found:
		return true
	case wanted == nil:
		i.State, i.Side, i.Why = drift.Kept, drift.Target, "the source does not have it any more, but somebody else set it on the target"
	case !ours && theirs == nil, ours && b.is(theirs), in.takeover:
		i.Wanted = text(wanted)
		p.write(l, wanted, theirs, b.Found || theirs != nil && !(ours && b.is(theirs)))
	default:
		i.Wanted, i.State, i.Side, i.Why = text(wanted), drift.Kept, drift.Target, kept(ours, theirs)
		i.Remedy = fmt.Sprintf("lockstep topics sync %s --kinds quotas --takeover overwrites it", in.link)
	}
	return false
}

func kept(ours bool, theirs *float64) string {
	switch {
	case !ours:
		return "somebody else set it on the target"
	case theirs == nil:
		return "somebody removed it on the target"
	}
	return "somebody changed it on the target"
}

// settle brings what is known to have been written in line with what both sides have.
func (p *plan) settle(l limit, b base, ours bool, theirs *float64) {
	switch {
	case !ours:
	case theirs == nil:
		p.notes[l] = nil // what is set there from now on is somebody else's
	case b.Pending && same(b.Value, theirs):
		p.notes[l] = b.done()
	}
}

func (b base) done() *base { return &base{Value: b.Value, Found: b.Found} }

func (p *plan) write(l limit, wanted, theirs *float64, found bool) {
	i := p.items[l]
	i.State, i.Does = drift.Pending, "remove "+l.String()
	if wanted != nil {
		i.Does = "set " + l.String() + " to " + *text(wanted)
	}
	p.notes[l] = &base{Value: wanted, Was: theirs, Pending: true, Found: found}
	p.writes = append(p.writes, write{l, wanted})
}

// removals plans them all, or none.
func (p *plan) removals(in input, gone []limit) {
	if len(gone) > max(few, len(in.bases)/10) && in.confirm < len(gone) {
		for _, l := range gone {
			i := p.items[l]
			i.State, i.Why = drift.Held, fmt.Sprintf("the source has %d quotas less than before", len(gone))
			i.Remedy = fmt.Sprintf("lockstep topics sync %s --kinds quotas --confirm %d removes them, if that is right", in.link, len(gone))
		}
		return
	}
	for _, l := range gone {
		p.write(l, nil, value(in.target, l), false)
	}
}

// done returns what is to be noted after a write was carried out; nil forgets it.
func (p plan) done(w write) *base {
	if w.value == nil {
		return nil
	}
	return p.notes[w.limit].done()
}

// sorted returns the items by name.
func (p plan) sorted() []drift.Item {
	out := make([]drift.Item, 0, len(p.items))
	for _, l := range slices.SortedFunc(maps.Keys(p.items), limit.compare) {
		out = append(out, *p.items[l])
	}
	return out
}

func value(of map[limit]float64, l limit) *float64 {
	if v, ok := of[l]; ok {
		return &v
	}
	return nil
}

func text(v *float64) *string {
	if v == nil {
		return nil
	}
	s := strconv.FormatFloat(*v, 'f', -1, 64)
	return &s
}
