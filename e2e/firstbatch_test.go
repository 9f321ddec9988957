package e2e

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"lockstep/internal/kafkatest"
)

// A partition that does not know a producer takes any first sequence: what is sent behind a first batch that is refused
// would stand in its place. So a new topic with many batches ready must lose nothing, time after time.
func TestFirstBatch_NewTopic(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	prefix := kafkatest.TopicName(t) + "-"
	cl := ownClient(t, src)
	c := linkBetween(src, dst, nil)
	c.links[0].include = []string{beginning(prefix)}
	s := newService(t, c).start()
	some := sequel()
	for i := range 10 {
		topic := kafkatest.CreateTopic(t, src, kafkatest.TopicOptions{Name: fmt.Sprint(prefix, i), Partitions: 2})
		for range 8 {
			put(t, cl, topic, 0, some(3))
			put(t, cl, topic, 1, some(1))
		}
		s.equal(src, dst, topic)
	}
	s.stop()
}

// The connection is cut while the first answers of new lanes are under way: the batch may have been written or not, and
// must be there once.
func TestFirstBatch_ConnectionCutInFirstAnswer(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	src, _ := pair(t)
	dst := kafkatest.Start(t, kafkatest.Options{Proxied: true})
	seed := seeded(t)
	r := rand.New(rand.NewPCG(seed, 0))
	prefix := kafkatest.TopicName(t) + "-"
	cl := ownClient(t, src)
	c := linkBetween(src, dst, nil)
	c.links[0].include = []string{beginning(prefix)}
	s := newService(t, c).start()
	s.repeats = 30
	some := sequel()
	cuts := dst.Proxy(1).Cuts()
	for i := range 15 {
		topic := kafkatest.CreateTopic(t, src, kafkatest.TopicOptions{Name: fmt.Sprint(prefix, i)})
		for range 8 {
			put(t, cl, topic, 0, some(3))
		}
		kafkatest.Eventually(t, copyPatience, func() (bool, string) { return topicExists(t, dst, topic), "no target topic yet" })
		dst.Proxy(1).CutAfter(1 + r.Int64N(900))
		s.equal(src, dst, topic)
	}
	s.stop()
	if n := dst.Proxy(1).Cuts() - cuts; n < 9 {
		t.Errorf("only %d of 15 cuts happened: the test did not test much", n)
	}
}

// The broker refuses the first batch of a lane for its time stamp, and nothing behind it may be written.
func TestFirstBatch_RefusedTimestamp(t *testing.T) {
	t.Parallel()
	tight := map[string]string{"message.timestamp.after.max.ms": "60000"}
	t.Run("known before", func(t *testing.T) {
		t.Parallel()
		src, dst := pair(t)
		topic := futureTopic(t, src)
		kafkatest.Topic(t, dst, kafkatest.TopicOptions{Name: topic, Configs: tight})
		writeFuture(t, src, topic)
		refusesFuture(t, newService(t, linkBetween(src, dst, []string{topic})).start(), dst, topic)
	})
	t.Run("told by the broker", func(t *testing.T) {
		t.Parallel()
		src, dst := pair(t)
		topic := futureTopic(t, src)
		s := newService(t, linkBetween(src, dst, []string{topic})).start()
		s.awaitLane(topic, 0, copyPatience, func(l laneDetail) bool { return l.State == "copying" })
		setTopic(t, dst, topic, tight)
		writeFuture(t, src, topic)
		refusesFuture(t, s, dst, topic)
	})
}

// futureTopic is a source topic that takes any time stamp.
func futureTopic(t *testing.T, src kafkatest.Target) string {
	t.Helper()
	return kafkatest.Topic(t, src, kafkatest.TopicOptions{Configs: map[string]string{"message.timestamp.after.max.ms": "9223372036854775807"}})
}

// writeFuture writes one batch from the day after tomorrow, and six of now.
func writeFuture(t *testing.T, src kafkatest.Target, topic string) {
	t.Helper()
	cl := ownClient(t, src)
	some := sequel()
	future := some(3)
	for _, r := range future {
		r.Timestamp = time.Now().Add(48 * time.Hour)
	}
	for _, rs := range append([][]*kgo.Record{future}, some(3), some(3), some(3), some(3), some(3), some(3)) {
		put(t, cl, topic, 0, rs)
	}
}

func refusesFuture(t *testing.T, s *service, dst kafkatest.Target, topic string) {
	t.Helper()
	l := s.stopsAs(topic, 0, "timestamp_refused")
	checkRemedy(t, l.Remedy)
	if n := len(kafkatest.Read(t, dst, topic, 0, false)); n != 0 {
		t.Errorf("the target holds %d records: what stood behind the refused batch was written", n)
	}
	s.stop()
	s.start()
	s.stopsAs(topic, 0, "timestamp_refused")
	s.stop()
	if n := len(kafkatest.Read(t, dst, topic, 0, true)); n != 0 {
		t.Errorf("the target holds %d records after a restart", n)
	}
}
