package configs

import (
	"fmt"
	"maps"

	"lockstep/topicsync/drift"
)

// subject is one topic to plan for.
type subject struct {
	drift.Topic
	record         Record
	source, theirs map[string]string // explicit settings of both sides
	mirror         Mirror
	overwrite      bool // what others wrote too
	// refused says why the target does not take a change, "" when it does as far as is known; nil when nothing is.
	refused func(key string, value *string) string
	// stale says that what is stored is of another topic than stands there now.
	stale bool
	full  [2]map[string]string // effective settings of source and target; nil unless everything is compared
}

// change is one write to a topic of the target.
type change struct {
	key   string
	value *string // nil removes it
	item  int     // in the plan's items
}

// plan is what has to be done about one topic, and how it stands.
type plan struct {
	record  Record // as it has to be stored before the changes
	changes []change
	items   []drift.Item
}

// differs reports whether the record is another one than that which is stored.
func (p *plan) differs(s subject) bool {
	return s.stale || s.record.Source == nil || !maps.Equal(s.record.Source, s.source) || !maps.EqualFunc(s.record.Written, p.record.Written, Base.equal)
}

// plan compares a topic. It is pure.
func (s subject) plan() plan {
	want, left := s.mirror.Wanted(s.source)
	p := plan{record: s.record}
	p.record.Written, p.record.Source = maps.Clone(s.record.Written), s.source
	for _, key := range keys(want, s.record.Written, s.source) {
		w, wanted := want[key]
		i := drift.Item{Kind: drift.Config, Topic: s.Src, DstTopic: s.Dst, Name: key, Source: valueOf(s.source, key), Target: valueOf(s.theirs, key)}
		switch {
		case wanted:
			i.Wanted, i.Why = drift.Text(w.Value), w.Why
			p.wanted(s, i, w)
		case s.mirror.Exclude(key): // also what lockstep wrote before it was excluded stays
			i.State, i.Why = drift.Excluded, "configs.exclude names it"
			p.items = append(p.items, i)
		case left[key].Why != "":
			i.State, i.Why = drift.Excluded, left[key].Why
			if i.Source != nil && i.Target != nil && *i.Source == *i.Target {
				i.State = drift.InSync
			} else if follows(key) {
				i.State = drift.Staged
			}
			p.unwanted(s, i)
		default:
			p.unwanted(s, i)
		}
	}
	return p
}

// follows reports whether a setting is set right at promotion.
func follows(key string) bool {
	return key == KeyTimestampType || key == KeyBeforeMax || key == KeyAfterMax || key == keyDifferenceMax
}

// wanted plans a setting that the mirror is to have.
func (p *plan) wanted(s subject, i drift.Item, w Want) {
	base, ours := p.record.Written[i.Name]
	i.State = w.State
	switch {
	case same(i.Target, i.Wanted):
		if w.State == drift.Pending {
			i.State = drift.InSync
		}
		if ours && base.Pending && same(base.Value, i.Target) {
			p.note(i.Name, &Base{Value: i.Target}) // it landed; what somebody set by hand stays theirs
		}
	case s.refusal(i.Name, i.Wanted) != "" && w.State == drift.Opened && i.Source == nil:
		i.State, i.Why = drift.Excluded, s.refusal(i.Name, i.Wanted) // nobody asked for it but lockstep
	case s.refusal(i.Name, i.Wanted) != "":
		i = refusedItem(i, s.refusal(i.Name, i.Wanted))
	case !s.overwrite && ours && !base.is(i.Target):
		i = kept(i, s)
	case !s.overwrite && !ours && i.Target != nil:
		i = kept(i, s)
	default:
		i.Does = fmt.Sprintf("set %s to %s", i.Name, w.Value)
		p.write(i, i.Wanted)
		return
	}
	p.items = append(p.items, i)
}

// kept is an item that somebody else wrote, or took away.
func kept(i drift.Item, s subject) drift.Item {
	i.State, i.Side = drift.Kept, drift.Target
	i.Why = "somebody else set it on the target"
	if i.Target == nil {
		i.Why = "somebody else removed it on the target"
	}
	i.Remedy = fmt.Sprintf("lockstep topics sync %s:%s sets it to %s", s.mirror.Link, s.Src, *i.Wanted)
	return i
}

// refusal says why the target does not take a change, "" when it is not known not to.
func (s subject) refusal(key string, value *string) string {
	if s.refused == nil {
		return ""
	}
	return s.refused(key, value)
}

// refusedItem is an item that the target does not take.
func refusedItem(i drift.Item, why string) drift.Item {
	i.State, i.Why, i.Side = drift.Refused, why, drift.Configuration
	i.Remedy = fmt.Sprintf("leave it out with configs.exclude: [%q]", i.Name)
	return i
}

// unwanted plans a setting that the mirror is not to have. It is removed if it is lockstep's, and only then: also an
// operator's order to overwrite removes nothing that somebody else wrote.
func (p *plan) unwanted(s subject, i drift.Item) {
	base, ours := p.record.Written[i.Name]
	switch {
	case ours && i.Target == nil:
		p.note(i.Name, nil)
		return
	case ours && base.is(i.Target) && s.refusal(i.Name, nil) != "":
		i = refusedItem(i, s.refusal(i.Name, nil))
	case ours && base.is(i.Target):
		i.State, i.Does = drift.Pending, "remove "+i.Name
		i.Why = "the source does not set it any more"
		p.write(i, nil)
		return
	case ours:
		p.note(i.Name, nil) // somebody else's by now
		i.State, i.Side = drift.Kept, drift.Target
		i.Why = "the source does not set it any more, and somebody else changed what lockstep had written"
		i.Remedy = fmt.Sprintf("kafka-configs.sh --bootstrap-server SERVER --alter --entity-type topics --entity-name %s --delete-config %s", s.Dst, i.Name)
	}
	if i.State != "" {
		p.items = append(p.items, i)
	}
}

// write adds a change, and the record of it that is stored before. What somebody else wrote does not become lockstep's by
// an attempt to overwrite it that never took effect.
func (p *plan) write(i drift.Item, value *string) {
	p.changes = append(p.changes, change{key: i.Name, value: value, item: len(p.items)})
	p.items = append(p.items, i)
	b := Base{Value: value, Pending: true}
	if was, ours := p.record.Written[i.Name]; ours && was.is(i.Target) {
		b.Was = i.Target
	}
	p.note(i.Name, &b)
}

// note changes the record of a setting; nil forgets it.
func (p *plan) note(key string, b *Base) {
	if b == nil {
		delete(p.record.Written, key)
		return
	}
	if p.record.Written == nil {
		p.record.Written = make(map[string]Base)
	}
	p.record.Written[key] = *b
}

func valueOf(settings map[string]string, key string) *string {
	v, ok := settings[key]
	if !ok {
		return nil
	}
	return &v
}
