package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"lockstep/internal/kafkatest"
)

// The source topic was deleted and created again, and is longer than what was copied of the old one. `topics accept` copies
// all of the new one behind the old one's records; a topic on the same broker never waits.
func TestWayOut_Recreated(t *testing.T) {
	t.Parallel()
	for name, leave := range awayWays() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, src, dst, lost, healthy := twoTopics(t)
			comeBack := leave(s)
			deleteTopic(t, src, lost)
			kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: lost})
			kafkatest.Produce(t, src, lost, 0, sequel()(500))
			comeBack()
			l := s.stopsFor(lost, 0, "recreated")
			s.goesOn(src, dst, healthy)
			s.wantGaps()
			s.follow(l, "topics accept")
			s.acceptedAnew(src, dst, lost, 500)
			s.goesOn(src, dst, healthy)
			s.stop()
			s.start() // accepted once is enough
			kafkatest.Produce(t, src, lost, 0, sequel()(20))
			s.acceptedAnew(src, dst, lost, 520)
			s.stop()
		})
	}
}

// acceptedAnew checks that a topic of which 100 records had been copied was made anew and copied from its start.
func (s *service) acceptedAnew(src, dst kafkatest.Target, topic string, records int) {
	s.t.Helper()
	s.copied(src, topic)
	kafkatest.MustEqual(s.t, src, dst, same(topic), kafkatest.CompareOptions{DstFrom: map[int32]int64{0: 100}})
	if n := len(kafkatest.Read(s.t, dst, topic, 0, true)); n != 100+records {
		s.t.Errorf("the target holds %d records, want the old topic's 100 and the new one's %d", n, records)
	}
	s.translates(src, dst, topic, 0, 100)
	gaps := s.gaps()
	if len(gaps) != 1 || !strings.HasPrefix(gaps[0], topic+"/0 100-100 recreated") {
		s.t.Errorf("the ledger is %q; want one entry that what the old topic held behind offset 100 is unknown", gaps)
	}
}

// Topics vanish from the source, one by one and then many at once: their lanes end, what was copied stays, and a number
// that no operator can have meant raises one alarm. One that comes back is a new topic.
func TestWayOut_SourceDeleted(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	prefix := kafkatest.TopicName(t) + "-"
	var topics []string
	for i := range 6 {
		topics = append(topics, kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: fmt.Sprint(prefix, i)}))
		kafkatest.Produce(t, src, topics[i], 0, sequel()(100))
	}
	c := linkBetween(src, dst, nil)
	c.links[0].include = []string{beginning(prefix)}
	s := newService(t, c).start()
	s.repeats = 8 // one line for each topic that vanishes
	s.equal(src, dst, topics...)
	was := logEnds(t, dst, topics[:5]...)
	alarms := func() int { return strings.Count(s.now().log(), `msg="many source topics are gone"`) }
	for i, topic := range topics[:5] {
		deleteTopic(t, src, topic)
		l := s.awaitLane(topic, 0, wayOutPatience, func(l laneDetail) bool { return l.Reason == "source_deleted" })
		if n := s.stopLines(topic, 0, "source_deleted"); l.State != "stopped" || n != 1 || !strings.Contains(l.Remedy, "target keeps its copy") {
			t.Errorf("the lane is %+v, the log has %d lines about it", l.Lane, n)
		}
		if want := min(1, i/3); alarms() != want {
			t.Errorf("%d alarms after %d topics vanished, want %d", alarms(), i+1, want)
		}
		if n := s.metric("lockstep_source_topics_gone_total", s.link()); n != float64(i+1) {
			t.Errorf("lockstep_source_topics_gone_total is %v after %d topics vanished", n, i+1)
		}
	}
	s.goesOn(src, dst, topics[5])
	was.unchanged(t, logEnds(t, dst, topics[:5]...))

	kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: topics[0]})
	kafkatest.Produce(t, src, topics[0], 0, sequel()(30))
	l := s.stopsFor(topics[0], 0, "recreated")
	s.follow(l, "topics accept")
	s.acceptedAnew(src, dst, topics[0], 30)
	s.stop()
}

