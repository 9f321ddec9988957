package e2e

import (
	"math/rand/v2"
	"testing"
	"time"

	"lockstep/internal/kafkatest"
)

// A far, narrow line for a while, and then one that loses connections, cuts answers short and stands still now and then.
func TestNetwork_SlowAndLossy(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	both := kafkatest.StartAll(t, kafkatest.Options{Proxied: true}, kafkatest.Options{Proxied: true})
	src, dst := both[0], both[1]
	seed := seeded(t)
	r := rand.New(rand.NewPCG(seed, 100))
	topics := trafficTopics(t, src, 1)
	x := startTraffic(t, src, topics, seed)
	s := newService(t, linkBetween(src, dst, topics)).start()
	s.repeats = 80
	slow(t, r, both)
	s.reached(stableEnds(t, src, topics...))
	lossy(t, r, both)
	x.end()
	s.equal(src, dst, topics...)
	s.settlesDown(30 * time.Second)
	s.stop()
	t.Logf("%d and %d cuts inside of answers", src.Proxy(1).Cuts(), dst.Proxy(1).Cuts())
	if n := src.Proxy(1).Cuts() + dst.Proxy(1).Cuts(); n == 0 {
		t.Error("no answer was cut short: the test did not test much")
	}
}

// slow gives both sides a round trip of 200 to 600 ms, and a narrow line.
func slow(t *testing.T, r *rand.Rand, both []*kafkatest.Cluster) {
	t.Helper()
	for range 10 {
		for _, c := range both {
			c.Proxy(1).Delay(100*time.Millisecond + time.Duration(r.Int64N(int64(200*time.Millisecond))))
			c.Proxy(1).Rate(500_000)
		}
		rest(t.Context(), 1500*time.Millisecond)
	}
	for _, c := range both {
		c.Proxy(1).Delay(0)
		c.Proxy(1).Rate(0)
	}
}

// lossy hurts one side after the other.
func lossy(t *testing.T, r *rand.Rand, both []*kafkatest.Cluster) {
	t.Helper()
	for range 40 {
		p := both[r.IntN(2)].Proxy(1)
		switch r.IntN(6) {
		case 0, 1:
			p.CutOne()
		case 2: // everything stands still, and then comes all the same
			stall := time.Second + time.Duration(r.Int64N(int64(2*time.Second)))
			p.Delay(stall)
			rest(t.Context(), stall/2)
			p.Delay(0)
		default:
			p.CutAfter(r.Int64N(40_000))
		}
		rest(t.Context(), time.Duration(r.Int64N(int64(500*time.Millisecond))))
	}
}
