package quota

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lockstep/internal/statelog"
	"lockstep/topicsync/drift"
)

// book is a state topic in memory, which a journal follows.
type book struct{ read func(statelog.Entry) error }

func (b *book) Handle(_ string, fn func(statelog.Entry) error) { b.read = fn }

func (b *book) Put(_ context.Context, es ...statelog.Entry) error {
	for _, e := range es {
		if err := b.read(e); err != nil {
			return err
		}
	}
	return nil
}

func drawLimits(t *rapid.T, label string) map[limit]float64 {
	out := make(map[limit]float64)
	for _, e := range []Entity{"user=a", "user=<default>", "client-id=lockstep-x", "client-id=b,user=a"} {
		for _, key := range []string{"producer_byte_rate", "request_percentage"} {
			if rapid.IntRange(0, 2).Draw(t, label) == 0 {
				out[limit{e, key}] = float64(rapid.IntRange(1, 3).Draw(t, label+" value"))
			}
		}
	}
	return out
}

// Whatever is on both sides, and wherever a pass ended: a second plan is empty, and what somebody else wrote is as they
// left it.
func TestPlan_SettlesAndTouchesNothingForeign(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := &book{}
		j := newJournal(b, b)
		target, foreign := map[limit]float64{}, map[limit]*float64{}
		for range rapid.IntRange(1, 5).Draw(t, "rounds") {
			source := drawLimits(t, "source")
			for l, v := range drawLimits(t, "by hand") {
				if rapid.Bool().Draw(t, "remove") {
					delete(target, l)
					foreign[l] = nil
				} else if target[l] != v {
					target[l] = v
					foreign[l] = &v
				}
			}
			in := func() input {
				return input{link: "dr", source: source, target: target, bases: j.all(), own: []string{"lockstep"}}
			}
			p := in().plan()
			for _, ch := range p.changes {
				if v, ok := foreign[ch.limit]; ok && !same(v, ch.value) && in().bases[ch.limit] == (base{}) && v != nil {
					t.Fatalf("%v is somebody else's %v, and is to become %v", ch.limit, *v, ch.value)
				}
				if ch.entity.own([]string{"lockstep"}) {
					t.Fatalf("%v is for lockstep's own clients", ch.limit)
				}
			}
			if err := j.note(context.Background(), p.notes); err != nil {
				t.Fatal(err)
			}
			crash := rapid.Bool().Draw(t, "crash")
			after := map[limit]*base{}
			for i, ch := range p.changes {
				if crash && i%2 == 1 {
					continue
				}
				delete(foreign, ch.limit)
				if after[ch.limit] = nil; ch.value == nil {
					delete(target, ch.limit)
				} else {
					target[ch.limit] = *ch.value
					after[ch.limit] = &base{Value: ch.value}
				}
			}
			if crash {
				for _, ch := range in().plan().changes { // the next process
					if ch.value == nil {
						delete(target, ch.limit)
					} else {
						target[ch.limit] = *ch.value
					}
				}
				after = in().plan().notes
			}
			if err := j.note(context.Background(), after); err != nil {
				t.Fatal(err)
			}
			again := in().plan()
			if len(again.changes) > 0 {
				t.Fatalf("a second plan: %+v", again.changes)
			}
		}
	})
}

func TestPlan_States(t *testing.T) {
	t.Parallel()
	l := func(e Entity) limit { return limit{e, "producer_byte_rate"} }
	five, six := 5.0, 6.0
	in := input{link: "dr", own: []string{"lockstep"},
		source: map[limit]float64{l("user=new"): 5, l("user=same"): 5, l("user=kept"): 5, l("user=changed"): 5, l("client-id=lockstep-primary"): 5},
		target: map[limit]float64{l("user=same"): 5, l("user=kept"): 6, l("user=changed"): 6, l("user=gone"): 6, l("user=theirs"): 6},
		bases:  map[limit]base{l("user=changed"): {Value: &five}, l("user=gone"): {Value: &six}},
	}
	got := map[string]string{}
	for _, i := range in.plan().sorted() {
		got[i.Name] = string(i.State) + ": " + i.Does
	}
	want := map[string]string{
		"user=new producer_byte_rate": "pending: set it to 5", "user=kept producer_byte_rate": "kept: ", "user=changed producer_byte_rate": "kept: ",
		"user=gone producer_byte_rate": "pending: remove it", "client-id=lockstep-primary producer_byte_rate": "excluded: ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	in.overwrite = true
	got = map[string]string{}
	for _, i := range in.plan().sorted() {
		got[i.Name] = i.Does
	}
	if got["user=kept producer_byte_rate"] != "set it to 5" || got["user=changed producer_byte_rate"] != "set it to 5" {
		t.Errorf("taken over: %v", got)
	}
}

func TestEntity_Parts(t *testing.T) {
	t.Parallel()
	odd := "a,b=c%<default>"
	for _, want := range [][]part{{{"user", &odd}}, {{"client-id", nil}, {"user", &odd}}, {{"ip", nil}}} {
		e := entityOf(want)
		if diff := cmp.Diff(want, e.parts(), cmp.AllowUnexported(part{})); diff != "" {
			t.Errorf("%s: -want +got:\n%s", e, diff)
		}
	}
}

func TestMissing(t *testing.T) {
	t.Parallel()
	source := map[string][]string{"a": {"SCRAM-SHA-256"}, "b": {"SCRAM-SHA-256", "SCRAM-SHA-512"}, "o'c": {"SCRAM-SHA-512"}}
	got := missing(source, map[string][]string{"a": {"SCRAM-SHA-256"}, "b": {"SCRAM-SHA-256"}})
	names := []string{}
	for _, i := range got {
		names = append(names, i.Name)
		if i.State != drift.Missing || i.Remedy == "" {
			t.Errorf("%+v", i)
		}
	}
	if !slices.Equal(names, []string{"b", "o'c"}) {
		t.Errorf("missing %v", names)
	}
	if want := `--entity-name 'o'\''c' --add-config 'SCRAM-SHA-512=[password=SECRET]'`; len(got) != 2 || got[1].Remedy[len(got[1].Remedy)-len(want):] != want {
		t.Errorf("remedy %q", got[1].Remedy)
	}
}
