package e2e

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"lockstep/api"
	"lockstep/internal/kafkatest"
)

// opensAgain waits until a lane copies.
func (s *service) opensAgain(topic string, partition int32) {
	s.t.Helper()
	s.awaitLane(topic, partition, 30*time.Second, func(l api.LaneDetail) bool { return l.State == "copying" })
}

func (s *service) at(topic string) string { return s.link() + ":" + topic }

// The target topic of three partitions is gone, or was made again with two by somebody who wrote into it. Ordered to be
// rebuilt, it is made or grown by lockstep itself, and holds everything.
func TestOrders_RebuildALostTarget(t *testing.T) {
	t.Parallel()
	for _, again := range []bool{false, true} {
		name := "deleted"
		if again {
			name = "made again"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src, dst := pair(t)
			topic := kafkatest.Topic(t, src, kafkatest.TopicOptions{Partitions: 3})
			some := sequel()
			for p := range int32(3) {
				kafkatest.Produce(t, src, topic, p, some(100))
			}
			s := newService(t, linkBetween(src, dst, []string{topic})).start()
			s.equal(src, dst, topic)
			s.stop()
			deleteTopic(t, dst, topic)
			if again {
				kafkatest.Topic(t, dst, kafkatest.TopicOptions{Name: topic, Partitions: 2})
				kafkatest.Produce(t, dst, topic, 1, some(9))
			}
			s.start()
			for p := range int32(2) {
				s.stopsAs(topic, p, "target_lost")
			}
			s.command("lanes", "rebuild", "--link", s.link(), "--all", "--dry-run").want(t, 0).says(t, s.at(topic)+"/0", s.at(topic)+"/2")
			s.command("lanes", "rebuild", "--link", s.link(), "--all", "--yes", "--reason", "drill").want(t, 0).says(t, "done")
			kafkatest.Produce(t, src, topic, 0, some(10))
			s.equal(src, dst, topic)
			s.stop()
			s.start() // what was ordered once is over: another loss is one
			s.equal(src, dst, topic)
			s.stop()
		})
	}
}

// The source topic was made again and is longer: accepted, its records stand behind the old ones, and offsets translate to
// them.
func TestOrders_AcceptARecreatedSource(t *testing.T) {
	t.Parallel()
	s, src, dst, lost, healthy := twoTopics(t)
	deleteTopic(t, src, lost)
	kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: lost, Partitions: 2})
	some := sequel()
	kafkatest.Produce(t, src, lost, 0, some(300))
	kafkatest.Produce(t, src, lost, 1, some(30))
	s.stopsAs(lost, 0, "recreated")
	s.goesOn(src, dst, healthy)
	s.command("topics", "accept", s.at(lost), "--yes").want(t, 0).says(t, "done")
	s.copied(src, lost)
	behind := kafkatest.End(t, dst, lost, 0) - 300
	kafkatest.MustEqual(t, src, dst, same(lost), kafkatest.CompareOptions{DstFrom: map[int32]int64{0: behind}})
	got := s.translateAll(false, ends{lost: {300}})[laneKey(lost, 0)]
	if *got[42].TargetOffset != behind+42 || got[42].State != "exact" {
		t.Errorf("source offset 42 of the new topic is %s, want %d", shortly(got[42]), behind+42)
	}
	s.stop()
}

