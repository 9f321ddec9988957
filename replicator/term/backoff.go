package term

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff waits longer each time, with jitter, up to a bound. The zero value starts at 10 ms and ends at 500 ms.
type backoff struct{ next time.Duration }

const (
	backoffMin = 10 * time.Millisecond
	backoffMax = 500 * time.Millisecond
)

// wait blocks for the next pause, or until ctx ends, whose cause it returns then.
func (b *backoff) wait(ctx context.Context) error {
	b.next = min(max(2*b.next, backoffMin), backoffMax)
	t := time.NewTimer(b.next/2 + rand.N(b.next/2+1))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
