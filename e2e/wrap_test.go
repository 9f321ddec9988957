package e2e

import (
	"fmt"
	"math"
	"testing"

	"lockstep/internal/kafkatest"
)

// The sequence of a batch has 31 bits, and a busy lane uses them up in days. Lanes that stand shortly before the wrap cross
// it, die on either side of it and in its middle, and every offset translates as it should.
func TestSequence_WrapsAround(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	const before = 20
	start := fmt.Sprintf("LOCKSTEP_FIRST_COUNT=%d", math.MaxInt32+1-before)
	for name, point := range map[string]string{
		"alive":            "",
		"dies before it":   "after_send:4",
		"dies in it":       "before_answer:7",
		"dies behind it":   "after_send:14",
		"dies unsaved":     "before_state:1",
		"dies right after": "after_state:1",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src, dst := pair(t)
			topic := kafkatest.Topic(t, src, kafkatest.TopicOptions{Partitions: 2})
			some := sequel()
			for i := range 24 { // three records a batch: one of them lies across the wrap
				o := kafkatest.ProduceOptions{}
				if i%5 == 0 {
					o.Txn = kafkatest.Commit // its marker makes the source offsets jump
				}
				kafkatest.Produce(t, src, topic, 0, some(3), o)
			}
			kafkatest.Produce(t, src, topic, 1, some(200))
			s := newService(t, linkBetween(src, dst, []string{topic}))
			if point != "" {
				s.launch(start, "LOCKSTEP_FAILPOINT="+point)
				s.diesByItself(t, point)
			}
			s.start(start)
			s.equal(src, dst, topic)
			s.stop()
			s.start() // a clean end beyond the wrap is one like every other
			kafkatest.Produce(t, src, topic, 0, some(50))
			s.equal(src, dst, topic)
			s.stop()
			s.checkWrapped(t, dst, topic, before)
			forth := s.translateAll(false, logEnds(t, src, topic))
			back := s.translateAll(true, logEnds(t, dst, topic))
			for p := range partitions(t, src, topic) {
				truth := readTruth(t, src, dst, topic, p)
				truth.checkForth(t, forth[laneKey(topic, p)])
				truth.checkBack(t, back[laneKey(topic, p)])
			}
		})
	}
}

// checkWrapped makes sure that the lane did begin where it was told to.
func (s *service) checkWrapped(t *testing.T, dst kafkatest.Target, topic string, before int32) {
	t.Helper()
	for p := range partitions(t, dst, topic) {
		first := rawBatches(t, dst, topic, p)[0]
		if first.sequence != math.MaxInt32-(before-1) {
			t.Errorf("%s/%d begins at sequence %d: the test did not test much", topic, p, first.sequence)
		}
	}
}
