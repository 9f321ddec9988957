package checkpoint

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"lockstep/internal/kafka"
	"lockstep/internal/kafkatest"
	"lockstep/internal/model"
	"lockstep/internal/statelog"
	"lockstep/offsetsync"
)

// fixedLanes are lanes that copy nothing any more.
type fixedLanes map[Key]Lane

func (l fixedLanes) Lanes() map[Key]Lane { return maps.Clone(l) }

// fullLane is a lane whose target has all of n records at the same offsets.
func fullLane(t testing.TB, topic string, n int64) Lane {
	t.Helper()
	m := offsetsync.NewMap(0, 0)
	if err := m.Append(model.Span{Src: 0, Dst: 0, N: n}); err != nil {
		t.Fatal(err)
	}
	return Lane{DstTopic: topic, Map: m, Opening: 1, SrcStart: 0, SrcEnd: n, DstStart: -1, DstEnd: n, Readable: n}
}

// timedSides and timedStore tell how long each part of a pass took that took long.
type timedSides struct {
	Sides
	t *testing.T
}

func (s timedSides) Source(ctx context.Context, want func(string) bool) (Picture, error) {
	defer tellLong(s.t, "observe the source", time.Now())
	return s.Sides.Source(ctx, want)
}

func (s timedSides) Target(ctx context.Context, names []string) Picture {
	defer tellLong(s.t, fmt.Sprintf("read %d groups of the target", len(names)), time.Now())
	return s.Sides.Target(ctx, names)
}

func (s timedSides) Apply(ctx context.Context, rows []Row) []Row {
	defer tellLong(s.t, fmt.Sprintf("apply %d rows", len(rows)), time.Now())
	return s.Sides.Apply(ctx, rows)
}

type timedStore struct {
	Store
	t *testing.T
}

func (s timedStore) Save(ctx context.Context, rows []Row) error {
	defer tellLong(s.t, "save bases", time.Now())
	return s.Store.Save(ctx, rows)
}

func tellLong(t *testing.T, what string, began time.Time) {
	if took := time.Since(began); took > 100*time.Millisecond {
		t.Logf("  %s: %s", what, took)
	}
}

// filterAll keeps every group under its own name.
type filterAll struct{}

func (filterAll) Excludes(string) string     { return "" }
func (filterAll) Target(group string) string { return group }

// 5,000 groups with 50,000 positions, on real brokers: a pass in which everything changed, passes in which nothing did,
// and how soon a change is on the target.
func TestSyncer_FiveThousandGroups(t *testing.T) {
	kafkatest.Long(t)
	const groups, parts, interval = 5000, 10, 2 * time.Second
	sides := kafkatest.StartAll(t, kafkatest.Options{}, kafkatest.Options{})
	src, dst := dial(t, sides[0].Brokers(), kafka.Options{}), dial(t, sides[1].Brokers(), kafka.Options{})
	lanes := fixedLanes{}
	topic := kafkatest.Topic(t, sides[0], kafkatest.TopicOptions{Partitions: parts})
	kafkatest.Topic(t, sides[1], kafkatest.TopicOptions{Partitions: parts, Name: topic})
	for p := range int32(parts) {
		lanes[Key{topic, p}] = fullLane(t, topic, 1_000_000)
	}
	name := func(g int) string { return fmt.Sprintf("application-%04d", g) }
	mustCommit(t, src, name(0), map[Key]Committed{{topic, 0}: {Offset: 0}})
	mustCommit(t, dst, "somebody", map[Key]Committed{{topic, 0}: {Offset: 0}})
	place := func(at func(g int) int64) {
		var rows []Row
		p, err := Observe(testContext(t), src, nil)
		if err != nil {
			t.Fatal(err)
		}
		for g := range groups {
			for k := range int32(parts) {
				r := Row{DstGroup: name(g), Key: Key{topic, k}, DstTopic: topic, Target: -1, Translated: at(g), Write: true}
				if o, ok := p.Groups[name(g)].Offsets[r.Key]; ok {
					r.Target = o.Offset
				}
				rows = append(rows, r)
			}
		}
		for _, r := range Apply(testContext(t), src, rows) {
			if r.State != StateSynced {
				t.Fatalf("%+v", r)
			}
		}
	}
	place(func(g int) int64 { return int64(g) })

	log := statelog.New(dst, "scale", statelog.Options{})
	defer log.Close()
	if err := log.Ensure(testContext(t)); err != nil {
		t.Fatal(err)
	}
	view := offsetsync.NewView(log)
	bases, history := NewBases(view, log), NewHistory(view, log)
	ctx, stop := context.WithCancel(t.Context())
	following := make(chan struct{})
	go func() { defer close(following); _ = view.Run(ctx) }() // a fault of it shows in Barrier
	defer func() { stop(); <-following }()
	s := New(Options{Link: "scale", Sides: timedSides{NewSides(src, dst), t}, Lanes: lanes, Store: timedStore{bases, t}, History: history, Barrier: view.Barrier,
		Settings: Settings{Filter: filterAll{}, Interval: interval, Sync: true, MaxRewind: 10_000, RewindHold: 5 * time.Minute}})
	once := func(what string) time.Duration {
		began, used := time.Now(), cpuTime(t)
		if err := s.Once(testContext(t)); err != nil {
			t.Fatal(err)
		}
		took := time.Since(began)
		t.Logf("%s: %s (the pass itself %s), %s of processor time", what, took, s.Last().Took, cpuTime(t)-used)
		return took
	}
	once("first pass, all groups are new")
	for _, r := range s.Last().Rows {
		if r.State != StateSynced && r.Group != "somebody" {
			t.Fatalf("%+v", r)
		}
	}
	once("nothing changed")
	for round := range 2 {
		place(func(g int) int64 { return int64(g + 7*(round+1)) })
		once("all positions changed")
	}
	for range 3 {
		once("nothing changed")
	}

	running := make(chan struct{})
	go func() { defer close(running); s.Run(ctx) }()
	const steady = 30 * time.Second
	began, used := time.Now(), cpuTime(t)
	kafkatest.Eventually(t, 2*steady, func() (bool, string) { return time.Since(began) > steady, "" })
	share := float64(cpuTime(t)-used) / float64(time.Since(began))
	t.Logf("nothing changed for %v, a pass each %v: %.1f %% of one core", steady, interval, 100*share)
	for g := range 3 {
		mustCommit(t, src, name(g), map[Key]Committed{{topic, 1}: {Offset: 999_000}})
		began = time.Now()
		kafkatest.Eventually(t, 30*time.Second, func() (bool, string) {
			at := Reread(testContext(t), dst, []string{name(g)}).Groups[name(g)].Offsets[Key{topic, 1}].Offset
			return at == 999_000, fmt.Sprint(at)
		})
		t.Logf("a changed position was on the target after %s", time.Since(began))
	}
	stop()
	<-running
	if share > 0.05 {
		t.Errorf("%.1f %% of one core while nothing changed, want at most 5", 100*share)
	}
}
