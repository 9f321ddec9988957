package e2e

import (
	"slices"
	"testing"

	"lockstep/internal/kafkatest"
)

// The service dies in the middle of an order, at each place where that could matter. The next start and the same command
// once more lead to where the order alone would have led; what was done already need not be refused, nor done twice.
func TestWayOut_KilledInAnOrder(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	for _, o := range []struct {
		name   string
		points []string
		drive  func(t *testing.T, s *service, src, dst *kafkatest.Cluster, topic string) // what happens to the lane, while nothing runs
		reason string
		order  []string // behind lanes or topics, before the lane or topic
		more   []string
		check  func(t *testing.T, s *service, src, dst *kafkatest.Cluster, topic string)
	}{
		{
			name: "rebuild", points: []string{"before_seal:1", "after_seal:1", "before_open:1", "after_open:1", "before_delete:1", "after_delete:1", "after_send:1"},
			drive: func(t *testing.T, _ *service, _, dst *kafkatest.Cluster, topic string) {
				deleteTopic(t, dst, topic)
				kafkatest.Topic(t, dst, kafkatest.TopicOptions{Name: topic})
				kafkatest.Produce(t, dst, topic, 0, sequel()(30))
			},
			reason: "target_lost", order: []string{"lanes", "rebuild"},
			check: func(t *testing.T, s *service, src, dst *kafkatest.Cluster, topic string) {
				s.rebuilt(src, dst, topic)
				s.wantGaps()
			},
		},
		{
			name: "accept", points: []string{"before_seal:1", "after_seal:1", "before_open:1", "after_open:1", "after_send:1"},
			drive: func(t *testing.T, _ *service, src, _ *kafkatest.Cluster, topic string) {
				deleteTopic(t, src, topic)
				kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: topic})
				kafkatest.Produce(t, src, topic, 0, sequel()(150))
			},
			reason: "recreated", order: []string{"topics", "accept"},
			check: func(t *testing.T, s *service, src, dst *kafkatest.Cluster, topic string) {
				s.acceptedAnew(src, dst, topic, 150)
			},
		},
		{
			name: "skip", points: []string{"before_open:2", "after_open:2", "after_send:1"}, // the lane is opened once before it stops
			drive: func(t *testing.T, _ *service, src, dst *kafkatest.Cluster, topic string) {
				setTopic(t, dst, topic, map[string]string{"max.message.bytes": "50000"})
				kafkatest.Produce(t, src, topic, 0, noisy(1, 100_000, 1))
				kafkatest.Produce(t, src, topic, 0, sequel()(20))
			},
			reason: "too_large", order: []string{"lanes", "skip"}, more: []string{"--to", "101"},
			check: func(t *testing.T, s *service, src, dst *kafkatest.Cluster, topic string) {
				s.reached(ends{topic: {121}})
				allBut(t, src, dst, topic, 0, 100, 101)
				s.translates(src, dst, topic, 0, 0)
				s.wantGaps(topic + "/0 100-101 skipped: because of a test")
			},
		},
	} {
		for _, point := range o.points {
			t.Run(o.name+" "+point, func(t *testing.T) {
				t.Parallel()
				src, dst := pair(t)
				topic := kafkatest.Topic(t, src)
				kafkatest.Produce(t, src, topic, 0, sequel()(100))
				s := newService(t, linkBetween(src, dst, []string{topic})).start()
				s.repeats = 6
				s.equal(src, dst, topic)
				s.stop()
				o.drive(t, s, src, dst, topic)
				s.start() // stopping is not to come in the way of the fail point
				s.stopsFor(topic, 0, o.reason)
				s.stop()
				s.start("LOCKSTEP_FAILPOINT=" + point)
				s.awaitLane(topic, 0, wayOutPatience, func(l laneDetail) bool { return l.Reason == o.reason })
				subject := s.laneName(topic, 0)
				if o.order[0] == "topics" {
					subject = s.link() + ":" + topic
				}
				args := slices.Concat(o.order, []string{subject}, o.more, []string{"--yes", "--reason", "because of a test"})
				first := s.command(args...)
				s.diesByItself(t, point)
				s.start()
				end := kafkatest.End(t, src, topic, 0) // a lane copies for a moment before it stops at a record
				s.awaitLane(topic, 0, wayOutPatience, func(l laneDetail) bool {
					return l.State == "stopped" || l.State == "copying" && l.SourceOffset >= end
				})
				again := s.command(args...)
				if again.code != 0 && again.code != 3 { // 3: it had been done before the service died
					t.Errorf("the same order once more: %s\nbefore: %s", again, first)
				}
				o.check(t, s, src, dst, topic)
				s.stop()
				s.start()
				kafkatest.Produce(t, src, topic, 0, sequel()(10))
				s.copied(src, topic)
				s.stop()
			})
		}
	}
}
