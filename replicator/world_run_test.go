package replicator

import (
	"math/bits"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"lockstep/internal/kafkatest"
)

func itoa(n uint64) string { return strconv.FormatUint(n, 10) }

// seeded chooses by a seed.
type seeded struct{ *rand.Rand }

func newSeeded(seed uint64) seeded { return seeded{rand.New(rand.NewPCG(seed, 7))} }

func (s seeded) pick(n int) int { return s.IntN(n) }

// drawn chooses by rapid, which makes a failing run smaller. Numbers are put together from bits, since rapid draws small
// ones far more often than others.
type drawn struct {
	t    *rapid.T
	bit  *rapid.Generator[bool]
	told *[]int
}

func (d drawn) pick(n int) int {
	x := 0
	for range bits.Len(uint(n-1)) + 1 {
		x *= 2
		if d.bit.Draw(d.t, "") {
			x++
		}
	}
	*d.told = append(*d.told, x%n)
	return x % n
}

// again chooses what was chosen before, and the first thing behind that.
type again struct{ told *[]int }

func (a again) pick(int) int {
	if len(*a.told) == 0 {
		return 0
	}
	x := (*a.told)[0]
	*a.told = (*a.told)[1:]
	return x
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
	t := traits{aged: yes(4), txnWay: yes(3), twoOwners: yes(2), compacted: yes(3), trims: yes(3), strangers: yes(3), failover: yes(4), manyRecords: yes(4), wiped: yes(8), restarts: yes(6), truncations: yes(4)}
	t.settle()
	return t
}

// settle takes out what does not go together.
func (t *traits) settle() {
	t.twoOwners = t.twoOwners && !t.aged // see stepSweep
	t.wiped = t.wiped && !t.failover
}

// retold is a run's story: it lives once more, and this time everything is written down.
func retold(w *world) string {
	w.tracing = true
	live(w)
	return w.story()
}

func TestWorld_PromisesHold(t *testing.T) {
	t.Parallel()
	sh := newShared(t)
	for range 30 { // of 100 runs each, unless -rapid.checks says otherwise
		rapid.Check(t, func(t *rapid.T) {
			var told []int
			c := drawn{t, rapid.Bool(), &told}
			if why := live(newWorld(sh, c, noFault, drawTraits(c))); why != "" {
				c := again{&told}
				t.Fatalf("%s\n%s", why, retold(newWorld(sh, c, noFault, drawTraits(c))))
			}
		})
	}
}

// TestWorld_PromisesHoldInManyRuns takes more than a minute of both cores. It makes the same runs each time, so that a
// change is judged and not the seed; LOCKSTEP_WORLD_SEED makes one other run, LOCKSTEP_WORLD_FROM that many runs from
// another seed on. Runs whose contradiction nobody has settled yet are named, and every other one is a fault.
func TestWorld_PromisesHoldInManyRuns(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	first, runs := uint64(1), uint64(100_000)
	if s, err := strconv.ParseUint(os.Getenv("LOCKSTEP_WORLD_FROM"), 10, 64); err == nil {
		first = s
	}
	if s, err := strconv.ParseUint(os.Getenv("LOCKSTEP_WORLD_SEED"), 10, 64); err == nil {
		first, runs = s, 1
	}
	sh, open := newShared(t), openQuestions()
	var next, failed atomic.Uint64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < runs && failed.Load() < 10; i = next.Add(1) - 1 {
				seed := first + i
				c := newSeeded(seed)
				why := live(newWorld(sh, c, noFault, drawTraits(c)))
				if known := open[seed]; why == "" || runs > 1 && known != "" && strings.HasPrefix(why, known) {
					continue
				}
				failed.Add(1)
				c = newSeeded(seed)
				t.Errorf("LOCKSTEP_WORLD_SEED=%d: %s\n%s", seed, why, retold(newWorld(sh, c, noFault, drawTraits(c))))
			}
		})
	}
	wg.Wait()
	t.Logf("%d runs from seed %d on, %d of them known to be open", min(next.Load(), runs), first, len(open))
}

