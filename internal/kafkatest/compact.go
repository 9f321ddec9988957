package kafkatest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// CompactedTopic creates a topic that the cleaner takes up at once.
func CompactedTopic(t testing.TB, c Target, o TopicOptions) string {
	t.Helper()
	configs := map[string]string{
		"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.0001",
		"min.compaction.lag.ms": "0", "delete.retention.ms": "0",
	}
	maps.Copy(configs, o.Configs)
	o.Configs = configs
	return Topic(t, c, o)
}

// KeyedRecords returns n records spread over few keys, an hour old, so that compaction leaves holes everywhere.
// Every seventh is a tombstone.
func KeyedRecords(n, keys int, seed uint64) []*kgo.Record {
	r := rand.New(rand.NewPCG(seed, 2))
	base := time.Now().Add(-time.Hour)
	out := make([]*kgo.Record, n)
	for i := range out {
		out[i] = &kgo.Record{Key: fmt.Appendf(nil, "key-%d", r.IntN(keys)), Value: fmt.Appendf(nil, "value-%d-%d", seed, i), Timestamp: base.Add(time.Duration(i) * time.Millisecond)}
		if i%7 == 6 {
			out[i].Value = nil
		}
	}
	return out
}

// Compact makes the cleaner clean what stands in the partition of a CompactedTopic, and returns when it has: one
// more record, with the present time and the key "kafkatest.roll", ends the segment before it.
func Compact(t testing.TB, c Target, topic string, partition int32) {
	t.Helper()
	end := End(t, c, topic, partition)
	before := cleanedBelow(t, c, topic, partition, end)
	Produce(t, c, topic, partition, []*kgo.Record{{Key: []byte("kafkatest.roll"), Value: []byte("x"), Timestamp: time.Now()}})
	Eventually(t, time.Minute, func() (bool, string) {
		now := cleanedBelow(t, c, topic, partition, end)
		return now > before, fmt.Sprintf("%d offsets without a record below %d, %d before", now, end, before)
	})
}

// cleanedBelow counts the offsets below end that hold no record (or a marker) any more.
func cleanedBelow(t testing.TB, c Target, topic string, partition int32, end int64) int64 {
	t.Helper()
	holes := end
	for _, h := range Headers(t, c, topic, partition, 0) {
		if h.BaseOffset < end {
			holes -= int64(h.Count)
		}
	}
	return holes
}
