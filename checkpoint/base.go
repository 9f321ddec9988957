package checkpoint

import (
	"slices"
	"time"
)

const (
	// rememberFor is for how long a commit of lockstep may be on its way: a value that it wrote since then is still its
	// own when the target has it. So a leader that was frozen, or a broker that was, makes no stranger of us.
	rememberFor = 10 * time.Minute
	// storeAgain is after which time a base is stored again that did not change, because its value is written again.
	storeAgain = time.Minute
	// rememberLanded is how many values are remembered whether or not they were seen on the target; of older ones, only
	// those that were not can still arrive.
	rememberLanded = 16
	// rememberMost bounds what is remembered in memory, ten minutes of passes, and rememberStored what is stored.
	rememberMost   = 300
	rememberStored = 8
)

// wrote reports whether a value that the target has is lockstep's own.
func (b Base) wrote(theirs int64, now time.Time) bool {
	if theirs == b.Next {
		return true
	}
	for i, w := range b.Was {
		if w.Offset == theirs && (i == len(b.Was)-1 || now.Sub(w.At) < rememberFor) {
			return true
		}
	}
	return false
}

// before returns the values that are to be remembered when next is decided upon while the target has theirs (-1: none).
// That one comes last and is never forgotten: after a crash between storing and writing it is what is found.
func (b Base) before(known bool, next, theirs int64, now time.Time) []Stamped {
	was := make([]Stamped, 0, min(len(b.Was), rememberLanded)+2)
	add := func(s Stamped) {
		if s.Offset != next && s.Offset != theirs {
			was = append(was, s)
		}
	}
	for _, s := range b.Was {
		add(s)
	}
	if known {
		add(Stamped{Offset: b.Next, At: b.At})
	}
	was = prune(was, now, rememberLanded, rememberMost)
	if theirs >= 0 && theirs != next {
		was = append(was, Stamped{Offset: theirs, At: now, Landed: true})
	}
	return was
}

// prune leaves out values that are too old, those that have landed and are not among the newest, and the oldest if there
// are more than most.
func prune(was []Stamped, now time.Time, landed, most int) []Stamped {
	was = slices.DeleteFunc(was, func(s Stamped) bool { return now.Sub(s.At) >= rememberFor })
	old := len(was) - landed
	i := -1
	was = slices.DeleteFunc(was, func(s Stamped) bool { i++; return i < old && s.Landed })
	return was[max(0, len(was)-most):]
}

// stored returns those of a base's values that are worth storing. The value that the target had is the last of them.
func stored(b Base) []Stamped {
	n := len(b.Was)
	if n <= rememberStored+1 {
		return b.Was
	}
	out := prune(slices.Clone(b.Was[:n-1]), b.At, rememberStored, rememberStored)
	return append(out, b.Was[n-1])
}

// merge returns what is to be remembered of two records of a position, of which b came later.
func merge(a, b Base, now time.Time) []Stamped {
	if a.DstGroup != b.DstGroup {
		return b.Was // what was written into another group is of no use here
	}
	known := func(off int64) bool {
		return off == b.Next || slices.ContainsFunc(b.Was, func(s Stamped) bool { return s.Offset == off })
	}
	var older []Stamped
	for _, s := range append(slices.Clip(a.Was), Stamped{Offset: a.Next, At: a.At}) {
		if !known(s.Offset) {
			older = append(older, s)
		}
	}
	if older = prune(older, now, rememberLanded, rememberMost); len(older) == 0 {
		return b.Was
	}
	return append(older, b.Was...)
}
