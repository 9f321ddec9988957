package reset

import (
	"fmt"
	"math"
	"time"

	"lockstep/checkpoint"
	"lockstep/internal/when"
)

// Log is what one partition's log holds now.
type Log struct {
	Start, Stable, End int64 // End is the high watermark
	// AtTime is the first offset whose record is at or after the time that was asked for; -1 when there is none.
	AtTime int64
	Err    error // why the others are not known
}

// Kind is a way to say where a position shall go.
type Kind int8

// The kinds, as in kafka-consumer-groups.sh, and Delete.
const (
	ToCurrent  Kind = iota // where it is; at the end where there is none
	ToEarliest             // the log's start
	ToLatest               // the log's end
	ToOffset               // offset N
	ShiftBy                // N further, or back
	ToTime                 // the first record at or after At; the end when there is none
	Delete                 // nowhere: the position is deleted
)

// Spec says where a position shall go.
type Spec struct {
	Kind Kind
	N    int64
	At   time.Time
}

// Target is one position of one group that shall move.
type Target struct {
	Group string
	checkpoint.Key
	Spec
	// Metadata is written with it; nil keeps the present one if the offset stays, and else writes none, since it was
	// about another offset.
	Metadata *string
	Line     int    // of the file that asks for it
	Note     string // comes before what the plan has to say itself
}

// place returns the offset that the spec means. Old is -1 where the group has no position. Offsets outside of the log
// become its start or end, and the note says so.
func (s Spec) place(old int64, l Log) (offset int64, note string, err error) {
	switch s.Kind {
	case Delete:
		return -1, "", nil
	case ToEarliest:
		return l.Start, "", nil
	case ToLatest:
		return l.End, "", nil
	case ToTime:
		if l.AtTime < 0 {
			return l.End, "no record at or after " + when.Text(s.At) + ": the end", nil
		}
		return l.AtTime, "", nil
	case ToOffset:
		offset, note = clamp(s.N, l)
		return offset, note, nil
	case ShiftBy:
		if old < 0 {
			return 0, "", fmt.Errorf("it has no position that could be shifted")
		}
		offset, note = clamp(shift(old, s.N), l)
		return offset, note, nil
	}
	if old < 0 {
		return l.End, "it has no position: the end", nil
	}
	offset, note = clamp(old, l)
	return offset, note, nil
}

func clamp(offset int64, l Log) (int64, string) {
	switch {
	case offset < l.Start:
		return l.Start, fmt.Sprintf("%d is before the log's start", offset)
	case offset > l.End:
		return l.End, fmt.Sprintf("%d is behind the log's end", offset)
	}
	return offset, ""
}

// shift adds without wrapping around; old is not negative.
func shift(old, n int64) int64 {
	if n > 0 && old > math.MaxInt64-n {
		return math.MaxInt64
	}
	return old + n
}
