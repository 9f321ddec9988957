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
	bases          map[limit]base
	own            []string // client ids of lockstep
	overwrite      bool     // what others wrote too
}

// change is one write to the target; nil removes a limit.
type change struct {
	limit
	value *float64
}

// plan is what has to be done, and how quotas stand.
type plan struct {
	changes []change
	notes   map[limit]*base // to be stored before; nil forgets
	items   map[limit]*drift.Item
}

// plan compares. It is pure, and a plan made after all of it was done is empty.
func (in input) plan() plan {
	p := plan{notes: make(map[limit]*base), items: make(map[limit]*drift.Item)}
	all := maps.Clone(in.source)
	if all == nil {
		all = make(map[limit]float64)
	}
	for l := range in.bases {
		if _, ok := all[l]; !ok {
			all[l] = 0
		}
	}
	for _, l := range slices.SortedFunc(maps.Keys(all), limit.compare) {
		p.limit(in, l)
	}
	return p
}

func (p *plan) limit(in input, l limit) {
	wanted, theirs := valueOf(in.source, l), valueOf(in.target, l)
	b, ours := in.bases[l]
	i := &drift.Item{Kind: drift.Quota, Name: l.String(), Source: text(wanted), Target: text(theirs), Wanted: text(wanted)}
	switch {
	case l.entity.own(in.own):
		if wanted == nil || same(wanted, theirs) {
			return
		}
		i.State, i.Why, i.Wanted = drift.Excluded, "it is for lockstep's own clients", nil
	case same(wanted, theirs):
		switch {
		case ours && wanted == nil:
			p.notes[l] = nil
		case ours && (b.Pending || !same(b.Value, theirs)):
			p.notes[l] = &base{Value: theirs}
		}
		return
	case wanted == nil && !b.is(theirs) && !in.overwrite:
		p.notes[l] = nil // somebody else's by now
		return
	case !in.overwrite && (ours && !b.is(theirs) || !ours && theirs != nil):
		i.State, i.Side, i.Why = drift.Kept, drift.Target, "somebody else set it on the target"
		if theirs == nil {
			i.Why = "somebody else removed it on the target"
		}
		i.Remedy = fmt.Sprintf("lockstep topics sync %s --kinds quotas sets it to %s", in.link, *i.Wanted)
	default:
		i.State, i.Does = drift.Pending, "remove it"
		if wanted != nil {
			i.Does = "set it to " + *i.Wanted
		}
		p.changes = append(p.changes, change{l, wanted})
		p.notes[l] = &base{Value: wanted, Was: theirs, Pending: true}
	}
	p.items[l] = i
}

func valueOf(m map[limit]float64, l limit) *float64 {
	v, ok := m[l]
	if !ok {
		return nil
	}
	return &v
}

func text(v *float64) *string {
	if v == nil {
		return nil
	}
	return drift.Text(strconv.FormatFloat(*v, 'f', -1, 64))
}

func (p plan) sorted() (items []drift.Item) {
	for _, l := range slices.SortedFunc(maps.Keys(p.items), limit.compare) {
		items = append(items, *p.items[l])
	}
	return items
}
