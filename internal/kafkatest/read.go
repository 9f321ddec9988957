package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const fetchBytes = 4 << 20

// reader reads one partition from an offset up to an end, as a consumer sees it. It asks by raw Fetch requests, so
// that it knows its position also behind markers and holes, and never waits for a record that does not come.
type reader struct {
	c         Target
	topic     string
	partition int32
	committed bool
	next      int64 // position: next offset to ask for
	end       int64 // stop here; records at or behind it are not returned
	ahead     []*kgo.Record
}

// newReader reads from the log's start, or from `from` if that is higher, to the end as it is now: the stable one
// when committed.
func newReader(ctx context.Context, c Target, topic string, partition int32, committed bool, from int64) (*reader, error) {
	r := &reader{c: c, topic: topic, partition: partition, committed: committed}
	_, err := askLeader(ctx, c, topic, partition, func(p leaderOf) (int64, error) {
		start, err := listOffset(ctx, c, topic, p, earliest, false)
		if err != nil {
			return 0, err
		}
		r.next = max(start, from)
		r.end, err = listOffset(ctx, c, topic, p, latest, committed)
		return 0, err
	})
	if err != nil {
		return nil, fmt.Errorf("find range of %s/%d: %w", topic, partition, err)
	}
	return r, nil
}

// peek returns the i-th record ahead, nil behind the last one.
func (r *reader) peek(ctx context.Context, i int) (*kgo.Record, error) {
	for len(r.ahead) <= i && r.next < r.end {
		if err := r.fill(ctx); err != nil {
			return nil, fmt.Errorf("read %s/%d at %d: %w", r.topic, r.partition, r.next, err)
		}
	}
	if i >= len(r.ahead) {
		return nil, nil
	}
	return r.ahead[i], nil
}

// skip drops the n records that come next.
func (r *reader) skip(n int) { r.ahead = r.ahead[min(n, len(r.ahead)):] }

// fill reads one answer's records.
func (r *reader) fill(ctx context.Context) error {
	got, err := askLeader(ctx, r.c, r.topic, r.partition, func(p leaderOf) (kmsg.FetchResponseTopicPartition, error) {
		return fetchOnce(ctx, r.c, r.topic, p, r.next, r.committed)
	})
	if err != nil {
		return err
	}
	o := kgo.ProcessFetchPartitionOpts{Offset: r.next, Topic: r.topic, Partition: r.partition, IsolationLevel: kgo.ReadUncommitted()}
	if r.committed {
		o.IsolationLevel = kgo.ReadCommitted()
	}
	fp, next := kgo.ProcessFetchPartition(o, &got, kgo.DefaultDecompressor(), nil)
	if fp.Err != nil {
		return fp.Err
	}
	if next == r.next && len(got.RecordBatches) > 0 {
		return errors.New("the answer holds no whole batch")
	}
	for _, rec := range fp.Records {
		if rec.Offset < r.end {
			r.ahead = append(r.ahead, rec)
		}
	}
	r.next = next
	return nil
}

// fetchOnce sends one Fetch without a session to the partition's leader.
func fetchOnce(ctx context.Context, c Target, topic string, p leaderOf, offset int64, committed bool) (kmsg.FetchResponseTopicPartition, error) {
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch = -1, 100, 1, fetchBytes, -1
	if committed {
		req.IsolationLevel = 1
	}
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = p.partition, offset, fetchBytes
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := Broker(c, p.leader).Request(ctx, pinned{req, fetchByName})
	if err != nil {
		return kmsg.FetchResponseTopicPartition{}, err
	}
	fr := resp.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(fr.ErrorCode); err != nil {
		return kmsg.FetchResponseTopicPartition{}, err
	}
	if len(fr.Topics) != 1 || len(fr.Topics[0].Partitions) != 1 {
		return kmsg.FetchResponseTopicPartition{}, errors.New("the answer does not name the partition")
	}
	got := fr.Topics[0].Partitions[0]
	return got, kerr.ErrorForCode(got.ErrorCode)
}

// Read returns all records of a partition as a consumer sees them, up to its present end.
func Read(t testing.TB, c Target, topic string, partition int32, committed bool) []*kgo.Record {
	t.Helper()
	r, err := newReader(t.Context(), c, topic, partition, committed, 0)
	for err == nil && r.next < r.end {
		err = r.fill(t.Context())
	}
	if err != nil {
		t.Fatalf("read %s/%d: %v", topic, partition, err)
	}
	return r.ahead
}

// FetchRaw returns what the leader answers for one Fetch at the offset, batches as they stand in the log.
func FetchRaw(t testing.TB, c Target, topic string, partition int32, offset int64, committed bool) kmsg.FetchResponseTopicPartition {
	t.Helper()
	got, err := askLeader(t.Context(), c, topic, partition, func(p leaderOf) (kmsg.FetchResponseTopicPartition, error) {
		return fetchOnce(t.Context(), c, topic, p, offset, committed)
	})
	if err != nil {
		t.Fatalf("fetch %s/%d at %d: %v", topic, partition, offset, err)
	}
	return got
}
