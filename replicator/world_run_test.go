package replicator

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func itoa(n uint64) string { return strconv.FormatUint(n, 10) }

// seeded chooses by a seed.
type seeded struct{ *rand.Rand }

func (s seeded) pick(n int) int { return s.IntN(n) }

// drawn chooses by rapid, which makes a failing run smaller.
type drawn struct {
	t    *rapid.T
	gens map[int]*rapid.Generator[int]
}

func (d drawn) pick(n int) int {
	g := d.gens[n]
	if g == nil {
		g = rapid.IntRange(0, n-1)
		d.gens[n] = g
	}
	return g.Draw(d.t, "")
}

// live lets one world live, die and be judged. It returns what was broken, "" for nothing.
func live(w *world) string {
	defer w.close()
	w.run(30 + w.choose.pick(90))
	if w.failure == "" {
		w.heal()
	}
	if w.failure == "" {
		w.judge()
	}
	return w.failure
}

// drawTraits draws what a run is about.
func drawTraits(c chooser) traits {
	yes := func(oneIn int) bool { return c.pick(oneIn) == oneIn-1 }
	return traits{aged: yes(4), txnWay: yes(3), twoOwners: yes(2), compacted: yes(3), trims: yes(3), strangers: yes(3), failover: yes(4), manyRecords: yes(4)}
}

func seededWorld(sh *shared, seed uint64, f fault) *world {
	c := seeded{rand.New(rand.NewPCG(seed, 7))}
	return newWorld(sh, c, f, drawTraits(c))
}

func TestWorld_Smoke(t *testing.T) {
	sh := newShared(t)
	begin := time.Now()
	const runs = 20000
	for seed := range uint64(runs) {
		if time.Since(begin) > 60*time.Second {
			t.Log(seed, "runs")
			return
		}
		w := seededWorld(sh, seed, noFault)
		if live(w) != "" {
			w = seededWorld(sh, seed, noFault)
			w.tracing = true
			t.Errorf("seed %d: %s\n%s", seed, live(w), w.story())
			return
		}
	}
	t.Log(fmt.Sprintf("%.0f runs a second", runs/time.Since(begin).Seconds()))
}
