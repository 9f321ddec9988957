package topicsync

import (
	"testing"

	"lockstep/config"
	"lockstep/internal/kafkatest"
)

// One wrong character in a pattern shows, with what it may have been meant for; once is chance.
func TestSyncer_PatternThatMatchesNothing(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: "orders.v1"})
	s, _ := syncer(t, src, dst, func(o *Options) { o.Link.Topics.Include = []string{`order\.v1`, "orders.*"} })
	if _, err := s.once(within(t)); err != nil {
		t.Fatal(err)
	}
	if got := s.Unmatched(); len(got) != 0 {
		t.Errorf("after one pass: %v", got)
	}
	if _, err := s.once(within(t)); err != nil {
		t.Fatal(err)
	}
	if got := s.Unmatched(); len(got) != 1 || got[0] != (config.Unmatched{Pattern: `order\.v1`, Hint: `there is a topic "orders.v1"`}) {
		t.Errorf("after two passes: %+v", got)
	}
	kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: "order.v1"})
	if _, err := s.once(within(t)); err != nil {
		t.Fatal(err)
	}
	if got := s.Unmatched(); len(got) != 0 {
		t.Errorf("after the topic came: %v", got)
	}
}
