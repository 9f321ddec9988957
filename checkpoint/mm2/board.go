package mm2

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/kafka"
)

const (
	maxReplication = 3                // replicas of a topic, where the cluster has that many brokers
	writeWait      = 15 * time.Second // for a write, all its repetitions included
	writeTries     = 8                // so that an error is told before the time is over
	adminWait      = 15 * time.Second // for a topic to be made
	readBytes      = 4 << 20          // for one fetch
)

// board is one of MirrorMaker's topics. Everything in it stands in partition 0.
type board struct {
	topic   string
	cluster *kafka.Cluster
	writer  *kgo.Client
	log     *slog.Logger
}

// newWriter returns the client that boards of a cluster write with. The caller closes it. It numbers nothing: what is
// written twice says the same.
func newWriter(c *kafka.Cluster) (*kgo.Client, error) {
	return c.NewClient("mm2", kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(1),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(0), kgo.RecordRetries(writeTries))
}

// ensure makes the topic when it is missing. One that is there is left as it is.
func (b *board) ensure(ctx context.Context) error {
	meta, err := b.cluster.Metadata(ctx, b.topic)
	if err == nil {
		err = meta.Topics[b.topic].Err
	}
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		err = b.create(ctx, max(1, min(maxReplication, len(meta.Brokers))))
	}
	if err != nil {
		return fmt.Errorf("make sure that there is topic %s: %w", b.topic, err)
	}
	return nil
}

func (b *board) create(ctx context.Context, replicas int) error {
	ctx, cancel := context.WithTimeout(ctx, adminWait)
	defer cancel()
	policy := kmsg.NewCreateTopicsRequestTopicConfig()
	policy.Name, policy.Value = "cleanup.policy", kmsg.StringPtr("compact")
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor, t.Configs = b.topic, 1, int16(replicas), append(t.Configs, policy)
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis, req.Topics = int32(adminWait.Milliseconds()), append(req.Topics, t)
	resp, err := req.RequestWith(ctx, b.cluster.Admin())
	if err != nil {
		return err
	}
	for _, t := range resp.Topics {
		err := kerr.ErrorForCode(t.ErrorCode)
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return err
		}
		if err == nil {
			b.log.Info("topic created for readers of MirrorMaker 2", "replication_factor", replicas)
		}
	}
	return nil
}

// read gives all records that the topic has now to fn, in order.
func (b *board) read(ctx context.Context, fn func(*kgo.Record)) error {
	part := kafka.Part{Topic: b.topic}
	at := func(where int64) (int64, error) {
		o := b.cluster.ListOffsets(ctx, []kafka.Part{part}, where, false)[part]
		return o.Offset, o.Err
	}
	pos, err := at(kafka.AtStart)
	if err != nil {
		return fmt.Errorf("find the start of topic %s: %w", b.topic, err)
	}
	end, err := at(kafka.AtEnd)
	if err != nil {
		return fmt.Errorf("find the end of topic %s: %w", b.topic, err)
	}
	for pos < end {
		resp, err := b.cluster.ReadAt(ctx, part, pos, readBytes, false)
		if err != nil {
			return err
		}
		opts := kgo.ProcessFetchPartitionOpts{Offset: pos, Topic: b.topic}
		got, next := kgo.ProcessFetchPartition(opts, &resp, kgo.DefaultDecompressor(), nil)
		if got.Err != nil {
			return fmt.Errorf("read topic %s at %d: %w", b.topic, pos, got.Err)
		}
		if next <= pos {
			return fmt.Errorf("read topic %s at %d: the answer holds nothing, although the end is %d", b.topic, pos, end)
		}
		for _, r := range got.Records {
			fn(r)
		}
		pos = next
	}
	return nil
}

// write appends records and tells of each whether it was stored. The error is the first that came.
func (b *board) write(ctx context.Context, records []*kgo.Record) (stored []bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, writeWait)
	defer cancel()
	stored = make([]bool, len(records))
	index := make(map[*kgo.Record]int, len(records))
	for i, r := range records {
		r.Topic, index[r] = b.topic, i
	}
	for _, res := range b.writer.ProduceSync(ctx, records...) {
		stored[index[res.Record]] = res.Err == nil
		if res.Err != nil && err == nil {
			err = fmt.Errorf("write to topic %s: %w", b.topic, res.Err)
		}
	}
	if err != nil {
		b.writer.PurgeTopicsFromProducing(b.topic) // it may have been made anew, and the client would stay with the old one
	}
	return stored, err
}
