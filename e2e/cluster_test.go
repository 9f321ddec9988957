package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"lockstep/internal/kafkatest"
)

// partitionsNow returns how many partitions a topic has, 0 when it does not exist. It asks the broker, not a cache.
func partitionsNow(t testing.TB, c kafkatest.Target, topic string) int32 {
	t.Helper()
	ds, err := kadm.NewClient(c.Admin()).ListTopics(t.Context(), topic)
	if err == nil {
		err = ds[topic].Err
	}
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return 0
	}
	if err != nil {
		t.Fatalf("describe topic %s: %v", topic, err)
	}
	return int32(len(ds[topic].Partitions))
}

// topicExists reports whether a cluster has the topic.
func topicExists(t testing.TB, c kafkatest.Target, topic string) bool {
	t.Helper()
	return partitionsNow(t, c, topic) > 0
}

// deleteBefore deletes a partition's records below an offset.
func deleteBefore(t testing.TB, c kafkatest.Target, topic string, partition int32, before int64) {
	t.Helper()
	var os kadm.Offsets
	os.AddOffset(topic, partition, before, -1)
	got, err := kadm.NewClient(c.Admin()).DeleteRecords(t.Context(), os)
	if err == nil {
		err = got.Error()
	}
	if err != nil {
		t.Fatalf("delete records of %s/%d: %v", topic, partition, err)
	}
}

// setTopic changes settings of a topic and returns when the broker shows them.
func setTopic(t testing.TB, c kafkatest.Target, topic string, settings map[string]string) {
	t.Helper()
	var changes []kadm.AlterConfig
	for k, v := range settings {
		changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: k, Value: &v})
	}
	got, err := kadm.NewClient(c.Admin()).AlterTopicConfigs(t.Context(), changes, topic)
	if err == nil && len(got) > 0 {
		err = got[0].Err
	}
	if err != nil {
		t.Fatalf("change settings of %s: %v", topic, err)
	}
	for k, v := range settings {
		kafkatest.Eventually(t, 20*time.Second, func() (bool, string) { is := setting(t, c, topic, k); return is == v, k + " is " + is })
	}
}

// deleteTopicAfter deletes a topic when the test is over.
func deleteTopicAfter(t testing.TB, c kafkatest.Target, topic string) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if _, err := kadm.NewClient(c.Admin()).DeleteTopic(ctx, topic); err != nil {
			t.Errorf("delete topic %s: %v", topic, err)
		}
	})
}

// addPartitions lets a topic grow.
func addPartitions(t testing.TB, c kafkatest.Target, topic string, total int) {
	t.Helper()
	got, err := kadm.NewClient(c.Admin()).UpdatePartitions(t.Context(), total, topic)
	if err == nil {
		err = got[topic].Err
	}
	if err != nil {
		t.Fatalf("add partitions to %s: %v", topic, err)
	}
	kafkatest.Eventually(t, 20*time.Second, func() (bool, string) {
		n := partitionsNow(t, c, topic)
		return int(n) == total, fmt.Sprint(n, " partitions")
	})
	kafkatest.AwaitLeaders(t, c, topic)
}

// ownClient is a client on the cluster's own listener, which no proxy cuts. It is closed with the test.
func ownClient(t testing.TB, c kafkatest.Target, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	seeds, ok := c.Admin().OptValue(kgo.SeedBrokers).([]string)
	if !ok {
		t.Fatal("the cluster's client has no seeds")
	}
	base := []kgo.Opt{
		kgo.SeedBrokers(seeds...), kgo.DisableClientMetrics(), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MetadataMinAge(100 * time.Millisecond), kgo.RetryBackoffFn(func(int) time.Duration { return 100 * time.Millisecond }),
	}
	cl, err := kgo.NewClient(append(base, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// txn is an open transaction of one producer.
type txn struct {
	t  testing.TB
	cl *kgo.Client
}

// beginTxn opens a transaction; nothing stands in a log yet.
func beginTxn(t testing.TB, c kafkatest.Target) *txn {
	t.Helper()
	x := &txn{t: t, cl: ownClient(t, c, kgo.TransactionalID(linkName()), kgo.TransactionTimeout(5*time.Minute))}
	if err := x.cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	return x
}

// put appends records in order and returns the offset of the first.
func (x *txn) put(topic string, partition int32, records []*kgo.Record) int64 {
	x.t.Helper()
	return put(x.t, x.cl, topic, partition, records)
}

func (x *txn) end(commit bool) {
	x.t.Helper()
	if err := x.cl.EndTransaction(x.t.Context(), kgo.TransactionEndTry(commit)); err != nil {
		x.t.Fatalf("end transaction: %v", err)
	}
}

// put writes copies of records to one partition, in order, as one batch if they fit.
func put(t testing.TB, cl *kgo.Client, topic string, partition int32, records []*kgo.Record) int64 {
	t.Helper()
	out := make([]*kgo.Record, len(records))
	for i, r := range records {
		out[i] = &kgo.Record{Key: r.Key, Value: r.Value, Headers: r.Headers, Timestamp: r.Timestamp, Topic: topic, Partition: partition}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := cl.ProduceSync(ctx, out...).FirstErr(); err != nil {
		t.Fatalf("produce to %s/%d: %v", topic, partition, err)
	}
	return out[0].Offset
}
