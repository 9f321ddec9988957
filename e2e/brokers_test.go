package e2e

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"lockstep/internal/kafkatest"
)

// hurt is a link between two clusters of three nodes, everything with three replicas, under traffic.
type hurt struct {
	t        *testing.T
	src, dst *kafkatest.Cluster
	topics   []string
	traffic  *traffic
	s        *service
	r        *rand.Rand
	term     uint64
}

// TestBrokers_Misbehave holds what takes brokers on both sides. The scenarios share the clusters, one after the other,
// and each leaves them whole.
func TestBrokers_Misbehave(t *testing.T) {
	kafkatest.Long(t)
	both := kafkatest.StartAll(t, threeNodes(), threeNodes())
	for _, scenario := range []struct {
		name string
		run  func(*hurt)
	}{
		{"EachRestartsAndDies", eachRestartsAndDies},
		{"LeadersMoveFiftyTimes", leadersMoveFiftyTimes},
		{"TargetBrokerHangs", targetBrokerHangs},
		{"SourceBrokerHangs", sourceBrokerHangs},
	} {
		t.Run(scenario.name, func(t *testing.T) {
			seed := seeded(t)
			h := &hurt{t: t, src: both[0], dst: both[1], r: rand.New(rand.NewPCG(seed, 100))}
			awaitInSync(t, h.src)
			awaitInSync(t, h.dst)
			h.topics = trafficTopics(t, h.src, 3)
			h.traffic = startTraffic(t, h.src, h.topics, seed)
			h.s = newService(t, linkBetween(h.src, h.dst, h.topics, "replication_factor: 3")).start()
			h.s.repeats = 60
			h.s.reached(stableEnds(t, h.src, h.topics...))
			h.term = h.s.linkTerm()
			scenario.run(h)
			h.ends()
		})
	}
}

// ends checks that nothing is missing or twice, no lane stopped, and nobody had to take a new term.
func (h *hurt) ends() {
	h.t.Helper()
	h.traffic.end()
	h.s.equal(h.src, h.dst, h.topics...)
	h.s.settlesDown(30 * time.Second)
	n := 0
	for _, topic := range h.topics {
		for p := range partitions(h.t, h.dst, topic) {
			n += markers(h.t, h.dst, topic, p)
		}
	}
	h.t.Logf("%d markers, term %d after %d", n, h.s.linkTerm(), h.term)
	if n > 0 || h.s.linkTerm() != h.term {
		h.t.Errorf("%d lanes were sealed and the link went from term %d to %d, though its owner lived on", n, h.term, h.s.linkTerm())
	}
	h.s.stop()
}

// Each broker of either side goes down cleanly, and then by a power cut; two are left each time.
func eachRestartsAndDies(h *hurt) {
	for _, c := range []*kafkatest.Cluster{h.src, h.dst} {
		for node := int32(1); node <= 3; node++ {
			for _, down := range []func(testing.TB, int32){c.Stop, c.Kill} {
				down(h.t, node)
				h.s.reached(stableEnds(h.t, h.src, h.topics...))
				c.Restart(h.t, node)
				awaitInSync(h.t, c)
			}
		}
	}
}

// Leaders move to and fro on both sides, also those of the state topic, faster than anybody learns of it.
func leadersMoveFiftyTimes(h *hurt) {
	state := stateTopic(h.s.link())
	moves := [2]int{}
	for moves[0] < 50 || moves[1] < 50 {
		moves[0] += moveLeaders(h.t, h.src, h.r, h.topics...)
		moves[1] += moveLeaders(h.t, h.dst, h.r, append(h.topics, state)...)
		rest(h.t.Context(), time.Duration(h.r.Int64N(int64(800*time.Millisecond))))
	}
	h.t.Logf("%d and %d moves", moves[0], moves[1])
	h.s.reached(stableEnds(h.t, h.src, h.topics...))
}

// A broker of the target hangs with all its connections open. Whose leader it is not goes on meanwhile.
func targetBrokerHangs(h *hurt) {
	state := stateTopic(h.s.link())
	frozen := h.dst.Leader(h.t, h.topics[0], 0)
	led, plans := leads(h.t, h.dst, append(h.topics, state)...), h.s.planHomes(h.dst, h.topics...)
	h.hangs(h.dst, frozen, func(lane string) bool {
		return led[lane] == frozen || led[laneKey(state, plans[lane])] == frozen
	})
}