// threeLanes starts a service that has copied 1,000 records on each of three lanes, and another topic.
func threeLanes(t *testing.T, configs map[string]string) (s *service, src, dst *kafkatest.Cluster, lost, healthy string) {
	t.Helper()
	src, dst = pair(t)
	lost, healthy = kafkatest.Topic(t, src, kafkatest.TopicOptions{Partitions: 3, Configs: configs}), kafkatest.Topic(t, src)
	for p := range int32(3) {
		kafkatest.Produce(t, src, lost, p, withKeys(sequel()(1000))) // for topics that are compacted
	}
	kafkatest.Produce(t, src, healthy, 0, sequel()(100))
	s = newService(t, linkBetween(src, dst, []string{lost, healthy})).start()
	s.repeats = 6 // each lane is sealed and opened on its own
	s.equal(src, dst, lost, healthy)
	return s, src, dst, lost, healthy
}

// withKeys gives each record a key.
func withKeys(rs []*kgo.Record) []*kgo.Record {
	for i, r := range rs {
		r.Key = fmt.Appendf(nil, "key-%d", i)
	}
	return rs
}

// What became of a target topic behind the link's back, and `lanes rebuild`: of one lane, then of all.
func TestWayOut_TargetLost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, away string
		meanwhile  func(t *testing.T, dst *kafkatest.Cluster, topic string)
		deletes    int64 // records of a stranger in each of its partitions
	}{
		{name: "deleted", away: "running", meanwhile: func(*testing.T, *kafkatest.Cluster, string) {}},
		{name: "deleted", away: "killed", meanwhile: func(*testing.T, *kafkatest.Cluster, string) {}},
		{name: "made again", away: "stopped", meanwhile: func(t *testing.T, dst *kafkatest.Cluster, topic string) {
			kafkatest.Topic(t, dst, kafkatest.TopicOptions{Name: topic, Partitions: 3})
		}},
		{name: "fewer partitions, and a stranger's records", away: "running", meanwhile: smaller, deletes: 50},
		{name: "fewer partitions, and a stranger's records", away: "stopped", meanwhile: smaller, deletes: 50},
	} {
		t.Run(c.name+" "+c.away, func(t *testing.T) {
			t.Parallel()
			s, src, dst, lost, healthy := threeLanes(t, nil)
			comeBack := awayWays()[c.away](s)
			deleteTopic(t, dst, lost)
			c.meanwhile(t, dst, lost)
			for p := range int32(3) {
				kafkatest.Produce(t, src, lost, p, sequel()(20))
			}
			comeBack()
			l := s.stopsFor(lost, 0, "target_lost")
			for p := range int32(2) {
				s.stopsFor(lost, p+1, "target_lost")
			}
			s.goesOn(src, dst, healthy)
			if step := s.follow(l, "lanes rebuild").Steps[0]; step.Deletes != c.deletes {
				t.Errorf("the step deletes %d records, want %d: %+v", step.Deletes, c.deletes, step)
			}
			s.reached(ends{lost: {1020}})
			if now := s.lane(lost, 1); now.Reason != "target_lost" {
				t.Errorf("rebuilding lane 0 changed lane 1 to %s %s %s", now.State, now.Reason, now.Detail)
			}
			s.order(s.lane(lost, 1), "lanes", "rebuild", "--link", s.link(), "--all")
			s.rebuilt(src, dst, lost)
			s.goesOn(src, dst, healthy)
			s.wantGaps()
			s.stop()
			s.start()
			for p := range int32(3) {
				kafkatest.Produce(t, src, lost, p, sequel()(20))
			}
			s.rebuilt(src, dst, lost)
			s.stop()
		})
	}
}

// smaller makes a topic that has two partitions instead of three, with records of somebody else.
func smaller(t *testing.T, dst *kafkatest.Cluster, topic string) {
	t.Helper()
	kafkatest.Topic(t, dst, kafkatest.TopicOptions{Name: topic, Partitions: 2})
	for p := range int32(2) {
		kafkatest.Produce(t, dst, topic, p, sequel()(50))
	}
}

