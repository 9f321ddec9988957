package kafkatest_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"lockstep/internal/kafkatest"
)

func TestCompare_EqualCopies(t *testing.T) {
	kafkatest.EachVersion(t, func(t *testing.T, c *kafkatest.Cluster) {
		src := kafkatest.Topic(t, c, kafkatest.TopicOptions{Name: kafkatest.TopicName(t) + "-src", Partitions: 2})
		dst := kafkatest.Topic(t, c, kafkatest.TopicOptions{Name: kafkatest.TopicName(t) + "-dst", Partitions: 2})
		for i, codec := range []string{"", "gzip", "snappy", "lz4", "zstd"} {
			recs := kafkatest.Records(200, uint64(i))
			kafkatest.Produce(t, c, src, 0, recs, kafkatest.ProduceOptions{Codec: codec, Txn: kafkatest.Commit})
			kafkatest.Produce(t, c, src, 0, kafkatest.Records(10, 99), kafkatest.ProduceOptions{Codec: codec, Txn: kafkatest.Abort})
			kafkatest.Produce(t, c, dst, 0, recs, kafkatest.ProduceOptions{BatchRecords: 77})
		}
		kafkatest.MustEqual(t, c, c, []kafkatest.Pair{{Src: src, Dst: dst}})
		r, err := kafkatest.Compare(t.Context(), c, c, []kafkatest.Pair{{Src: src, Dst: dst}}, kafkatest.CompareOptions{SrcUncommitted: true})
		if err != nil || r.Differences != 50 || r.Diffs[0].Kind != kafkatest.Missing {
			t.Fatalf("uncommitted: %v %v", r.Err(), err)
		}
	})
}

// wrongCopy changes a copy of 40 good records and says what Compare must find.
type wrongCopy struct {
	name  string
	make  func(rs []*kgo.Record) []*kgo.Record
	kinds []kafkatest.Kind
	what  string
}

func wrongCopies() []wrongCopy {
	change := func(i int, fn func(*kgo.Record)) func([]*kgo.Record) []*kgo.Record {
		return func(rs []*kgo.Record) []*kgo.Record {
			c := *rs[i]
			c.Headers = slices.Clone(c.Headers)
			fn(&c)
			rs[i] = &c
			return rs
		}
	}
	return []wrongCopy{
		{"missing record", func(rs []*kgo.Record) []*kgo.Record { return slices.Delete(rs, 20, 21) }, []kafkatest.Kind{kafkatest.Missing}, "value-1-20-"},
		{"missing at the start", func(rs []*kgo.Record) []*kgo.Record { return rs[1:] }, []kafkatest.Kind{kafkatest.Missing}, "value-1-0-"},
		{"missing at the end", func(rs []*kgo.Record) []*kgo.Record { return rs[:39] }, []kafkatest.Kind{kafkatest.Missing}, ""},
		{"duplicate", func(rs []*kgo.Record) []*kgo.Record { return slices.Insert(rs, 20, rs[19]) }, []kafkatest.Kind{kafkatest.Duplicate}, "value-1-19-"},
		{"a batch twice", func(rs []*kgo.Record) []*kgo.Record { return slices.Insert(rs, 20, rs[10:20]...) }, slices.Repeat([]kafkatest.Kind{kafkatest.Duplicate}, 10), ""},
		{"swapped", func(rs []*kgo.Record) []*kgo.Record { rs[20], rs[21] = rs[21], rs[20]; return rs }, []kafkatest.Kind{kafkatest.Missing, kafkatest.Duplicate}, ""},
		{"extra at the end", func(rs []*kgo.Record) []*kgo.Record { return append(rs, &kgo.Record{Value: []byte("new")}) }, []kafkatest.Kind{kafkatest.Extra}, `"new"`},
		{"null value to empty", change(7, func(r *kgo.Record) { r.Value = []byte{} }), []kafkatest.Kind{kafkatest.Changed}, `value null became ""`},
		{"empty value to null", change(9, func(r *kgo.Record) { r.Value = nil }), []kafkatest.Kind{kafkatest.Changed}, `value "" became null`},
		{"null key to empty", change(3, func(r *kgo.Record) { r.Key = []byte{} }), []kafkatest.Kind{kafkatest.Changed}, `key null became ""`},
		{"empty key to null", change(5, func(r *kgo.Record) { r.Key = nil }), []kafkatest.Kind{kafkatest.Changed}, `key "" became null`},
		{"other value", change(20, func(r *kgo.Record) { r.Value = []byte("x") }), []kafkatest.Kind{kafkatest.Changed}, `became "x"`},
		{"header order", change(11, func(r *kgo.Record) { h := r.Headers; h[0], h[2] = h[2], h[0] }), []kafkatest.Kind{kafkatest.Changed}, "header 0"},
		{"header repeat lost", change(11, func(r *kgo.Record) { r.Headers = r.Headers[:3] }), []kafkatest.Kind{kafkatest.Changed}, "4 headers became 3"},
		{"header null to empty", change(11, func(r *kgo.Record) { r.Headers[1].Value = []byte{} }), []kafkatest.Kind{kafkatest.Changed}, `header 1: "b"=null became "b"=""`},
		{"time stamp", change(20, func(r *kgo.Record) { r.Timestamp = r.Timestamp.Add(time.Millisecond) }), []kafkatest.Kind{kafkatest.Changed}, "time stamp"},
	}
}

