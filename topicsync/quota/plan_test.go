package quota

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"

	"pgregory.net/rapid"

	"lockstep/internal/statelog"
	"lockstep/topicsync/drift"
)

// book is a state topic in memory, which a journal follows.
type book struct {
	read func(statelog.Entry) error
	fail error
	puts int
}

func (b *book) Handle(_ string, fn func(statelog.Entry) error) { b.read = fn }

func (b *book) Put(_ context.Context, es ...statelog.Entry) error {
	if b.fail != nil {
		return b.fail
	}
	b.puts++
	for _, e := range es {
		if err := b.read(e); err != nil {
			return err
		}
	}
	return nil
}

func named(name string) limb { return limb{has: true, name: name} }

func user(name string) entity { return entity{named(name)} }

func rate(e entity) limit { return limit{e, "producer_byte_rate"} }

func drawLimit(t *rapid.T) limit {
	some := func(names ...string) *rapid.Generator[limb] {
		return rapid.SampledFrom([]limb{{}, {has: true, isOther: true}, named(names[0]), named(names[1])})
	}
	e := entity{some("alice", "-").Draw(t, "user"), some("app", "lockstep-admin").Draw(t, "client"), {}}
	if !e[0].has && !e[1].has {
		e[2] = limb{has: true, name: "10.0.0.1"}
	}
	return limit{e, rapid.SampledFrom([]string{"producer_byte_rate", "request_percentage"}).Draw(t, "key")}
}

func drawLimits(t *rapid.T, name string) map[limit]float64 {
	return rapid.MapOfN(rapid.Custom(drawLimit), rapid.Custom(func(t *rapid.T) float64 { return float64(rapid.IntRange(1, 3).Draw(t, "value")) }), 0, 6).Draw(t, name)
}

// Whatever is on both sides, a plan after the first was carried out is empty; what somebody else set is as it was, and so
// are the limits of lockstep's own clients.
func TestPlan_SettlesAndTouchesNothingForeign(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := &book{}
		j := newJournal(b, b)
		target, foreign := map[limit]float64{}, map[limit]float64{}
		for range rapid.IntRange(1, 5).Draw(t, "rounds") {
			source := drawLimits(t, "source")
			for l, v := range drawLimits(t, "foreign") { // somebody sets limits by hand, also over lockstep's
				if old, ok := target[l]; !ok || old != v {
					target[l], foreign[l] = v, v
				}
			}
			in := func() input {
				return input{source: source, target: target, bases: j.all(), own: []string{"lockstep"}}
			}
			crash := rapid.Bool().Draw(t, "crash")
			carryOut(t, j, in().plan(), target, crash)
			if crash {
				carryOut(t, j, in().plan(), target, false)
			}
			if again := in().plan(); len(again.writes)+len(again.notes) > 0 {
				t.Fatalf("a second plan: writes %v, notes %v", again.writes, again.notes)
			}
			for l, v := range foreign {
				if got, ok := target[l]; !foreignStays(l, v, j) && (!ok || got != v) {
					t.Fatalf("%v was somebody else's %v, and is %v", l, v, got)
				}
			}
			last := in().plan()
			for l, v := range source {
				if i := last.items[l]; target[l] != v && !l.entity.of([]string{"lockstep"}) && (i == nil || i.State != drift.Kept) {
					t.Fatalf("%v is %v instead of %v, and %+v tells", l, target[l], v, i)
				}
			}
		}
	})
}

// foreignStays reports whether a value that was set by hand is just what lockstep had written there: then nothing tells
// them apart, and lockstep's own rule counts.
func foreignStays(l limit, v float64, j *Journal) bool {
	b, ok := j.all()[l]
	return ok && b.Value != nil && *b.Value == v
}

// carryOut does what a plan says, as a Part does. With crash the process ends in the middle, before the last notes.
func carryOut(t *rapid.T, j *Journal, p plan, target map[limit]float64, crash bool) {
	if err := j.note(context.Background(), p.notes); err != nil {
		t.Fatal(err)
	}
	after := map[limit]*base{}
	for i, w := range p.writes {
		if crash && i%2 == 1 {
			continue
		}
		if w.value == nil {
			delete(target, w.limit)
		} else {
			target[w.limit] = *w.value
		}
		after[w.limit] = p.done(w)
	}
	if crash {
		return
	}
	if err := j.note(context.Background(), after); err != nil {
		t.Fatal(err)
	}
}

