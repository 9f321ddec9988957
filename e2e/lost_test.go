package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"lockstep/internal/kafkatest"
)

// deleteTopic deletes a topic and returns when it is gone.
func deleteTopic(t testing.TB, c kafkatest.Target, topic string) {
	t.Helper()
	if _, err := kadm.NewClient(c.Admin()).DeleteTopic(t.Context(), topic); err != nil {
		t.Fatalf("delete topic %s: %v", topic, err)
	}
	kafkatest.Eventually(t, 30*time.Second, func() (bool, string) { return !topicExists(t, c, topic), "the topic is still there" })
}

// awayWays are what a service can be doing while something happens to its topics: copying, having been stopped, or having
// died. The returned function brings it back.
func awayWays() map[string]func(*service) (comeBack func()) {
	return map[string]func(*service) func(){
		"running": func(*service) func() { return func() {} },
		"stopped": func(s *service) func() { s.stop(); return func() { s.start() } },
		"killed":  func(s *service) func() { s.kill(); return func() { s.start() } },
	}
}

// twoTopics starts a service that has copied two topics: one that something will happen to, and one that must go on.
func twoTopics(t *testing.T) (s *service, src, dst *kafkatest.Cluster, lost, healthy string) {
	t.Helper()
	src, dst = pair(t)
	lost, healthy = kafkatest.Topic(t, src), kafkatest.Topic(t, src)
	some := sequel()
	kafkatest.Produce(t, src, lost, 0, some(100))
	kafkatest.Produce(t, src, healthy, 0, some(100))
	s = newService(t, linkBetween(src, dst, []string{lost, healthy})).start()
	s.equal(src, dst, lost, healthy)
	return s, src, dst, lost, healthy
}

// goesOn checks that the other lane is not disturbed.
func (s *service) goesOn(src, dst kafkatest.Target, healthy string) {
	s.t.Helper()
	kafkatest.Produce(s.t, src, healthy, 0, sequel()(10))
	s.equal(src, dst, healthy)
}

// The target topic was deleted and created again, by somebody who believes that it will fill up once more. It does not
// silently: what the lane has copied is gone, and an operator has to say what is to be.
func TestLost_TargetTopicRecreated(t *testing.T) {
	t.Parallel()
	for name, leave := range awayWays() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, src, dst, lost, healthy := twoTopics(t)
			comeBack := leave(s)
			deleteTopic(t, dst, lost)
			kafkatest.Topic(t, dst, kafkatest.TopicOptions{Name: lost})
			kafkatest.Produce(t, src, lost, 0, sequel()(20))
			comeBack()
			l := s.stopsAs(lost, 0, "target_lost")
			checkRemedy(t, l.Remedy)
			s.goesOn(src, dst, healthy)
			if end := kafkatest.End(t, dst, lost, 0); end != 0 {
				t.Errorf("%d offsets were written into the new topic", end)
			}
			s.stop()
		})
	}
}

func TestLost_TargetTopicDeleted(t *testing.T) {
	t.Parallel()
	for name, leave := range awayWays() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, src, dst, lost, healthy := twoTopics(t)
			comeBack := leave(s)
			deleteTopic(t, dst, lost)
			kafkatest.Produce(t, src, lost, 0, sequel()(20))
			comeBack()
			l := s.stopsAs(lost, 0, "target_lost")
			checkRemedy(t, l.Remedy)
			s.goesOn(src, dst, healthy)
			if topicExists(t, dst, lost) {
				t.Error("the target topic was made again, without what it held")
			}
			s.command("status").want(t, 0).says(t, "degraded", "1 target_lost")
			if !strings.Contains(s.now().log(), "target_lost") {
				t.Error("the log does not say that the target topic is lost")
			}
			s.stop()
		})
	}
}

// The source topic was deleted and created again, and is longer than what was copied of the old one.
func TestLost_SourceTopicRecreated(t *testing.T) {
	t.Parallel()
	for name, leave := range awayWays() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, src, dst, lost, healthy := twoTopics(t)
			comeBack := leave(s)
			deleteTopic(t, src, lost)
			kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: lost})
			kafkatest.Produce(t, src, lost, 0, sequel()(300))
			was := logEnds(t, dst, lost)
			comeBack()
			l := s.stopsAs(lost, 0, "recreated")
			checkRemedy(t, l.Remedy)
			s.goesOn(src, dst, healthy)
			was.unchanged(t, logEnds(t, dst, lost))
			s.stop()
			got := s.translateAll(false, ends{lost: {100}})[laneKey(lost, 0)] // the old map is kept
			if *got[42].TargetOffset != 42 || got[42].State != "exact" {
				t.Errorf("source offset 42 of the old topic is %s", shortly(got[42]))
			}
		})
	}
}

