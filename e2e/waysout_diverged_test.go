package e2e

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"lockstep/api"
	"lockstep/internal/kafkatest"
)

// The target's only broker loses acknowledged records with its power: under a service that runs, and while none does. Lanes
// stop and show both positions; one is rebuilt, another goes back to the position that is named, a third lost nothing.
func TestWayOut_Diverged(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	src, _ := pair(t)
	dst := kafkatest.Start(t, kafkatest.Options{})
	for _, away := range []string{"running", "stopped", "killed"} { // they share a broker that dies
		t.Run(away, func(t *testing.T) {
			topic := kafkatest.Topic(t, src, kafkatest.TopicOptions{Partitions: 3})
			for p := range int32(3) {
				kafkatest.Produce(t, src, topic, p, sequel()(500), kafkatest.ProduceOptions{BatchRecords: 50})
			}
			s := newService(t, linkBetween(src, dst, []string{topic})).start()
			s.repeats = 12
			s.equal(src, dst, topic)
			for p := range int32(3) { // stored: what only headers tell would go with them
				s.awaitLane(topic, p, wayOutPatience, func(l laneDetail) bool { return l.Count == 500 })
			}
			comeBack := awayWays()[away](s)
			dst.Kill(t, 1)
			dst.CutLog(t, 1, topic, 0, 300)
			dst.CutLog(t, 1, topic, 1, 400)
			dst.Restart(t, 1)
			comeBack()
			for p := range int32(3) {
				kafkatest.Produce(t, src, topic, p, sequel()(50))
			}
			rebuilt, skipped := s.stopsFor(topic, 0, "diverged"), s.stopsFor(topic, 1, "diverged")
			s.othersGoOn(src, dst, topic, 2)
			for p, cut := range []int64{300, 400} {
				if end := kafkatest.End(t, dst, topic, int32(p)); end > cut+5 { // markers
					t.Errorf("lane %d wrote up to %d although it diverged at %d", p, end, cut)
				}
			}
			if step := s.follow(rebuilt, "lanes rebuild").Steps[0]; step.Deletes < 300 {
				t.Errorf("the step deletes %d records, want 300: %+v", step.Deletes, step)
			}
			back := namedPosition(t, skipped.Detail)
			if back != 400 {
				t.Errorf("the detail %q names source offset %d, want 400", skipped.Detail, back)
			}
			s.follow(skipped, "lanes skip", fmt.Sprint(back))
			s.equal(src, dst, topic)
			for p := range int32(3) {
				s.translates(src, dst, topic, p, 0)
			}
			s.wantGaps()
			s.stop()
			s.start()
			s.equal(src, dst, topic)
			s.stop()
		})
	}
}

var positionIn = regexp.MustCompile(`up to source offset (\d+)`)

// namedPosition is the source offset up to which a detail says that records are left.
func namedPosition(t *testing.T, detail string) (at int64) {
	t.Helper()
	m := positionIn.FindStringSubmatch(detail)
	if m == nil {
		t.Fatalf("the detail %q does not name the source offset up to which records are left", detail)
	}
	if _, err := fmt.Sscan(m[1], &at); err != nil {
		t.Fatal(err)
	}
	return at
}

// The whole target is another, empty cluster all of a sudden, at the same addresses: under a service that runs, and while
// none does. Never does it look as if all had been copied; in the end all of it is.
func TestWayOut_TargetWiped(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	src, _ := pair(t)
	for _, away := range []string{"running", "stopped"} {
		t.Run(away, func(t *testing.T) {
			t.Parallel()
			dst := kafkatest.Start(t, kafkatest.Options{})
			topic := kafkatest.Topic(t, src, kafkatest.TopicOptions{Partitions: 2})
			for p := range int32(2) {
				kafkatest.Produce(t, src, topic, p, sequel()(1000))
			}
			s := newService(t, linkBetween(src, dst, []string{topic})).start()
			s.repeats = 6
			s.equal(src, dst, topic)
			if away == "stopped" {
				s.stop()
			}
			was := dst.ID()
			dst.Wipe(t)
			if dst.ID() == was {
				t.Fatal("the cluster kept its id")
			}
			if away == "running" {
				s.exits(3, wayOutPatience)
			}
			s.start()
			s.equal(src, dst, topic)
			for p := range int32(2) {
				if end := kafkatest.End(t, dst, topic, p); end != 1000 {
					t.Errorf("partition %d of the copy ends at %d, want 1000", p, end)
				}
				s.translates(src, dst, topic, p, 0)
			}
			s.stop()
		})
	}
}

