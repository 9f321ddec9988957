package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// EpochEnd is a leader's answer about a leader epoch: the largest epoch up to the asked one that its log knows, and the
// offset behind the last record of it. Both are -1 when the log knows no epoch as new as the asked one at all, and no
// newer one either: the log is older than what was asked for.
//
// Where the log begins with a newer epoch, the asked one comes back with the log's start: what was in front is deleted.
type EpochEnd struct {
	Epoch  int32
	End    int64
	Leader int32 // the leader's present epoch, -1 when it is not known
	Err    error
}

// EpochEnds asks the leader of each partition where a leader epoch ends in its log (needs DESCRIBE on the topic). Every
// partition is in the result, with an answer or an Err.
func (c *Cluster) EpochEnds(ctx context.Context, epochs map[Part]int32) map[Part]EpochEnd {
	parts := make([]Part, 0, len(epochs))
	for p := range epochs {
		parts = append(parts, p)
	}
	call := func(ctx context.Context, broker int32, parts []located) (map[Part]EpochEnd, error) {
		resp, err := epochEndsRequest(parts, epochs).RequestWith(ctx, c.admin.Broker(int(broker)))
		if err != nil {
			return nil, err
		}
		return readEpochEnds(resp, parts), nil
	}
	failed := func(err error) EpochEnd { return EpochEnd{Epoch: -1, End: -1, Leader: -1, Err: err} }
	return askLeaders(ctx, c, parts, call, failed, func(e EpochEnd) error { return e.Err })
}

func epochEndsRequest(parts []located, epochs map[Part]int32) *kmsg.OffsetForLeaderEpochRequest {
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.ReplicaID = -1
	for topic, ps := range byTopic(parts) {
		t := kmsg.NewOffsetForLeaderEpochRequestTopic()
		t.Topic = topic
		for _, p := range ps {
			tp := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
			tp.Partition, tp.CurrentLeaderEpoch, tp.LeaderEpoch = p.Partition, p.leader.Epoch, epochs[p.Part]
			t.Partitions = append(t.Partitions, tp)
		}
		req.Topics = append(req.Topics, t)
	}
	return req
}

func readEpochEnds(resp *kmsg.OffsetForLeaderEpochResponse, asked []located) map[Part]EpochEnd {
	leaders := make(map[partKey]located, len(asked))
	for _, p := range asked {
		leaders[p.key()] = p
	}
	out := make(map[Part]EpochEnd, len(asked))
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if l, ok := leaders[partKey{t.Topic, p.Partition}]; ok {
				out[l.Part] = EpochEnd{p.LeaderEpoch, p.EndOffset, l.leader.Epoch, kerr.ErrorForCode(p.ErrorCode)}
			}
		}
	}
	return out
}
