package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/internal/statelog"
	"lockstep/offsetsync"
)

// stateTopic is a state topic in memory: it shows its readers what was put, at once or when it is told to.
type stateTopic struct {
	entries []statelog.Entry
	readers map[string]func(statelog.Entry) error
	shown   int
	late    bool
	fail    error
}

func (s *stateTopic) Handle(kind string, fn func(statelog.Entry) error) {
	if s.readers == nil {
		s.readers = map[string]func(statelog.Entry) error{}
	}
	s.readers[kind] = fn
}

func (s *stateTopic) Put(_ context.Context, es ...statelog.Entry) error {
	if s.fail != nil {
		return s.fail
	}
	s.entries = append(s.entries, es...)
	if s.late {
		return nil
	}
	return s.show()
}

func (s *stateTopic) show() error {
	for ; s.shown < len(s.entries); s.shown++ {
		e := s.entries[s.shown]
		parts, _ := statelog.SplitKey(e.Key)
		if fn := s.readers[parts[0]]; fn != nil {
			if err := fn(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// another returns a process that reads the same topic from its start.
func (s *stateTopic) another(now func() time.Time) (*stateTopic, *Bases) {
	o := &stateTopic{entries: s.entries}
	b := newBases(o, o)
	b.now = now
	if err := o.show(); err != nil {
		panic(err)
	}
	return o, b
}

// forget removes all that is stored of groups.
func forget(t *testing.T, b *Bases, groups ...string) error {
	var rows []Row
	for _, g := range groups {
		for k := range b.All()[g] {
			rows = append(rows, Row{Group: g, Key: k, Forget: true})
		}
	}
	return b.Save(t.Context(), rows)
}

func saved(group string, k Key, b Base) Row { return Row{Group: group, Key: k, Base: b, Save: true} }

// whole cuts a base's times to what is stored.
func whole(b Base) Base {
	b.At = b.At.Truncate(time.Millisecond)
	return b
}

func TestBases_SurviveARestart(t *testing.T) {
	t.Parallel()
	topic := &stateTopic{}
	b := newBases(topic, topic)
	odd := "team/ä %2F\x00"
	rich := Base{
		Source: 510, Next: 500, At: start, Opening: 3, Ahead: true,
		Was:     []Stamped{{400, start.Add(-3 * time.Second), false}, {450, start.Add(-time.Second), true}},
		Suspect: &Suspicion{Source: -1, Since: start.Add(-time.Minute), Forever: true, Why: "it vanished"},
	}
	rows := []Row{
		saved("billing", orders, rich), saved("billing", Key{"orders", 7}, whole(Base{Source: 1, At: start})), saved("billing", Key{"audit", 0}, whole(Base{Source: 2, Next: 2, At: start})),
		saved(odd, Key{"orders", 0}, whole(Base{Source: 3, Next: 3, At: start})), {Group: "idle", Key: orders},
	}
	if err := b.Save(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	want := map[string]map[Key]Base{
		"billing": {orders: rich, {"orders", 7}: rows[1].Base, {"audit", 0}: rows[2].Base}, odd: {orders: rows[3].Base},
	}
	_, again := topic.another(func() time.Time { return start })
	for who, got := range map[string]*Bases{"who saved": b, "who reads": again} {
		if diff := cmp.Diff(want, got.All(), cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) })); diff != "" {
			t.Errorf("%s: %s", who, diff)
		}
	}
	for _, e := range topic.entries {
		if e.Partition != partitionOf("billing") && e.Partition != partitionOf(odd) {
			t.Errorf("%s is in partition %d", e.Key, e.Partition)
		}
	}
}

func TestBases_ForgetPositionAndGroup(t *testing.T) {
	t.Parallel()
	topic := &stateTopic{}
	b := newBases(topic, topic)
	other := Key{"audit", 0}
	rows := []Row{saved("a", orders, Base{Next: 1}), saved("a", Key{"orders", 1}, Base{Next: 2}), saved("a", other, Base{Next: 3}), saved("b", orders, Base{Next: 4})}
	if err := b.Save(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	if err := b.Save(t.Context(), []Row{{Group: "a", Key: orders, Forget: true}}); err != nil {
		t.Fatal(err)
	}
	_, again := topic.another(time.Now)
	if _, there := again.All()["a"][orders]; there || len(again.All()["a"]) != 2 {
		t.Errorf("%+v", again.All()["a"])
	}
	if err := forget(t, b, "a", "never seen"); err != nil {
		t.Fatal(err)
	}
	_, again = topic.another(time.Now)
	for _, got := range []*Bases{b, again} {
		if all := got.All(); len(all) != 1 || len(all["b"]) != 1 {
			t.Errorf("%+v", all)
		}
	}
}

func TestBases_WhatCouldNotBeStoredIsNotShown(t *testing.T) {
	t.Parallel()
	topic := &stateTopic{fail: errAway}
	b := newBases(topic, topic)
	if err := b.Save(t.Context(), []Row{saved("a", orders, Base{Next: 1})}); !errors.Is(err, errAway) || len(b.All()) > 0 {
		t.Errorf("%v, %+v", err, b.All())
	}
	topic.fail = nil
	if err := b.Save(t.Context(), []Row{{Group: "a", Key: orders}}); err != nil || len(topic.entries) > 0 {
		t.Errorf("%v, wrote %d records for a row that wants none", err, len(topic.entries))
	}
}

// Who takes over reads older records of a key pass by: commits that build upon them may still be on their way.
func TestBases_OlderRecordsStayKnownForAWhile(t *testing.T) {
	t.Parallel()
	topic := &stateTopic{}
	b := newBases(topic, topic)
	clock := start
	b.now = func() time.Time { return clock }
	for i := range int64(30) { // each of them decided while the target still had 5
		clock = start.Add(time.Duration(i) * time.Minute)
		base := Base{Source: 100 + i, Next: 100 + i, At: clock, Was: []Stamped{{5, clock, true}}}
		if err := b.Save(t.Context(), []Row{saved("a", orders, base)}); err != nil {
			t.Fatal(err)
		}
	}
	_, again := topic.another(func() time.Time { return clock })
	got := again.All()["a"][orders]
	for theirs, want := range map[int64]bool{129: true, 125: true, 120: true, 110: false, 5: true, 99: false} {
		if got.wrote(theirs, clock) != want {
			t.Errorf("wrote(%d) is not %v: %+v", theirs, want, got)
		}
	}
	if n := len(got.Was); got.Was[n-1].Offset != 5 {
		t.Errorf("the last is not what the target had: %+v", got.Was)
	}
}

// The reader may show a record only after the next one was saved.
func TestBases_EchoOfAnOlderSave(t *testing.T) {
	t.Parallel()
	topic := &stateTopic{late: true}
	b := newBases(topic, topic)
	for i := range int64(3) {
		base := Base{Next: 100 + i, At: time.Now(), Was: []Stamped{{99, time.Now(), true}}}
		if err := b.Save(t.Context(), []Row{saved("a", orders, base)}); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.All()["a"][orders].Next; got != 102 {
		t.Errorf("shows %d", got)
	}
	if err := topic.show(); err != nil {
		t.Fatal(err)
	}
	got := b.All()["a"][orders]
	if got.Next != 102 || !got.wrote(101, time.Now()) || !got.wrote(99, time.Now()) {
		t.Errorf("%+v", got)
	}
}

func TestBases_NewerFormatStopsTheReading(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"group/billing/orders", "history/billing/orders/3"} {
		topic := &stateTopic{}
		newBases(topic, topic)
		newHistory(topic, topic)
		topic.entries = []statelog.Entry{{Key: kind, Value: []byte(`{"v":2,"parts":"?"}`)}}
		if newer, ok := errors.AsType[*offsetsync.NewerFormatError](topic.show()); !ok || newer.Key != kind {
			t.Errorf("%s: %v", kind, newer)
		}
		topic.shown, topic.entries[0].Value = 0, []byte(`{"v":1,"parts":7}`)
		if err := topic.show(); !errors.Is(err, offsetsync.ErrMalformed) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// goldenRecords are records as they are written, by file name.
func goldenRecords() map[string]statelog.Entry {
	k := subjectTopic{"billing/eu", "orders"}
	return map[string]statelog.Entry{
		"group": encodeBases(k.group, slice{k.topic, 0}, map[int32]Base{
			0: {Source: 12_345, Next: 12_339, At: start, Opening: 4, Was: []Stamped{{12_000, start.Add(-90 * time.Second), false}, {12_200, start.Add(-2 * time.Second), true}}},
			7: {Source: 500, Next: 480, At: start.Add(-time.Hour), Opening: 1, Ahead: true, Suspect: &Suspicion{Source: 0, Since: start.Add(-time.Minute), Forever: true, Why: "it went back by 500, from 500 to 0"}},
		}),
		"history": encodeMoment(k, moment{at: start, slot: 12, mark: true, spots: []spot{{0, 12_345, 12_339, 12_339, StateSynced}, {7, -1, 480, 480, StateSuspectSource}}}),
	}
}

// The files in testdata/golden are what releases have written. They are kept for ever: a reader of today has to read them.
// UPDATE_GOLDEN=1 writes those that are missing.
func TestGolden_RecordsOfGroups(t *testing.T) {
	t.Parallel()
	for name, e := range goldenRecords() {
		path := filepath.Join("testdata", "golden", name+".v1")
		got := fmt.Appendf(nil, "%s\n%s", e.Key, e.Value)
		if _, err := os.Stat(path); os.IsNotExist(err) && os.Getenv("UPDATE_GOLDEN") != "" {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is written as\n%s\nwant\n%s", name, got, want)
		}
		key, value, _ := bytes.Cut(want, []byte("\n"))
		readGolden(t, name, statelog.Entry{Key: string(key), Value: value})
	}
}

func readGolden(t *testing.T, name string, e statelog.Entry) {
	t.Helper()
	topic := &stateTopic{entries: []statelog.Entry{e}}
	b, h := newBases(topic, topic), newHistory(topic, topic)
	if err := topic.show(); err != nil {
		t.Fatal(err)
	}
	switch name {
	case "group":
		got := b.All()["billing/eu"]
		if got[orders].Next != 12_339 || !got[orders].Was[0].At.Equal(start.Add(-90*time.Second)) || !got[Key{"orders", 7}].Suspect.Forever {
			t.Errorf("read as %+v", got)
		}
	case "history":
		got := h.Of("billing/eu")
		if len(got) != 1 || !got[0].At.Equal(start) || got[0].Positions[0].State != StateSynced || got[0].Positions[1].Source != -1 {
			t.Errorf("read as %+v", got)
		}
	}
}

func FuzzBasesRead(f *testing.F) {
	for _, e := range goldenRecords() {
		f.Add(e.Key, e.Value)
	}
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		topic := &stateTopic{}
		b, h := newBases(topic, topic), newHistory(topic, topic)
		if b.read(statelog.Entry{Key: key, Value: value}) == nil {
			for g, of := range b.All() {
				for k, base := range of {
					base.wrote(base.Next+1, start)
					encodeBases(g, sliceOf(k), map[int32]Base{k.Partition: base})
				}
			}
		}
		if h.read(statelog.Entry{Key: key, Value: value}) == nil {
			if parts, ok := statelog.SplitKey(key); ok && len(parts) > 1 {
				h.Of(parts[1])
			}
		}
	})
}

// silentTopic takes entries and does not answer before it is told to.
type silentTopic struct {
	stateTopic
	puts   int
	answer chan struct{}
}

func (s *silentTopic) Put(ctx context.Context, es ...statelog.Entry) error {
	s.puts++
	select {
	case <-s.answer:
		return s.stateTopic.Put(ctx, es...)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A state topic that takes nothing holds a pass up for a while only, and is not given the same again and again.
func TestBases_StateTopicThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		topic := &silentTopic{answer: make(chan struct{})}
		b := newBases(&topic.stateTopic, topic)
		row := saved("billing", Key{"orders", 0}, Base{Source: 10, Next: 10, At: time.Now()})
		for range 3 {
			if err := b.Save(t.Context(), []Row{row}); !errors.Is(err, errStateWait) {
				t.Fatalf("saving returned %v", err)
			}
		}
		synctest.Wait()
		if len(b.All()) > 0 || topic.puts != 1 {
			t.Errorf("%d puts are on their way, and %v is shown", topic.puts, b.All())
		}
		close(topic.answer)
		row.Base.Next = 20
		if err := b.Save(t.Context(), []Row{row}); err != nil || b.All()["billing"][row.Key].Next != 20 {
			t.Errorf("afterwards: %v, %+v", err, b.All())
		}
	})
}
