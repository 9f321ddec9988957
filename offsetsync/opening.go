package offsetsync

import (
	"slices"

	"lockstep/internal/model"
)

// Opening is one lane taken up by one worker. It is durable before anything of it is sent.
type Opening struct {
	Lane model.Lane
	N    uint64 // 1 for the lane's first opening
	// Nonce tells openings of the same number apart. Store.Open sets it, anew for each attempt.
	Nonce    string
	Prev     string // nonce of the valid opening N-1, "" for the first
	Term     model.Term
	Identity model.Identity
	Rules    uint64 // hash of the lane's rules
	// Origin is where the opening begins: next source offset, next target offset, and the number of records copied
	// in this term before. In the same term as the opening before, the count goes on.
	Origin model.Cursor
	Closed *Closed // how opening N-1 ended; nil for the first
	// Epochs are the source's leader epochs of what was copied below Origin, oldest first, as far as they are known: the
	// newest model.KeepEpochs. A source log that was truncated is compared with them.
	Epochs []model.EpochStart
	// Anew says that nothing copied before answers any more: the lane is copied again from here, and its target log is to
	// begin at the origin. Whoever takes the lane up deletes what stands below before it sends anything.
	Anew bool
}

// Closed is how an opening ended, as its successor found it. What the opening's own worker stores later is void.
type Closed struct {
	Cursor model.Cursor
	// Landings are those that recovery read from the target's headers, as Tail returns them. From the first of them
	// on they replace what the worker had stored.
	Landings []model.Landing
	// PlanN and LandN are how many of the worker's stored plan and landing entries count. 0: Store.Open fills in what
	// its view shows at that time.
	PlanN, LandN int64
}

// LaneState is an immutable picture of one lane.
type LaneState struct {
	Opening Opening // the newest valid one
	// Cursor is how far that opening came, as stored: a lower bound. Its Origin when nothing is stored.
	Cursor model.Cursor
	Clean  bool // the cursor was stored at a clean end
	// Epochs are the source's leader epochs of what was copied below Cursor, as Opening.Epochs.
	Epochs []model.EpochStart
	Gaps   []model.Gap
	Map    *Map // all openings joined; ends at Cursor
	// Plan and Landings are entries of the newest opening: all from the one on that covers the record before Cursor.
	// What is below is in Map. The first may be the opening's implied entry.
	Plan     []model.Jump
	Landings []model.Landing
	// Fault is not nil when what is stored does not fit together; Map then ends before Cursor. While the state topic is
	// still being read it may only mean that more is to come.
	Fault error

	planN, landN int64 // stored entries so far
}

// PlanSrc returns the source offset of record number count. The plan must reach back to it, as LaneState.Plan does for
// the record before the cursor and all behind it; records before the plan's first entry continue the origin.
func PlanSrc(plan []model.Jump, origin model.Cursor, count int64) int64 {
	from, src := origin.Count, origin.Src
	if i := lastAtOrBelow(plan, count, func(j model.Jump) int64 { return j.Count }); i >= 0 {
		from, src = plan[i].Count, plan[i].Src
	}
	return src + (count - from)
}

// LandDst returns the target offset of record number count, or where it will stand if nothing comes in between.
func LandDst(landings []model.Landing, origin model.Cursor, count int64) int64 {
	from, dst := origin.Count, origin.Dst
	if i := lastAtOrBelow(landings, count, func(l model.Landing) int64 { return l.Count }); i >= 0 {
		from, dst = landings[i].Count, landings[i].Dst
	}
	return dst + (count - from)
}

// At returns the cursor behind the first count records of the newest opening, when dst is the next target offset.
// The source epoch is only known at the stored cursor.
func (s LaneState) At(count, dst int64) model.Cursor {
	if count == s.Cursor.Count {
		c := s.Cursor
		c.Dst = dst
		return c
	}
	return model.Cursor{Src: PlanSrc(s.Plan, s.Opening.Origin, count-1) + 1, Dst: dst, Count: count, SrcEpoch: -1}
}

// lastAtOrBelow returns the index of the last element whose count is not above the given one, -1 if there is none.
func lastAtOrBelow[T any](s []T, count int64, of func(T) int64) int {
	i, _ := slices.BinarySearchFunc(s, count, func(e T, c int64) int {
		if of(e) <= c {
			return -1
		}
		return 1
	})
	return i - 1
}
