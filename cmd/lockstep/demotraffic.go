package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// traffic produces to the demonstration's primary: plain records to orders, transactions to payments of which every
// fifth is aborted.
type traffic struct {
	brokers []string
	plain   *kgo.Client
	txn     *kgo.Client
	n       int
}

func newTraffic(brokers []string) *traffic { return &traffic{brokers: brokers} }

func (t *traffic) connect() (err error) {
	if t.plain != nil {
		return nil
	}
	if t.plain, err = kgo.NewClient(kgo.SeedBrokers(t.brokers...)); err != nil {
		return err
	}
	t.txn, err = kgo.NewClient(kgo.SeedBrokers(t.brokers...), kgo.TransactionalID("demo-payments"))
	return err
}

func (t *traffic) close() {
	for _, c := range []*kgo.Client{t.plain, t.txn} {
		if c != nil {
			c.Close()
		}
	}
}

const demoBurst = 50

// run produces about n records.
func (t *traffic) run(ctx context.Context, n int) error {
	if err := t.connect(); err != nil {
		return err
	}
	for end := t.n + n; t.n < end; t.n += demoBurst {
		if err := t.plain.ProduceSync(ctx, demoBatch("orders", t.n, demoBurst*3/4)...).FirstErr(); err != nil {
			return err
		}
		if err := t.transaction(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (t *traffic) transaction(ctx context.Context) error {
	if err := t.txn.BeginTransaction(); err != nil {
		return err
	}
	if err := t.txn.ProduceSync(ctx, demoBatch("payments", t.n, demoBurst/4)...).FirstErr(); err != nil {
		return err
	}
	return t.txn.EndTransaction(ctx, kgo.TransactionEndTry(t.n/demoBurst%5 != 0))
}

func demoBatch(topic string, from, n int) []*kgo.Record {
	out := make([]*kgo.Record, n)
	for i := range out {
		out[i] = &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "customer-%d", (from+i)%97), Value: fmt.Appendf(nil, "%s %d", topic, from+i),
			Headers: []kgo.RecordHeader{{Key: "trace", Value: fmt.Appendf(nil, "%x", from+i)}}}
	}
	return out
}

// readAll reads the committed records of every partition up to the present ends.
func readAll(ctx context.Context, brokers []string, topics map[string]int32) (map[string][]*kgo.Record, error) {
	parts := make(map[string]map[int32]kgo.Offset)
	for topic, n := range topics {
		parts[topic] = make(map[int32]kgo.Offset)
		for p := range n {
			parts[topic][p] = kgo.NewOffset().AtStart()
		}
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumePartitions(parts), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListCommittedOffsets(ctx, slices.Collect(maps.Keys(topics))...)
	if err != nil {
		return nil, err
	}
	left := 0
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left++
		}
	})
	out := make(map[string][]*kgo.Record)
	for left > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if end, _ := ends.Lookup(r.Topic, r.Partition); r.Offset == end.Offset-1 {
				left--
			}
			if !r.Attrs.IsControl() {
				key := fmt.Sprintf("%s/%d", r.Topic, r.Partition)
				out[key] = append(out[key], r)
			}
		})
	}
	return out, nil
}

// compareSides compares both clusters partition by partition and returns how many records it saw.
func compareSides(ctx context.Context, src, dst []string, topics map[string]int32) (n int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, demoPatience)
	defer cancel()
	a, err := readAll(ctx, src, topics)
	if err != nil {
		return 0, fmt.Errorf("read the primary: %w", err)
	}
	b, err := readAll(ctx, dst, topics)
	if err != nil {
		return 0, fmt.Errorf("read the backup: %w", err)
	}
	for part, want := range a {
		got := b[part]
		if len(got) != len(want) {
			return 0, fmt.Errorf("%s: the primary holds %d records, the backup %d", part, len(want), len(got))
		}
		for i := range want {
			if !sameKgo(want[i], got[i]) {
				return 0, fmt.Errorf("%s: record %d differs: %q on the primary, %q on the backup", part, i, want[i].Value, got[i].Value)
			}
		}
		n += int64(len(want))
	}
	return n, nil
}

func sameKgo(a, b *kgo.Record) bool {
	return bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value) && a.Timestamp.Equal(b.Timestamp) &&
		slices.EqualFunc(a.Headers, b.Headers, func(x, y kgo.RecordHeader) bool { return x.Key == y.Key && bytes.Equal(x.Value, y.Value) })
}

// commitHalf lets a group stand in the middle of each partition of a topic and returns where.
func commitHalf(ctx context.Context, brokers []string, group, topic string, partitions int32) ([]int64, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	ends, err := adm.ListCommittedOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	at := make([]int64, partitions)
	var commit kadm.Offsets
	for p := range partitions {
		end, _ := ends.Lookup(topic, p)
		at[p] = end.Offset / 2
		commit.AddOffset(topic, p, at[p], -1)
	}
	return at, adm.CommitAllOffsets(ctx, group, commit)
}

// standsOn returns where a group stands in a topic of a cluster, by partition.
func standsOn(ctx context.Context, brokers []string, group, topic string) (map[int32]int64, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	got, err := kadm.NewClient(cl).FetchOffsets(ctx, group)
	if err != nil {
		return nil, err
	}
	out := make(map[int32]int64)
	got.Each(func(o kadm.OffsetResponse) {
		if o.Topic == topic && o.Err == nil && o.At >= 0 {
			out[o.Partition] = o.At
		}
	})
	return out, nil
}

// sameNext reads the next record on both sides and returns its value, or an error when they differ.
func sameNext(ctx context.Context, src, dst []string, topic string, partition int32, srcNext, dstNext int64) (string, error) {
	a, err := nextRecord(ctx, src, topic, partition, srcNext)
	if err != nil {
		return "", err
	}
	b, err := nextRecord(ctx, dst, topic, partition, dstNext)
	if err != nil {
		return "", err
	}
	if !sameKgo(a, b) {
		return "", fmt.Errorf("%s/%d: next is %q on the primary, %q on the backup", topic, partition, a.Value, b.Value)
	}
	return string(a.Value), nil
}

func nextRecord(ctx context.Context, brokers []string, topic string, partition int32, off int64) (*kgo.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, demoPatience)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(off)}}))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	for {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return nil, err
		}
		if rs := fetches.Records(); len(rs) > 0 {
			return rs[0], nil
		}
	}
}
