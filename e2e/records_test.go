package e2e

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"lockstep/api"
	"lockstep/internal/kafkatest"
)

type laneDetail = api.LaneDetail

// offset prints an offset that may be unknown.
func offset(p *int64) string {
	if p == nil {
		return "unknown"
	}
	return strconv.FormatInt(*p, 10)
}

// sequel returns a function that makes n further records, other ones at each call.
func sequel() func(n int) []*kgo.Record {
	seed := rand.Uint64()
	return func(n int) []*kgo.Record {
		seed++
		return kafkatest.Records(n, seed)
	}
}

// noise is n bytes that no codec makes smaller.
func noise(n int, seed uint64) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), 1})
	_, _ = r.Read(b)
	return b
}

// noisy returns n records of so many bytes each.
func noisy(n, bytes int, seed uint64) []*kgo.Record {
	rs := make([]*kgo.Record, n)
	for i := range rs {
		rs[i] = &kgo.Record{Key: fmt.Append(nil, i), Value: noise(bytes, seed<<10+uint64(i))}
	}
	return rs
}

// keyed returns n records for compacted topics: few keys, unique values, now and then none.
func keyed(n int, seed uint64) []*kgo.Record {
	r := rand.New(rand.NewPCG(seed, 2))
	rs := make([]*kgo.Record, n)
	for i := range rs {
		rs[i] = &kgo.Record{Key: fmt.Appendf(nil, "key-%d", r.IntN(40)), Value: fmt.Appendf(nil, "value-%d-%d", seed, i)}
		if i%23 == 7 {
			rs[i].Value = nil
		}
	}
	return rs
}

// compactedTopic makes a topic of one partition in which the cleaner has left holes of all kinds: between batches and
// inside of them, batches without any record, tombstones. Nothing is compacted any more when it returns, on either side.
func compactedTopic(t testing.TB, src kafkatest.Target) string {
	t.Helper()
	topic := kafkatest.Topic(t, src, kafkatest.TopicOptions{Configs: map[string]string{
		"cleanup.policy": "compact", "segment.ms": "1000", "min.cleanable.dirty.ratio": "0.01",
	}})
	at := time.Now().Add(-time.Hour)
	for round := range uint64(6) {
		rs := keyed(300, round)
		for _, r := range rs {
			at = at.Add(20 * time.Millisecond) // the log rolls by record time
			r.Timestamp = at
		}
		kafkatest.Produce(t, src, topic, 0, rs, kafkatest.ProduceOptions{BatchRecords: 15, Codec: []string{"", "lz4", "zstd"}[round%3]})
		// A producer that wrote nothing else: its last batch is kept, empty, when all of it was replaced.
		kafkatest.Produce(t, src, topic, 0, keyed(3, 1000+round))
	}
	kafkatest.Eventually(t, 60*time.Second, func() (bool, string) {
		thinned, empty, between := holes(t, src, topic)
		return thinned > 5 && between > 0, fmt.Sprintf("%d thinned batches, %d empty ones, %d holes between batches", thinned, empty, between)
	})
	setTopic(t, src, topic, map[string]string{"min.compaction.lag.ms": "86400000", "max.compaction.lag.ms": "9223372036854775807"})
	settled(t, src, topic)
	return topic
}

// holes counts what the cleaner left.
func holes(t testing.TB, c kafkatest.Target, topic string) (thinned, empty, between int) {
	t.Helper()
	next := int64(0)
	for _, b := range rawBatches(t, c, topic, 0) {
		switch {
		case b.count == 0:
			empty++
		case int64(b.count) < b.last-b.base+1:
			thinned++
		}
		if b.base > next {
			between++
		}
		next = b.last + 1
	}
	return thinned, empty, between
}

// settled waits until two looks in a row, half a second apart, find the same batches: a cleaner at work ends first.
func settled(t testing.TB, c kafkatest.Target, topic string) {
	t.Helper()
	var was string
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for range 60 {
		now := fmt.Sprint(rawBatches(t, c, topic, 0))
		if now == was {
			return
		}
		was = now
		<-tick.C
	}
	t.Fatalf("%s does not settle", topic)
}

// setting returns a topic's setting in force.
func setting(t testing.TB, c kafkatest.Target, topic, key string) string {
	t.Helper()
	got, err := kadm.NewClient(c.Admin()).DescribeTopicConfigs(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	r, err := got.On(topic, nil)
	if err == nil {
		err = r.Err
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, cf := range r.Configs {
		if cf.Key == key {
			return cf.MaybeValue()
		}
	}
	return ""
}
