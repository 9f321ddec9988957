package mm2

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// beat keeps one heartbeats topic.
type beat struct {
	*board
	names Names
}

// at writes the heartbeat of a time.
func (b *beat) at(ctx context.Context, now time.Time) error {
	h := Heartbeat{Source: b.names.Source, Target: b.names.Target, Milliseconds: now.UnixMilli()}
	key, value, err := h.Encode()
	if err != nil {
		return err
	}
	_, err = b.write(ctx, []*kgo.Record{{Key: key, Value: value, Timestamp: time.UnixMilli(h.Milliseconds)}})
	return err
}

// run writes a heartbeat every so often until ctx ends, and notes what becomes of it.
func (b *beat) run(ctx context.Context, every time.Duration, note func(error)) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	made := false
	for {
		var err error
		if !made {
			err = b.ensure(ctx)
		}
		if err == nil {
			err = b.at(ctx, time.Now())
		}
		made = err == nil
		if !errors.Is(err, context.Canceled) {
			note(err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
