package e2e

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"lockstep/internal/kafkatest"
)

// Thirty deaths at random moments, of which many fall into opening and recovering.
func TestKill_ThirtyTimes(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	src, dst := pair(t)
	seed := seeded(t)
	topics := trafficTopics(t, src, 1)
	x := startTraffic(t, src, topics, seed)
	s := newService(t, linkBetween(src, dst, topics))
	r := rand.New(rand.NewPCG(seed, 100))
	const kills = 30
	for range kills {
		s.launch()
		rest(t.Context(), 100*time.Millisecond+time.Duration(r.Int64N(int64(1400*time.Millisecond))))
		s.kill()
	}
	s.start()
	x.end()
	s.equal(src, dst, topics...)
	s.stop()
	atMostMarkers(t, dst, topics, kills)
}

// atMostMarkers checks that a lane's target log has no more markers than there were ends that were not clean.
func atMostMarkers(t testing.TB, dst kafkatest.Target, topics []string, unclean int) {
	t.Helper()
	for _, topic := range topics {
		for p := range partitions(t, dst, topic) {
			if n := markers(t, dst, topic, p); n > unclean {
				t.Errorf("%s/%d has %d markers after %d ends that were not clean", topic, p, n, unclean)
			}
		}
	}
}

// failPoints are the places where a test build can end itself, and the passes at which it is to do so.
func failPoints() map[string][]int {
	return map[string][]int{
		"after_fetch": {1, 15}, "before_plan": {1, 12}, "after_plan": {1, 12}, "before_send": {1, 25}, "after_send": {1, 25},
		"before_answer": {1, 25}, "before_state": {1, 3}, "after_state": {1, 3}, "before_open": {1, 2}, "after_open": {1, 2},
		"before_seal": {1}, "after_seal": {1}, "after_take": {1}, // passed once per start
	}
}

// The process dies at each place where dying could matter, right away and after a while, under traffic; the next run
// makes good for it each time.
func TestKill_AtEachFailPoint(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	src, dst := pair(t)
	topics := trafficTopics(t, src, 1)
	late := kafkatest.TopicName(t) + "-late-"
	x := startTraffic(t, src, topics, seeded(t))
	c := linkBetween(src, dst, topics)
	c.links[0].include = append(c.links[0].include, beginning(late))
	s := newService(t, c)
	s.launch("LOCKSTEP_FAILPOINT=before_open:1") // the very first opening of all
	s.diesByItself(t, "before_open:1")
	s.start()
	s.reached(stableEnds(t, src, topics...))
	s.kill() // so that the next start has to seal
	for name, passes := range failPoints() {
		for _, pass := range passes {
			point := fmt.Sprintf("%s:%d", name, pass)
			s.launch("LOCKSTEP_FAILPOINT=" + point)
			if pass == 2 { // a second opening needs another topic
				s.awaitReady(s.now())
				topics = append(topics, kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: fmt.Sprint(late, len(topics))}))
				kafkatest.Produce(t, src, topics[len(topics)-1], 0, kafkatest.Records(30, uint64(len(topics))))
			}
			s.diesByItself(t, point)
			s.start()
			x.paused(func() { s.equal(src, dst, topics...) })
			s.kill()
		}
	}
	s.start()
	x.end()
	s.equal(src, dst, topics...)
	s.stop()
}

// diesByItself waits for the end at a fail point.
func (s *service) diesByItself(t *testing.T, point string) {
	t.Helper()
	p := s.now()
	if _, ok := p.wait(20 * time.Second); !ok {
		t.Errorf("fail point %s was not reached", point)
		s.kill()
		return
	}
	if !p.killedItself() {
		t.Fatalf("the run with fail point %s ended with exit code %d", point, p.cmd.ProcessState.ExitCode())
	}
}

// Twenty clean restarts under traffic leave no trace on the target, and three without traffic leave every end alone.
func TestRestart_CleanMovesNoTargetEnd(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	src, dst := pair(t)
	seed := seeded(t)
	topics := trafficTopics(t, src, 1)
	x := startTraffic(t, src, topics, seed)
	s := newService(t, linkBetween(src, dst, topics))
	r := rand.New(rand.NewPCG(seed, 100))
	for range 20 {
		s.start()
		rest(t.Context(), time.Duration(r.Int64N(int64(time.Second))))
		s.stop()
	}
	x.end()
	s.start()
	s.equal(src, dst, topics...)
	s.stop()
	atMostMarkers(t, dst, topics, 0)
	was := logEnds(t, dst, topics...)
	for range 3 {
		s.start()
		s.equal(src, dst, topics...)
		s.stop()
	}
	was.unchanged(t, logEnds(t, dst, topics...))
}

// The same without traffic, quickly.
func TestRestart_IdleSourceMovesNoTargetEnd(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	some := sequel()
	topic := kafkatest.Topic(t, src, kafkatest.TopicOptions{Partitions: 3})
	kafkatest.Produce(t, src, topic, 0, some(500), kafkatest.ProduceOptions{BatchRecords: 50})
	kafkatest.Produce(t, src, topic, 1, some(200), kafkatest.ProduceOptions{Txn: kafkatest.Commit, BatchRecords: 50})
	kafkatest.Produce(t, src, topic, 1, some(100), kafkatest.ProduceOptions{Txn: kafkatest.Abort}) // partition 2 is empty
	s := newService(t, linkBetween(src, dst, []string{topic})).start()
	s.equal(src, dst, topic)
	was := logEnds(t, dst, topic)
	for range 3 {
		s.stop()
		s.start()
		s.equal(src, dst, topic)
	}
	was.unchanged(t, logEnds(t, dst, topic))
	kafkatest.Produce(t, src, topic, 1, some(10))
	s.equal(src, dst, topic)
	s.kill()
	s.start()
	s.equal(src, dst, topic)
	s.stop()
}

// A stop may come at any moment, also while topics are made and positions are established: it is a clean end all the same.
func TestRestart_StopWhileOpening(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	r := rand.New(rand.NewPCG(seeded(t), 1))
	prefix := kafkatest.TopicName(t) + "-"
	cl := ownClient(t, src)
	some := sequel()
	c := linkBetween(src, dst, nil)
	c.links[0].include = []string{beginning(prefix)}
	s := newService(t, c)
	s.repeats = 25 // one line for each lane is allowed
	var topics []string
	for i := range 12 {
		topic := kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: fmt.Sprint(prefix, i), Partitions: 5})
		topics = append(topics, topic)
		for _, topic := range topics {
			put(t, cl, topic, int32(i%5), some(20))
		}
		s.launch()
		s.awaitListening()
		rest(t.Context(), time.Duration(r.Int64N(int64(600*time.Millisecond))))
		s.stop()
	}
	s.start()
	s.equal(src, dst, topics...)
	s.stop()
	atMostMarkers(t, dst, topics, 0)
}
