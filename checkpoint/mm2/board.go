package mm2

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"lockstep/internal/kafka"
)

const (
	writeWait  = 15 * time.Second // for a write, all its repetitions included
	writeTries = 8                // so that an error is told before the time is over
	readBytes  = 4 << 20          // for one fetch
)

// board is one of MirrorMaker's topics. Everything in it stands in partition 0.
type board struct {
	topic   string
	cluster *kafka.Cluster
	writer  *kgo.Client
	log     *slog.Logger
	checked bool // whether it is compacted
}

// newWriter returns the client that boards of a cluster write with. The caller closes it. It numbers nothing: what is
// written twice says the same.
func newWriter(c *kafka.Cluster) (*kgo.Client, error) {
	return c.NewClient("mm2", kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(1),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(0), kgo.RecordRetries(writeTries))
}

// end returns where the topic begins or ends.
func (b *board) end(ctx context.Context, which int64) (int64, error) {
	part := kafka.Part{Topic: b.topic}
	o := b.cluster.ListOffsets(ctx, []kafka.Part{part}, which, false)[part]
	if o.Err != nil {
		return 0, fmt.Errorf("find an end of topic %s: %w", b.topic, o.Err)
	}
	return o.Offset, nil
}

// read gives all records that the topic has now to fn, in order.
func (b *board) read(ctx context.Context, fn func(*kgo.Record)) error {
	pos, err := b.end(ctx, kafka.AtStart)
	if err != nil {
		return err
	}
	end, err := b.end(ctx, kafka.AtEnd)
	if err != nil {
		return err
	}
	part := kafka.Part{Topic: b.topic}
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
	if len(records) == 0 {
		return nil, nil
	}
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
