package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// fetchManyGroups is the first version of OffsetFetch that asks for several groups (Kafka 3.0).
	fetchManyGroups = 8
	// The last versions that name topics: later ones leave out what groups have in topics that were deleted, and need the
	// ids of topics to write.
	fetchByName  = 9
	commitByName = 9
)

// FetchOffsets asks a coordinator for all committed offsets of groups, in one request. Partitions whose offset an open
// transaction is about to change have UNSTABLE_OFFSET_COMMIT. A broker older than Kafka 3.0 answers for the first group
// only: then there is one result. At least one group must be named.
func (c *Cluster) FetchOffsets(ctx context.Context, broker int32, groups []string) ([]kmsg.OffsetFetchResponseGroup, error) {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.RequireStable = true
	req.Group = groups[0]
	req.Groups = make([]kmsg.OffsetFetchRequestGroup, len(groups))
	for i, g := range groups {
		req.Groups[i] = kmsg.NewOffsetFetchRequestGroup()
		req.Groups[i].Group = g
	}
	resp, err := twice(ctx, func() (kmsg.Response, error) {
		return c.admin.Broker(int(broker)).Request(ctx, Pinned{Request: req, Max: fetchByName})
	})
	if err != nil {
		return nil, fmt.Errorf("fetch offsets of groups from broker %d of cluster %s: %w", broker, c.Name(), err)
	}
	r := resp.(*kmsg.OffsetFetchResponse)
	if r.Version < fetchManyGroups {
		return []kmsg.OffsetFetchResponseGroup{onlyGroup(groups[0], r)}, nil
	}
	return r.Groups, nil
}

// onlyGroup gives an answer of a version without groups the form of later ones.
func onlyGroup(name string, r *kmsg.OffsetFetchResponse) kmsg.OffsetFetchResponseGroup {
	g := kmsg.OffsetFetchResponseGroup{Group: name, ErrorCode: r.ErrorCode}
	for _, t := range r.Topics {
		gt := kmsg.OffsetFetchResponseGroupTopic{Topic: t.Topic}
		for _, p := range t.Partitions {
			gt.Partitions = append(gt.Partitions, kmsg.OffsetFetchResponseGroupTopicPartition{
				Partition: p.Partition, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, Metadata: p.Metadata, ErrorCode: p.ErrorCode,
			})
		}
		g.Topics = append(g.Topics, gt)
	}
	return g
}

// CommitOffsets sends one commit to a group's coordinator, as a client that is no member: a coordinator refuses it while
// the group has members. It returns the partitions' error codes; the error means that none is known, and so whether it
// was written is not known either.
func (c *Cluster) CommitOffsets(ctx context.Context, broker int32, req *kmsg.OffsetCommitRequest) (*kmsg.OffsetCommitResponse, error) {
	ctx, cancel := c.deadline(ctx)
	defer cancel()
	way := c.commits.take(func() (*kgo.Client, error) { return c.NewClient("commit") })
	defer c.commits.give(way)
	resp, err := way.cl.Broker(int(broker)).Request(ctx, Pinned{Request: req, Max: commitByName})
	if err != nil {
		return nil, fmt.Errorf("commit offsets of group %s to broker %d of cluster %s: %w", req.Group, broker, c.Name(), withCause(ctx, err))
	}
	return resp.(*kmsg.OffsetCommitResponse), nil
}

// DeleteOffsets takes positions from a group that has no members, or none that follow those topics, at its coordinator.
// It returns the partitions' error codes; needs Kafka 2.4 or newer.
func (c *Cluster) DeleteOffsets(ctx context.Context, broker int32, req *kmsg.OffsetDeleteRequest) (*kmsg.OffsetDeleteResponse, error) {
	ctx, cancel := c.deadline(ctx)
	defer cancel()
	resp, err := req.RequestWith(ctx, c.admin.Broker(int(broker)))
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return nil, fmt.Errorf("delete offsets of group %s at broker %d of cluster %s: %w", req.Group, broker, c.Name(), withCause(ctx, err))
	}
	return resp, nil
}
