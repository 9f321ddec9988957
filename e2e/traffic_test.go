package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"lockstep/internal/kafkatest"
)

// traffic is what applications do to a source while the service lives and dies: a plain topic, one written in
// transactions, and one that was compacted before. Which records are written depends on the seed and on time.
type traffic struct {
	t      testing.TB
	src    kafkatest.Target
	topics []string // plain, transactional, compacted
	seed   uint64

	cancel context.CancelFunc
	wg     sync.WaitGroup

	gate sync.RWMutex // held for writing while traffic is paused

	mu   sync.Mutex // guards the fields below
	errs []error
	dead bool // the source is expected to vanish: errors are not kept
}

// newTopics makes the topics for traffic: plain with three partitions, transactional with two, compacted with one.
func trafficTopics(t testing.TB, src kafkatest.Target, replicas int16) []string {
	t.Helper()
	name := kafkatest.TopicName(t)
	plain := kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: name + "-plain", Partitions: 3, Replicas: replicas})
	txns := kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: name + "-txns", Partitions: 2, Replicas: replicas})
	return []string{plain, txns, spread(t, src, compactedTopic(t, src), replicas)}
}

// seeded returns a seed that can be given again, and says which one it is.
func seeded(t testing.TB) uint64 {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return seed
}

// startTraffic writes until end is called.
func startTraffic(t testing.TB, src kafkatest.Target, topics []string, seed uint64) *traffic {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	x := &traffic{t: t, src: src, topics: topics, seed: seed, cancel: cancel}
	t.Cleanup(func() { cancel(); x.wg.Wait() })
	codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}
	x.writer(ctx, 1, x.plain, kgo.ProducerBatchCompression(codecs[0]))
	x.writer(ctx, 2, x.plain, kgo.ProducerBatchCompression(codecs[1]))
	for i := range uint64(2) {
		x.writer(ctx, 3+i, x.transactions, kgo.TransactionalID(linkName()), kgo.ProducerBatchCompression(codecs[i]))
	}
	x.writer(ctx, 5, x.replaced, kgo.ProducerBatchCompression(codecs[2]))
	return x
}

// pace is how long a writer rests between two writes, at most.
const pace = 60 * time.Millisecond

// writer repeats one kind of writing until ctx ends. What it has begun it finishes: no transaction is left open.
func (x *traffic) writer(ctx context.Context, n uint64, write func(context.Context, *kgo.Client, *rand.Rand) error, opts ...kgo.Opt) {
	cl := ownClient(x.t, x.src, append(opts, kgo.RecordDeliveryTimeout(time.Minute))...)
	r := rand.New(rand.NewPCG(x.seed, n))
	x.wg.Go(func() {
		for ctx.Err() == nil {
			if err := x.write(ctx, cl, r, write); err != nil && !x.note(err) {
				return
			}
			rest(ctx, time.Duration(r.Int64N(int64(pace))))
		}
	})
}

func (x *traffic) write(ctx context.Context, cl *kgo.Client, r *rand.Rand, write func(context.Context, *kgo.Client, *rand.Rand) error) error {
	x.gate.RLock()
	defer x.gate.RUnlock()
	if ctx.Err() != nil {
		return nil
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 90*time.Second)
	defer cancel()
	return write(bounded, cl, r)
}

// note keeps an error; false ends the writer.
func (x *traffic) note(err error) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.dead {
		return false
	}
	x.errs = append(x.errs, err)
	return len(x.errs) < 20
}

func rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (x *traffic) plain(ctx context.Context, cl *kgo.Client, r *rand.Rand) error {
	return produce(ctx, cl, some(r, x.topics[0], r.Int32N(3), 1+r.IntN(40)))
}

func (x *traffic) transactions(ctx context.Context, cl *kgo.Client, r *rand.Rand) error {
	if err := cl.BeginTransaction(); err != nil {
		return fmt.Errorf("begin transaction: %w", err)
	}
	commit := r.IntN(10) < 7
	for range 1 + r.IntN(4) {
		if err := produce(ctx, cl, some(r, x.topics[1], r.Int32N(2), 1+r.IntN(12))); err != nil {
			commit = false
		}
	}
	// The client gives up at once when the coordinator's broker is down; the transaction is still open then.
	err := cl.EndTransaction(ctx, kgo.TransactionEndTry(commit))
	for err != nil && ctx.Err() == nil {
		rest(ctx, pace)
		err = cl.EndTransaction(ctx, kgo.TransactionEndTry(commit))
	}
	if err != nil {
		return fmt.Errorf("end transaction: %w", err)
	}
	return nil
}

func (x *traffic) replaced(ctx context.Context, cl *kgo.Client, r *rand.Rand) error {
	return produce(ctx, cl, some(r, x.topics[2], 0, 1+r.IntN(15)))
}

// some makes n records of unique values.
func some(r *rand.Rand, topic string, partition int32, n int) []*kgo.Record {
	rs := make([]*kgo.Record, n)
	for i := range rs {
		rs[i] = &kgo.Record{Topic: topic, Partition: partition, Key: fmt.Appendf(nil, "key-%d", r.IntN(40)),
			Value: fmt.Appendf(nil, "%016x-%0*d", r.Uint64(), r.IntN(400), i)}
	}
	return rs
}

func produce(ctx context.Context, cl *kgo.Client, rs []*kgo.Record) error {
	if err := cl.ProduceSync(ctx, rs...).FirstErr(); err != nil {
		return fmt.Errorf("produce: %w", err)
	}
	return nil
}

// paused runs f while nothing is written and no transaction is open.
func (x *traffic) paused(f func()) {
	x.gate.Lock()
	defer x.gate.Unlock()
	f()
}

// end stops the traffic; the test fails if the source refused any of it.
func (x *traffic) end() {
	x.t.Helper()
	x.cancel()
	x.wg.Wait()
	for _, err := range x.errs {
		x.t.Errorf("traffic: %v", err)
	}
	if x.t.Failed() {
		x.t.FailNow()
	}
}

// dies says that the source vanishes now.
func (x *traffic) dies() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.dead = true
}
