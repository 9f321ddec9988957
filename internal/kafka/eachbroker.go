package kafka

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// BrokerPatience is for how long a loop waits for a silent broker once another one has answered everything it was asked.
// It covers opening a connection over a slow network with TLS and SASL: what is given up has to begin with that again.
const BrokerPatience = 3 * time.Second

// EachBroker lets ask put its questions to several brokers at once, and returns when every call of it has returned. ask
// calls heard after each answer. The context of a broker that is silent for as long as the cluster's deadline ends, and
// that of a broker that is silent for longer than patience while another one is through, unless patience is 0.
func (c *Cluster) EachBroker(ctx context.Context, brokers []int32, patience time.Duration, ask func(ctx context.Context, broker int32, heard func())) {
	var (
		wg      sync.WaitGroup
		through atomic.Bool
	)
	for _, b := range brokers {
		wg.Go(func() {
			ctx, cancel := context.WithCancelCause(ctx)
			beats := make(chan struct{}, 1)
			wg.Go(func() { c.endSilent(ctx, cancel, beats, patience, &through) })
			ask(ctx, b, func() {
				select {
				case beats <- struct{}{}:
				default:
				}
			})
			through.Store(true)
			cancel(nil)
		})
	}
	wg.Wait()
}

// endSilent cancels the context when there have been no beats for too long. It returns when the context ends.
func (c *Cluster) endSilent(ctx context.Context, cancel context.CancelCauseFunc, beats <-chan struct{}, patience time.Duration, through *atomic.Bool) {
	if patience <= 0 || patience > c.opts.Timeout {
		patience = c.opts.Timeout
	}
	tick := time.NewTicker(patience / 10)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-beats:
			last = time.Now()
		case <-tick.C:
			silent := time.Since(last)
			if silent >= c.opts.Timeout || silent >= patience && through.Load() {
				cancel(errNoAnswer)
				return
			}
		}
	}
}

// twice puts a question that changes nothing once more when its connection turned out to be dead: brokers close idle ones.
func twice[T any](ctx context.Context, ask func() (T, error)) (T, error) {
	t, err := ask()
	if action, _ := Classify(err); ctx.Err() == nil && (action == Refresh || action == Retry) {
		t, err = ask()
	}
	if err != nil {
		err = withCause(ctx, err)
	}
	return t, err
}
