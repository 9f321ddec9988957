package reset

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"lockstep/checkpoint"
	"lockstep/config"
	"lockstep/internal/kafka"
	"lockstep/internal/kafkatest"
)

func dial(t *testing.T, c kafkatest.Target) *kafka.Cluster {
	t.Helper()
	k, err := kafka.Dial(config.Cluster{Name: "backup", Brokers: c.Brokers()}, kafka.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

// What is shown is what a consumer reads next: not a marker, nothing of an aborted transaction, and nothing behind an
// open one.
func TestPeek_ShowsWhatAConsumerReadsNext(t *testing.T) {
	t.Parallel()
	c := kafkatest.Shared(t, kafkatest.Kafka4, 1)
	topic := kafkatest.Topic(t, c, kafkatest.TopicOptions{Configs: map[string]string{"retention.ms": "-1"}}) // the records are old
	records := func(keys ...string) (out []*kgo.Record) {
		for i, k := range keys {
			r := &kgo.Record{Value: []byte("v"), Timestamp: t0.Add(time.Duration(i) * time.Second)}
			if k != "" {
				r.Key = []byte(k)
			}
			out = append(out, r)
		}
		return out
	}
	kafkatest.Produce(t, c, topic, 0, records("a", "", "c"), kafkatest.ProduceOptions{Txn: kafkatest.Commit}) // 0-2, marker 3
	kafkatest.Produce(t, c, topic, 0, records("x", "y"), kafkatest.ProduceOptions{Txn: kafkatest.Abort})      // 4-5, marker 6
	kafkatest.Produce(t, c, topic, 0, records("d"))                                                           // 7
	open, err := kgo.NewClient(kgo.SeedBrokers(c.Brokers()...), kgo.TransactionalID(topic), kgo.DefaultProduceTopic(topic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(open.Close)
	if err := errors.Join(open.BeginTransaction(), open.ProduceSync(t.Context(), records("open")...).FirstErr()); err != nil { // 8
		t.Fatal(err)
	}
	places := make([]Place, 11)
	for i := range places {
		places[i] = Place{key(topic, 0), int64(i)}
	}
	got := Peek(t.Context(), dial(t, c), places)
	for off, want := range []string{"a", "", "c", "d", "d", "d", "d", "d"} {
		r := got[places[off]]
		if r.Err != nil || r.End || string(r.Key) != want || (r.Key == nil) != (want == "") || r.Time.IsZero() {
			t.Errorf("at %d: %+v, want %q", off, r, want)
		}
	}
	if r := got[places[4]]; r.Offset != 7 || !r.Time.Equal(t0) {
		t.Errorf("at 4: %+v", r)
	}
	for _, off := range []int{8, 9} { // an open transaction, the end
		if r := got[places[off]]; r.Err != nil || !r.End {
			t.Errorf("at %d: %+v", off, r)
		}
	}
	if r := got[places[10]]; !errors.Is(r.Err, kerr.OffsetOutOfRange) {
		t.Errorf("behind the end: %+v", r)
	}
	log := Logs(t.Context(), dial(t, c), []checkpoint.Key{key(topic, 0), key(topic, 5), key("absent", 0)}, t0.Add(1500*time.Millisecond))
	if l := log[key(topic, 0)]; len(log) != 1 || l != (Log{Start: 0, Stable: 8, End: 9, AtTime: 2}) {
		t.Errorf("the logs are %+v", log)
	}
}