// The same on the source.
func sourceBrokerHangs(h *hurt) {
	frozen := h.src.Leader(h.t, h.topics[0], 0)
	led := leads(h.t, h.src, h.topics...)
	h.hangs(h.src, frozen, func(lane string) bool { return led[lane] == frozen })
}

const (
	hangsFor  = 25 * time.Second
	lagOthers = 5 * time.Second  // of lanes that the broker has nothing to do with, all the time
	lagBack   = 30 * time.Second // after its leaderships have moved, for the others
)

// hangs freezes a broker for a while and watches the lag of all lanes.
func (h *hurt) hangs(c *kafkatest.Cluster, frozen int32, concerned func(lane string) bool) {
	h.t.Helper()
	c.Freeze(h.t, frozen)
	began := time.Now()
	moved, back := time.Time{}, time.Time{}
	worst := make(map[string]time.Duration)
	kafkatest.Eventually(h.t, 2*time.Minute, func() (bool, string) {
		if moved.IsZero() && time.Since(began) > 2*time.Second && h.allMoved(c, frozen) {
			moved = time.Now()
		}
		late := h.lags(worst)
		if back.IsZero() && !moved.IsZero() && late == "" {
			back = time.Now()
		}
		return time.Since(began) > hangsFor && !back.IsZero(), fmt.Sprintf("leaders moved: %t; %s", !moved.IsZero(), late)
	})
	c.Thaw(h.t, frozen)
	thawed := time.Now()
	kafkatest.Eventually(h.t, time.Minute, func() (bool, string) {
		return h.lags(worst) == "" && time.Since(thawed) > 5*time.Second, "waiting for late answers of the thawed broker"
	})
	awaitInSync(h.t, c)
	h.report(began, moved, back, worst, concerned)
}

// allMoved reports whether the broker leads nothing of the link any more.
func (h *hurt) allMoved(c *kafkatest.Cluster, frozen int32) bool {
	topics := h.topics
	if c == h.dst {
		topics = append(topics, stateTopic(h.s.link()))
	}
	for _, leader := range leads(h.t, c, topics...) {
		if leader == frozen || leader < 0 {
			return false
		}
	}
	return true
}

// lags keeps the worst lag of each lane, and names one that is late now.
func (h *hurt) lags(worst map[string]time.Duration) (late string) {
	lanes, err := h.s.client.Lanes(h.t.Context(), h.s.link())
	if err != nil {
		return err.Error()
	}
	for _, l := range lanes {
		if l.State == "stopped" {
			h.t.Fatalf("lane %s/%d stopped: %s: %s", l.Topic, l.Partition, l.Reason, l.Detail)
		}
		lag := time.Duration(0)
		if l.LagSeconds != nil {
			lag = time.Duration(*l.LagSeconds * float64(time.Second))
		}
		key := laneKey(l.Topic, l.Partition)
		worst[key] = max(worst[key], lag)
		if lag > lagOthers {
			late = fmt.Sprintf("lane %s is %s behind: %s %s", key, lag, l.State, l.Detail)
		}
	}
	return late
}

func (h *hurt) report(began, moved, back time.Time, worst map[string]time.Duration, concerned func(lane string) bool) {
	h.t.Helper()
	h.t.Logf("leaders moved after %s, all lanes were back %s later", moved.Sub(began).Round(100*time.Millisecond), back.Sub(moved).Round(100*time.Millisecond))
	if took := back.Sub(moved); took > lagBack {
		h.t.Errorf("lanes were late for %s after the leaders had moved", took)
	}
	others := 0
	for lane, lag := range worst {
		h.t.Logf("%s: at most %s behind, concerned: %t", lane, lag.Round(10*time.Millisecond), concerned(lane))
		if !concerned(lane) {
			others++
			if lag > lagOthers {
				h.t.Errorf("lane %s was %s behind, though the broker that hung has nothing to do with it", lane, lag)
			}
		}
	}
	if others == 0 {
		h.t.Error("the broker that hung was concerned with every lane: the test did not test much")
	}
}
