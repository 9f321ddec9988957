package statelog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/kafka"
	"lockstep/internal/model"
)

const (
	fetchBytes     = 16 << 20
	fetchPartBytes = 1 << 20
)

// fetched is one broker's answer for the partitions that were asked of it.
type fetched struct {
	parts []int32
	resp  *kmsg.FetchResponse
}

// request builds one sessionless fetch: it names sixteen partitions at most, so a session would save nothing.
func (r *reader) request(ps []int32) kmsg.Request {
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = r.l.topic, r.id
	for _, p := range ps {
		pt := &r.parts[p]
		pt.fetching = true
		fp := kmsg.NewFetchRequestTopicPartition()
		fp.Partition, fp.FetchOffset, fp.PartitionMaxBytes = p, pt.pos, fetchPartBytes
		fp.CurrentLeaderEpoch, fp.LastFetchedEpoch = pt.epoch, pt.lastEpoch
		t.Partitions = append(t.Partitions, fp)
	}
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.SessionEpoch = -1, -1
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = int32(r.l.opts.Poll.Milliseconds()), 1, fetchBytes
	req.Topics = append(req.Topics, t)
	if r.id.IsZero() {
		return kafka.Pinned{Request: req, Max: kafka.FetchByID - 1}
	}
	return req
}

func (r *reader) fetch(ctx context.Context, broker int32, req kmsg.Request, ps []int32) event {
	ctx, cancel := context.WithTimeout(ctx, answerWait+r.l.opts.Poll)
	defer cancel()
	e := event{broker: broker, fetch: &fetched{parts: ps}}
	resp, err := r.cl.Broker(int(broker)).Request(ctx, req)
	if err != nil {
		e.err = err
		return e
	}
	e.fetch.resp = resp.(*kmsg.FetchResponse)
	e.err = kerr.ErrorForCode(e.fetch.resp.ErrorCode)
	return e
}

// leaders asks for the topic's metadata with the given client.
func (l *Log) leaders(ctx context.Context, cl *kgo.Client) (kafka.Meta, error) {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = kmsg.StringPtr(l.topic)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return kafka.Meta{}, err
	}
	m := kafka.Meta{Topics: map[string]kafka.TopicMeta{}}
	for _, t := range resp.Topics {
		tm := kafka.TopicMeta{Name: l.topic, ID: model.TopicID(t.TopicID), Err: kerr.ErrorForCode(t.ErrorCode), Parts: make([]kafka.PartMeta, len(t.Partitions))}
		for _, p := range t.Partitions {
			if int(p.Partition) < len(tm.Parts) {
				tm.Parts[p.Partition] = kafka.PartMeta{Partition: p.Partition, Leader: p.Leader, Epoch: p.LeaderEpoch, Err: kerr.ErrorForCode(p.ErrorCode)}
			}
		}
		m.Topics[l.topic] = tm
	}
	return m, nil
}

// take delivers an answer: first the entries of all its partitions, then the new positions.
func (r *reader) take(f *fetched) error {
	var entries []Entry
	next := map[int32]int64{}
	clean := true
	for _, t := range f.resp.Topics {
		for i := range t.Partitions {
			es, ok, err := r.takePart(&t.Partitions[i])
			if err != nil {
				return err
			}
			clean = clean && ok
			if ok {
				entries = append(entries, es...)
				next[t.Partitions[i].Partition] = r.parts[t.Partitions[i].Partition].pos
			}
		}
	}
	if clean && len(next) > 0 {
		r.healthy()
	}
	if len(entries) > 0 {
		r.fn(entries)
	}
	r.l.follow.delivered(next, entries, r.caughtUp())
	return nil
}

// takePart moves one partition on. It reports false when the partition has an error that passes.
func (r *reader) takePart(rp *kmsg.FetchResponseTopicPartition) ([]Entry, bool, error) {
	if rp.Partition < 0 || int(rp.Partition) >= len(r.parts) {
		return nil, false, fmt.Errorf("the answer names partition %d, which does not exist", rp.Partition)
	}
	pt := &r.parts[rp.Partition]
	if err := kerr.ErrorForCode(rp.ErrorCode); err != nil {
		return nil, false, r.refused(rp, pt, err)
	}
	if rp.DivergingEpoch.EndOffset >= 0 && rp.DivergingEpoch.Epoch >= 0 {
		return nil, false, fmt.Errorf("partition %d: read to %d, the log took another branch at %d: %w", rp.Partition, pt.pos, rp.DivergingEpoch.EndOffset, ErrLost)
	}
	opts := kgo.ProcessFetchPartitionOpts{Offset: pt.pos, Topic: r.l.topic, Partition: rp.Partition}
	fp, next := kgo.ProcessFetchPartition(opts, rp, kgo.DefaultDecompressor(), nil)
	if fp.Err != nil {
		return nil, false, fmt.Errorf("read partition %d at offset %d: %w", rp.Partition, pt.pos, fp.Err)
	}
	if len(rp.RecordBatches) > 0 && next == pt.pos {
		r.fault(fmt.Errorf("partition %d at offset %d: the answer holds no whole batch", rp.Partition, pt.pos))
		pt.leader = -1
		return nil, false, nil
	}
	if epoch, ok := lastEpoch(rp.RecordBatches); ok {
		pt.lastEpoch = epoch
	}
	pt.pos, pt.end = next, rp.HighWatermark
	return entriesOf(fp.Records), true, nil
}

// refused decides about a partition's error: nil to look for the leader and ask again.
func (r *reader) refused(rp *kmsg.FetchResponseTopicPartition, pt *part, err error) error {
	err = fmt.Errorf("partition %d at offset %d: %w", rp.Partition, pt.pos, err)
	if stands(err) {
		return err
	}
	pt.leader = -1
	if !errors.Is(err, kerr.OffsetOutOfRange) {
		r.fault(err)
		return nil
	}
	start := rp.LogStartOffset
	if pt.pos != pt.first || pt.pos >= start {
		return fmt.Errorf("%w: %w (the log starts at %d)", ErrLost, err, start)
	}
	// Nothing had been read yet, and the log's start moved after it had been asked for.
	pt.pos, pt.first = start, start
	return nil
}

// caughtUp reports whether the end of every partition has been seen and reached.
func (r *reader) caughtUp() bool {
	for _, p := range r.parts {
		if p.end < 0 || p.pos < p.end {
			return false
		}
	}
	return true
}

func entriesOf(rs []*kgo.Record) []Entry {
	out := make([]Entry, len(rs))
	for i, rec := range rs {
		out[i] = Entry{Partition: rec.Partition, Key: string(rec.Key), Value: rec.Value, Offset: rec.Offset, Time: rec.Timestamp.UTC().Truncate(time.Millisecond)}
	}
	return out
}

// lastEpoch returns the leader epoch of the last whole batch, which the next fetch names so that the leader can tell
// whether its log still holds what was read. Batches that compaction emptied count too: without them the leader would see
// a false branch.
func lastEpoch(raw []byte) (epoch int32, ok bool) {
	for len(raw) > 16 {
		size := int64(int32(binary.BigEndian.Uint32(raw[8:]))) + 12
		if size <= 16 || size > int64(len(raw)) || raw[16] != 2 {
			break
		}
		epoch, ok = int32(binary.BigEndian.Uint32(raw[12:])), true
		raw = raw[size:]
	}
	return epoch, ok
}
