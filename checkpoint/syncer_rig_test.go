package checkpoint

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/internal/model"
)

// rig is a Syncer between two made-up clusters, with a clock of the test's own.
type rig struct {
	t         *testing.T
	sides     *fakeSides
	lanes     fixedLanes
	store     *fakeStore
	log       bytes.Buffer
	hold      Hold
	atBarrier func(context.Context) error
	heard     []Pass
	set       Settings
	*Syncer
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, sides: &fakeSides{now: start, retention: usualRetention, src: map[string]Group{}, dst: map[string]Group{}, ends: map[Key]int64{}}, store: &fakeStore{of: map[string]map[Key]Base{}},
		lanes: fixedLanes{orders: standard(t)}, set: Settings{Filter: prefixed{}, Interval: 2 * time.Second, Sync: true, MaxRewind: 10_000, RewindHold: 5 * time.Minute}}
	r.restart()
	return r
}

// restart makes a Syncer that knows nothing but what was stored.
func (r *rig) restart() {
	r.Syncer = New(Options{Link: "dr", Settings: r.set, Sides: r.sides, Lanes: r.lanes, Store: r.store, Listeners: []Listener{r}, Barrier: r.barrier,
		Hold: func() Hold { return r.hold }, Selects: func(topic string) (string, bool) { return topic, topic == "orders" || topic == "later" },
		Logger: slog.New(slog.NewTextHandler(&r.log, nil)), Now: r.sides.clock})
}

// barrier reads the state topic, which is what atBarrier does.
func (r *rig) barrier(ctx context.Context) error {
	if r.atBarrier == nil {
		return nil
	}
	return r.atBarrier(ctx)
}

func (r *rig) Passed(p Pass) { r.heard = append(r.heard, p) }

// pass makes one pass, two seconds after the one before.
func (r *rig) pass() Pass {
	r.t.Helper()
	r.sides.now = r.sides.now.Add(2 * time.Second)
	_ = r.Once(r.t.Context()) // the pass has the error
	return r.Last()
}

// passes makes passes until each group has had its turn.
func (r *rig) passes() Pass {
	for range lookAtEach/r.set.Interval + 1 {
		r.pass()
	}
	return r.Last()
}

// wants checks a group's state and what the target has of it in orders/0 (-1: nothing).
func (r *rig) wants(group string, state State, at int64) Summary {
	r.t.Helper()
	s, ok := r.Last().Summary(group, nil)
	if !ok || s.State != state {
		r.t.Errorf("group %s is %s (%s), want %s", group, s.State, s.Detail, state)
	}
	if got := r.sides.at("dst", group); got != at {
		r.t.Errorf("group %s stands at %d on the target, want %d", group, got, at)
	}
	return s
}

func (r *rig) logged(text string, times int) {
	r.t.Helper()
	if n := strings.Count(r.log.String(), text); n != times {
		r.t.Errorf("%q was logged %d times, want %d:\n%s", text, n, times, r.log.String())
	}
}

// prefixed leaves out groups that begin with x-, and renames those that begin with y-.
type prefixed struct{ except string }

func (p prefixed) Excludes(g string) string {
	if strings.HasPrefix(g, "x-") && g != p.except {
		return "groups.exclude matches"
	}
	return ""
}

func (prefixed) Target(g string) string {
	if strings.HasPrefix(g, "y-") {
		return "renamed-" + g
	}
	return g
}

// fakeStore keeps bases in memory.
type fakeStore struct {
	of  map[string]map[Key]Base
	err error
}

func (s *fakeStore) All() map[string]map[Key]Base { return maps.Clone(s.of) }

func (s *fakeStore) Save(_ context.Context, rows []Row) error {
	for _, r := range rows {
		if s.err != nil {
			return s.err
		}
		of := maps.Clone(s.of[r.Group])
		switch {
		case r.Forget:
			delete(of, r.Key)
		case r.Save && of == nil:
			of = map[Key]Base{r.Key: r.Base}
		case r.Save:
			of[r.Key] = r.Base
		}
		if s.of[r.Group] = of; len(of) == 0 {
			delete(s.of, r.Group)
		}
	}
	return nil
}

// fakeSides are two clusters in memory.
type fakeSides struct {
	mu           sync.Mutex // guards the fields below: both sides are asked at once
	now          time.Time
	src, dst     map[string]Group
	ends         map[Key]int64
	starts       map[Key]int64 // of the target's logs
	ids          map[string]model.TopicID
	srcErr       error // of the whole source
	dstErr       error // of the whole target
	failed       map[string]error
	retention    time.Duration
	retentionErr error
	partial      error
	seen         []string // groups of the source in the newest look
	read         int      // groups whose positions were read on the target
	asked        []Key
	before       func() // called once, right before the next Apply looks
}