// A topic that was deleted on the source ends its lane; the target keeps the copy.
func TestLost_SourceTopicDeleted(t *testing.T) {
	t.Parallel()
	s, src, dst, lost, healthy := twoTopics(t)
	deleteTopic(t, src, lost)
	s.awaitLane(lost, 0, 30*time.Second, func(l laneDetail) bool { return l.Reason == "source_deleted" })
	s.goesOn(src, dst, healthy)
	s.stop()
	s.start()
	s.goesOn(src, dst, healthy)
	if n := len(kafkatest.Read(t, dst, lost, 0, true)); n != 100 {
		t.Errorf("the target holds %d records of the deleted topic, want all 100", n)
	}
	s.stop()
}

// The state topic is gone, the copies are there: nothing is copied a second time.
func TestLost_StateTopicDeleted(t *testing.T) {
	t.Parallel()
	s, src, dst, lost, healthy := twoTopics(t)
	s.stop()
	deleteTopic(t, dst, stateTopic(s.link()))
	was := logEnds(t, dst, lost, healthy)
	s.start()
	for _, topic := range []string{lost, healthy} {
		checkRemedy(t, s.stopsAs(topic, 0, "not_empty").Remedy)
	}
	kafkatest.Produce(t, src, lost, 0, sequel()(10))
	s.stop()
	was.unchanged(t, logEnds(t, dst, lost, healthy))
}

// The state topic vanishes under a running service.
func TestLost_StateTopicDeletedWhileRunning(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	s, src, dst, lost, healthy := twoTopics(t)
	s.repeats = 60
	deleteTopic(t, dst, stateTopic(s.link()))
	kafkatest.Produce(t, src, lost, 0, sequel()(5), kafkatest.ProduceOptions{Txn: kafkatest.Commit})
	kafkatest.Produce(t, src, lost, 0, sequel()(5)) // a jump, which cannot be made durable any more
	kafkatest.Eventually(t, 90*time.Second, func() (bool, string) {
		if s.now().ended() {
			return true, ""
		}
		l, err := s.client.Link(t.Context(), s.link())
		return err == nil && (l.State == "retrying" || l.State == "stopped"), l.State
	})
	kafkatest.Produce(t, src, healthy, 0, sequel()(10))
	if !s.now().ended() {
		s.kill()
	}
}

// Another cluster answers at the source's address: its offsets mean nothing to this link.
func TestLost_SourceReplaced(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	s, _, dst, lost, healthy := twoTopics(t)
	s.stop()
	was := logEnds(t, dst, lost, healthy)
	other := kafkatest.Shared(t, kafkatest.Kafka3, 1)
	for _, topic := range []string{lost, healthy} {
		kafkatest.Topic(t, other, kafkatest.TopicOptions{Name: topic})
		kafkatest.Produce(t, other, topic, 0, sequel()(500))
	}
	c := s.conf
	c.primary = other.Brokers()
	next := newService(t, c)
	next.once(3).says(t, other.ID(), "source was replaced", "links accept "+s.link())
	next.start() // the service stays up, and shows it
	next.stopsAs(lost, 0, "source_replaced")
	next.stopsAs(healthy, 0, "source_replaced")
	shown, err := next.client.Link(t.Context(), s.link())
	if err != nil || shown.State != "stopped" || shown.Reason != "source_replaced" || !strings.Contains(shown.Detail, other.ID()) || shown.Remedy == "" {
		t.Errorf("the link shows %+v, %v", shown, err)
	}
	next.stop()
	was.unchanged(t, logEnds(t, dst, lost, healthy))
}

// Another, empty cluster stands at the target's address. All of the history is copied there; never does an empty target
// look as if everything had been copied.
func TestLost_TargetReplaced(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	s, src, _, lost, healthy := twoTopics(t)
	s.stop()
	c := s.conf
	other := kafkatest.Shared(t, kafkatest.Kafka3, 1)
	c.backup = other.Brokers()
	next := newService(t, c).start()
	next.equal(src, other, lost, healthy)
	next.stop()
}
