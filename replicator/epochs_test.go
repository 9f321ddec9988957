package replicator

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"lockstep/internal/model"
)

// epochLog is a log as the leader epoch of the record at each offset.
type epochLog []int32

func (l epochLog) history() (h []model.EpochStart) {
	for i, e := range l {
		h = model.AppendEpoch(h, e, int64(i))
	}
	return h
}

// answer is what a leader with this log and present epoch says about an epoch, as Kafka's LeaderEpochFileCache does; start
// is the log's start.
func (l epochLog) answer(asked, leader int32, start int) (epoch int32, end int64) {
	if asked == leader {
		return leader, int64(len(l))
	}
	if asked > leader {
		return -1, -1
	}
	h := l[start:].history()
	if n := len(h); n == 0 || h[n-1].Epoch < leader {
		h = append(h, model.EpochStart{Epoch: leader, Src: int64(len(l) - start)})
	}
	next := slices.IndexFunc(h, func(s model.EpochStart) bool { return s.Epoch > asked })
	if next == 0 {
		return asked, int64(start) + h[0].Src
	}
	return h[next-1].Epoch, int64(start) + h[next].Src
}

// meet drives a search to its end.
func meet(t *testing.T, history []model.EpochStart, top int64, answer func(int32) (int32, int64), leader int32) (common int64, asked []int32) {
	t.Helper()
	s := newSearch(history, top)
	for range len(history) + 2 {
		asked = append(asked, s.ask)
		epoch, end := answer(s.ask)
		if common, met := s.take(epoch, end, leader); met {
			return common, asked
		}
	}
	t.Fatalf("no end after asking for %v", asked)
	return 0, nil
}

// common is the number of records that two logs share: records of the same offset and epoch are the same.
func (l epochLog) common(o epochLog) int64 {
	n := 0
	for n < len(l) && n < len(o) && l[n] == o[n] {
		n++
	}
	return int64(n)
}

func TestSearch_MeetsWhereFollowersDo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		own, leaderLog epochLog
		leader         int32
		asks           int
	}{
		"nothing happened":                               {epochLog{0, 0, 1, 1}, epochLog{0, 0, 1, 1}, 1, 1},
		"the leader is ahead":                            {epochLog{0, 0}, epochLog{0, 0, 1, 1}, 1, 1},
		"KIP-101, the new leader lacks the last record":  {epochLog{0, 0}, epochLog{0}, 1, 1},
		"KIP-101, both wrote another record there":       {epochLog{0, 0}, epochLog{0, 1}, 1, 1},
		"KIP-101, the leader has grown past it":          {epochLog{0, 0, 0}, epochLog{0, 1, 1, 1, 1}, 1, 1},
		"KIP-279, fast failover: an epoch we never saw":  {epochLog{0, 0, 1}, epochLog{0, 0, 2, 2}, 2, 1},
		"KIP-279, we have an epoch the leader never saw": {epochLog{1, 1, 1, 3, 3}, epochLog{1, 1, 2, 2, 4}, 4, 2},
		"KIP-279, several epochs on both sides":          {epochLog{1, 1, 3, 3, 5, 5, 7}, epochLog{1, 1, 2, 4, 4, 6, 6, 8}, 8, 4},
		"KIP-279, the leader's epoch ends before ours":   {epochLog{5, 5, 5, 5, 8, 8}, epochLog{5, 5, 7, 7, 7}, 9, 2},
		"KIP-279, ours ends before the leader's":         {epochLog{5, 5, 8, 8}, epochLog{5, 5, 5, 5, 7, 7}, 9, 2},
		"nothing in common":                              {epochLog{1, 1}, epochLog{2, 2, 2}, 2, 1},
		"the leader's log is empty":                      {epochLog{1, 1}, epochLog{}, 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := c.own.common(c.leaderLog)
			got, asked := meet(t, c.own.history(), int64(len(c.own)), func(e int32) (int32, int64) { return c.leaderLog.answer(e, c.leader, 0) }, c.leader)
			if got != want || len(asked) != c.asks {
				t.Errorf("common offset %d after asking for %v, want %d after %d questions", got, asked, want, c.asks)
			}
		})
	}
}