func (f *fakeSides) clock() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// put places a group without members.
func (f *fakeSides) put(side, group string, offset int64) {
	f.putIn(side, group, map[Key]Committed{orders: {Offset: offset, LeaderEpoch: -1}})
}

func (f *fakeSides) putIn(side, group string, offsets map[Key]Committed) {
	f.side(side)[group] = Group{Name: group, Type: TypeClassic, Protocol: "consumer", State: "Empty", Offsets: offsets}
}

func (f *fakeSides) side(side string) map[string]Group {
	if side == "src" {
		return f.src
	}
	return f.dst
}

// join and leave give a group members on a side, or take them.
func (f *fakeSides) become(side, group, state string) {
	g := f.side(side)[group]
	g.Name, g.Type, g.State = group, TypeClassic, state
	f.side(side)[group] = g
}

func (f *fakeSides) at(side, group string) int64 {
	if o, ok := f.side(side)[group].Offsets[orders]; ok {
		return o.Offset
	}
	return -1
}

func (f *fakeSides) Source(_ context.Context, want func(string) bool) (Picture, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.srcErr != nil {
		return Picture{}, f.srcErr
	}
	p := Picture{Groups: map[string]Group{}, Failed: map[string]error{}, Partial: f.partial}
	f.seen = nil
	for name, g := range f.src {
		if !want(name) {
			continue
		}
		f.seen = append(f.seen, name)
		if err := f.failed[name]; err != nil {
			p.Failed[name] = err
			continue
		}
		g.Offsets = maps.Clone(g.Offsets)
		p.Groups[name] = g
	}
	return p, nil
}

func (f *fakeSides) Listed(context.Context) (Picture, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := Picture{Groups: map[string]Group{}}
	for name, g := range f.dst {
		g.Offsets = nil
		p.Groups[name] = g
	}
	return p, f.dstErr
}

func (f *fakeSides) Target(_ context.Context, names []string) Picture {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.read += len(names)
	p := Picture{Groups: map[string]Group{}}
	for _, name := range names {
		if g, ok := f.dst[name]; ok {
			g.Offsets = maps.Clone(g.Offsets)
			p.Groups[name] = g
		}
	}
	return p
}

func (f *fakeSides) Ends(_ context.Context, keys []Key) map[Key]int64 {
	f.asked = append(f.asked, keys...)
	return f.ends
}

func (f *fakeSides) SourceIDs(context.Context, []string) map[string]model.TopicID { return f.ids }

func (f *fakeSides) Starts(context.Context, []Key) map[Key]int64 { return f.starts }

func (f *fakeSides) Apply(ctx context.Context, rows []Row) []Row {
	if f.before != nil {
		f.before()
		f.before = nil
	}
	rows = slices.Clone(rows)
	var names []string
	for _, r := range rows {
		if r.Write {
			names = append(names, r.DstGroup)
		}
	}
	now := f.Target(ctx, names)
	for i := range rows {
		r := &rows[i]
		if !r.Write {
			continue
		}
		r.Write = false
		if state, detail := changed(now, *r); state != "" {
			r.settle(state, detail)
			continue
		}
		g := f.dst[r.DstGroup]
		if g.Name == "" {
			g = Group{Name: r.DstGroup, Type: TypeClassic, Protocol: "consumer", State: "Empty"}
		}
		if g.Offsets = maps.Clone(g.Offsets); g.Offsets == nil {
			g.Offsets = map[Key]Committed{}
		}
		g.Offsets[r.dstKey()] = Committed{Offset: r.Translated, LeaderEpoch: -1, Metadata: r.Metadata}
		f.dst[r.DstGroup] = g
		r.settle(StateSynced, r.Detail)
	}
	return rows
}

func (f *fakeSides) Retention(context.Context) (time.Duration, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.retention, f.retentionErr
}

// copied makes a lane longer by n records.
func (r *rig) copied(k Key, n int64) {
	lane := r.lanes[k]
	m := lane.Map.Clone()
	src, dst := m.End()
	if err := m.Append(model.Span{Src: src, Dst: dst, N: n}); err != nil {
		r.t.Fatal(err)
	}
	lane.Map = m
	r.lanes[k] = lane
}
