package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ReadAt fetches once, without a session, from the partition's leader: whole batches from the one that holds offset
// off on, at most maxBytes of them (the first one always, however large), only committed data when committed is set.
// It never waits for records to come: at the end the answer has none. The answer's offsets (high watermark, last
// stable offset, log start) are set also when there is an error of the partition, which is returned as a kerr error.
//
// The leader of an earlier call is tried first; when it moved, the new one is asked.
func (c *Cluster) ReadAt(ctx context.Context, p Part, off int64, maxBytes int32, committed bool) (kmsg.FetchResponseTopicPartition, error) {
	ctx, cancel := c.deadline(ctx)
	defer cancel()
	var (
		out kmsg.FetchResponseTopicPartition
		err error
	)
	for range rounds + 1 {
		if out, err = c.readOnce(ctx, p, off, maxBytes, committed); err == nil || ctx.Err() != nil {
			break
		}
		if action, _ := Classify(err); action != Refresh && action != Retry {
			break
		}
		c.forgetLeader(p)
	}
	if err != nil {
		return out, fmt.Errorf("read %s at %d: %w", p, off, withCause(ctx, err))
	}
	return out, nil
}

func (c *Cluster) readOnce(ctx context.Context, p Part, off int64, maxBytes int32, committed bool) (kmsg.FetchResponseTopicPartition, error) {
	l, err := c.leader(ctx, p)
	if err != nil {
		return kmsg.NewFetchResponseTopicPartition(), err
	}
	req := readRequest(p, l, off, maxBytes, committed)
	resp, err := c.read.Broker(int(l.Broker)).Request(ctx, req)
	if err != nil {
		return kmsg.NewFetchResponseTopicPartition(), err
	}
	return readAnswer(resp.(*kmsg.FetchResponse), p.Partition)
}

func readRequest(p Part, l leaderInfo, off int64, maxBytes int32, committed bool) kmsg.Request {
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID = -1
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 0, 1, maxBytes
	req.SessionEpoch = sessionNone
	if committed {
		req.IsolationLevel = 1
	}
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = p.Topic, p.ID
	if p.ID.IsZero() {
		t.TopicID = l.id
	}
	fp := kmsg.NewFetchRequestTopicPartition()
	fp.Partition, fp.CurrentLeaderEpoch, fp.FetchOffset, fp.PartitionMaxBytes = p.Partition, l.Epoch, off, maxBytes
	t.Partitions = append(t.Partitions, fp)
	req.Topics = append(req.Topics, t)
	if t.TopicID == [16]byte{} {
		return Pinned{req, FetchByID - 1}
	}
	return req
}

func readAnswer(resp *kmsg.FetchResponse, partition int32) (kmsg.FetchResponseTopicPartition, error) {
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return kmsg.NewFetchResponseTopicPartition(), err
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if p.Partition == partition {
				return p, kerr.ErrorForCode(p.ErrorCode)
			}
		}
	}
	return kmsg.NewFetchResponseTopicPartition(), errOmitted
}

// errOmitted says that an answer lacks a partition that was asked for.
var errOmitted = errors.New("the broker's answer leaves the partition out")

// leader returns the remembered leader of a partition, or asks for it. A remembered topic id that is not the wanted
// one is not used.
func (c *Cluster) leader(ctx context.Context, p Part) (leaderInfo, error) {
	c.mu.Lock()
	l, ok := c.leaders[p.key()]
	c.mu.Unlock()
	if ok && (p.ID.IsZero() || l.id == p.ID) {
		return l, nil
	}
	// By the reading client, so that it learns the brokers' present addresses.
	meta, err := c.metadata(ctx, c.read, []string{p.Topic})
	if err != nil {
		return leaderInfo{}, err
	}
	if l, err = meta.leaderOf(p); err != nil {
		return leaderInfo{}, fmt.Errorf("find leader: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leaders[p.key()] = l
	return l, nil
}

func (c *Cluster) forgetLeader(p Part) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.leaders, p.key())
}