// A history that does not reach back to the fork gives an upper bound, never an offset above what was read.
func TestSearch_ShortHistoryIsABound(t *testing.T) {
	t.Parallel()
	own, other := epochLog{1, 1, 2, 2, 4, 4}, epochLog{1, 1, 3, 3, 3, 5}
	kept := own.history()[2:] // epoch 4 from offset 4 on
	got, _ := meet(t, kept, 6, func(e int32) (int32, int64) { return other.answer(e, 5, 0) }, 5)
	if want := own.common(other); got < want || got > 4 {
		t.Errorf("common offset at most %d, want %d to 4", got, want)
	}
	cut, _ := meet(t, own.history(), 5, func(e int32) (int32, int64) { return own.answer(e, 4, 0) }, 4)
	if cut != 5 {
		t.Errorf("common offset %d of a cursor at 5 on the same branch", cut)
	}
}

// A leader that knows none of our epochs is older than what was copied: asked for its own one it tells where it ends.
func TestSearch_LeaderThatIsOlder(t *testing.T) {
	t.Parallel()
	own := epochLog{3, 3, 3, 6, 6}
	for name, c := range map[string]struct {
		other  epochLog
		leader int32
		want   int64
	}{
		"restored within an older epoch":   {epochLog{3, 3}, 3, 2},
		"restored and grown":               {epochLog{3, 3, 5, 5, 5, 5}, 5, 2},
		"restored to before all we know":   {epochLog{1, 1}, 2, 0},
		"restored within the newest epoch": {epochLog{3, 3, 3, 6}, 6, 4},
	} {
		got, asked := meet(t, own.history(), 5, func(e int32) (int32, int64) { return c.other.answer(e, c.leader, 0) }, c.leader)
		if got != c.want {
			t.Errorf("%s: common offset %d after asking for %v, want %d", name, got, asked, c.want)
		}
		if f := (fork{common: got, split: got < 5, leader: c.leader, last: 6}); !f.rewound() {
			t.Errorf("%s: not taken for an older copy", name)
		}
	}
}

func TestFork_RewoundNeedsBothEpochs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		f    fork
		want bool
	}{
		{fork{split: true, leader: 5, last: 5}, true},
		{fork{split: true, leader: 4, last: 5}, true},
		{fork{split: true, leader: 6, last: 5}, false},  // an election: a truncation
		{fork{split: true, leader: -1, last: 5}, false}, // unknown is no proof
		{fork{split: true, leader: 5, last: -1}, false},
		{fork{split: false, leader: 5, last: 5}, false},
	} {
		if got := c.f.rewound(); got != c.want {
			t.Errorf("%+v is rewound: %v", c.f, got)
		}
	}
}

// Any two logs that grew apart by elections, however often, meet exactly where they part; retention of the leader's log
// never makes the answer lower than what both still have.
func TestSearch_RandomBranches(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range 20_000 {
		shared := grow(r, nil, 0, 1)
		const epoch int32 = 10 // above all of the shared ones
		own := grow(r, shared, epoch, 2)
		other := grow(r, shared, epoch+1, 2) // epochs are given out once: the other branch gets others
		leader := epoch + 50
		what := fmt.Sprintf("seed %d, round %d: own %v, leader %v", seed, i, own, other)
		if len(own) == 0 {
			continue
		}
		want := own.common(other)
		got, _ := meet(t, own.history(), int64(len(own)), func(e int32) (int32, int64) { return other.answer(e, leader, 0) }, leader)
		if got != want {
			t.Fatalf("%s: common offset %d, want %d", what, got, want)
		}
		start := r.IntN(len(other) + 1)
		got, _ = meet(t, own.history(), int64(len(own)), func(e int32) (int32, int64) { return other.answer(e, leader, start) }, leader)
		if got < want || got > max(want, int64(start)) {
			t.Fatalf("%s: common offset %d with the log's start at %d, want %d", what, got, start, want)
		}
	}
}

// grow appends records of epochs first, first+step, ….
func grow(r *rand.Rand, l epochLog, first int32, step int32) epochLog {
	out := slices.Clone(l)
	for range r.IntN(5) {
		for range r.IntN(4) {
			out = append(out, first)
		}
		first += step
	}
	return out
}
