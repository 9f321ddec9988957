package offsetsync

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/config"
	"lockstep/internal/kafka"
	"lockstep/internal/kafkatest"
	"lockstep/internal/model"
	"lockstep/internal/statelog"
)

func TestMain(m *testing.M) { kafkatest.Main(m) }

// realProcess is a store and a view over a state topic on a fake cluster, as a lockstep process has them.
func realProcess(t *testing.T, fake *kafkatest.Fake, nonce string) process {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	dst, err := kafka.Dial(config.Cluster{Name: "backup", Brokers: fake.Brokers()}, kafka.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(dst.Close)
	log := statelog.New(dst, "dr", statelog.Options{Logger: quiet, Poll: 50 * time.Millisecond})
	t.Cleanup(log.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	if err := log.Ensure(ctx); err != nil {
		t.Fatal(err)
	}
	v := NewView(log)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := v.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: Run: %v", nonce, err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	return process{NewStore(log, v, nonce), v}
}

func TestStore_TwoProcessesOnKafka(t *testing.T) {
	t.Parallel()
	fake := kafkatest.NewFake(t)
	a, b := realProcess(t, fake, "a"), realProcess(t, fake, "b")
	var openings []Opening
	for i := range int32(50) {
		openings = append(openings, Opening{Lane: model.Lane{Link: "dr", Topic: "t", Partition: i}, N: 1, Identity: theIdentity})
	}
	var wg sync.WaitGroup
	wons := make([][]bool, 2)
	for i, p := range []process{a, b} {
		wg.Go(func() {
			var err error
			if wons[i], err = p.store.Open(t.Context(), openings); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i, o := range openings {
		if wons[0][i] == wons[1][i] {
			t.Fatalf("%s: a won %v, b won %v", o.Lane, wons[0][i], wons[1][i])
		}
	}
	for i, p := range []process{a, b} {
		adds := map[model.Lane]PlanAdd{}
		var saves []Progress
		for j, o := range openings {
			if wons[i][j] {
				adds[o.Lane] = PlanAdd{1, []model.Jump{{Count: 3, Src: 10}}}
				saves = append(saves, Progress{Lane: o.Lane, Opening: 1, Cursor: at(12, 5, 5)})
			}
		}
		if err := p.store.Plan(t.Context(), adds); err != nil {
			t.Fatal(err)
		}
		if err := p.store.Save(t.Context(), saves); err != nil {
			t.Fatal(err)
		}
	}
	late := realProcess(t, fake, "c")
	for _, p := range []process{a, b, late} {
		if err := p.view.Barrier(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := len(p.view.Lanes()); got != len(openings) {
			t.Errorf("%d lanes", got)
		}
		for _, o := range openings {
			st, _ := p.view.Lane(o.Lane)
			if diff := cmp.Diff([]model.Span{{Src: 0, Dst: 0, N: 3}, {Src: 10, Dst: 3, N: 2}}, spansOf(st.Map)); diff != "" || st.Fault != nil {
				t.Fatal(o.Lane, diff, st.Fault)
			}
		}
	}
}
