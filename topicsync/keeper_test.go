package topicsync

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/internal/kafkatest"
	"lockstep/topicsync/drift"
)

// counting is a part that does nothing, and notes what it is asked.
type counting struct {
	mu     sync.Mutex // guards the fields below
	scopes []drift.Scope
	inside atomic.Int32
	most   atomic.Int32 // passes at a time
}

func (*counting) Kind() drift.Kind { return drift.Config }

func (c *counting) Pass(_ context.Context, s drift.Scope) drift.Outcome {
	if n := c.inside.Add(1); n > c.most.Load() {
		c.most.Store(n)
	}
	defer c.inside.Add(-1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.scopes = append(c.scopes, s)
	return drift.Outcome{Condition: drift.OK, Items: []drift.Item{{Kind: drift.Config, Topic: "orders", Name: "segment.ms", State: drift.Kept}}}
}

func (c *counting) passes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.scopes)
}

func (c *counting) last() drift.Scope {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.scopes[len(c.scopes)-1]
}

func keeping(t *testing.T, c *counting, change func(*KeeperOptions)) *Keeper {
	t.Helper()
	o := KeeperOptions{Parts: []drift.Part{c}, Scope: func() (drift.Scope, bool) {
		return drift.Scope{Topics: []drift.Topic{{Src: "orders"}, {Src: "payments"}}}, true
	}}
	if change != nil {
		change(&o)
	}
	k := NewKeeper(o)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); k.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return k
}

func awaitPasses(t *testing.T, c *counting, want int) {
	t.Helper()
	kafkatest.Eventually(t, 10*time.Second, func() (bool, string) { n := c.passes(); return n >= want, fmt.Sprint(n, " passes") })
}

// A pass is made at the beginning and when it is woken, not more often, and orders go one after the other.
func TestKeeper_PassesAndOrders(t *testing.T) {
	t.Parallel()
	c := &counting{}
	k := keeping(t, c, nil)
	awaitPasses(t, c, 1)
	k.Wake()
	awaitPasses(t, c, 2)
	if r := k.Report(); r.At.IsZero() || len(r.Items()) != 1 {
		t.Errorf("report %+v", r)
	}
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			if _, err := k.Diff(t.Context(), []string{"orders"}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if s := c.last(); !s.Full || !s.DryRun() || len(s.Topics) != 1 || c.most.Load() != 1 || c.passes() != 7 {
		t.Errorf("%d passes, %d at a time, the last: %+v", c.passes(), c.most.Load(), s)
	}
	r, err := k.Order(t.Context(), drift.Order{Kinds: []drift.Kind{drift.ACL}})
	if err != nil || len(r.Outcomes) != 0 {
		t.Errorf("an order for another kind: %+v, %v", r, err)
	}
}

// While something holds the link, nothing is written; comparing goes on.
func TestKeeper_Held(t *testing.T) {
	t.Parallel()
	c := &counting{}
	var held atomic.Bool
	held.Store(true)
	k := keeping(t, c, func(o *KeeperOptions) {
		o.Held = func() string {
			if held.Load() {
				return "the link is paused"
			}
			return ""
		}
	})
	if _, err := k.Order(t.Context(), drift.Order{}); err == nil || err.Error() != "the link is paused" {
		t.Errorf("order: %v", err)
	}
	if _, err := k.Diff(t.Context(), nil); err != nil {
		t.Errorf("diff: %v", err)
	}
	if n := c.passes(); n != 1 {
		t.Errorf("%d passes, want the comparison alone", n)
	}
	held.Store(false)
	awaitPasses(t, c, 2)
}

func TestKeeper_BeforeTheTopicsWereSeen(t *testing.T) {
	t.Parallel()
	c := &counting{}
	k := keeping(t, c, func(o *KeeperOptions) { o.Scope = func() (drift.Scope, bool) { return drift.Scope{}, false } })
	if _, err := k.Diff(t.Context(), nil); !errors.Is(err, errNoTopics) {
		t.Errorf("diff: %v", err)
	}
	if err := k.Once(t.Context()); !errors.Is(err, errNoTopics) {
		t.Errorf("once: %v", err)
	}
	if c.passes() != 0 {
		t.Errorf("%d passes", c.passes())
	}
}
