package replicator

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	backoffFirst = 20 * time.Millisecond
	backoffMost  = 2 * time.Second
)

// backoff spaces attempts out, with jitter, so that many lanes do not come back at the same moment.
type backoff struct{ next time.Duration }

func newBackoff() *backoff { return &backoff{next: backoffFirst} }

func (b *backoff) reset() { b.next = backoffFirst }

// step returns the next wait and doubles the one after it.
func (b *backoff) step() time.Duration {
	d := b.next
	b.next = min(b.next*2, backoffMost)
	return jitter(d)
}

// wait sleeps for the next step, or until ctx ends.
func (b *backoff) wait(ctx context.Context) { pauseFor(ctx, b.step()) }

// waitFor is the wait before attempt n, counted from 1, up to most.
func waitFor(n int, most time.Duration) time.Duration {
	return jitter(min(backoffFirst<<min(n, 10), most))
}

func jitter(d time.Duration) time.Duration {
	return d/2 + rand.N(d)
}

func pauseFor(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
