package e2e

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"lockstep/api"
	"lockstep/internal/kafkatest"
)

// copyPatience bounds how long the copy may need to catch up.
const copyPatience = 60 * time.Second

// copied waits until every partition of the source topics has been copied up to its present stable end, as the service
// says and the source confirms.
func (s *service) copied(src kafkatest.Target, topics ...string) {
	s.t.Helper()
	s.reached(stableEnds(s.t, src, topics...))
}

// ends are offsets of partitions by topic.
type ends map[string][]int64

func stableEnds(t testing.TB, c kafkatest.Target, topics ...string) ends {
	t.Helper()
	return endsBy(t, c, kafkatest.StableEnd, topics...)
}

// logEnds are the ends of the logs.
func logEnds(t testing.TB, c kafkatest.Target, topics ...string) ends {
	t.Helper()
	return endsBy(t, c, kafkatest.End, topics...)
}

func endsBy(t testing.TB, c kafkatest.Target, end func(testing.TB, kafkatest.Target, string, int32) int64, topics ...string) ends {
	t.Helper()
	es := make(ends)
	for _, topic := range topics {
		for p := range partitions(t, c, topic) {
			es[topic] = append(es[topic], end(t, c, topic, p))
		}
	}
	return es
}

// partitions returns how many partitions a topic has; the test fails when there is no such topic.
func partitions(t testing.TB, c kafkatest.Target, topic string) int32 {
	t.Helper()
	n := partitionsNow(t, c, topic)
	if n == 0 {
		t.Fatalf("there is no topic %s", topic)
	}
	return n
}

// reached waits until every partition has been copied up to the given source offsets.
func (s *service) reached(want ends) {
	s.t.Helper()
	kafkatest.Eventually(s.t, copyPatience, func() (bool, string) { return s.hasReached(want) })
}

func (s *service) hasReached(want ends) (bool, string) {
	if p := s.now(); p.ended() {
		s.t.Fatalf("lockstep ended with exit code %d", p.cmd.ProcessState.ExitCode())
	}
	lanes, err := s.client.Lanes(s.t.Context(), s.link())
	if err != nil {
		return false, err.Error()
	}
	by := make(map[string]api.Lane)
	for _, l := range lanes {
		by[laneKey(l.Topic, l.Partition)] = l
	}
	for topic, es := range want {
		for p, end := range es {
			l, ok := by[laneKey(topic, int32(p))]
			switch {
			case end == 0 || ok && l.SourceOffset >= end:
			case !ok:
				return false, fmt.Sprintf("no lane %s/%d among %d", topic, p, len(lanes))
			case l.State == "stopped":
				s.t.Fatalf("lane %s/%d stopped: %s: %s", topic, p, l.Reason, l.Detail)
			default:
				return false, fmt.Sprintf("lane %s/%d stands at source offset %d of %d: %s %s %s", topic, p, l.SourceOffset, end, l.State, l.Reason, l.Detail)
			}
		}
	}
	return true, ""
}

func laneKey(topic string, partition int32) string { return fmt.Sprintf("%s/%d", topic, partition) }

// lane returns one lane as the service shows it now.
func (s *service) lane(topic string, partition int32) api.LaneDetail {
	s.t.Helper()
	l, err := s.client.Lane(s.t.Context(), s.link(), topic, partition)
	if err != nil {
		s.t.Fatal(err)
	}
	return l
}

// awaitLane waits until a lane is as ok says, and returns it.
func (s *service) awaitLane(topic string, partition int32, within time.Duration, ok func(api.LaneDetail) bool) (l api.LaneDetail) {
	s.t.Helper()
	kafkatest.Eventually(s.t, within, func() (bool, string) {
		var err error
		if l, err = s.client.Lane(s.t.Context(), s.link(), topic, partition); err != nil {
			return false, err.Error()
		}
		return ok(l), fmt.Sprintf("%+v", l)
	})
	return l
}

// stopsAs waits until a lane has stopped for the reason.
func (s *service) stopsAs(topic string, partition int32, reason string) api.LaneDetail {
	s.t.Helper()
	return s.awaitLane(topic, partition, 30*time.Second, func(l api.LaneDetail) bool { return l.State == "stopped" && l.Reason == reason })
}

// same pairs topics with copies of the same name.
func same(topics ...string) []kafkatest.Pair {
	ps := make([]kafkatest.Pair, len(topics))
	for i, t := range topics {
		ps[i] = kafkatest.Pair{Src: t, Dst: t}
	}
	return ps
}

// equal waits until the topics have been copied, and compares both sides record by record. No transaction may be open on
// the source; markers of those that have ended are waited for, since they come after the answer to the producer.
func (s *service) equal(src, dst kafkatest.Target, topics ...string) {
	s.t.Helper()
	kafkatest.Eventually(s.t, copyPatience, func() (bool, string) {
		stable, all := stableEnds(s.t, src, topics...), logEnds(s.t, src, topics...)
		return maps.EqualFunc(stable, all, slices.Equal), fmt.Sprint("stable ends ", stable, " of ", all)
	})
	s.copied(src, topics...)
	kafkatest.MustEqual(s.t, src, dst, same(topics...))
}

// unchanged fails the test when an end moved.
func (was ends) unchanged(t testing.TB, now ends) {
	t.Helper()
	for topic, es := range was {
		if !slices.Equal(es, now[topic]) {
			t.Errorf("ends of %s moved from %v to %v", topic, es, now[topic])
		}
	}
}
