package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DeleteRecords makes the log of each partition begin at an offset, by asking its leader (needs DELETE on the topic).
// Every partition is in the result, with the log's start afterwards or an Err: POLICY_VIOLATION for a topic that is only
// compacted, OFFSET_OUT_OF_RANGE for an offset behind the end. An offset at or below the start changes nothing, and so
// finds out whether deleting is allowed.
func (c *Cluster) DeleteRecords(ctx context.Context, before map[Part]int64) map[Part]Offset {
	parts := make([]Part, 0, len(before))
	for p := range before {
		parts = append(parts, p)
	}
	call := func(ctx context.Context, broker int32, parts []located) (map[Part]Offset, error) {
		resp, err := deleteRecordsRequest(parts, before).RequestWith(ctx, c.admin.Broker(int(broker)))
		if err != nil {
			return nil, err
		}
		return readDeleted(resp, parts), nil
	}
	failed := func(err error) Offset { return Offset{Offset: -1, LeaderEpoch: -1, Timestamp: -1, Err: err} }
	return askLeaders(ctx, c, parts, call, failed, func(o Offset) error { return o.Err })
}

func deleteRecordsRequest(parts []located, before map[Part]int64) *kmsg.DeleteRecordsRequest {
	req := kmsg.NewPtrDeleteRecordsRequest()
	for topic, ps := range byTopic(parts) {
		t := kmsg.NewDeleteRecordsRequestTopic()
		t.Topic = topic
		for _, p := range ps {
			tp := kmsg.NewDeleteRecordsRequestTopicPartition()
			tp.Partition, tp.Offset = p.Partition, before[p.Part]
			t.Partitions = append(t.Partitions, tp)
		}
		req.Topics = append(req.Topics, t)
	}
	return req
}

func readDeleted(resp *kmsg.DeleteRecordsResponse, asked []located) map[Part]Offset {
	parts := partsByKey(asked)
	out := make(map[Part]Offset, len(asked))
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if part, ok := parts[partKey{t.Topic, p.Partition}]; ok {
				out[part] = Offset{Offset: p.LowWatermark, LeaderEpoch: -1, Timestamp: -1, Err: kerr.ErrorForCode(p.ErrorCode)}
			}
		}
	}
	return out
}
