package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Producers are the producer ids that one partition remembers.
type Producers struct {
	Active []Producer
	Err    error
}

// Producer is one producer id as a partition's leader remembers it. After a marker LastSequence is -1.
type Producer struct {
	PID              int64
	Epoch            int16
	LastSequence     int32
	LastTimestamp    int64 // milliseconds; -1 when none
	CoordinatorEpoch int32 // -1 before the first marker
	TxnStart         int64 // first offset of its open transaction; -1 when there is none
}

// Find returns what the partition remembers of one producer id.
func (p Producers) Find(pid int64) (Producer, bool) {
	for _, a := range p.Active {
		if a.PID == pid {
			return a, true
		}
	}
	return Producer{}, false
}

// DescribeProducers asks the leader of each partition which producer ids it remembers (needs READ on the topic).
// Every partition is in the result, with its producers or an Err.
func (c *Cluster) DescribeProducers(ctx context.Context, parts []Part) map[Part]Producers {
	call := func(ctx context.Context, broker int32, parts []located) (map[Part]Producers, error) {
		resp, err := describeProducersRequest(parts).RequestWith(ctx, c.admin.Broker(int(broker)))
		if err != nil {
			return nil, err
		}
		return readProducers(resp, parts), nil
	}
	failed := func(err error) Producers { return Producers{Err: err} }
	return askLeaders(ctx, c, parts, call, failed, func(p Producers) error { return p.Err })
}

func describeProducersRequest(parts []located) *kmsg.DescribeProducersRequest {
	req := kmsg.NewPtrDescribeProducersRequest()
	for topic, ps := range byTopic(parts) {
		t := kmsg.NewDescribeProducersRequestTopic()
		t.Topic = topic
		for _, p := range ps {
			t.Partitions = append(t.Partitions, p.Partition)
		}
		req.Topics = append(req.Topics, t)
	}
	return req
}

func readProducers(resp *kmsg.DescribeProducersResponse, asked []located) map[Part]Producers {
	parts := partsByKey(asked)
	out := make(map[Part]Producers, len(asked))
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if part, ok := parts[partKey{t.Topic, p.Partition}]; ok {
				out[part] = readPartProducers(p)
			}
		}
	}
	return out
}

func readPartProducers(p kmsg.DescribeProducersResponseTopicPartition) Producers {
	out := Producers{Err: codeError(p.ErrorCode, p.ErrorMessage)}
	for _, a := range p.ActiveProducers {
		out.Active = append(out.Active, Producer{
			PID: a.ProducerID, Epoch: int16(a.ProducerEpoch), LastSequence: a.LastSequence,
			LastTimestamp: a.LastTimestamp, CoordinatorEpoch: a.CoordinatorEpoch, TxnStart: a.CurrentTxnStartOffset,
		})
	}
	return out
}

// codeError returns a broker's error with its own words, nil for code 0.
func codeError(code int16, msg *string) error {
	err := kerr.ErrorForCode(code)
	if err == nil || msg == nil || *msg == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, *msg)
}
