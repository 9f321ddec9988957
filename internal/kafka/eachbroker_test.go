package kafka

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// askEach runs EachBroker in simulated time: each broker answers after its pauses, or never after a negative one. It
// returns when each broker's question ended, and why.
func askEach(t *testing.T, patience time.Duration, pauses map[int32][]time.Duration) (ended map[int32]time.Duration, errs map[int32]error) {
	t.Helper()
	c := &Cluster{opts: Options{Timeout: 15 * time.Second}}
	ended, errs = map[int32]time.Duration{}, map[int32]error{}
	var brokers []int32
	for b := range pauses {
		brokers = append(brokers, b)
	}
	var mu sync.Mutex
	began := time.Now()
	c.EachBroker(t.Context(), brokers, patience, func(ctx context.Context, broker int32, heard func()) {
		for _, p := range pauses[broker] {
			if p < 0 {
				<-ctx.Done()
			} else {
				wait(ctx, p, nil)
				heard()
			}
		}
		mu.Lock()
		defer mu.Unlock()
		ended[broker] = time.Since(began)
		if ctx.Err() != nil {
			errs[broker] = context.Cause(ctx)
		}
	})
	return ended, errs
}

const hangs = -1

func TestEachBroker_GivesUpTheSilent(t *testing.T) {
	t.Parallel()
	near := func(d, want time.Duration) bool { return d >= want && d < want+2*time.Second }
	synctest.Test(t, func(t *testing.T) {
		ended, errs := askEach(t, 3*time.Second, map[int32][]time.Duration{1: {time.Millisecond}, 2: {hangs}})
		if !near(ended[2], 3*time.Second) || !errors.Is(errs[2], errNoAnswer) || errs[1] != nil || ended[1] != time.Millisecond {
			t.Errorf("another one is through: %v, %v", ended, errs)
		}
		ended, errs = askEach(t, 3*time.Second, map[int32][]time.Duration{1: {hangs}, 2: {hangs}})
		if !near(ended[1], 15*time.Second) || !near(ended[2], 15*time.Second) || !errors.Is(errs[1], errNoAnswer) {
			t.Errorf("all hang: %v, %v", ended, errs)
		}
		ended, errs = askEach(t, 0, map[int32][]time.Duration{1: {time.Millisecond}, 2: {hangs}})
		if !near(ended[2], 15*time.Second) || !errors.Is(errs[2], errNoAnswer) {
			t.Errorf("without patience of its own: %v, %v", ended, errs)
		}
		slow := []time.Duration{2 * time.Second, 2 * time.Second, 2 * time.Second, 2 * time.Second}
		ended, errs = askEach(t, 3*time.Second, map[int32][]time.Duration{1: {time.Millisecond}, 2: slow})
		if ended[2] != 8*time.Second || errs[2] != nil {
			t.Errorf("a slow one that answers: %v, %v", ended, errs)
		}
	})
}

func TestHedged(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	synctest.Test(t, func(t *testing.T) {
		// ask returns after each try's pause; a negative one never answers.
		ask := func(results []error, pauses ...time.Duration) (int, time.Duration, error) {
			var mu sync.Mutex
			tries := 0
			began := time.Now()
			n, err := hedged(t.Context(), func(ctx context.Context) (int, error) {
				mu.Lock()
				i := tries
				tries++
				mu.Unlock()
				if pauses[i] < 0 {
					<-ctx.Done()
					return 0, ctx.Err()
				}
				wait(ctx, pauses[i], nil)
				return i + 1, results[i]
			})
			return n, time.Since(began), err
		}
		if n, took, err := ask([]error{nil}, 200*time.Millisecond); n != 1 || took != 200*time.Millisecond || err != nil {
			t.Errorf("prompt: answer %d after %s, %v", n, took, err)
		}
		if n, took, err := ask([]error{nil, nil}, hangs, 100*time.Millisecond); n != 2 || took != 400*time.Millisecond || err != nil {
			t.Errorf("the first hangs: answer %d after %s, %v", n, took, err)
		}
		if n, _, err := ask([]error{nil, refused}, 500*time.Millisecond, 10*time.Millisecond); n != 1 || err != nil {
			t.Errorf("the second is refused: answer %d, %v", n, err)
		}
		if _, took, err := ask([]error{refused}, 10*time.Millisecond); took != 10*time.Millisecond || !errors.Is(err, refused) {
			t.Errorf("refused after %s: %v", took, err)
		}
		synctest.Wait()
	})
}