func TestPlan_States(t *testing.T) {
	t.Parallel()
	one, two, l := 1.0, 2.0, rate(user("alice"))
	only := func(v float64) map[limit]float64 { return map[limit]float64{l: v} }
	for name, c := range map[string]struct {
		in     input
		state  drift.State // "" for no item
		writes int
	}{
		"new":                                {input{source: only(1)}, drift.Pending, 1},
		"alike":                              {input{source: only(1), target: only(1)}, "", 0},
		"somebody else's":                    {input{source: only(1), target: only(2)}, drift.Kept, 0},
		"taken over":                         {input{source: only(1), target: only(2), takeover: true}, drift.Pending, 1},
		"changed on the source":              {input{source: only(2), target: only(1), bases: map[limit]base{l: {Value: &one}}}, drift.Pending, 1},
		"changed on the target":              {input{source: only(1), target: only(2), bases: map[limit]base{l: {Value: &one}}}, drift.Kept, 0},
		"removed on the target":              {input{source: only(1), bases: map[limit]base{l: {Value: &one}}}, drift.Kept, 0},
		"removed on the source":              {input{target: only(1), bases: map[limit]base{l: {Value: &one}}}, drift.Pending, 1},
		"removed on the source, taken over":  {input{target: only(1), bases: map[limit]base{l: {Value: &one, Found: true}}}, drift.Kept, 0},
		"removed there and changed here":     {input{target: only(2), bases: map[limit]base{l: {Value: &one}}, takeover: true}, drift.Kept, 0},
		"never on the source":                {input{target: only(1), takeover: true}, "", 0},
		"never on the source, all asked for": {input{target: only(1), full: true}, drift.Kept, 0},
		"a write that did not arrive":        {input{source: only(2), target: only(1), bases: map[limit]base{l: {Value: &two, Was: &one, Pending: true}}}, drift.Pending, 1},
		"own":                                {input{source: map[limit]float64{rate(entity{1: named("lockstep-admin")}): 1}, own: []string{"lockstep"}}, "", 0},
	} {
		p := c.in.plan()
		if len(p.writes) != c.writes || c.state == "" && len(p.items) > 0 || c.state != "" && (p.items[l] == nil || p.items[l].State != c.state) {
			t.Errorf("%s: writes %v, items %+v", name, p.writes, p.sorted())
		}
	}
}

// A source that has far fewer quotas than it had is not believed at once.
func TestPlan_ManyRemovalsWait(t *testing.T) {
	t.Parallel()
	one, in := 1.0, input{link: "dr", target: map[limit]float64{}, bases: map[limit]base{}}
	for i := range 11 {
		l := rate(user(fmt.Sprint("user-", i)))
		in.target[l], in.bases[l] = 1, base{Value: &one}
	}
	p := in.plan()
	for _, i := range p.items {
		if i.State != drift.Held || i.Remedy != "lockstep topics sync dr --kinds quotas --confirm 11 removes them, if that is right" {
			t.Fatalf("%+v", i)
		}
	}
	if len(p.writes) > 0 || len(p.items) != 11 {
		t.Errorf("%d removals, %d items", len(p.writes), len(p.items))
	}
	in.confirm = 11
	if p := in.plan(); len(p.writes) != 11 {
		t.Errorf("%d removals after 11 were agreed to", len(p.writes))
	}
}

func TestJournal_KeepsEntitiesApart(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := drawLimit(t)
		e, ok := entityOf(l.entity.recordKey())
		if !ok || e != l.entity {
			t.Fatalf("%v came back as %v (%v)", l.entity, e, ok)
		}
	})
}

// What could not be stored is not shown, and so not built upon.
func TestJournal_NotStored(t *testing.T) {
	t.Parallel()
	b := &book{}
	j := newJournal(b, b)
	b.fail = errors.New("full")
	one := 1.0
	if err := j.note(t.Context(), map[limit]*base{rate(user("alice")): {Value: &one}}); !errors.Is(err, b.fail) {
		t.Error(err)
	}
	if got := maps.Clone(j.all()); len(got) > 0 {
		t.Errorf("it shows %v", got)
	}
}

// The secret is the operator's to give; what the target has is not asked for again.
func TestLacking(t *testing.T) {
	t.Parallel()
	source := map[string]mechanisms{"alice": {"SCRAM-SHA-256": true, "SCRAM-SHA-512": true}, "o'bob": {"SCRAM-SHA-512": true}, "eve": {"SCRAM-SHA-256": true}}
	target := map[string]mechanisms{"alice": {"SCRAM-SHA-512": true}, "eve": {"SCRAM-SHA-256": true}}
	items := lacking(source, target, map[string]bool{"o'bob": true})
	if len(items) != 2 || items[0].Name != "alice SCRAM-SHA-256" || items[1].Name != "o'bob SCRAM-SHA-512" || items[1].State != drift.Missing {
		t.Fatalf("%+v", items)
	}
	want := `kafka-configs.sh --bootstrap-server SERVER --alter --add-config 'SCRAM-SHA-512=[password=…]' --entity-type users --entity-name 'o'\''bob'`
	if items[1].Remedy != want {
		t.Error(items[1].Remedy)
	}
	unread := lackingUnread(map[string]bool{"eve": true, "mallory": true}, target)
	if len(unread) != 1 || unread[0].Name != "mallory" {
		t.Errorf("%+v", unread)
	}
}
