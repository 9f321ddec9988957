package configs

import (
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lockstep/topicsync/drift"
)

func text(s string) *string { return &s }

// TestPlan_ThreeWays has every way in which what lockstep wrote, what stands there and what is wanted can differ.
func TestPlan_ThreeWays(t *testing.T) {
	t.Parallel()
	const key = "segment.ms"
	ours := func(v string) map[string]Base { return map[string]Base{key: {Value: &v}} }
	type settings = map[string]string
	for name, tc := range map[string]struct {
		base           map[string]Base
		theirs, source settings
		overwrite      bool
		refused        bool
		exclude        bool
		state          drift.State // "" is no item
		write          string      // "": nothing, "-": remove, else the value
	}{
		"nobody wrote it":                           {source: settings{key: "2"}, state: drift.Pending, write: "2"},
		"in step by chance":                         {theirs: settings{key: "2"}, source: settings{key: "2"}, state: drift.InSync},
		"somebody else's":                           {theirs: settings{key: "1"}, source: settings{key: "2"}, state: drift.Kept},
		"somebody else's, overwritten":              {theirs: settings{key: "1"}, source: settings{key: "2"}, overwrite: true, state: drift.Pending, write: "2"},
		"ours, the source changed":                  {base: ours("1"), theirs: settings{key: "1"}, source: settings{key: "2"}, state: drift.Pending, write: "2"},
		"ours, changed by hand":                     {base: ours("1"), theirs: settings{key: "3"}, source: settings{key: "2"}, state: drift.Kept},
		"ours, removed by hand":                     {base: ours("1"), source: settings{key: "2"}, state: drift.Kept},
		"ours, changed by hand to what is wanted":   {base: ours("1"), theirs: settings{key: "2"}, source: settings{key: "2"}, state: drift.InSync},
		"ours, the source dropped it":               {base: ours("1"), theirs: settings{key: "1"}, state: drift.Pending, write: "-"},
		"changed by hand, the source dropped it":    {base: ours("1"), theirs: settings{key: "3"}, state: drift.Kept},
		"… also when others' are overwritten":       {base: ours("1"), theirs: settings{key: "3"}, overwrite: true, state: drift.Kept},
		"both dropped it":                           {base: ours("1")},
		"somebody else's alone":                     {theirs: settings{key: "1"}},
		"somebody else's alone, overwritten":        {theirs: settings{key: "1"}, overwrite: true},
		"refused before":                            {source: settings{key: "2"}, refused: true, state: drift.Refused},
		"removal refused before":                    {base: ours("1"), theirs: settings{key: "1"}, refused: true, state: drift.Refused},
		"excluded since":                            {base: ours("1"), theirs: settings{key: "1"}, source: settings{key: "2"}, exclude: true, state: drift.Excluded},
		"excluded since, and the source dropped it": {base: ours("1"), theirs: settings{key: "1"}, exclude: true, state: drift.Excluded},
		"died before the write":                     {base: map[string]Base{key: {Value: text("2"), Was: text("1"), Pending: true}}, theirs: settings{key: "1"}, source: settings{key: "2"}, state: drift.Pending, write: "2"},
		"died after the write":                      {base: map[string]Base{key: {Value: text("2"), Was: text("1"), Pending: true}}, theirs: settings{key: "2"}, source: settings{key: "4"}, state: drift.Pending, write: "4"},
		"died around the write, changed by hand":    {base: map[string]Base{key: {Value: text("2"), Was: text("1"), Pending: true}}, theirs: settings{key: "9"}, source: settings{key: "2"}, state: drift.Kept},
		"died before the removal":                   {base: map[string]Base{key: {Was: text("1"), Pending: true}}, theirs: settings{key: "1"}, state: drift.Pending, write: "-"},
		"died after the removal":                    {base: map[string]Base{key: {Was: text("1"), Pending: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			never := func(k string) bool { return k != key || tc.exclude } // nothing but the key
			s := subject{Topic: drift.Topic{Src: "a", Dst: "a"}, record: Record{Dst: "a", Written: tc.base}, source: tc.source, theirs: tc.theirs,
				overwrite: tc.overwrite, mirror: Mirror{Link: "dr", Exclude: never}}
			if tc.refused {
				s.refused = func(string, *string) string { return "not here" }
			}
			p := s.plan()
			var state drift.State
			if len(p.items) > 1 {
				t.Fatalf("items %+v", p.items)
			} else if len(p.items) == 1 {
				state = p.items[0].State
			}
			write := ""
			for _, c := range p.changes {
				if write = "-"; c.value != nil {
					write = *c.value
				}
				if b := p.record.Written[key]; !b.Pending || !same(b.Value, c.value) {
					t.Errorf("the record does not say what is about to be written: %+v", b)
				}
			}
			if state != tc.state || write != tc.write {
				t.Errorf("state %q, writes %q; want %q, %q", state, write, tc.state, tc.write)
			}
		})
	}
}

// A model of a target topic and its journal, as random passes and hands change them.
type world struct {
	source, theirs map[string]string
	record         Record
	mirror         Mirror
	force          bool
	refuses        map[string]bool // keys that the target does not take
	known          map[string]bool // those that it has refused already
	hand           map[string]bool // keys whose value was written by somebody else
}

func (w *world) subject() subject {
	return subject{Topic: drift.Topic{Src: "a", Dst: "b"}, record: w.record, source: w.source, theirs: w.theirs, mirror: w.mirror, overwrite: w.force,
		refused: func(key string, _ *string) string {
			if w.known[key] {
				return "refused"
			}
			return ""
		}}
}

// pass plans, stores, and carries out as many changes as crash allows; it returns how many it sent.
func (w *world) pass(t *rapid.T, crash int) int {
	s := w.subject()
	p := s.plan()
	w.record = p.record
	for n, c := range p.changes {
		if n == crash {
			return n
		}
		if !w.force && w.hand[c.key] {
			t.Fatalf("%s was written by somebody else, and is changed", c.key)
		}
		if c.value == nil && w.hand[c.key] {
			t.Fatalf("%s was written by somebody else, and is removed", c.key)
		}
		switch {
		case w.refuses[c.key]:
			w.known[c.key] = true
			p.undo(s, c.key)
			continue
		case c.value == nil:
			delete(w.theirs, c.key)
			p.note(c.key, nil)
		default:
			w.theirs[c.key] = *c.value
			p.note(c.key, &Base{Value: c.value})
		}
		delete(w.hand, c.key)
	}
	w.record = p.record
	return len(p.changes)
}

// TestPlan_Random: whatever both sides and hands do, and wherever a pass dies, nothing that somebody else wrote is changed
// without an order, nothing of theirs is removed even with one, and a second pass in a row has nothing to do.
func TestPlan_Random(t *testing.T) {
	t.Parallel()
	names := []string{KeyRetention, KeyRetentionBytes, KeyCleanup, KeyMinISR, KeyTimestampType, KeyBeforeMax, KeyAfterMax, "segment.ms", "follower.replication.throttled.replicas"}
	values := []string{"1", "2", "3", "-1", unbounded, "compact", "delete"}
	rapid.Check(t, func(t *rapid.T) {
		some := func(label string) map[string]string {
			return rapid.MapOf(rapid.SampledFrom(names), rapid.SampledFrom(values)).Draw(t, label)
		}
		excluded := rapid.MapOf(rapid.SampledFrom(names), rapid.Just(true)).Draw(t, "excluded")
		w := &world{source: some("source"), theirs: some("theirs"), known: map[string]bool{}, hand: map[string]bool{}}
		w.refuses = rapid.MapOf(rapid.SampledFrom(names), rapid.Bool()).Draw(t, "refuses")
		w.mirror = Mirror{Link: "dr", Exclude: func(k string) bool { return excluded[k] }, Replicas: rapid.IntRange(0, 3).Draw(t, "replicas"),
			MinISR: rapid.IntRange(0, 3).Draw(t, "min isr"), Open: rapid.Bool().Draw(t, "open")}
		for k := range w.theirs {
			w.hand[k] = true
		}
		for range rapid.IntRange(1, 6).Draw(t, "steps") {
			w.force = rapid.Bool().Draw(t, "force")
			w.mirror.Promoted = rapid.Bool().Draw(t, "promoted")
			w.pass(t, rapid.IntRange(0, 12).Draw(t, "crash at"))
			w.source = some("source")
			for k, v := range some("by hand") {
				if w.theirs[k] == v {
					continue
				}
				w.theirs[k], w.hand[k] = v, true
				if w.record.Written[k].is(&v) { // just what lockstep wrote, or was about to: nobody can tell them apart
					delete(w.hand, k)
				}
			}
		}
		w.force = false
		before := maps.Clone(w.theirs)
		w.pass(t, -1)
		for k := range w.hand {
			if before[k] != w.theirs[k] {
				t.Fatalf("%s was %q by hand and is %q", k, before[k], w.theirs[k])
			}
		}
		stored, there := fmt.Sprint(w.record), maps.Clone(w.theirs)
		if n := w.pass(t, -1); n > 0 {
			t.Fatalf("a second pass changes %d settings", n)
		}
		if s := w.subject(); func() bool { p := s.plan(); return p.differs(s) }() {
			t.Fatalf("a second pass stores something else than %s", stored)
		}
		if diff := cmp.Diff(there, w.theirs); diff != "" {
			t.Fatal(diff)
		}
	})
}