// A record that the target refuses is left out; it is in the ledger, and everything around it is on the target.
func TestOrders_SkipARecord(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	topic := kafkatest.Topic(t, src, kafkatest.TopicOptions{Configs: map[string]string{"max.message.bytes": "2000000"}})
	some := sequel()
	kafkatest.Produce(t, src, topic, 0, some(10))
	s := newService(t, linkBetween(src, dst, []string{topic})).start()
	s.equal(src, dst, topic)
	setTopic(t, dst, topic, map[string]string{"max.message.bytes": "100000"})
	kafkatest.Produce(t, src, topic, 0, []*kgo.Record{{Value: make([]byte, 200_000)}})
	kafkatest.Produce(t, src, topic, 0, some(10))
	checkRemedy(t, s.stopsAs(topic, 0, "too_large").Remedy)
	lane := s.at(topic) + "/0"
	s.command("lanes", "skip", lane, "--to", "9", "--yes").want(t, 3).says(t, "twice")
	s.command("lanes", "skip", lane, "--to", "11", "--yes", "--reason", "spam").want(t, 0).says(t, "done")
	s.copied(src, topic)
	kafkatest.MustEqual(t, src, dst, same(topic), kafkatest.CompareOptions{SrcFrom: map[int32]int64{0: 11}, DstFrom: map[int32]int64{0: 10}})
	for i, want := range []string{"9 exact", "10 hole", "10 exact", "20 exact"} {
		if got := shortly(s.translate(false, topic, 0, 9, 10, 11, 21)[i]); got != want {
			t.Errorf("translation %d is %q, want %q", i, got, want)
		}
	}
	s.command("gaps").want(t, 0).says(t, "spam", topic)
	s.stop()
}

// Paused, a link copies nothing and says so, also after a restart; resumed, it goes on without a trace on the target.
func TestOrders_PauseOutlivesARestart(t *testing.T) {
	t.Parallel()
	s, src, dst, one, two := twoTopics(t)
	paused := func() {
		t.Helper()
		for _, topic := range []string{one, two} {
			s.awaitLane(topic, 0, 30*time.Second, func(l api.LaneDetail) bool { return l.State == "paused" && l.SourceOffset == 100 })
		}
		s.command("status").want(t, 0).says(t, "paused", "links resume "+s.link())
	}
	s.command("links", "pause", s.link(), "--yes", "--reason", "maintenance").want(t, 0).says(t, "done")
	paused()
	was := logEnds(t, dst, one, two)
	some := sequel()
	kafkatest.Produce(t, src, one, 0, some(50))
	s.stop()
	s.start()
	paused()
	was.unchanged(t, logEnds(t, dst, one, two))
	s.command("links", "resume", s.link(), "--yes").want(t, 0).says(t, "done")
	s.opensAgain(one, 0)
	s.opensAgain(two, 0)
	s.equal(src, dst, one, two)
	if end := kafkatest.End(t, dst, one, 0); end != 150 {
		t.Errorf("the target ends at %d, want 150: no marker", end)
	}
	s.stop()
}

// The process dies at each place where an order that rebuilds a lane could be cut short. The next run, or the same order
// given again, makes good for it: nothing of what stood there is left, and everything is there once.
func TestKill_InTheMiddleOfARebuild(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	src, dst := pair(t)
	topic := kafkatest.Topic(t, src)
	some := sequel()
	kafkatest.Produce(t, src, topic, 0, some(100))
	s := newService(t, linkBetween(src, dst, []string{topic})).start()
	s.equal(src, dst, topic)
	s.stop()
	for _, point := range []string{"after_take:1", "before_seal:1", "after_seal:1", "before_open:1", "after_open:1", "before_delete:1", "after_delete:1"} {
		deleteTopic(t, dst, topic)
		kafkatest.Topic(t, dst, kafkatest.TopicOptions{Name: topic})
		kafkatest.Produce(t, dst, topic, 0, some(9)) // by somebody else
		s.start("LOCKSTEP_FAILPOINT=" + point)
		s.stopsAs(topic, 0, "target_lost")
		rebuild := []string{"lanes", "rebuild", s.at(topic) + "/0", "--yes"}
		if r := s.command(rebuild...); r.code == 0 {
			t.Errorf("%s: the order is said to be done: %s", point, r)
		}
		s.diesByItself(t, point)
		kafkatest.Produce(t, src, topic, 0, some(10))
		s.start()
		l := s.awaitLane(topic, 0, 30*time.Second, func(l api.LaneDetail) bool { return l.State == "copying" || l.State == "stopped" })
		if l.State == "stopped" {
			s.command(rebuild...).want(t, 0).says(t, "done")
		}
		s.equal(src, dst, topic)
		s.stop()
	}
}
