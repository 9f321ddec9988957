package reset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"lockstep/checkpoint"
	"lockstep/internal/kafka"
)

// Partitions lists the partitions of topics, all of them when none is named. A topic that does not exist is an error.
func Partitions(ctx context.Context, c *kafka.Cluster, topics []Topic) ([]checkpoint.Key, error) {
	names := make([]string, len(topics))
	for i, t := range topics {
		names[i] = t.Name
	}
	meta, err := c.Metadata(ctx, names...)
	if err != nil {
		return nil, err
	}
	if len(topics) == 0 {
		for _, name := range slices.Sorted(maps.Keys(meta.Topics)) {
			if !meta.Topics[name].Internal {
				topics = append(topics, Topic{Name: name})
			}
		}
	}
	var out []checkpoint.Key
	var errs []error
	for _, t := range topics {
		tm, ok := meta.Topics[t.Name]
		switch {
		case !ok || errors.Is(tm.Err, kerr.UnknownTopicOrPartition):
			errs = append(errs, fmt.Errorf("cluster %s has no topic %s", c.Name(), t.Name))
			continue
		case tm.Err != nil:
			errs = append(errs, fmt.Errorf("topic %s on cluster %s: %w", t.Name, c.Name(), tm.Err))
			continue
		}
		want := t.Partitions
		for _, p := range tm.Parts {
			if t.Partitions == nil {
				want = append(want, p.Partition)
			}
		}
		for _, p := range want {
			if _, ok := tm.Part(p); !ok {
				errs = append(errs, fmt.Errorf("cluster %s has no partition %s/%d", c.Name(), t.Name, p))
			}
			out = append(out, checkpoint.Key{Topic: t.Name, Partition: p})
		}
	}
	return out, errors.Join(errs...)
}

// Logs asks for the ends of the partitions' logs and, with a time that is not zero, for the first record at or after it.
// Partitions that do not exist are left out.
func Logs(ctx context.Context, c *kafka.Cluster, keys []checkpoint.Key, t time.Time) map[checkpoint.Key]Log {
	parts := make([]kafka.Part, len(keys))
	for i, k := range keys {
		parts[i] = kafka.Part{Topic: k.Topic, Partition: k.Partition}
	}
	out := make(map[checkpoint.Key]Log, len(keys))
	if len(keys) == 0 {
		return out
	}
	var start, end, stable, byTime map[kafka.Part]kafka.Offset
	var wg sync.WaitGroup
	wg.Go(func() { start = c.ListOffsets(ctx, parts, kafka.AtStart, false) })
	wg.Go(func() { end = c.ListOffsets(ctx, parts, kafka.AtEnd, false) })
	wg.Go(func() { stable = c.ListOffsets(ctx, parts, kafka.AtEnd, true) })
	if !t.IsZero() {
		wg.Go(func() { byTime = c.ListOffsets(ctx, parts, millis(t), false) })
	}
	wg.Wait()
	for i, p := range parts {
		l := Log{Start: start[p].Offset, Stable: stable[p].Offset, End: end[p].Offset, AtTime: -1}
		l.Err = cmp.Or(start[p].Err, end[p].Err, stable[p].Err, byTime[p].Err)
		if errors.Is(l.Err, kerr.UnknownTopicOrPartition) {
			continue
		}
		if !t.IsZero() {
			l.AtTime = byTime[p].Offset
		}
		out[keys[i]] = l
	}
	return out
}

// millis returns the first millisecond at or after a time. Before 1970 it is 0: negative numbers mean other things to a
// broker, and there all records are behind it.
func millis(t time.Time) int64 {
	return max(0, t.Add(time.Millisecond-1).UnixMilli())
}
