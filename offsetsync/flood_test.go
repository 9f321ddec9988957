package offsetsync

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"lockstep/config"
	"lockstep/internal/kafka"
	"lockstep/internal/kafkatest"
	"lockstep/internal/model"
	"lockstep/internal/statelog"
)

// flood is what 2,000 lanes of a source full of small transactions write in ten minutes: 20 jumps a second each.
const (
	floodLanes  = 2000
	floodRounds = 600 * 20 // one jump for each lane
	floodTxns   = 64       // sources that the lanes have, each with transactions of other sizes
	floodWrite  = 512      // lanes in one write, as the copy plane's planner has them
)

// TestFlood_TenMinutesOfJumps measures what a failover has to read after a source that commits all the time. The jumps are
// written as fast as they can be, which leaves the cleaner less time than ten minutes would.
func TestFlood_TenMinutesOfJumps(t *testing.T) {
	kafkatest.Long(t)
	c := kafkatest.Start(t, kafkatest.Options{Version: kafkatest.Kafka4, Nodes: 1})
	ctx, cancel := context.WithTimeout(t.Context(), 9*time.Minute)
	defer cancel()
	writer := followReal(ctx, t, c)
	store := NewStore(writer.log, writer.view, "flood")
	lanes, sources := floodOpen(ctx, t, store), floodSources(t)
	began, most := time.Now(), int64(0)
	for round := range int64(floodRounds) {
		floodRound(ctx, t, store, lanes, sources, round)
		if round%20 == 19 {
			floodSave(ctx, t, store, lanes, sources, round+1)
		}
		if round%200 == 199 {
			most = max(most, topicBytes(ctx, t, c))
		}
		if round%2000 == 1999 {
			t.Logf("%d of %d jumps a lane after %s; the topic took at most %s", round+1, floodRounds, time.Since(began).Round(time.Second), megabytes(most))
		}
	}
	took := time.Since(began)

	reads := topicBytes(ctx, t, c)
	began = time.Now()
	reader := followReal(ctx, t, c)
	if err := reader.view.Barrier(ctx); err != nil {
		t.Fatal(err)
	}
	seconds := time.Since(began)
	t.Logf("%d jumps in %s (%.0f a second); at most %s; read again: %s in %s", floodLanes*floodRounds, took.Round(time.Second),
		floodLanes*floodRounds/took.Seconds(), megabytes(most), megabytes(reads), seconds.Round(10*time.Millisecond))
	if most > 200<<20 {
		t.Errorf("a failover would have had to read %s, want at most 200 MB", megabytes(most))
	}
	for i, l := range lanes {
		floodExact(t, reader.view, l, sources[i%floodTxns])
	}
}

type following struct {
	log  *statelog.Log
	view *View
}

// followReal follows the state topic of a cluster until ctx ends.
func followReal(ctx context.Context, t *testing.T, c *kafkatest.Cluster) following {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	dst, err := kafka.Dial(config.Cluster{Name: "backup", Brokers: c.Brokers()}, kafka.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	log := statelog.New(dst, "dr", statelog.Options{Logger: quiet})
	if err := log.Ensure(ctx); err != nil {
		t.Fatal(err)
	}
	f := following{log, NewView(log)}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := f.view.Run(ctx); ctx.Err() == nil {
			t.Errorf("follow: %v", err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait(); log.Close(); dst.Close() })
	return f
}

func floodOpen(ctx context.Context, t *testing.T, s *Store) []model.Lane {
	t.Helper()
	var openings []Opening
	var lanes []model.Lane
	for i := range int32(floodLanes) {
		l := model.Lane{Link: "dr", Topic: fmt.Sprintf("orders.region-%d", i/10), Partition: i % 10}
		lanes = append(lanes, l)
		openings = append(openings, Opening{Lane: l, N: 1, Identity: theIdentity, Term: model.Term{N: 1, PID: 4000, Owner: "a"}})
	}
	won, err := s.Open(ctx, openings)
	if err != nil || slices.Contains(won, false) {
		t.Fatalf("open: %v, won %d of %d", err, len(won), floodLanes)
	}
	return lanes
}

// floodSources returns, for each source, how many records its first n transactions hold. Behind each stands a marker.
func floodSources(t *testing.T) [][]int64 {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	out := make([][]int64, floodTxns)
	for i := range out {
		out[i] = make([]int64, floodRounds+1)
		for n := range floodRounds {
			out[i][n+1] = out[i][n] + 1 + random.Int64N(40)
		}
	}
	return out
}

// floodRound gives each lane one jump.
func floodRound(ctx context.Context, t *testing.T, s *Store, lanes []model.Lane, sources [][]int64, round int64) {
	t.Helper()
	for from := 0; from < len(lanes); from += floodWrite {
		chunk := lanes[from:min(from+floodWrite, len(lanes))]
		adds := make(map[model.Lane]PlanAdd, len(chunk))
		for i, l := range chunk {
			count := sources[(from+i)%floodTxns][round+1]
			adds[l] = PlanAdd{Opening: 1, Jumps: []model.Jump{{Count: count, Src: count + round + 1}}}
		}
		if err := s.Plan(ctx, adds); err != nil {
			t.Fatal(err)
		}
	}
}

func floodSave(ctx context.Context, t *testing.T, s *Store, lanes []model.Lane, sources [][]int64, rounds int64) {
	t.Helper()
	ps := make([]Progress, len(lanes))
	for i, l := range lanes {
		count := sources[i%floodTxns][rounds]
		ps[i] = Progress{Lane: l, Opening: 1, Cursor: model.Cursor{Src: count + rounds, Dst: count, Count: count}}
	}
	if err := s.Save(ctx, ps); err != nil {
		t.Fatal(err)
	}
}

// floodExact compares some translations of a lane with what they must be: offsets of records, and of markers.
func floodExact(t *testing.T, v *View, l model.Lane, source []int64) {
	t.Helper()
	for range 20 {
		txn := rand.IntN(floodRounds)
		want := source[txn] + rand.Int64N(source[txn+1]-source[txn]+1) // the last one is the marker behind it
		if got, ok := v.Translate(l, want+int64(txn)); !ok || got.Offset != want {
			t.Fatalf("%s: source offset %d is at %+v (%v), want %d", l, want+int64(txn), got, ok, want)
		}
	}
}

// topicBytes returns what the state topic's logs take on the brokers' disks.
func topicBytes(ctx context.Context, t *testing.T, c *kafkatest.Cluster) int64 {
	t.Helper()
	dirs, err := c.Kadm().DescribeAllLogDirs(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	var sum int64
	for _, p := range dirs.Sorted() {
		sum += p.Topics.Size()
	}
	return sum
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/(1<<20)) }
