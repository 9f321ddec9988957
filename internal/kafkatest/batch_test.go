package kafkatest_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"lockstep/internal/kafkatest"
)

// TestBatch_LonghandIsWhatAClientReads writes every oddity longhand and reads it back with a plain client.
func TestBatch_LonghandIsWhatAClientReads(t *testing.T) {
	kafkatest.EachVersion(t, func(t *testing.T, c *kafkatest.Cluster) {
		topic := kafkatest.Topic(t, c)
		b := kafkatest.NewBatch(-1, 0, 0, 3)
		b.Records[0] = kafkatest.BatchRecord{Key: nil, Value: []byte{}, TimestampDelta: -5}
		b.Records[1] = kafkatest.BatchRecord{OffsetDelta: 1, Key: []byte{}, Value: nil, Headers: []kgo.RecordHeader{{Key: "h", Value: nil}, {Key: "h", Value: []byte{}}}}
		if got := kafkatest.ProduceRaw(t, c, topic, 0, b.Bytes()); got.ErrorCode != 0 {
			t.Fatalf("produce: %s", kafkatest.ErrorName(got.ErrorCode))
		}
		rs := kafkatest.Read(t, c, topic, 0, true)
		if len(rs) != 3 {
			t.Fatalf("%d records", len(rs))
		}
		if rs[0].Key != nil || rs[0].Value == nil || rs[0].Timestamp.UnixMilli() != b.BaseTimestamp-5 {
			t.Errorf("record 0: %+v", rs[0])
		}
		if rs[1].Key == nil || rs[1].Value != nil {
			t.Errorf("record 1: %+v", rs[1])
		}
		if d := cmp.Diff(b.Records[1].Headers, rs[1].Headers); d != "" {
			t.Error(d)
		}
		h := kafkatest.Headers(t, c, topic, 0, 0)
		if len(h) != 1 || h[0].Count != 3 || h[0].PID != -1 || h[0].MaxTimestamp != b.MaxTimestamp {
			t.Errorf("headers: %+v", h)
		}
	})
}

func TestParseBatches_LeavesACutBatchOut(t *testing.T) {
	t.Parallel()
	one, two := kafkatest.NewBatch(7, 1, 0, 2).Bytes(), kafkatest.NewBatch(7, 1, 2, 1).Bytes()
	both := append(bytes.Clone(one), two...)
	for n := range both {
		hs, _ := kafkatest.ParseBatches(both[:n])
		want := 0
		if n >= len(one) {
			want = 1
		}
		if len(hs) != want {
			t.Fatalf("%d bytes hold %d batches, want %d", n, len(hs), want)
		}
	}
}

func TestCompact_LeavesHolesAndDeleteHorizons(t *testing.T) {
	kafkatest.EachVersion(t, func(t *testing.T, c *kafkatest.Cluster) {
		topic := kafkatest.CompactedTopic(t, c, kafkatest.TopicOptions{})
		written := kafkatest.KeyedRecords(200, 20, 1)
		kafkatest.Produce(t, c, topic, 0, written, kafkatest.ProduceOptions{Codec: "lz4", BatchRecords: 30})
		kafkatest.Compact(t, c, topic, 0)
		rs := kafkatest.Read(t, c, topic, 0, true)
		if len(rs) != 21 {
			t.Fatalf("%d records left of 201, want one per key", len(rs))
		}
		for _, r := range rs[:20] {
			if w := written[r.Offset]; r.Timestamp.UnixMilli() != w.Timestamp.UnixMilli() || !bytes.Equal(r.Value, w.Value) {
				t.Errorf("offset %d changed from %+v to %+v", r.Offset, w, r)
			}
		}
		holed, horizons := 0, 0
		for _, h := range kafkatest.Headers(t, c, topic, 0, 0) {
			if h.Count < h.LastOffsetDelta+1 {
				holed++
			}
			if h.Attrs&kafkatest.AttrDeleteHorizon != 0 {
				horizons++
			}
		}
		if holed == 0 || horizons == 0 {
			t.Fatalf("%d batches with a hole, %d with a delete horizon", holed, horizons)
		}
	})
}
