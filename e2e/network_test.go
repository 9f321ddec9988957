package e2e

import (
	"math/rand/v2"
	"testing"
	"time"

	"lockstep/internal/kafkatest"
)

// Connections to both sides break in the middle of answers, hang, and slow down.
func TestConnectionCuts_UnderTraffic(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	both := kafkatest.StartAll(t, kafkatest.Options{Proxied: true}, kafkatest.Options{Proxied: true})
	src, dst := both[0], both[1]
	seed := seeded(t)
	topics := trafficTopics(t, src, 1)
	x := startTraffic(t, src, topics, seed)
	s := newService(t, linkBetween(src, dst, topics)).start()
	s.repeats = 60 // there are more than sixty faults
	r := rand.New(rand.NewPCG(seed, 100))
	for range 60 {
		p := both[r.IntN(2)].Proxy(1)
		switch r.IntN(8) {
		case 0:
			p.Cut()
		case 1:
			p.Refuse(true)
			rest(t.Context(), time.Duration(r.Int64N(int64(time.Second))))
			p.Refuse(false)
		case 2:
			p.Delay(time.Duration(r.Int64N(int64(50 * time.Millisecond))))
			rest(t.Context(), 300*time.Millisecond)
			p.Delay(0)
		case 3:
			p.Drop(true)
			rest(t.Context(), time.Duration(r.Int64N(int64(2*time.Second))))
			p.Drop(false)
		default:
			p.CutAfter(r.Int64N(60_000))
		}
		rest(t.Context(), time.Duration(r.Int64N(int64(600*time.Millisecond))))
	}
	x.end()
	s.equal(src, dst, topics...)
	s.stop()
	t.Logf("%d and %d cuts inside of answers", src.Proxy(1).Cuts(), dst.Proxy(1).Cuts())
}

// A network that swallows everything for half a minute shows as such, and passes.
func TestConnectionDead_ShowsAndRecovers(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	src, _ := pair(t)
	dst := kafkatest.Start(t, kafkatest.Options{Proxied: true})
	some := sequel()
	topic := kafkatest.Topic(t, src)
	kafkatest.Produce(t, src, topic, 0, some(100))
	s := newService(t, linkBetween(src, dst, []string{topic})).start()
	s.equal(src, dst, topic)
	dst.Proxy(1).Drop(true)
	kafkatest.Produce(t, src, topic, 0, some(100))
	l := s.awaitLane(topic, 0, 60*time.Second, func(l laneDetail) bool { return l.State == "retrying" })
	if l.Reason == "" || l.Detail == "" || l.Remedy == "" {
		t.Errorf("a lane in trouble shows no reason: %+v", l)
	}
	if l.LagRecords == nil || *l.LagRecords < 100 {
		t.Errorf("the lane is %s records behind, want 100", offset(l.LagRecords))
	}
	dst.Proxy(1).Drop(false)
	s.equal(src, dst, topic)
	s.awaitLane(topic, 0, 10*time.Second, func(l laneDetail) bool { return l.State == "copying" && l.Reason == "" })
	s.stop()
}

// Brokers of the target go down one after the other, cleanly, by a power cut, and by freezing; leaders move.
func TestBroker_RestartTarget(t *testing.T) {
	kafkatest.Long(t)
	src, _ := pair(t)
	dst := kafkatest.Start(t, kafkatest.Options{Nodes: 3, HeapMB: 400, Properties: map[string]string{"min.insync.replicas": "2", "default.replication.factor": "3"}})
	topics := trafficTopics(t, src, 1)
	x := startTraffic(t, src, topics, seeded(t))
	s := newService(t, linkBetween(src, dst, topics, "replication_factor: 3")).start()
	s.repeats = 60
	s.reached(stableEnds(t, src, topics...))
	for node := int32(1); node <= 3; node++ {
		dst.Stop(t, node)
		rest(t.Context(), 2*time.Second)
		dst.Restart(t, node)
		s.reached(stableEnds(t, src, topics...))
	}
	for node := int32(1); node <= 3; node++ {
		dst.Kill(t, node)
		s.reached(stableEnds(t, src, topics...)) // two nodes are left
		dst.Restart(t, node)
		s.reached(stableEnds(t, src, topics...))
	}
	x.end()
	s.equal(src, dst, topics...)
	s.stop()
}

// A broker of the target freezes with all its connections open. Kafka moves its leaderships within seconds; the copy must
// not wait for the frozen one for much longer, nor write anything twice when it thaws.
func TestBroker_FreezeTarget(t *testing.T) {
	kafkatest.Long(t)
	src, _ := pair(t)
	dst := kafkatest.Start(t, kafkatest.Options{Nodes: 3, HeapMB: 400, Properties: map[string]string{"min.insync.replicas": "2", "default.replication.factor": "3"}})
	topics := trafficTopics(t, src, 1)
	x := startTraffic(t, src, topics, seeded(t))
	s := newService(t, linkBetween(src, dst, topics, "replication_factor: 3")).start()
	s.repeats = 60
	s.reached(stableEnds(t, src, topics...))
	frozen := dst.Leader(t, topics[0], 0)
	dst.Freeze(t, frozen)
	began := time.Now()
	kafkatest.Eventually(t, 3*time.Minute, func() (bool, string) {
		l := dst.Leader(t, topics[0], 0)
		return l != frozen && l >= 0, "the frozen broker leads"
	})
	moved := time.Now()
	want := stableEnds(t, src, topics...)
	kafkatest.Eventually(t, 3*time.Minute, func() (bool, string) { return s.hasReached(want) })
	t.Logf("leaders moved after %s, and %s later the copy had caught up", moved.Sub(began).Round(time.Second), time.Since(moved).Round(time.Second))
	if took := time.Since(moved); took > 30*time.Second {
		t.Errorf("the copy stood still for %s after the leaders had moved", took.Round(time.Second))
	}
	dst.Thaw(t, frozen)
	x.end()
	dst.AwaitInformed(t, frozen, topics...) // who compares must not ask it for ends of before
	s.equal(src, dst, topics...)
	s.stop()
}

// The source's brokers go down; of three nodes two are left each time.
func TestBroker_RestartSource(t *testing.T) {
	kafkatest.Long(t)
	_, dst := pair(t)
	src := kafkatest.Start(t, kafkatest.Options{Nodes: 3, HeapMB: 400, Properties: map[string]string{"min.insync.replicas": "2", "default.replication.factor": "3"}})
	topics := trafficTopics(t, src, 3)
	x := startTraffic(t, src, topics, seeded(t))
	s := newService(t, linkBetween(src, dst, topics)).start()
	s.repeats = 60
	for node := int32(1); node <= 3; node++ {
		src.Stop(t, node)
		rest(t.Context(), 2*time.Second)
		src.Restart(t, node)
	}
	for node := int32(1); node <= 3; node++ {
		src.Kill(t, node)
		rest(t.Context(), 2*time.Second)
		src.Restart(t, node)
	}
	x.end()
	s.equal(src, dst, topics...)
	s.stop()
}
