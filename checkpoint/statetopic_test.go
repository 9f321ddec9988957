package checkpoint

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/config"
	"lockstep/internal/kafka"
	"lockstep/internal/kafkatest"
	"lockstep/internal/statelog"
	"lockstep/offsetsync"
)

// process is what one process knows of a link's groups.
type process struct {
	view    *offsetsync.View
	bases   *Bases
	history *History
}

// startProcess follows the state topic on a target until the test ends.
func startProcess(t *testing.T, fake *kafkatest.Fake) process {
	t.Helper()
	c, err := kafka.Dial(config.Cluster{Name: "backup", Brokers: fake.Brokers()}, kafka.Options{})
	if err != nil {
		t.Fatal(err)
	}
	log := statelog.New(c, "dr", statelog.Options{Poll: 50 * time.Millisecond})
	if err := log.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := process{view: offsetsync.NewView(log)}
	p.bases, p.history = NewBases(p.view, log), NewHistory(p.view, log)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = p.view.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait(); log.Close(); c.Close() })
	return p
}

func (p process) barrier(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := p.view.Barrier(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestBases_ThroughTheStateTopic(t *testing.T) {
	t.Parallel()
	fake := kafkatest.NewFake(t)
	a := startProcess(t, fake)
	rows := []Row{saved("billing", orders, Base{Source: 510, Next: 500, At: start}), saved("b/c", orders, Base{Source: 3, Next: 3, At: start})}
	rows[0].State = StateSynced
	if err := a.bases.Save(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	if err := a.history.Note(t.Context(), Pass{At: start, Rows: rows[:1]}); err != nil {
		t.Fatal(err)
	}
	b := startProcess(t, fake)
	b.barrier(t)
	same := cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) })
	if diff := cmp.Diff(a.bases.All(), b.bases.All(), same); diff != "" || len(b.bases.All()) != 2 {
		t.Error(diff)
	}
	if diff := cmp.Diff(a.history.Of("billing"), b.history.Of("billing"), same); diff != "" || len(b.history.Of("billing")) != 1 {
		t.Error(diff)
	}
	if err := forget(t, b.bases, "b/c"); err != nil {
		t.Fatal(err)
	}
	a.barrier(t)
	if all := a.bases.All(); len(all) != 1 || all["billing"][orders].Next != 500 {
		t.Errorf("%+v", all)
	}
	if n := a.view.Unknown(); len(n) > 0 {
		t.Errorf("unknown records: %v", n)
	}
}
