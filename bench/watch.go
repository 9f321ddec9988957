package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// watch looks at a topic's ends from outside, the same way for every copier.
type watch struct {
	admin *kgo.Client
	topic string
	parts int32
	every time.Duration
	tick  func() // called at every look, may be nil
}

// until looks again and again until the sum of the ends is enough, or ctx ends. A topic that does not exist yet, or has
// no leader yet, is waited for.
func (w watch) until(ctx context.Context, enough func(sum int64) bool) error {
	t := time.NewTicker(w.every)
	defer t.Stop()
	for {
		sum, err := w.look(ctx)
		switch {
		case err == nil && enough(sum):
			return nil
		case err != nil && !notYet(err):
			return err
		}
		if w.tick != nil {
			w.tick()
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for topic %s, whose ends sum up to %d: %w", w.topic, sum, context.Cause(ctx))
		}
	}
}

// copied waits for the topic's first record and then for its n-th, and returns the time between them.
func (w watch) copied(ctx context.Context, n int64) (time.Duration, error) {
	if err := w.until(ctx, func(sum int64) bool { return sum > 0 }); err != nil {
		return 0, err
	}
	first := time.Now()
	err := w.until(ctx, func(sum int64) bool { return sum >= n })
	return time.Since(first), err
}

// look asks the broker itself for the ends: the client's own metadata is some time old.
func (w watch) look(ctx context.Context) (sum int64, err error) {
	ends, err := listOffsets(ctx, w.admin, w.topic, w.parts, -1)
	for _, e := range ends {
		sum += e
	}
	return sum, err
}

// listOffsets returns each partition's end (at -1) or start (at -2).
func listOffsets(ctx context.Context, cl *kgo.Client, topic string, parts int32, at int64) ([]int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = topic
	for p := range parts {
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Partition, rp.Timestamp, rp.CurrentLeaderEpoch = p, at, -1
		rt.Partitions = append(rt.Partitions, rp)
	}
	req.Topics = append(req.Topics, rt)
	b, err := onlyBroker(ctx, cl)
	if err != nil {
		return nil, err
	}
	resp, err := b.Request(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("list offsets of %s: %w", topic, err)
	}
	out := make([]int64, parts)
	for _, t := range resp.(*kmsg.ListOffsetsResponse).Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return nil, fmt.Errorf("list offsets of %s/%d: %w", topic, p.Partition, err)
			}
			out[p.Partition] = p.Offset
		}
	}
	return out, nil
}

// onlyBroker returns the one broker of a cluster that has one: the leader of everything.
func onlyBroker(ctx context.Context, cl *kgo.Client) (*kgo.Broker, error) {
	if len(cl.DiscoveredBrokers()) == 0 {
		if _, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, cl); err != nil {
			return nil, fmt.Errorf("ask for brokers: %w", err)
		}
	}
	bs := cl.DiscoveredBrokers()
	if len(bs) != 1 {
		return nil, fmt.Errorf("the cluster has %d brokers; the benchmark's copiers expect one", len(bs))
	}
	return bs[0], nil
}

func notYet(err error) bool {
	return errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.NotLeaderForPartition) ||
		errors.Is(err, kerr.LeaderNotAvailable)
}
