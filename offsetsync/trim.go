package offsetsync

import (
	"context"
	"slices"
	"strconv"

	"lockstep/internal/model"
	"lockstep/internal/statelog"
)

// Trim removes from the state topic what only concerns target offsets below the lane's log start there, and makes the view
// forget it: old openings with all that belongs to them and their void rivals, old plan and landing segments of the
// present one, old seals. It returns how many records it removed. The lane has to be open here: nobody else may know how
// far the present opening's entries are needed.
func (s *Store) Trim(ctx context.Context, l model.Lane, logStart int64) (int, error) {
	w, err := s.writingOf(l)
	if err != nil {
		return 0, err
	}
	if len(s.view.trimmable(l, w.id, logStart).keys) == 0 {
		s.view.DropBefore(l, logStart)
		return 0, nil
	}
	held, err := s.acquire(ctx, []model.Lane{l}, planning, saving)
	if err != nil {
		return 0, err
	}
	defer s.release(held, planning, saving)
	n, err := s.trim(ctx, l, held[l], logStart)
	if err != nil {
		return 0, &LaneError{l, err}
	}
	s.view.DropBefore(l, logStart)
	return n, nil
}

func (s *Store) writingOf(l model.Lane) (*writing, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.lanes[l]; w != nil {
		return w, nil
	}
	return nil, &LaneError{l, ErrNotOpen}
}

// trim writes the tombstones. The lane's gates are held, and the view is brought up to the last write: a segment that
// took the place of others has the number of the first of them, and must not be taken for that.
func (s *Store) trim(ctx context.Context, l model.Lane, w *writing, logStart int64) (int, error) {
	if w == nil {
		return 0, ErrNotOpen
	}
	if err := s.view.Barrier(ctx); err != nil {
		return 0, err
	}
	t := s.view.trimmable(l, w.id, logStart)
	var entries []statelog.Entry
	if t.news {
		// In front of the tombstones: a reader that misses segments looks for the reason.
		v := trimValue{V: recordVersion, PlanN: t.planN, LandN: t.landN, Dst: logStart, Behind: &t.behind}
		entries = append(entries, s.laneEntry(l, openingKey(l, kindTrim, w.id), encodeJSON(v)))
	}
	for _, key := range t.keys {
		entries = append(entries, s.laneEntry(l, key, nil))
	}
	if len(entries) == 0 {
		return 0, nil
	}
	return len(t.keys), s.put(ctx, entries...)
}

// trimmed is what may be removed from the state topic.
type trimmed struct {
	keys         []string
	news         bool  // segments of the present opening are among them, or openings before it: a reader has to be told
	planN, landN int64 // the first of its entries that stay
	behind       int64 // see trimValue
}

// trimmable finds what only concerns target offsets below logStart. A segment may go when its successor begins at or
// below logStart; the last one always stays, since it says where the next record comes from and will stand.
func (v *View) trimmable(l model.Lane, id openingID, logStart int64) (t trimmed) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	s := v.lanes[l]
	if s == nil || len(s.queue) != 1 || s.queue[0].id() != id {
		return t
	}
	t.openings(l, s, logStart)
	for key, seal := range v.seals[l] {
		if seal.Confirmed && seal.Marker < logStart && seal.Term.N < s.queue[0].Term.N {
			t.keys = append(t.keys, sealKey(seal, key.nonce))
		}
	}
	left := s.m.Clone()
	left.DropBefore(logStart)
	t.behind, _ = left.Start()
	o := s.queue[0]
	t.planN = t.lineSegments(l, kindPlan, id, o.plan.firsts, func(f firstEntry) bool {
		at := s.m.Translate(f.Off)
		return at.Kind != Ahead && at.Offset <= logStart && f.Count < s.count
	})
	t.landN = t.lineSegments(l, kindLand, id, o.land.firsts, func(f firstEntry) bool { return f.Off <= logStart && f.Count < s.count })
	return t
}

// openings finds the past openings to remove, from the oldest on, with all void ones of the same numbers: a rival that
// outlived the valid one would be taken for it.
//
// The void ones come first: compaction may so far have seen only some of the tombstones.
func (t *trimmed) openings(l model.Lane, s *lane, logStart int64) {
	n := 0
	for n < len(s.past) && s.past[n].end <= logStart {
		n++
	}
	for _, id := range s.void {
		if n > 0 && id.n <= s.past[n-1].n {
			t.keys = append(t.keys, openingKey(l, kindOpening, id))
		}
	}
	t.news = n > 0
	for _, p := range s.past[:n] {
		for _, kind := range []string{kindOpening, kindCursor, kindTrim} {
			t.keys = append(t.keys, openingKey(l, kind, p.openingID))
		}
		for seg := 0; seg <= p.plan; seg++ {
			t.keys = append(t.keys, segmentKey(l, kindPlan, p.openingID, seg))
		}
		for seg := 0; seg <= p.land; seg++ {
			t.keys = append(t.keys, segmentKey(l, kindLand, p.openingID, seg))
		}
	}
}

// lineSegments finds the segments whose successor begins below the log start, and returns the index of the first entry
// that stays.
func (t *trimmed) lineSegments(l model.Lane, kind string, id openingID, firsts []firstEntry, below func(firstEntry) bool) int64 {
	keep := 0
	for i := 1; i < len(firsts) && below(firsts[i]); i++ {
		keep = i
	}
	for _, f := range firsts[:keep] {
		t.keys = append(t.keys, segmentKey(l, kind, id, f.seg))
		t.news = true
	}
	if len(firsts) == 0 {
		return 0
	}
	return firsts[keep].index
}

// forgetIf drops a segment from those that are stored.
func (l *line) forgetIf(mine bool, seg int) {
	if !mine {
		return
	}
	l.firsts = slices.DeleteFunc(l.firsts, func(f firstEntry) bool { return f.seg == seg })
}

// sealKey is seal/TOPIC/PARTITION/TERM/NONCE.
func sealKey(s Seal, nonce string) string {
	return statelog.Key(kindSeal, s.Lane.Topic, itoa(int64(s.Lane.Partition)), strconv.FormatUint(s.Term.N, 10), nonce)
}