// The whole source is another cluster all of a sudden, at the same addresses and with topics of the same names: under a
// service that runs, and while none does. The link stops before it writes anything; `links accept` goes on, and topics that
// are other ones wait to be accepted in their turn.
func TestWayOut_SourceReplaced(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	_, dst := pair(t)
	for _, away := range []string{"running", "stopped"} {
		t.Run(away, func(t *testing.T) {
			t.Parallel()
			src := kafkatest.Start(t, kafkatest.Options{})
			a, b := kafkatest.Topic(t, src), kafkatest.Topic(t, src)
			for _, topic := range []string{a, b} {
				kafkatest.Produce(t, src, topic, 0, sequel()(100))
			}
			s := newService(t, linkBetween(src, dst, []string{a, b})).start()
			s.repeats = 6
			s.equal(src, dst, a, b)
			comeBack := awayWays()[away](s)
			was := logEnds(t, dst, a, b)
			src.Wipe(t)
			for topic, n := range map[string]int{a: 300, b: 50} {
				kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: topic})
				kafkatest.Produce(t, src, topic, 0, sequel()(n))
			}
			comeBack()
			for _, topic := range []string{a, b} {
				s.awaitLane(topic, 0, wayOutPatience, func(l laneDetail) bool { return l.State == "stopped" && l.Reason == "source_replaced" })
			}
			link := s.ownLink()
			if link.State != api.LinkStateStopped || link.Reason != "source_replaced" || !strings.Contains(link.Detail, src.ID()) {
				t.Errorf("the link shows %+v", link)
			}
			if n := strings.Count(s.now().log(), "the source was replaced"); n != 1 {
				t.Errorf("the log says %d times that the source was replaced, want once", n)
			}
			was.unchanged(t, logEnds(t, dst, a, b))
			s.command("status").want(t, 0).says(t, link.Remedy)
			args := adviceOn(t, link.Remedy, "links accept")
			s.command(append(args, "--dry-run")...).want(t, 0)
			if s.ownLink().Reason != "source_replaced" {
				t.Error("a dry run accepted the source")
			}
			s.command(append(args, "--yes")...).want(t, 0)
			for topic, n := range map[string]int{a: 300, b: 50} {
				s.awaitLane(topic, 0, wayOutPatience, func(l laneDetail) bool { return l.Reason == "recreated" })
				s.follow(s.lane(topic, 0), "topics accept")
				s.copied(src, topic)
				kafkatest.MustEqual(t, src, dst, same(topic), kafkatest.CompareOptions{DstFrom: map[int32]int64{0: 100}})
				if got := len(kafkatest.Read(t, dst, topic, 0, true)); got != 100+n {
					t.Errorf("the target holds %d records of %s, want the old source's 100 and the new one's %d", got, topic, n)
				}
				s.translates(src, dst, topic, 0, 100)
			}
			s.stop()
			s.start() // accepted once is enough
			kafkatest.Produce(t, src, a, 0, sequel()(10))
			s.copied(src, a, b)
			s.stop()
		})
	}
}

// The service died before it stored how far it came, and everything that could have told it is gone from the target: the
// records and their headers, and what the broker knew of their producer. Nothing is guessed; the lane is rebuilt.
func TestWayOut_PlanLost(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	src, _ := pair(t)
	dst := kafkatest.Start(t, kafkatest.Options{Properties: map[string]string{
		"producer.id.expiration.ms": "3000", "producer.id.expiration.check.interval.ms": "500",
	}})
	topic := kafkatest.Topic(t, src, kafkatest.TopicOptions{Partitions: 2})
	kafkatest.Produce(t, src, topic, 0, sequel()(500))
	s := newService(t, linkBetween(src, dst, []string{topic}))
	s.launch("LOCKSTEP_FAILPOINT=before_state:1")
	s.diesByItself(t, "before_state:1")
	end := kafkatest.End(t, dst, topic, 0)
	if end == 0 {
		t.Fatal("nothing was copied before the service died")
	}
	deleteBefore(t, dst, topic, 0, end)
	kafkatest.Eventually(t, 30*time.Second, func() (bool, string) {
		got, err := dst.Kadm().DescribeProducers(t.Context(), kadm.TopicsSet{topic: {0: {}}})
		if err != nil {
			return false, err.Error()
		}
		known := got[topic].Partitions[0].ActiveProducers
		return len(known) == 0, fmt.Sprint("the broker knows ", known)
	})
	s.start()
	l := s.stopsFor(topic, 0, "plan_lost")
	s.othersGoOn(src, dst, topic, 1)
	s.follow(l, "lanes rebuild")
	s.equal(src, dst, topic)
	for p := range int32(2) {
		s.translates(src, dst, topic, p, 0)
	}
	s.wantGaps()
	s.stop()
}
