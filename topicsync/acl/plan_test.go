package acl

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
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

// Whatever is on both sides, a second plan after the first was carried out is empty, what somebody else made is still
// there, and nothing was removed that lockstep had not created.
func TestPlan_SettlesAndTouchesNothingForeign(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := &book{}
		j := newJournal(b, b)
		target := map[Binding]bool{}
		foreign := map[Binding]bool{}
		for round := range rapid.IntRange(1, 5).Draw(t, "rounds") {
			source := rapid.SliceOfN(rapid.Custom(drawBinding), 0, 8).Draw(t, "source")
			for _, x := range rapid.SliceOfN(rapid.Custom(drawBinding), 0, 3).Draw(t, "foreign") {
				if !target[x] {
					target[x], foreign[x] = true, true
				}
			}
			for _, x := range slices.SortedFunc(maps.Keys(target), Binding.compare) { // somebody takes things away by hand
				if !foreign[x] && rapid.IntRange(0, 5).Draw(t, "taken away") == 0 {
					delete(target, x)
				}
			}
			l := link("a.*")
			l.ACLs.Mode = rapid.SampledFrom([]string{"dr", "migrate"}).Draw(t, "mode")
			s := scope(l, []string{"a", "ab"}, "b")
			now, staged := Translate(source, world(t, s, []string{"a"}, []string{"b"}), l.ACLs.Mode)
			in := func() input {
				return input{link: "dr", now: now, staged: staged, target: slices.Collect(maps.Keys(target)), marks: j.all(), confirm: 1000, topicOf: topicOf(s)}
			}
			p := in().plan()
			crash := rapid.Bool().Draw(t, "crash")
			carryOut(t, j, p, target, crash)
			if crash {
				carryOut(t, j, in().plan(), target, false)
			}
			again := in().plan()
			if len(again.create)+len(again.remove)+len(again.notes) > 0 {
				t.Fatalf("round %d: a second plan: create %v, remove %v, notes %v", round, texts(again.create), texts(again.remove), again.notes)
			}
			for x := range foreign {
				if !target[x] {
					t.Fatalf("round %d: %v was not lockstep's, and is gone", round, x)
				}
			}
			for _, x := range now {
				if i := again.items[x]; !target[x] && (i == nil || i.State != drift.Kept) {
					t.Fatalf("round %d: %v is neither there nor kept away: %+v", round, x, i)
				}
			}
		}
	})
}

// carryOut does what a plan says, as a Part does. With crash the process ends before the last notes.
func carryOut(t *rapid.T, j *Journal, p plan, target map[Binding]bool, crash bool) {
	if err := j.note(context.Background(), p.notes); err != nil {
		t.Fatal(err)
	}
	done := map[Binding]mark{}
	for _, b := range p.remove {
		delete(target, b)
		done[b] = p.removed(b)
	}
	for i, b := range p.create {
		if crash && i%2 == 1 {
			continue
		}
		target[b] = true
		done[b] = created
	}
	if crash {
		return
	}
	if err := j.note(context.Background(), done); err != nil {
		t.Fatal(err)
	}
}

// A source that has far fewer permissions than it had is not believed at once.
func TestPlan_ManyRemovalsWait(t *testing.T) {
	t.Parallel()
	marks := map[Binding]mark{}
	var target []Binding
	for i := range 100 {
		b := on(topicType, fmt.Sprint("orders-", i), literal, "a", read)
		marks[b], target = created, append(target, b)
	}
	none := func(Binding) string { return "" }
	in := input{link: "dr", target: target, marks: marks, topicOf: none}
	held := in.plan()
	if len(held.remove) > 0 || len(held.items) != 100 {
		t.Fatalf("%d removals, %d items", len(held.remove), len(held.items))
	}
	for _, i := range held.items {
		if i.State != drift.Held || i.Remedy != "lockstep topics sync dr --kinds acls --confirm 100 removes them, if that is right" {
			t.Fatalf("%+v", i)
		}
	}
	in.confirm = 99
	if p := in.plan(); len(p.remove) > 0 {
		t.Error("agreeing to 99 removals did 100")
	}
	in.confirm = 100
	if p := in.plan(); len(p.remove) != 100 {
		t.Errorf("%d removals after 100 were agreed to", len(p.remove))
	}
	in.confirm, in.now = 0, []Binding{on(topicType, "*", literal, "a", read)} // nothing is lost: one for all
	if p := in.plan(); len(p.remove) != 100 || len(p.create) != 1 {
		t.Errorf("%d removals, %d created: what is replaced is not lost", len(p.remove), len(p.create))
	}
}

// A promotion creates what is staged from the journal alone, and leaves everything else as it is.
func TestPlan_Promote(t *testing.T) {
	t.Parallel()
	ours, later, byHand := on(topicType, "orders", literal, "a", read), on(topicType, "orders", literal, "b", write), on(topicType, "orders", literal, "c", read)
	in := input{link: "dr", target: []Binding{ours}, marks: map[Binding]mark{ours: created, later: staged, byHand: created}, topicOf: func(Binding) string { return "" }}
	in.promote()
	p := in.plan()
	if !slices.Equal(p.create, []Binding{later}) || len(p.remove) > 0 {
		t.Errorf("create %v, remove %v", texts(p.create), texts(p.remove))
	}
	if i := p.items[byHand]; i == nil || i.State != drift.Kept {
		t.Errorf("what somebody removed on the target: %+v", i)
	}
}

func TestJournal_ReadsWhatItWrote(t *testing.T) {
	t.Parallel()
	b := &book{}
	j := newJournal(b, b)
	odd := on(groupType, "a/b % c", prefixed, "x/y", kmsg.ACLOperationAlterConfigs)
	want := map[Binding]mark{odd: pending, deny(odd): created, on(topicType, "*", literal, "*", all): staged}
	if err := j.note(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(j.all(), want) {
		t.Errorf("%v, want %v", j.all(), want)
	}
	if err := j.note(t.Context(), map[Binding]mark{odd: 0, deny(odd): 0}); err != nil {
		t.Fatal(err)
	}
	if len(j.all()) != 1 {
		t.Errorf("%v: forgotten permissions are still there", j.all())
	}
	for _, e := range []statelog.Entry{{Key: "acl/x/3/a"}, {Key: "acl/2/3"}, {Key: "acl/2/3/a", Value: []byte("{")}, {Key: "acl/2/3/a", Value: []byte(`{"v":9}`)}} {
		if err := b.read(e); err == nil {
			t.Errorf("%s %s was read", e.Key, e.Value)
		}
	}
}
