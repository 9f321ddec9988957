package kafka

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// located is a partition with its leader. Its Part is the one that was asked for; topic is what the leader's cluster
// calls it.
type located struct {
	Part
	leader leaderInfo
}

// rounds is how often a question to leaders is put: the second time to those that moved, or whose connection had
// been closed while it was idle.
const rounds = 2

// askLeaders puts one question about many partitions to their leaders: fresh metadata first, then one call per broker,
// all brokers at once. Partitions whose error may be over with fresh metadata are asked once more. Every partition is
// in the result: with an answer, or with failed(err).
func askLeaders[T any](ctx context.Context, c *Cluster, parts []Part, call func(ctx context.Context, broker int32, parts []located) (map[Part]T, error), failed func(error) T, errOf func(T) error) map[Part]T {
	ctx, cancel := c.deadline(ctx)
	defer cancel()
	out := make(map[Part]T, len(parts))
	todo := parts
	for range rounds {
		byBroker, lost := c.locate(ctx, todo)
		for p, err := range lost {
			out[p] = failed(err)
		}
		for broker, answers := range askBrokers(ctx, byBroker, call) {
			for _, l := range byBroker[broker] {
				if t, ok := answers.parts[l.Part]; ok {
					out[l.Part] = t
				} else {
					out[l.Part] = failed(fmt.Errorf("ask broker %d about %s: %w", broker, l.Part, answers.reason()))
				}
			}
		}
		if todo = unsettled(parts, out, errOf); len(todo) == 0 || ctx.Err() != nil {
			break
		}
	}
	return out
}

// unsettled lists the partitions whose error may be over once the metadata is fresh.
func unsettled[T any](parts []Part, out map[Part]T, errOf func(T) error) []Part {
	return slices.DeleteFunc(slices.Clone(parts), func(p Part) bool {
		err := errOf(out[p])
		if err == nil {
			return true
		}
		action, _ := Classify(err)
		return action != Refresh && action != Retry
	})
}

// locate finds the leaders of partitions, grouped by broker, and says of the others why there is none.
func (c *Cluster) locate(ctx context.Context, parts []Part) (map[int32][]located, map[Part]error) {
	lost := map[Part]error{}
	byBroker := map[int32][]located{}
	meta, err := c.metadata(ctx, c.admin, topicsOf(parts))
	for _, p := range parts {
		if err != nil {
			lost[p] = err
			continue
		}
		l, lerr := meta.leaderOf(p)
		if lerr != nil {
			lost[p] = fmt.Errorf("find leader of %s: %w", p, lerr)
			continue
		}
		byBroker[l.Broker] = append(byBroker[l.Broker], located{p, l})
	}
	return byBroker, lost
}

func topicsOf(parts []Part) []string {
	names := map[string]struct{}{}
	for _, p := range parts {
		names[p.Topic] = struct{}{}
	}
	return slices.AppendSeq(make([]string, 0, len(names)), maps.Keys(names))
}

type brokerAnswer[T any] struct {
	parts map[Part]T
	err   error
}

func (a brokerAnswer[T]) reason() error {
	if a.err != nil {
		return a.err
	}
	return errOmitted
}

func askBrokers[T any](ctx context.Context, byBroker map[int32][]located, call func(context.Context, int32, []located) (map[Part]T, error)) map[int32]brokerAnswer[T] {
	var (
		wg  sync.WaitGroup
		mu  sync.Mutex
		out = make(map[int32]brokerAnswer[T], len(byBroker))
	)
	for broker, parts := range byBroker {
		wg.Go(func() {
			answers, err := call(ctx, broker, parts)
			if err != nil {
				err = withCause(ctx, err)
			}
			mu.Lock()
			defer mu.Unlock()
			out[broker] = brokerAnswer[T]{answers, err}
		})
	}
	wg.Wait()
	return out
}

// byTopic groups partitions by the name of their topic, for requests that nest them.
func byTopic(parts []located) map[string][]located {
	out := map[string][]located{}
	for _, p := range parts {
		out[p.Topic] = append(out[p.Topic], p)
	}
	return out
}
