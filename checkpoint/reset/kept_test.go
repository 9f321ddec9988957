package reset

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"lockstep/internal/statelog"
)

// memoryLog is a compacted state log in memory.
type memoryLog struct {
	entries []statelog.Entry
	largest int
	// cut is how many entries are taken before the process dies, with cutting set.
	cutting bool
	cut     int
}

func (l *memoryLog) Put(_ context.Context, es ...statelog.Entry) error {
	for _, e := range es {
		if l.cutting && l.cut == 0 {
			return errors.New("the process died")
		}
		l.cut--
		l.largest = max(l.largest, len(e.Value))
		for i, o := range l.entries {
			if o.Key == e.Key {
				l.entries = append(l.entries[:i], l.entries[i+1:]...)
				break
			}
		}
		l.entries = append(l.entries, e)
	}
	return nil
}

func change(n int, positions int) Kept {
	k := Kept{ID: fmt.Sprintf("change-%03d", n), At: t0.Add(time.Duration(n) * time.Minute), By: "ada@host", Reason: "drill", Does: "reset --to-earliest",
		Cluster: "backup", Whole: true}
	for i := range positions {
		k.Positions = append(k.Positions, KeptPosition{Group: fmt.Sprintf("g%d", i%3), Key: key("orders", int32(i)), Was: int64(i) - 1, Metadata: "m", Became: 0})
	}
	return k
}

// large is a change with metadata as long as brokers take it, of characters that JSON escapes: ten positions fill an entry.
func large(n, positions int) Kept {
	k := change(n, positions)
	for i := range k.Positions {
		k.Positions[i].Metadata = strings.Repeat("\x01", 4096)
	}
	return k
}

// readAll reads what is kept by hand, so that tests of Keep do not race with the reader's goroutines.
func readAll(t *testing.T, l *memoryLog) []Kept {
	t.Helper()
	r := keptReader{values: map[string]map[int]keptValue{}}
	r.take(l.entries)
	if r.err != nil {
		t.Fatal(r.err)
	}
	return r.all()
}

func TestKeep_BringsBackWhatItKept(t *testing.T) {
	t.Parallel()
	l := &memoryLog{entries: []statelog.Entry{{Key: "lane/orders/0/open", Value: []byte("not ours")}}}
	for _, k := range []Kept{change(1, 1), large(2, 33), change(3, 5000)} {
		if err := Keep(t.Context(), l, k, readAll(t, l)); err != nil {
			t.Fatal(err)
		}
		all := readAll(t, l)
		if d := cmp.Diff(k, all[len(all)-1], cmpopts.IgnoreUnexported(Kept{})); d != "" {
			t.Errorf("%d positions (-kept +read):\n%s", len(k.Positions), d)
		}
	}
	if l.largest > 1<<19 {
		t.Errorf("an entry has %d bytes", l.largest)
	}
}

func TestKeep_NewestTwenty(t *testing.T) {
	t.Parallel()
	l := &memoryLog{}
	for n := range 25 {
		if err := Keep(t.Context(), l, large(n, 12+n%3), readAll(t, l)); err != nil {
			t.Fatal(err)
		}
	}
	all := readAll(t, l)
	if len(all) != KeepNewest || all[0].ID != "change-005" || all[19].ID != "change-024" {
		t.Errorf("%d are kept, from %s on", len(all), all[0].ID)
	}
	live := 0
	for _, e := range l.entries {
		if e.Value != nil {
			live++
		}
	}
	if want := KeepNewest * len(split(large(0, 12).Positions)); live != want {
		t.Errorf("%d entries are left, want %d", live, want)
	}
}

// A process that dies while it keeps has not committed anything: what it left behind is no change.
func TestKeep_CutShort(t *testing.T) {
	t.Parallel()
	for cut := range 3 {
		l := &memoryLog{cutting: true, cut: cut}
		if err := Keep(t.Context(), l, large(1, 33), nil); err == nil {
			t.Fatal("no error")
		}
		if n := len(split(large(1, 33).Positions)); n < 3 {
			t.Fatalf("%d entries", n)
		}
		for _, k := range readAll(t, l) {
			if k.Whole {
				t.Errorf("after %d entries the change counts", cut)
			}
		}
		l.cutting = false
		if err := Keep(t.Context(), l, change(2, 1), readAll(t, l)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestKept_Targets(t *testing.T) {
	t.Parallel()
	k := change(1, 2)
	ts := k.Targets()
	if ts[0].Kind != Delete || ts[1].Kind != ToOffset || ts[1].N != 0 || *ts[1].Metadata != "m" {
		t.Errorf("%+v", ts)
	}
	p := Plan{Moves: []Move{{Group: "g0", Key: key("orders", 0), Old: 0}, {Group: "g1", Key: key("orders", 1), Old: 9, Note: "first"}}}
	k.Mention(&p)
	if p.Moves[0].Note != "" || p.Moves[1].Note != "first; it moved after the change, which had left it at 0" {
		t.Errorf("%+v", p.Moves)
	}
}

func TestKept_GoldenFormat(t *testing.T) {
	t.Parallel()
	k := change(1, 3)
	k.Positions[1].Group, k.Positions[2].Metadata = `g"3`, ""
	es, err := k.entries()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("testdata", "kept-v1.json")
	got := es[0].Key + "\n" + string(es[0].Value) + "\n"
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("kept for ever (-golden +now):\n%s", d)
	}
	name, value, _ := strings.Cut(string(want), "\n")
	r := keptReader{values: map[string]map[int]keptValue{}}
	r.take([]statelog.Entry{{Key: name, Value: []byte(strings.TrimSpace(value))}})
	if d := cmp.Diff([]Kept{k}, r.all(), cmpopts.IgnoreUnexported(Kept{})); r.err != nil || d != "" {
		t.Errorf("%v %s", r.err, d)
	}
}

func TestKept_WhatItCannotReadIsAnError(t *testing.T) {
	t.Parallel()
	for value, says := range map[string]string{`{"v":2,"parts":1}`: "newer lockstep", `{}`: "not what lockstep writes", `x`: "not what lockstep writes"} {
		l := &memoryLog{entries: []statelog.Entry{{Key: "undo/a/0", Value: []byte(value)}}}
		r := keptReader{values: map[string]map[int]keptValue{}}
		r.take(l.entries)
		if r.err == nil || !strings.Contains(r.err.Error(), says) {
			t.Errorf("%s: %v, want %q", value, r.err, says)
		}
	}
}

func TestNewID_SortsByTime(t *testing.T) {
	t.Parallel()
	a, b := NewID(t0), NewID(t0.Add(time.Second))
	if a >= b || !strings.HasPrefix(a, "20240331-013000-") {
		t.Errorf("%s, %s", a, b)
	}
}

func FuzzKept(f *testing.F) {
	f.Add("undo/a/0", []byte(`{"v":1,"parts":2,"positions":[{"g":"g","t":"o","p":1,"was":-1,"now":4}]}`))
	f.Add("undo/a%2Fb/1", []byte(`{"v":9}`))
	f.Fuzz(func(t *testing.T, name string, value []byte) {
		r := keptReader{values: map[string]map[int]keptValue{}}
		r.take([]statelog.Entry{{Key: name, Value: value}})
		for _, k := range r.all() {
			if k.Targets(); k.ID == "" && !strings.Contains(name, "//") {
				t.Errorf("%q", name)
			}
		}
	})
}
