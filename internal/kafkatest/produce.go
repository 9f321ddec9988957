package kafkatest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Txn says how a produce call's transaction ends.
type Txn int

// How a transaction ends; the zero value is no transaction.
const (
	NoTxn Txn = iota
	Commit
	Abort
)

// ProduceOptions say how records are written; zero is idempotent, without compression, all in one batch if they fit.
type ProduceOptions struct {
	Codec        string // "", "gzip", "snappy", "lz4", "zstd"
	Txn          Txn
	TxnID        string // transactional id, with Txn; "" means one that nobody else uses
	Plain        bool   // without a producer id
	BatchRecords int    // records per batch; 0: as many as fit
}

func (o ProduceOptions) kgoOpts() ([]kgo.Opt, error) {
	codecs := map[string]kgo.CompressionCodec{"": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
	codec, ok := codecs[o.Codec]
	if !ok {
		return nil, fmt.Errorf("unknown codec %q", o.Codec)
	}
	opts := []kgo.Opt{kgo.ProducerBatchCompression(codec), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableClientMetrics(),
		kgo.ManualFlushing(), kgo.MaxBufferedRecords(1 << 22)}
	if o.Txn != NoTxn {
		opts = append(opts, kgo.TransactionalID(cmp.Or(o.TxnID, fmt.Sprintf("kafkatest-%08x", rand.Uint32()))))
	}
	if o.Plain {
		opts = append(opts, kgo.DisableIdempotentWrite())
	}
	return opts, nil
}

// Produce writes records to one partition, in order, and returns the offset of the first. A transaction has its marker
// in the log when Produce returns.
func Produce(t testing.TB, c Target, topic string, partition int32, records []*kgo.Record, opts ...ProduceOptions) int64 {
	t.Helper()
	var o ProduceOptions
	if len(opts) > 0 {
		o = opts[0]
	}
	first, err := produce(t.Context(), c, topic, partition, records, o)
	if err != nil {
		t.Fatalf("produce to %s/%d: %v", topic, partition, err)
	}
	return first
}

func produce(ctx context.Context, c Target, topic string, partition int32, records []*kgo.Record, o ProduceOptions) (int64, error) {
	opts, err := o.kgoOpts()
	if err != nil {
		return 0, err
	}
	g := &gather{}
	cl, err := kgo.NewClient(append(append(opts, kgo.WithHooks(g)), seeds(c)...)...)
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	if o.Txn != NoTxn {
		if err := cl.BeginTransaction(); err != nil {
			return 0, err
		}
	}
	out := withPlace(records, topic, partition)
	for part := range chunks(out, o.BatchRecords) {
		if err := g.send(ctx, cl, part); err != nil {
			return 0, err
		}
	}
	if len(out) == 0 {
		return 0, nil
	}
	if o.Txn != NoTxn {
		if err := endAndAwait(ctx, cl, c, out[len(out)-1], o.Txn == Commit); err != nil {
			return 0, err
		}
	}
	return out[0].Offset, nil
}

// endAndAwait ends the client's transaction and waits for its marker behind the last record: the coordinator answers
// before that stands, and until then a reader of committed records sees none.
func endAndAwait(ctx context.Context, cl *kgo.Client, c Target, last *kgo.Record, commit bool) error {
	if err := cl.EndTransaction(ctx, kgo.TransactionEndTry(commit)); err != nil {
		return fmt.Errorf("end transaction: %w", err)
	}
	var err error
	done, _ := poll(30*time.Second, 5*time.Millisecond, func() (bool, string) {
		var got kmsg.FetchResponseTopicPartition
		got, err = askLeader(ctx, c, last.Topic, last.Partition, func(p leaderOf) (kmsg.FetchResponseTopicPartition, error) {
			return fetchOnce(ctx, c, last.Topic, p, last.Offset+1, false)
		})
		hs, _ := ParseBatches(got.RecordBatches)
		return err != nil || slices.ContainsFunc(hs, func(b Batch) bool { return b.Control() && b.PID == last.ProducerID }), ""
	})
	if err == nil && !done {
		err = errors.New("wait for the transaction's marker: none in 30 s")
	}
	return err
}

// gather is a client's hook that tells when records stand in their partition's buffer. Records sent before the client
// knows the topic come there one by one, later: a flush meanwhile would cut a batch at a random record.
type gather struct{ events chan struct{} }

// OnProduceRecordPartitioned implements kgo.HookProduceRecordPartitioned.
func (g *gather) OnProduceRecordPartitioned(*kgo.Record, int32) { g.events <- struct{}{} }

// send writes all records; those that fit into one batch are in one.
func (g *gather) send(ctx context.Context, cl *kgo.Client, rs []*kgo.Record) error {
	g.events = make(chan struct{}, 2*len(rs)) // an event per record, and one more for a failed one
	var firstErr error                        // promises are called one after the other, and before Flush returns
	for _, r := range rs {
		cl.Produce(ctx, r, func(_ *kgo.Record, err error) {
			if err == nil {
				return
			}
			if firstErr == nil {
				firstErr = err
			}
			g.events <- struct{}{}
		})
	}
	for range rs {
		select {
		case <-g.events:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := cl.Flush(ctx); err != nil {
		return err
	}
	return firstErr
}

// seeds returns how the test's own clients reach the cluster: past proxies and authentication.
func seeds(c Target) []kgo.Opt {
	if real, ok := c.(*Cluster); ok {
		return real.internalOpts()
	}
	return []kgo.Opt{kgo.SeedBrokers(c.Brokers()...)}
}

// withPlace copies the records, since a client writes into what it sends, and callers send the same twice.
func withPlace(records []*kgo.Record, topic string, partition int32) []*kgo.Record {
	out := make([]*kgo.Record, len(records))
	for i, r := range records {
		out[i] = &kgo.Record{Key: r.Key, Value: r.Value, Headers: r.Headers, Timestamp: r.Timestamp, Topic: topic, Partition: partition}
	}
	return out
}

// chunks yields n records at a time, all at once for n = 0.
func chunks(rs []*kgo.Record, n int) func(yield func([]*kgo.Record) bool) {
	return func(yield func([]*kgo.Record) bool) {
		for len(rs) > 0 {
			k := len(rs)
			if n > 0 {
				k = min(n, k)
			}
			if !yield(rs[:k]) {
				return
			}
			rs = rs[k:]
		}
	}
}

// Records returns n records that exercise everything a copy must keep: null and empty keys and values, headers that
// repeat or have no value, time stamps that go back. They depend on n and seed alone; each value is different.
func Records(n int, seed uint64) []*kgo.Record {
	r := rand.New(rand.NewPCG(seed, 1))
	base := time.Now().Add(-time.Hour).Truncate(time.Hour)
	out := make([]*kgo.Record, n)
	for i := range out {
		out[i] = &kgo.Record{
			Key:       fmt.Appendf(nil, "key-%d", r.IntN(n)),
			Value:     fmt.Appendf(nil, "value-%d-%d-%x", seed, i, r.Uint64()),
			Timestamp: base.Add(time.Duration(r.IntN(3600_000)) * time.Millisecond),
		}
		oddities(out[i], i)
	}
	return out
}

// oddities makes every few records a special one.
func oddities(rec *kgo.Record, i int) {
	switch i % 16 {
	case 3:
		rec.Key = nil
	case 5:
		rec.Key = []byte{}
	case 7:
		rec.Value = nil
	case 9:
		rec.Value = []byte{}
	case 11:
		rec.Headers = []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "b", Value: nil}, {Key: "a", Value: []byte("2")}, {Key: "a", Value: []byte("1")}}
	case 13:
		rec.Headers = []kgo.RecordHeader{{Key: "", Value: []byte{}}}
	}
}

// ProduceRaw sends one batch as it is to the partition's leader, acks=all, and returns the answer as it is. It asks
// once: a broker's refusal is in the answer's ErrorCode.
func ProduceRaw(t testing.TB, c Target, topic string, partition int32, batch []byte) kmsg.ProduceResponseTopicPartition {
	t.Helper()
	parts, err := rawMetadata(t.Context(), c, topic)
	if err != nil {
		t.Fatalf("produce to %s/%d: %v", topic, partition, err)
	}
	got, err := produceTo(t.Context(), c, parts[partition].leader, topic, partition, batch)
	if err != nil {
		t.Fatalf("produce to %s/%d: %v", topic, partition, err)
	}
	return got
}

// produceTo is ProduceRaw for a known leader; the error is about the connection only.
func produceTo(ctx context.Context, c Target, leader int32, topic string, partition int32, batch []byte) (kmsg.ProduceResponseTopicPartition, error) {
	return produceAcks(ctx, c, leader, topic, partition, batch, -1)
}

func produceAcks(ctx context.Context, c Target, leader int32, topic string, partition int32, batch []byte, acks int16) (kmsg.ProduceResponseTopicPartition, error) {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = acks, 10_000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Partition, rp.Records = partition, batch
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := Broker(c, leader).Request(ctx, pinned{req, produceByName})
	if err != nil {
		return kmsg.ProduceResponseTopicPartition{}, err
	}
	return resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0], nil
}

// ErrorName returns Kafka's name of an error code: "NONE" for 0.
func ErrorName(code int16) string {
	if code == 0 {
		return "NONE"
	}
	if e := kerr.TypedErrorForCode(code); e != nil {
		return e.Message
	}
	return fmt.Sprintf("UNKNOWN_ERROR_CODE_%d", code)
}
