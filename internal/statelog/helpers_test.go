package statelog

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/config"
	"lockstep/internal/kafka"
	"lockstep/internal/kafkatest"
)

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func dial(t *testing.T, fake *kafkatest.Fake) *kafka.Cluster {
	t.Helper()
	cfg := config.Cluster{Name: "backup", Brokers: fake.Brokers()}
	c, err := kafka.Dial(cfg, kafka.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// newLog returns a log of the link "dr" on a fresh fake cluster, without a topic.
func newLog(t *testing.T, opts ...kfake.Opt) (*Log, *kafkatest.Fake) {
	t.Helper()
	fake := kafkatest.NewFake(t, opts...)
	l := New(dial(t, fake), "dr", Options{Bootstrap: "b:9092", Poll: 50 * time.Millisecond})
	t.Cleanup(l.Close)
	return l, fake
}

// ready is newLog with its topic.
func ready(t *testing.T, opts ...kfake.Opt) (*Log, *kafkatest.Fake) {
	t.Helper()
	l, fake := newLog(t, opts...)
	if err := l.Ensure(testContext(t)); err != nil {
		t.Fatal(err)
	}
	return l, fake
}

func put(t *testing.T, l *Log, es ...Entry) {
	t.Helper()
	if err := l.Put(testContext(t), es...); err != nil {
		t.Fatal(err)
	}
}

// following collects what Follow delivers.
type following struct {
	mu      sync.Mutex
	entries []Entry
	err     chan error
	stop    context.CancelFunc
}

func follow(t *testing.T, l *Log) *following {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	f := &following{err: make(chan error, 1), stop: cancel}
	var wg sync.WaitGroup
	wg.Go(func() {
		f.err <- l.Follow(ctx, func(es []Entry) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.entries = append(f.entries, es...)
		})
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	return f
}

// keys are the keys delivered for one partition, in order.
func (f *following) keys(p int32) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for _, e := range f.entries {
		if e.Partition == p {
			out = append(out, e.Key)
		}
	}
	return out
}

func barrier(t *testing.T, l *Log) {
	t.Helper()
	if err := l.Barrier(testContext(t)); err != nil {
		t.Fatal(err)
	}
}

func numbered(p int32, from, to int) (es []Entry, keys []string) {
	for i := from; i < to; i++ {
		key := fmt.Sprintf("k/%d/%d", p, i)
		es, keys = append(es, Entry{Partition: p, Key: key, Value: []byte("v")}), append(keys, key)
	}
	return es, keys
}

// writeMarkers appends control batches: offsets that no reader ever sees a record at.
func writeMarkers(t *testing.T, fake *kafkatest.Fake, topic string, p int32, n int) {
	t.Helper()
	admin := kadm.NewClient(fake.Admin())
	for range n {
		got, err := admin.WriteTxnMarkers(testContext(t), kadm.TxnMarkers{
			ProducerID: 4711, ProducerEpoch: 1, Topics: kadm.TopicsSet{topic: {p: {}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range got.Sorted() {
			for _, topic := range m.Topics {
				for _, part := range topic.Partitions {
					if part.Err != nil {
						t.Fatal(part.Err)
					}
				}
			}
		}
	}
}

// answerOnce lets the next request of a kind fail with an error code in every partition that it names.
func failProduces(fake *kafkatest.Fake, err *kerr.Error, times int) {
	left := times
	fake.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		if left == 0 {
			return nil, nil, false
		}
		left--
		fake.KeepControl()
		r := req.(*kmsg.ProduceRequest)
		resp := r.ResponseKind().(*kmsg.ProduceResponse)
		for _, t := range r.Topics {
			rt := kmsg.NewProduceResponseTopic()
			rt.Topic, rt.TopicID = t.Topic, t.TopicID
			for _, p := range t.Partitions {
				rp := kmsg.NewProduceResponseTopicPartition()
				rp.Partition, rp.ErrorCode = p.Partition, err.Code
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp, nil, true
	})
}

func equal(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %d keys, want %d; got %v", what, len(got), len(want), got)
	}
}
