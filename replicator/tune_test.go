package replicator

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
)

func TestManager_LimitChangesWhileItIsFelt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &Manager{limiter: rate.NewLimiter(rate.Inf, 0)}
		began := time.Now()
		took := func() time.Duration {
			defer func() { began = time.Now() }()
			return time.Since(began)
		}
		m.Tune(Tuning{})
		m.limit(t.Context(), 1<<30)
		if d := took(); d != 0 {
			t.Errorf("without a limit a GiB took %s", d)
		}
		m.Tune(Tuning{BytesPerSecond: 100})
		m.limit(t.Context(), 1000)
		if d := took(); d < 8*time.Second || d > 10*time.Second {
			t.Errorf("1000 bytes took %s at 100 a second, with a second's worth at once", d)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			m.limit(t.Context(), 1000)
		}()
		synctest.Wait()
		m.Tune(Tuning{BytesPerSecond: 10}) // what was asked for with the larger burst is more than this one allows
		synctest.Wait()
		m.Tune(Tuning{})
		<-done
		if d := took(); d > 2*time.Second {
			t.Errorf("the limit was lifted, and the rest took %s", d)
		}
	})
}

func TestManager_LimitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &Manager{limiter: rate.NewLimiter(rate.Inf, 0)}
		m.Tune(Tuning{BytesPerSecond: 1})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		m.limit(ctx, 1<<30)
		if d := time.Since(began); d > time.Minute {
			t.Errorf("it went on for %s", d)
		}
	})
}

func TestBudget_LargerLimitLetsWaitersGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(100)
		b.take(150)
		got := make(chan int64, 1)
		go func() {
			n, _ := b.room(t.Context())
			got <- n
		}()
		synctest.Wait()
		b.SetLimit(120) // still less than what is held
		synctest.Wait()
		if len(got) > 0 {
			t.Fatalf("there is room for %d while more is held than the limit", <-got)
		}
		b.SetLimit(200)
		if n := <-got; n != 50 {
			t.Errorf("room for %d, want 50", n)
		}
		b.SetLimit(40) // what is held goes back as it is settled
		go func() {
			n, _ := b.room(t.Context())
			got <- n
		}()
		synctest.Wait()
		b.give(100)
		synctest.Wait()
		if len(got) > 0 {
			t.Fatalf("there is room for %d with 50 held of 40", <-got)
		}
		b.give(20)
		if n := <-got; n != 10 {
			t.Errorf("room for %d, want 10", n)
		}
	})
}
