package e2e

import (
	"fmt"
	"testing"
	"time"

	"lockstep/internal/kafkatest"
)

// One transaction acknowledges ten thousand records of fifty partitions at once, and then nothing comes any more. The last
// offset of each translates exactly within a moment, and also from the target alone.
func TestTranslate_ManyPartitionsAtOnceThenIdle(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	const parts, each = 50, 200
	some := sequel()
	topic := kafkatest.Topic(t, src, kafkatest.TopicOptions{Partitions: parts})
	s := newService(t, linkBetween(src, dst, []string{topic})).start()
	x := beginTxn(t, src)
	for p := range int32(parts) {
		x.put(topic, p, some(each))
	}
	x.end(true)
	s.equal(src, dst, topic)
	kafkatest.Eventually(t, 5*time.Second, func() (bool, string) {
		for p := range int32(parts) {
			got := s.translate(false, topic, p, each-1, each, each+1) // the last record, its marker, the end
			if text := shortly(got[0]) + ", " + shortly(got[1]) + ", " + shortly(got[2]); text != fmt.Sprintf("%d exact, %d hole, %d exact", each-1, each, each) {
				return false, fmt.Sprintf("partition %d: %s", p, text)
			}
		}
		return true, ""
	})
	s.kill()
	all := s.translateAll(false, logEnds(t, src, topic))
	for p := range int32(parts) {
		if got := all[laneKey(topic, p)][each-1]; got.TargetOffset == nil || *got.TargetOffset != each-1 || got.State != "exact" {
			t.Errorf("partition %d, from the target alone: the last record is at %s", p, shortly(got))
		}
	}
}
