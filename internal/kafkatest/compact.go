package kafkatest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// CompactedTopic creates a topic that the cleaner takes up at once. Tombstones stay for a day, as by default, and the
// cleaner marks their batches with a delete horizon (AttrDeleteHorizon); with delete.retention.ms=0 they would vanish
// at any time, also between a copy and its comparison.
func CompactedTopic(t testing.TB, c Target, o TopicOptions) string {
	t.Helper()
	configs := map[string]string{
		"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.0001",
		"min.compaction.lag.ms": "0",
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

// Compact makes the cleaner clean what stands in the partition of a CompactedTopic, and returns when at most one
// record per key is left of it: one more record, with the present time and the key "kafkatest.roll", ends the segment
// before it.
func Compact(t testing.TB, c Target, topic string, partition int32) {
	t.Helper()
	end := End(t, c, topic, partition)
	keys, _ := keysBelow(t, c, topic, partition, end)
	Produce(t, c, topic, partition, []*kgo.Record{{Key: []byte("kafkatest.roll"), Value: []byte("x"), Timestamp: time.Now()}})
	Eventually(t, time.Minute, func() (bool, string) {
		_, left := keysBelow(t, c, topic, partition, end)
		return left <= keys, fmt.Sprintf("%d records left below %d, of %d keys", left, end, keys)
	})
}

// keysBelow counts the different keys and the records below an offset.
func keysBelow(t testing.TB, c Target, topic string, partition int32, end int64) (keys, records int) {
	t.Helper()
	seen := map[string]bool{}
	for _, r := range Read(t, c, topic, partition, true) {
		if r.Offset < end {
			seen[string(r.Key)] = true
			records++
		}
	}
	return len(seen), records
}
