package checkpoint

import (
	"time"

	"lockstep/internal/model"
)

// Lag returns how far a position is behind on the source: the offsets between it and what can be read there, and for how
// long the record at the position, or the first one behind it, has been readable. With atLeast the age may be more. Not
// known means that there is no lag to tell, which is not a lag of 0: the group has no position there, the lane does not know
// the source's end, or its offsets are another topic's.
func Lag(r Row, l Lane, ages Ages) (records int64, age time.Duration, atLeast, known bool) {
	records, known = behind(&r, &l)
	if records > 0 && ages != nil {
		age, atLeast = ages.Age(r.Key, r.Source)
	}
	return records, age, atLeast, known
}

// behind returns how many offsets a position is behind. What retention took from the source is no record that waits.
func behind(r *Row, l *Lane) (records int64, known bool) {
	if r.Source < 0 || r.State == StateSourceUnreadable || l.Readable < 0 || otherTopic(l.Held) {
		return 0, false
	}
	return max(0, l.Readable-max(r.Source, l.SrcStart)), true
}

// otherTopic reports whether a lane is held because the source's offsets are of another topic than before. What else holds
// lanes says nothing about the source.
func otherTopic(r model.Reason) bool {
	return r == model.ReasonRecreated || r == model.ReasonSourceReplaced || r == model.ReasonSourceDeleted
}
