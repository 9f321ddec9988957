package acl

import (
	"fmt"
	"maps"
	"slices"

	"lockstep/topicsync/drift"
)

// input is what a plan is made from.
type input struct {
	link        string
	now, staged []Binding        // what the target is to have, see Translate
	target      []Binding        // what it has
	marks       map[Binding]mark // what lockstep has to do with
	takeover    bool             // make what somebody removed on the target anew
	confirm     int              // removals that an operator agrees to
	none        bool             // the source has no permissions at all, which is believed only when an operator says so
	topicOf     func(Binding) string
}

// plan is what has to be done, and how permissions stand.
type plan struct {
	create, remove []Binding
	notes          map[Binding]mark // to be stored before anything is created
	later          map[Binding]bool // what is staged
	items          map[Binding]*drift.Item
}

// few removals are done without anybody's word: more than that, and more than one in ten, may be a source that answers
// with less than it has.
const few = 10

// plan compares. It is pure, and a plan made after all of it was done is empty.
func (in input) plan() plan {
	p := plan{notes: make(map[Binding]mark), items: make(map[Binding]*drift.Item)}
	there, wanted := setOf(in.target), setOf(in.now)
	for _, b := range in.now {
		p.wanted(in, b, there[b])
	}
	for _, b := range in.staged {
		if !wanted[b] {
			p.staged(in, b, there[b])
		}
	}
	later := setOf(in.staged)
	p.later = later
	var gone []Binding
	for b, m := range in.marks {
		switch {
		case wanted[b]:
		case m == staged && !later[b], m == away && !later[b]:
			p.notes[b] = 0
		case m == staged, m == away, later[b] && !there[b]:
		case there[b]:
			gone = append(gone, b)
		default:
			p.notes[b] = 0
		}
	}
	p.removals(in, gone)
	order(p.create, true)
	order(p.remove, false)
	return p
}

func (p *plan) wanted(in input, b Binding, there bool) {
	m := in.marks[b]
	i := in.item(b)
	i.Source, i.Wanted = drift.Text("set"), drift.Text("set")
	switch {
	case there:
		if m == pending {
			p.notes[b] = created
		} else if m == staged || m == away {
			p.notes[b] = 0 // somebody else made it: it is theirs
		}
		return
	case (m == created || m == away) && !in.takeover:
		if m == created {
			p.notes[b] = away
		}
		i.State, i.Side, i.Why = drift.Kept, drift.Target, "somebody removed it on the target"
		i.Remedy = "lockstep topics sync " + in.link + " --kinds acls makes it anew"
	default:
		i.State, i.Does = drift.Pending, "create it"
		p.create = append(p.create, b)
		p.notes[b] = pending
	}
	p.items[b] = i
}

// removed is what is noted of a permission that was removed.
func (p plan) removed(b Binding) mark {
	if p.later[b] {
		return staged
	}
	return 0
}

// staged plans a permission that waits for the promotion. One that lockstep created before it had to wait is removed.
func (p *plan) staged(in input, b Binding, there bool) {
	if there {
		return
	}
	if in.marks[b] != staged {
		p.notes[b] = staged
	}
	i := in.item(b)
	i.Source, i.State, i.Why = drift.Text("set"), drift.Staged, "it is created at promotion"
	p.items[b] = i
}

// removals plans what the source does not have any more, or holds it back.
func (p *plan) removals(in input, gone []Binding) {
	lost := 0
	for _, b := range gone {
		if !slices.ContainsFunc(in.now, func(o Binding) bool { return o.replaces(b) }) {
			lost++
		}
	}
	ours := 0
	for _, m := range in.marks {
		if m == created || m == pending {
			ours++
		}
	}
	held := (lost > max(few, ours/10) || in.none && lost > 0) && in.confirm < lost
	for _, b := range gone {
		i := in.item(b)
		i.Target = drift.Text("set")
		i.State, i.Does, i.Why = drift.Pending, "remove it", "the source does not have it any more"
		if held {
			i.State, i.Does, i.Side = drift.Held, "", drift.Source
			i.Why = fmt.Sprintf("the source lost %d of %d permissions at once", lost, ours)
			i.Remedy = fmt.Sprintf("lockstep topics sync %s --kinds acls --confirm %d removes them, if that is right", in.link, lost)
		} else {
			p.remove = append(p.remove, b)
		}
		p.items[b] = i
	}
}

// replaces reports whether a permission covers everything that another one does.
func (b Binding) replaces(o Binding) bool {
	if b.Type != o.Type || b.entry() != o.entry() {
		return false
	}
	if o.resource().wide() {
		return b.resource().wide() && (b.resource().prefix() == "" || o.resource().prefix() != "" && b.resource().covers(o.Name))
	}
	return b.resource().covers(o.Name)
}

func (in input) item(b Binding) *drift.Item {
	return &drift.Item{Kind: drift.ACL, Topic: in.topicOf(b), Name: b.String()}
}

// order sorts permissions so that nobody is allowed too much while they are being written: denials first when they are
// created, last when they are removed.
func order(bs []Binding, deniesFirst bool) {
	slices.SortFunc(bs, func(a, b Binding) int {
		if a.Deny != b.Deny {
			if a.Deny == deniesFirst {
				return -1
			}
			return 1
		}
		return a.compare(b)
	})
}

func setOf(bs []Binding) map[Binding]bool {
	set := make(map[Binding]bool, len(bs))
	for _, b := range bs {
		set[b] = true
	}
	return set
}

// sorted returns the items in order.
func (p plan) sorted() []drift.Item {
	var items []drift.Item
	for _, b := range slices.SortedFunc(maps.Keys(p.items), Binding.compare) {
		items = append(items, *p.items[b])
	}
	return items
}