func TestCompare_WrongCopies(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	good := kafkatest.Records(40, 1)
	topic := kafkatest.Topic(t, src)
	kafkatest.Produce(t, src, topic, 0, good, kafkatest.ProduceOptions{BatchRecords: 7})
	for _, w := range wrongCopies() {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			to := kafkatest.Topic(t, dst)
			kafkatest.Produce(t, dst, to, 0, w.make(slices.Clone(good)))
			r, err := kafkatest.Compare(t.Context(), src, dst, []kafkatest.Pair{{Src: topic, Dst: to}})
			if err != nil {
				t.Fatal(err)
			}
			var kinds []kafkatest.Kind
			for _, d := range r.Diffs {
				kinds = append(kinds, d.Kind)
			}
			if !slices.Equal(kinds, w.kinds) {
				t.Fatalf("got %v, want %v: %v", kinds, w.kinds, r.Err())
			}
			if !strings.Contains(r.Err().Error(), w.what) {
				t.Fatalf("%q is not in: %v", w.what, r.Err())
			}
		})
	}
}

func TestCompare_OtherPartition(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	topic := kafkatest.Topic(t, src, kafkatest.TopicOptions{Partitions: 2})
	to := kafkatest.Topic(t, dst, kafkatest.TopicOptions{Partitions: 3})
	recs := kafkatest.Records(5, 1)
	kafkatest.Produce(t, src, topic, 0, recs)
	kafkatest.Produce(t, dst, to, 0, recs[:4])
	kafkatest.Produce(t, dst, to, 2, recs[4:])
	r, err := kafkatest.Compare(t.Context(), src, dst, []kafkatest.Pair{{Src: topic, Dst: to}})
	if err != nil {
		t.Fatal(err)
	}
	if r.Differences != 2 || r.Diffs[0].Kind != kafkatest.Missing || r.Diffs[1].Kind != kafkatest.Extra || r.Diffs[1].Partition != 2 {
		t.Fatalf("got %v", r.Err())
	}
}

// TestCompare_LogAppendTime: the time that a consumer sees on the source is the broker's, and that is what a copy must
// carry as its own.
func TestCompare_LogAppendTime(t *testing.T) {
	kafkatest.EachVersion(t, func(t *testing.T, c *kafkatest.Cluster) {
		src := kafkatest.Topic(t, c, kafkatest.TopicOptions{Configs: map[string]string{"message.timestamp.type": "LogAppendTime"}})
		right, wrong := kafkatest.Topic(t, c), kafkatest.Topic(t, c)
		created := kafkatest.Records(5, 1)
		kafkatest.Produce(t, c, src, 0, created)
		kafkatest.Produce(t, c, right, 0, kafkatest.Read(t, c, src, 0, true))
		kafkatest.MustEqual(t, c, c, []kafkatest.Pair{{Src: src, Dst: right}})
		kafkatest.Produce(t, c, wrong, 0, created)
		r, err := kafkatest.Compare(t.Context(), c, c, []kafkatest.Pair{{Src: src, Dst: wrong}})
		if err != nil || r.Differences != 5 || r.Diffs[0].Kind != kafkatest.Changed {
			t.Fatalf("create times passed for append times: %v %v", r.Err(), err)
		}
	})
}

// TestCompare_HolesAndMarkers: offsets of a compacted, transactional source are no part of the comparison.
func TestCompare_HolesAndMarkers(t *testing.T) {
	kafkatest.EachVersion(t, func(t *testing.T, c *kafkatest.Cluster) {
		src, dst := kafkatest.CompactedTopic(t, c, kafkatest.TopicOptions{}), kafkatest.Topic(t, c)
		kafkatest.Produce(t, c, src, 0, kafkatest.KeyedRecords(100, 10, 1), kafkatest.ProduceOptions{Txn: kafkatest.Commit, BatchRecords: 9, Codec: "zstd"})
		kafkatest.Compact(t, c, src, 0)
		kafkatest.Produce(t, c, src, 0, kafkatest.KeyedRecords(10, 10, 2), kafkatest.ProduceOptions{Txn: kafkatest.Abort})
		kafkatest.Produce(t, c, dst, 0, kafkatest.Read(t, c, src, 0, true))
		kafkatest.MustEqual(t, c, c, []kafkatest.Pair{{Src: src, Dst: dst}})
	})
}

func TestCompare_Narrowed(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	topic, to := kafkatest.Topic(t, src), kafkatest.Topic(t, dst)
	recs := kafkatest.Records(20, 1)
	kafkatest.Produce(t, src, topic, 0, recs)
	kafkatest.Produce(t, dst, to, 0, append(kafkatest.Records(3, 2), recs[5:15]...))
	pairs := []kafkatest.Pair{{Src: topic, Dst: to}}
	only := func(from, until, dstFrom int64) kafkatest.CompareOptions {
		return kafkatest.CompareOptions{SrcFrom: map[int32]int64{0: from}, SrcTo: map[int32]int64{0: until}, DstFrom: map[int32]int64{0: dstFrom}}
	}
	kafkatest.MustEqual(t, src, dst, pairs, only(5, 15, 3))
	for name, o := range map[string]kafkatest.CompareOptions{"one source record more before": only(4, 15, 3), "one more behind": only(5, 16, 3), "one target record more": only(5, 15, 2)} {
		if r, err := kafkatest.Compare(t.Context(), src, dst, pairs, o); err != nil || r.Differences != 1 {
			t.Errorf("%s: %v %v", name, r.Err(), err)
		}
	}
}

func TestCompare_MissingTopicIsAnError(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	topic := kafkatest.Topic(t, src)
	if _, err := kafkatest.Compare(t.Context(), src, dst, []kafkatest.Pair{{Src: topic, Dst: "no-such-topic"}}); err == nil {
		t.Fatal("a missing target topic passed")
	}
}
