package kafka

import (
	"context"
	"time"
)

// hedgeAfter is when a question that any broker can answer goes to a second one too. The client library takes another
// broker for it.
const hedgeAfter = 300 * time.Millisecond

// hedged asks, and asks a second time when there is no answer soon: the first broker may hang. It returns the first good
// answer, or the last error.
func hedged[T any](ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		t   T
		err error
	}
	answers := make(chan answer, 2)
	start := func() {
		t, err := ask(ctx)
		answers <- answer{t, err}
	}
	go start()
	late := time.NewTimer(hedgeAfter)
	defer late.Stop()
	for asked, got := 1, 0; ; {
		select {
		case <-late.C:
			asked++
			go start()
		case a := <-answers:
			if got++; a.err == nil || got == asked {
				return a.t, a.err
			}
		}
	}
}

// QuickMetadata is Metadata for those who must not wait for a broker that hangs: when one does not answer soon, another
// is asked as well.
func (c *Cluster) QuickMetadata(ctx context.Context, topics ...string) (Meta, error) {
	return hedged(ctx, func(ctx context.Context) (Meta, error) { return c.Metadata(ctx, topics...) })
}
