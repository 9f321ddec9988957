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
	names  Names
	copied func() bool // nil: nobody else writes the topic
}

// once makes sure of the topic, unless it is made, and writes a heartbeat.
func (b *beat) once(ctx context.Context, made bool) error {
	if b.copied != nil && b.copied() {
		return nil
	}
	if !made {
		if err := b.ensure(ctx); err != nil {
			return err
		}
	}
	return b.at(ctx, time.Now())
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
		err := b.once(ctx, made)
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
