package checkpoint

import (
	"context"
	"fmt"
	"time"

	"lockstep/internal/kafka"
	"lockstep/internal/model"
)

// clusters are the two real sides.
type clusters struct {
	src, dst *kafka.Cluster
	source   *Observer
}

// NewSides returns the sides of a link, for one Syncer. They close nothing.
func NewSides(src, dst *kafka.Cluster) Sides { return clusters{src, dst, NewObserver(src)} }

func (c clusters) Source(ctx context.Context, want func(string) bool) (Picture, error) {
	return c.source.Observe(ctx, want)
}

// Listed leaves out offsets: a look at the states of thousands of groups costs one request per coordinator.
func (c clusters) Listed(ctx context.Context) (Picture, error) {
	at, err := coordination(ctx, c.dst)
	if err != nil {
		return Picture{}, fmt.Errorf("list groups of cluster %s: %w", c.dst.Name(), err)
	}
	l := newLook(c.dst, nil)
	c.dst.EachBroker(ctx, at.brokers, kafka.BrokerPatience, func(ctx context.Context, broker int32, heard func()) {
		for _, g := range l.list(ctx, broker, heard) {
			l.found(groupOf(g))
		}
	})
	p := l.picture()
	if len(l.silent) == len(at.brokers) {
		return p, fmt.Errorf("list groups of cluster %s: %w", c.dst.Name(), p.Partial)
	}
	return p, nil
}

func (c clusters) Target(ctx context.Context, names []string) Picture {
	return Reread(ctx, c.dst, names)
}

func (c clusters) Ends(ctx context.Context, keys []Key) map[Key]int64 {
	return offsetsAt(ctx, c.src, keys, kafka.AtEnd)
}

func (c clusters) SourceIDs(ctx context.Context, topics []string) map[string]model.TopicID {
	meta, err := c.src.Metadata(ctx, topics...)
	if err != nil {
		return nil
	}
	out := make(map[string]model.TopicID, len(topics))
	for name, t := range meta.Topics {
		if t.Err == nil {
			out[name] = t.ID
		}
	}
	return out
}

func (c clusters) Starts(ctx context.Context, keys []Key) map[Key]int64 {
	return offsetsAt(ctx, c.dst, keys, kafka.AtStart)
}

func offsetsAt(ctx context.Context, c *kafka.Cluster, keys []Key, at int64) map[Key]int64 {
	parts := make([]kafka.Part, len(keys))
	for i, k := range keys {
		parts[i] = kafka.Part{Topic: k.Topic, Partition: k.Partition}
	}
	out := make(map[Key]int64, len(keys))
	for p, o := range c.ListOffsets(ctx, parts, at, false) {
		if o.Err == nil {
			out[Key{p.Topic, p.Partition}] = o.Offset
		}
	}
	return out
}

func (c clusters) Apply(ctx context.Context, rows []Row) []Row { return Apply(ctx, c.dst, rows) }

func (c clusters) Retention(ctx context.Context) (time.Duration, error) {
	return OffsetsRetention(ctx, c.dst)
}
