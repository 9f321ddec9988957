package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	latest   = int64(-1)
	earliest = int64(-2)
)

// leaderOf is a partition and who leads it.
type leaderOf struct {
	partition int32
	leader    int32
	epoch     int32
}

// pinned is a request that is never sent above a version.
type pinned struct {
	kmsg.Request
	max int16
}

func (p pinned) MaxVersion() int16 { return min(p.max, p.Request.MaxVersion()) }

// Versions that still name topics; later ones want ids.
const (
	produceByName = 12
	fetchByName   = 12
)

// rawMetadata returns the partitions of a topic, sorted, past every cache of the client.
func rawMetadata(ctx context.Context, c Target, topic string) ([]leaderOf, error) {
	return metadataFrom(ctx, c.Admin(), topic)
}

// metadataOf is rawMetadata as one broker tells it.
func metadataOf(ctx context.Context, c Target, node int32, topic string) ([]leaderOf, error) {
	return metadataFrom(ctx, c.Admin().Broker(int(node)), topic)
}

func metadataFrom(ctx context.Context, from kmsg.Requestor, topic string) ([]leaderOf, error) {
	req := kmsg.NewPtrMetadataRequest()
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = kmsg.StringPtr(topic)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(ctx, from)
	if err != nil {
		return nil, fmt.Errorf("read metadata of %s: %w", topic, err)
	}
	if len(resp.Topics) != 1 {
		return nil, fmt.Errorf("read metadata of %s: %d topics in the answer", topic, len(resp.Topics))
	}
	if err := kerr.ErrorForCode(resp.Topics[0].ErrorCode); err != nil {
		return nil, fmt.Errorf("read metadata of %s: %w", topic, err)
	}
	var out []leaderOf
	for _, p := range resp.Topics[0].Partitions {
		out = append(out, leaderOf{partition: p.Partition, leader: p.Leader, epoch: p.LeaderEpoch})
	}
	slices.SortFunc(out, func(a, b leaderOf) int { return int(a.partition - b.partition) })
	return out, nil
}

// askLeader calls fn with the partition's leader, again with fresh metadata while the leader is not the one.
func askLeader[T any](ctx context.Context, c Target, topic string, partition int32, fn func(leaderOf) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		out, err := askOnce(ctx, c, topic, partition, fn)
		if err == nil || !retriable(err) {
			return out, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return out, err
		}
	}
}

func askOnce[T any](ctx context.Context, c Target, topic string, partition int32, fn func(leaderOf) (T, error)) (out T, err error) {
	parts, err := rawMetadata(ctx, c, topic)
	if err != nil {
		return out, err
	}
	i := slices.IndexFunc(parts, func(p leaderOf) bool { return p.partition == partition })
	if i < 0 {
		return out, fmt.Errorf("find leader of %s/%d: no such partition", topic, partition)
	}
	if parts[i].leader < 0 {
		return out, kerr.LeaderNotAvailable
	}
	return fn(parts[i])
}

// retriable is true for errors that end by themselves: a leader that moves or a connection that was cut.
func retriable(err error) bool {
	var ke *kerr.Error
	if errors.As(err, &ke) {
		return ke.Retriable && !errors.Is(err, kerr.CorruptMessage)
	}
	return kgo.IsRetryableBrokerErr(err)
}

// listOffset asks the leader for an offset: latest or earliest, or the first at or after a time in milliseconds.
func listOffset(ctx context.Context, c Target, topic string, p leaderOf, at int64, committed bool) (int64, error) {
	got, err := listOffsets(ctx, c, topic, p.leader, []leaderOf{p}, at, committed)
	if err != nil {
		return 0, err
	}
	return got[0].Offset, kerr.ErrorForCode(got[0].ErrorCode)
}

// allLeadersAnswer asks each leader for the ends of its partitions, in one request per leader.
func allLeadersAnswer(ctx context.Context, c Target, topic string, parts []leaderOf) error {
	byLeader := map[int32][]leaderOf{}
	for _, p := range parts {
		byLeader[p.leader] = append(byLeader[p.leader], p)
	}
	for leader, ps := range byLeader {
		got, err := listOffsets(ctx, c, topic, leader, ps, latest, false)
		if err != nil {
			return err
		}
		for _, g := range got {
			if err := kerr.ErrorForCode(g.ErrorCode); err != nil {
				return fmt.Errorf("%s/%d at node %d: %w", topic, g.Partition, leader, err)
			}
		}
	}
	return nil
}

// listOffsets asks one broker about partitions of a topic.
func listOffsets(ctx context.Context, c Target, topic string, leader int32, parts []leaderOf, at int64, committed bool) ([]kmsg.ListOffsetsResponseTopicPartition, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	if committed {
		req.IsolationLevel = 1
	}
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = topic
	for _, p := range parts {
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Partition, rp.Timestamp, rp.CurrentLeaderEpoch = p.partition, at, -1
		rt.Partitions = append(rt.Partitions, rp)
	}
	req.Topics = append(req.Topics, rt)
	resp, err := Broker(c, leader).Request(ctx, req)
	if err != nil {
		return nil, err
	}
	got := resp.(*kmsg.ListOffsetsResponse)
	if len(got.Topics) != 1 || len(got.Topics[0].Partitions) != len(parts) {
		return nil, fmt.Errorf("list offsets of %s: the answer does not name its partitions", topic)
	}
	return got.Topics[0].Partitions, nil
}