// openQuestions are runs that end in a contradiction which is not settled. In 342215, of a range further on, a transaction
// is aborted on one branch of the source and committed on the other, with its records below the fork and in front of
// others that were copied: they cannot be put in between any more, and the ledger does not name them. The two after it
// truncate a compacted source more than once; whether product or model is wrong in them is not known. The texts are how
// the contradictions begin.
func openQuestions() map[uint64]string {
	return map[uint64]string{
		342215:  "dr:orders/0: source record 0 is missing, the cursor is 9",
		1044665: "dr:orders/0: the ledger says that the copy of source record 0 at 2 stands on the target only, and the source has it",
		2039360: "dr:orders/0: source record 0 stands behind 2",
	}
}

// faultCase says in which runs a fault shows, and within how many.
type faultCase struct {
	fault  fault
	within uint64
	focus  func(*traits)
}

func faultCases() []faultCase {
	txn := func(t *traits) { t.txnWay, t.aged = true, false }
	direct := func(t *traits) { t.txnWay = false }
	two := func(t *traits) { t.twoOwners, t.aged = true, false }
	failover := func(t *traits) { t.failover, t.aged = true, false }
	truncated := func(t *traits) { t.truncations, t.failover, t.wiped = true, false, false }
	aged := func(t *traits) { t.aged, t.twoOwners = true, false }
	return []faultCase{
		{faultNoMarker, 5000, direct},
		{faultAnswerIsProof, 5000, txn},
		{faultOneAnswerForAll, 5000, direct},
		{faultWeakInTransaction, 5000, txn},
		{faultEndAskedBefore, 5000, direct},
		{faultStateNotReadAgain, 20000, two},
		{faultMarkerUnderNewID, 5000, direct},
		{faultSameTermAgain, 5000, txn},
		{faultNoLookForStop, 5000, failover},
		{faultStopAfterMarkers, 5000, failover},
		{faultListOfStateAlone, 20000, failover},
		{faultShutUnderOneID, 20000, func(t *traits) { failover(t); t.txnWay, t.twoOwners = false, true }},
		{faultClaimByLink, 5000, two},
		{faultDescribeAfterMarker, 5000, func(t *traits) { t.trims, t.aged, t.strangers = true, false, false }},
		{faultWindowOfFive, 5000, nil},
		{faultOldSentAgain, 5000, aged},
		{faultCleanMarkTrusted, 5000, nil},
		{faultCleanWhileUnsure, 20000, func(t *traits) { t.restarts, t.aged = true, false }},
		{faultOpeningNotDurable, 5000, nil},
		{faultPlanNotDurable, 5000, nil},
		{faultKeysWithoutOpening, 5000, nil},
		{faultCursorElsewhere, 5000, nil},
		{faultCountsOf31Bits, 5000, func(t *traits) { t.manyRecords = true }},
		{faultCountByRecords, 5000, func(t *traits) { t.compacted = true }},
		{faultCursorIsTheTruth, 5000, nil},
		{faultSequenceReset, 5000, nil},
		{faultNotEmptyIgnored, 5000, func(t *traits) { t.wiped, t.failover = true, false }},
		{faultEpochOfOtherOffset, 5000, nil},
		{faultEpochNotSent, 5000, truncated},
		{faultEpochEndIgnored, 5000, truncated},
		{faultNoOwnHistory, 20000, truncated},
		{faultMapNotCut, 5000, truncated},
		{faultOrphansNotWritten, 5000, truncated},
		{faultGapNotWritten, 5000, nil},
		{faultAbortedNotNamed, 5000, nil},
	}
}

func TestWorld_FindsEveryFault(t *testing.T) {
	t.Parallel()
	for _, c := range faultCases() {
		t.Run(strings.ReplaceAll(string(c.fault), " ", "_"), func(t *testing.T) {
			t.Parallel()
			sh := newShared(t)
			for seed := range c.within {
				choose := newSeeded(seed)
				tr := drawTraits(choose)
				if c.focus != nil {
					c.focus(&tr)
					tr.settle()
				}
				if why := live(newWorld(sh, choose, c.fault, tr)); why != "" {
					t.Logf("%s: found after %d runs (seed %d): %s", c.fault, seed+1, seed, why)
					return
				}
			}
			t.Errorf("%q was put in, and %d runs did not find it", c.fault, c.within)
		})
	}
}
