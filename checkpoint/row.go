package checkpoint

import (
	"iter"
	"time"

	"lockstep/offsetsync"
)

// Row is what a pass found and decided for one position of a group.
type Row struct {
	Group    string // name on the source
	DstGroup string // name on the target
	Key             // of the source
	DstTopic string // "" when the topic is not copied

	Source     int64 // committed on the source, -1 none
	Translated int64 // its translation, -1 none
	Kind       offsetsync.Kind
	Off        int64 // of the translation: offsets never copied (before_start), or beyond the cursor (ahead)
	Target     int64 // committed on the target, -1 none
	Metadata   string

	State  State
	Detail string // what was seen, with positions
	// Again is how many records the group would read on the target, if it moved now, that it had read on the source;
	// negative where it would leave some out; 0 when it is synced.
	Again int64
	// Write says that Translated is to be committed; Base is stored before that. A position that is pending is synced then;
	// one in another state keeps it: it is only written again so that the target does not forget it.
	Write bool
	// Base is what is known of the position; Save says that it is to be stored.
	Base Base
	Save bool
	// Forget says that what is stored of the position is to be removed: it vanished, and that was accepted.
	Forget bool
	// Backwards says that the write moves the target back, and the detail says why that is right.
	Backwards bool
}

// eachGroup yields the rows of each group, of rows that are ordered by group.
func eachGroup(rows []Row) iter.Seq[[]Row] {
	return func(yield func([]Row) bool) {
		for len(rows) > 0 {
			n := 1
			for n < len(rows) && rows[n].Group == rows[0].Group {
				n++
			}
			if !yield(rows[:n:n]) {
				return
			}
			rows = rows[n:]
		}
	}
}

// Base is what lockstep knows of a position that it wrote: the target's value may be any of Was, or Next.
type Base struct {
	Source  int64      // the source's position that Next is the translation of
	Next    int64      // written last, or about to be
	At      time.Time  // when
	Opening uint64     // the lane's opening whose map translated it
	Was     []Stamped  // values before it, see [rememberFor]; the last is what the target had when Next was decided
	Ahead   bool       // Source was ahead of what was copied: Next is the cursor's
	Suspect *Suspicion // the source's position is not followed, since when and why
	// DstGroup is the target group that it was written into, "" where it has the source's name: groups.rename may change.
	DstGroup string
}

// Stamped is a value that lockstep wrote, and when.
type Stamped struct {
	Offset int64
	At     time.Time
	// Landed says that it was seen on the target.
	Landed bool
}

// Suspicion is a source position that is not followed.
type Suspicion struct {
	Source int64 // the suspect position; -1: vanished
	Since  time.Time
	// Forever says that only an operator ends it.
	Forever bool
	Why     string
}

// Pass is one look at all groups, what it led to, and what it was based upon. It is not changed afterwards.
type Pass struct {
	At     time.Time // when the source's positions had been read
	Took   time.Duration
	Groups map[string]Group // of the source
	Target map[string]Group // of the target, by the names there and without positions
	Rows   []Row            // by group, topic and partition
	Lanes  map[Key]Lane
	// Stale are groups whose positions this pass could not read, and when they were read.
	Stale map[string]time.Time
	// Err is why the pass could not do its whole work; Rows are then the last known ones with what is known about it.
	Err error
}

// Listener is told of every pass, one after the other. It must not change it.
type Listener interface {
	Passed(Pass)
}
