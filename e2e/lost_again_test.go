package e2e

import (
	"testing"
	"time"

	"lockstep/internal/kafkatest"
)

// The target topic was made anew with fewer partitions than it had. None of its lanes goes on, also that whose partition is
// missing, and nothing is added to a topic that is not ours.
func TestLost_TargetTopicRecreatedWithFewerPartitions(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	some := sequel()
	topic := kafkatest.Topic(t, src, kafkatest.TopicOptions{Partitions: 3})
	write := func() {
		for p := range int32(3) {
			kafkatest.Produce(t, src, topic, p, some(100))
		}
	}
	write()
	s := newService(t, linkBetween(src, dst, []string{topic})).start()
	s.equal(src, dst, topic)
	deleteTopic(t, dst, topic)
	kafkatest.Topic(t, dst, kafkatest.TopicOptions{Name: topic, Partitions: 2})
	write()
	for p := range int32(3) {
		checkRemedy(t, s.stopsAs(topic, p, "target_lost").Remedy)
	}
	s.stop()
	s.start()
	for p := range int32(3) {
		s.stopsAs(topic, p, "target_lost")
	}
	s.stop()
	if n := partitionsNow(t, dst, topic); n != 2 {
		t.Errorf("the topic has %d partitions now", n)
	}
	(ends{topic: {0, 0}}).unchanged(t, logEnds(t, dst, topic))
}

// A topic is deleted on the source, which the lane shows, and comes back under its name: another topic, which nobody asked
// to have mixed with the old one.
func TestLost_SourceTopicDeletedAndBackLater(t *testing.T) {
	t.Parallel()
	s, src, dst, lost, healthy := twoTopics(t)
	deleteTopic(t, src, lost)
	s.awaitLane(lost, 0, 30*time.Second, func(l laneDetail) bool { return l.Reason == "source_deleted" })
	was := logEnds(t, dst, lost)
	kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: lost})
	kafkatest.Produce(t, src, lost, 0, sequel()(300))
	checkRemedy(t, s.stopsAs(lost, 0, "recreated").Remedy)
	s.goesOn(src, dst, healthy)
	s.stop()
	s.start()
	s.stopsAs(lost, 0, "recreated")
	s.stop()
	was.unchanged(t, logEnds(t, dst, lost))
}
