package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What ListOffsets can be asked for besides a time in milliseconds.
const (
	AtEnd   int64 = -1
	AtStart int64 = -2
)

// Offset is a leader's answer for one partition. Offset is -1 when no record is at or after the asked time.
type Offset struct {
	Offset      int64
	LeaderEpoch int32 // of the record at Offset, -1 when not known
	Timestamp   int64 // of the record, only when asked by time; else -1
	Err         error
}

// ListOffsets asks the leader of each partition for its start (AtStart), its end (AtEnd) or the first offset at or
// after a time in milliseconds since 1970. The end is the high watermark, or with committed the last stable offset;
// neither shows what is written but not yet replicated. Every partition is in the result, with an offset or an Err; a
// Part whose id is not the topic's present one gets UNKNOWN_TOPIC_ID.
func (c *Cluster) ListOffsets(ctx context.Context, parts []Part, at int64, committed bool) map[Part]Offset {
	call := func(ctx context.Context, broker int32, parts []located) (map[Part]Offset, error) {
		req := listOffsetsRequest(parts, at, committed)
		resp, err := req.RequestWith(ctx, c.admin.Broker(int(broker)))
		if err != nil {
			return nil, err
		}
		return readOffsets(resp, parts), nil
	}
	failed := func(err error) Offset { return Offset{Offset: -1, LeaderEpoch: -1, Timestamp: -1, Err: err} }
	return askLeaders(ctx, c, parts, call, failed, func(o Offset) error { return o.Err })
}

func listOffsetsRequest(parts []located, at int64, committed bool) *kmsg.ListOffsetsRequest {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	if committed {
		req.IsolationLevel = 1
	}
	for topic, ps := range byTopic(parts) {
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = topic
		for _, p := range ps {
			tp := kmsg.NewListOffsetsRequestTopicPartition()
			// A broker that led the partition before answers FENCED_LEADER_EPOCH instead of an old end.
			tp.Partition, tp.CurrentLeaderEpoch, tp.Timestamp = p.Partition, p.leader.Epoch, at
			t.Partitions = append(t.Partitions, tp)
		}
		req.Topics = append(req.Topics, t)
	}
	return req
}

func readOffsets(resp *kmsg.ListOffsetsResponse, asked []located) map[Part]Offset {
	parts := partsByKey(asked)
	out := make(map[Part]Offset, len(asked))
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if part, ok := parts[partKey{t.Topic, p.Partition}]; ok {
				out[part] = Offset{p.Offset, p.LeaderEpoch, p.Timestamp, kerr.ErrorForCode(p.ErrorCode)}
			}
		}
	}
	return out
}

func partsByKey(parts []located) map[partKey]Part {
	out := make(map[partKey]Part, len(parts))
	for _, p := range parts {
		out[p.key()] = p.Part
	}
	return out
}
