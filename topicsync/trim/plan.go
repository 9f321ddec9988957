package trim

import (
	"time"

	"lockstep/internal/model"
	"lockstep/topicsync/drift"
)

// Lane is what the state topic holds of a lane.
type Lane struct {
	Identity model.Identity
	// Start is the first source offset that the map answers for, Cursor the target offset up to which all is copied.
	Start, Cursor int64
	// Translate returns the target offset of the first copied record at or behind a source offset, the cursor when there
	// is none.
	Translate func(src int64) int64
}

// ends are a source log's first offset and the one behind its last record.
type ends struct{ start, end int64 }

// sight is a start that a source log had, and since when.
type sight struct {
	start   int64
	at      time.Time
	emptied bool // all that the log held when it was looked at before is gone
}

// history is what was seen of one source log. Its starts are the oldest first, and ascend.
type history struct {
	starts []sight
	end    int64 // when it was looked at last
}

// most bounds a history.
const most = 32

// look adds what a log shows now. A start that went back, as that of a log that was put back or cut, forgets everything.
func (h history) look(e ends, now time.Time) history {
	first := len(h.starts) == 0
	s := sight{e.start, now, e.start >= e.end || !first && e.start >= h.end}
	switch {
	case first, e.start < h.starts[len(h.starts)-1].start:
		h.starts = []sight{{e.start, now, e.start >= e.end}}
	case e.start == h.starts[len(h.starts)-1].start:
	case len(h.starts) < most:
		h.starts = append(h.starts, s)
	default: // later than need be, never too early
		last := &h.starts[most-1]
		s.emptied = s.emptied || last.emptied
		*last = s
	}
	h.end = e.end
	return h
}

// due returns the newest start of those that have stood long enough, and the history without what lies before it. A
// start waits for all that are before it. It reports false when there is none.
func (h history) due(now time.Time, hold, emptied time.Duration) (start int64, rest history, ok bool) {
	for n, s := range h.starts {
		wait := hold
		if s.emptied {
			wait = max(hold, emptied)
		}
		if now.Sub(s.at) < wait {
			break
		}
		start, ok = s.start, true
		rest = history{h.starts[n:], h.end}
	}
	if !ok {
		return 0, h, false
	}
	return start, rest, true
}

// before returns the target offset below which a lane's mirror may drop what it holds, when its source log begins at
// srcStart. It reports false where nothing may be dropped.
func before(t drift.Topic, l Lane, srcStart int64) (int64, bool) {
	now := model.Identity{DstTopic: t.Dst, Src: t.SrcID, Dst: t.DstID}
	if l.Identity != now || now.Src.IsZero() || now.Dst.IsZero() || srcStart <= l.Start {
		return 0, false
	}
	to := min(l.Translate(srcStart), l.Cursor-1)
	return to, to > 0
}
