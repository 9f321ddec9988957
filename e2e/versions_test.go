package e2e

import (
	"math/rand/v2"
	"testing"
	"time"

	"lockstep/internal/kafkatest"
)

// From the last 3.x to the newest Kafka and back: other versions of every request, topics by name instead of by id, and
// transactions of the first kind.
func TestKill_OldKafka(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	primary, backup := pair(t)
	old := kafkatest.Shared(t, kafkatest.Kafka3, 1)
	for name, way := range map[string][2]*kafkatest.Cluster{"from 3.9": {old, backup}, "to 3.9": {primary, old}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			killedSome(t, way[0], way[1], 8)
		})
	}
}

// killedSome copies traffic with a number of deaths, and translates afterwards.
func killedSome(t *testing.T, src, dst *kafkatest.Cluster, kills int) {
	t.Helper()
	seed := seeded(t)
	topics := trafficTopics(t, src, 1)
	x := startTraffic(t, src, topics, seed)
	s := newService(t, linkBetween(src, dst, topics))
	r := rand.New(rand.NewPCG(seed, 100))
	for range kills {
		s.start()
		rest(t.Context(), time.Duration(r.Int64N(int64(time.Second))))
		s.kill()
	}
	s.start()
	x.end()
	s.equal(src, dst, topics...)
	s.stop()
	atMostMarkers(t, dst, topics, kills)
	forth := s.translateAll(false, logEnds(t, src, topics...))
	for _, topic := range topics {
		for p := range partitions(t, src, topic) {
			readTruth(t, src, dst, topic, p).checkForth(t, forth[laneKey(topic, p)])
		}
	}
}

// The cleaner of the source works while the copy is made. What the copy has read before it is gone is on the target; what
// the source still has must be there, in order, once.
func TestCopy_CompactionWhileCopying(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	src, dst := pair(t)
	topic := kafkatest.Topic(t, src, kafkatest.TopicOptions{Configs: map[string]string{
		"cleanup.policy": "compact", "segment.ms": "500", "min.cleanable.dirty.ratio": "0.01",
	}})
	// The copy itself is not compacted, so that everything that was ever copied can be seen.
	kafkatest.Topic(t, dst, kafkatest.TopicOptions{Name: topic, Configs: map[string]string{"cleanup.policy": "delete"}})
	s := newService(t, linkBetween(src, dst, []string{topic}))
	written := make(map[string]int64)
	cl := ownClient(t, src)
	r := rand.New(rand.NewPCG(seeded(t), 1))
	for round := range uint64(15) {
		for i := range uint64(20) {
			rs := keyed(15, 100*round+i)
			for j, r := range rs {
				r.Timestamp = time.Now()
				if r.Value == nil {
					r.Value = noise(8, 1000*round+10*i+uint64(j))
				}
			}
			first := put(t, cl, topic, 0, rs)
			for j, r := range rs {
				written[string(r.Value)] = first + int64(j)
			}
			rest(t.Context(), 20*time.Millisecond)
		}
		s.launch() // it died some time ago, and the cleaner has been at work since
		rest(t.Context(), time.Duration(r.Int64N(int64(700*time.Millisecond))))
		if s.now().ended() {
			t.Fatal("lockstep ended by itself")
		}
		s.kill()
	}
	s.start()
	s.copied(src, topic)
	s.stop()
	last, have := int64(-1), make(map[int64]bool)
	for _, r := range kafkatest.Read(t, dst, topic, 0, true) {
		o, ok := written[string(r.Value)]
		if !ok || o <= last {
			t.Fatalf("target offset %d holds source offset %d (written: %v) behind source offset %d", r.Offset, o, ok, last)
		}
		last, have[o] = o, true
	}
	for _, r := range kafkatest.Read(t, src, topic, 0, true) {
		if !have[r.Offset] {
			t.Errorf("source offset %d is not on the target", r.Offset)
		}
	}
	thinned, empty, between := holes(t, src, topic)
	t.Logf("%d of %d records on the target; the source has %d thinned batches, %d empty ones, %d holes", len(have), len(written), thinned, empty, between)
}