// rebuilt waits until all of a topic was copied anew, and compares records and translations.
func (s *service) rebuilt(src, dst kafkatest.Target, topic string) {
	s.t.Helper()
	s.equal(src, dst, topic)
	for p := range partitions(s.t, src, topic) {
		s.translates(src, dst, topic, p, 0)
	}
}

// A target topic that is compacted only: Kafka deletes no records of it on demand, so that a rebuild is refused, and says
// what to do instead.
func TestWayOut_TargetLostCompacted(t *testing.T) {
	t.Parallel()
	s, src, dst, lost, healthy := threeLanes(t, map[string]string{"cleanup.policy": "compact", "min.compaction.lag.ms": "86400000"})
	deleteTopic(t, dst, lost)
	kafkatest.Topic(t, dst, kafkatest.TopicOptions{Name: lost, Partitions: 3, Configs: map[string]string{"cleanup.policy": "compact"}})
	kafkatest.Produce(t, dst, lost, 0, keyed(50, 1))
	l := s.stopsFor(lost, 0, "target_lost")
	args := adviceOn(t, l.Remedy, "lanes rebuild")
	refused := s.command(slices.Concat(args, []string{"--yes", "-o", "json"})...).want(t, 3).says(t, "compacted only", "delete the topic, then order this again")
	if end := kafkatest.End(t, dst, lost, 0); end != 50 {
		t.Errorf("a refused rebuild changed the target's end from 50 to %d: %s", end, refused)
	}
	deleteTopic(t, dst, lost)
	s.awaitLane(lost, 0, wayOutPatience, func(now laneDetail) bool { return now.Reason == "target_lost" })
	s.follow(s.lane(lost, 0), "lanes rebuild")
	s.order(s.lane(lost, 1), "lanes", "rebuild", "--link", s.link(), "--all")
	s.rebuilt(src, dst, lost)
	s.goesOn(src, dst, healthy)
	s.stop()
}

// A target that holds something before the link ever copied there: `topics adopt` copies behind it, all of the source or
// only what comes from now on.
func TestWayOut_NotEmpty(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	all, newer, healthy := kafkatest.Topic(t, src), kafkatest.Topic(t, src), kafkatest.Topic(t, src)
	for _, topic := range []string{all, newer} {
		kafkatest.Topic(t, dst, kafkatest.TopicOptions{Name: topic})
		kafkatest.Produce(t, dst, topic, 0, sequel()(7))
	}
	for _, topic := range []string{all, newer, healthy} {
		kafkatest.Produce(t, src, topic, 0, sequel()(50))
	}
	s := newService(t, linkBetween(src, dst, []string{all, newer, healthy})).start()
	first, second := s.stopsFor(all, 0, "not_empty"), s.stopsFor(newer, 0, "not_empty")
	s.goesOn(src, dst, healthy)
	s.follow(first, "topics adopt", "--from", "earliest")
	s.follow(second, "topics adopt", "--from", "latest")
	adopted := func() {
		t.Helper()
		s.copied(src, all, newer)
		behind := kafkatest.CompareOptions{DstFrom: map[int32]int64{0: 7}}
		kafkatest.MustEqual(t, src, dst, same(all), behind)
		behind.SrcFrom = map[int32]int64{0: 50}
		kafkatest.MustEqual(t, src, dst, same(newer), behind)
		s.translates(src, dst, all, 0, 7)
	}
	for _, topic := range []string{all, newer} {
		kafkatest.Produce(t, src, topic, 0, sequel()(20))
	}
	adopted()
	if got := shortly(s.translate(false, newer, 0, 10)[0]); !strings.HasSuffix(got, "before_start 40") {
		t.Errorf("source offset 10, which was never copied, is %q", got)
	}
	s.translates(src, dst, newer, 0, 7)
	s.kill()
	s.start()
	adopted()
	s.goesOn(src, dst, healthy)
	s.stop()
}
