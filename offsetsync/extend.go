package offsetsync

import (
	"fmt"

	"lockstep/internal/model"
)

// Extend returns the picture moved on by what Tail read behind its cursor: the map then covers every record that the
// target's log holds. The picture itself stays as it is. An error wraps ErrDiverged.
func (s LaneState) Extend(t Tailed) (LaneState, error) {
	if s.Fault != nil {
		return s, s.Fault
	}
	land := s.Landings
	if len(t.Landings) > 0 {
		i := lastAtOrBelow(land, t.Landings[0].Count-1, func(l model.Landing) int64 { return l.Count })
		land = append(append([]model.Landing(nil), land[:i+1]...), t.Landings...)
	}
	m := s.Map.Clone()
	for c := s.Cursor.Count; c < t.Cursor.Count; {
		n := min(t.Cursor.Count, untilJump(s.Plan, c), untilLanding(land, c)) - c
		span := model.Span{Src: PlanSrc(s.Plan, s.Opening.Origin, c), Dst: LandDst(land, s.Opening.Origin, c), N: n}
		if err := m.Append(span); err != nil {
			return s, fmt.Errorf("%w: record %d: %w", ErrDiverged, c, err)
		}
		c += n
	}
	if err := m.SetEnd(t.Cursor.Src, t.Cursor.Dst); err != nil {
		return s, fmt.Errorf("%w: %w", ErrDiverged, err)
	}
	s.Map, s.Cursor, s.Landings, s.Clean = m, t.Cursor, land, false
	return s, nil
}

// untilJump and untilLanding return the count at which the next entry behind count begins.
func untilJump(plan []model.Jump, count int64) int64 {
	return behind(plan, count, func(j model.Jump) int64 { return j.Count })
}

func untilLanding(land []model.Landing, count int64) int64 {
	return behind(land, count, func(l model.Landing) int64 { return l.Count })
}

func behind[T any](entries []T, count int64, of func(T) int64) int64 {
	if i := lastAtOrBelow(entries, count, of) + 1; i < len(entries) {
		return of(entries[i])
	}
	return endless
}

// endless is a count that no lane reaches.
const endless = int64(1) << 62
