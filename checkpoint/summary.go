package checkpoint

import (
	"time"
)

// Summary is one group as a whole, and its rows.
type Summary struct {
	Group, DstGroup string
	Type            GroupType
	State           State  // the worst of its positions'
	Detail          string // of the first position in that state
	SrcState        string // Kafka's words for the group on both sides, "" when not known
	DstState        string
	// Positions counts the group's positions in topics of the link, by state.
	Positions map[State]int
	// LagRecords is how many source offsets of all positions together are readable and not read; -1 when that is not known
	// of one of them: the others' sum would look like less.
	LagRecords int64
	// LagSeconds is for how long the oldest record that was not read has been readable; -1 when that is not known. With
	// LagAtLeast it may be longer.
	LagSeconds float64
	LagAtLeast bool
	// Again is how many records the group would read a second time if it moved to the target now.
	Again int64
	// Read is when the positions were read on the source; zero if they never were.
	Read time.Time
	Rows []Row
}

// Summaries returns the groups of a pass in order. ages may be nil: then seconds are not known.
func (p Pass) Summaries(ages Ages) []Summary {
	var out []Summary
	for rows := range eachGroup(p.Rows) {
		out = append(out, p.summarize(rows, ages))
	}
	return out
}

// Summary returns one group of a pass.
func (p Pass) Summary(group string, ages Ages) (Summary, bool) {
	for rows := range eachGroup(p.Rows) {
		if rows[0].Group == group {
			return p.summarize(rows, ages), true
		}
	}
	return Summary{}, false
}

func (p Pass) summarize(rows []Row, ages Ages) Summary {
	first := rows[0]
	s := Summary{Group: first.Group, DstGroup: first.DstGroup, Positions: make(map[State]int), LagRecords: -1, LagSeconds: -1, Read: p.At, Rows: rows}
	s.Type, s.SrcState, s.DstState = p.Groups[s.Group].Type, p.Groups[s.Group].State, p.Target[s.DstGroup].State
	s.State, s.Detail = worst(rows)
	if t, stale := p.Stale[s.Group]; stale {
		s.Read = t
	}
	known := true
	for i := range rows {
		if rows[i].Key == (Key{}) {
			continue
		}
		s.Positions[rows[i].State]++
		s.Again += max(0, rows[i].Again)
		records, seconds, atLeast := p.Lag(rows[i], ages)
		known = known && records >= 0
		s.LagRecords = max(0, s.LagRecords) + records
		if seconds > s.LagSeconds || seconds == s.LagSeconds && atLeast {
			s.LagSeconds, s.LagAtLeast = seconds, atLeast
		}
	}
	if !known {
		s.LagRecords, s.LagSeconds, s.LagAtLeast = -1, -1, false
	}
	return s
}

// Lag is [Lag] of a row of the pass. Records and seconds are -1 when they are not known; so are both of a group whose
// positions could not be read: where it stood before is not how far it is behind now.
func (p Pass) Lag(r Row, ages Ages) (records int64, seconds float64, atLeast bool) {
	lane, ok := p.Lanes[r.Key]
	if _, stale := p.Stale[r.Group]; stale || !ok {
		return -1, -1, false
	}
	records, age, atLeast, known := Lag(r, lane, ages)
	switch {
	case !known:
		return -1, -1, false
	case ages == nil:
		return records, -1, false
	}
	return records, age.Seconds(), atLeast
}

// Shown reports whether a group is one that an operator expects in a list: those that are left out, or have nothing to
// do with the link, are only shown when they are asked for.
func (s Summary) Shown() bool { return s.State != StateExcluded && s.State != StateNoMirroredTopics }
