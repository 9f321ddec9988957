package offsetsync

import (
	"context"
	"fmt"
	"slices"

	"lockstep/internal/model"
)

// writing is what a store keeps of a lane it has opened.
type writing struct {
	id     openingID
	plan   tail
	land   tail
	cursor model.Cursor // as last stored
	// planning and saving are set while a call writes the one or the other.
	planning, saving bool
}

// tail is the end of a plan or landing, as far as it may be written again.
type tail struct {
	limit   int   // bytes of a full segment
	last    point // the newest entry, at first the implied one
	total   int64 // entries given
	durable int64 // of them certainly stored
	seg     int   // the segment that is being filled
	inSeg   int   // entries in it
	enc     []byte
	full    []segment // segments that were filled since all was durable
	since   []point   // entries given since all was durable
	owed    []point   // of those, what a failed call gave: the caller may give it again
	dirty   bool
}

// segment is one segment's number and bytes.
type segment struct {
	n     int
	value []byte
}

func newTail(origin point, limit int) tail { return tail{limit: limit, last: origin} }

// add takes new entries. An entry that continues the line is none. One that a failed call gave already is taken as the
// same; one that goes back or contradicts is refused with ErrPlanOrder, and nothing of the call is kept.
func (t *tail) add(pts []point) error {
	owed, fresh, err := t.check(pts)
	if err != nil {
		return err
	}
	t.owed = owed
	for _, p := range fresh {
		t.push(p)
	}
	return nil
}

func (t *tail) check(pts []point) (owed, fresh []point, err error) {
	last := t.last
	owed = t.owed
	for _, p := range pts {
		if i := slices.Index(owed, p); i >= 0 {
			owed = owed[i+1:]
			continue
		}
		jump := p.jumpFrom(last)
		if p.Count < last.Count || jump < 0 || len(owed) > 0 && p.Count <= owed[len(owed)-1].Count {
			return nil, nil, fmt.Errorf("%w: %d → %d after %d → %d", ErrPlanOrder, p.Count, p.Off, last.Count, last.Off)
		}
		if jump == 0 {
			continue
		}
		fresh = append(fresh, p)
		last = p
	}
	return owed, fresh, nil
}

// push appends an entry to the segment that is being filled, or to the next one when that is full.
func (t *tail) push(p point) {
	const most = 20 // bytes of one entry
	if t.inSeg > 0 && len(t.enc)+most > t.limit {
		t.full = append(t.full, segment{t.seg, t.enc})
		t.seg, t.inSeg, t.enc = t.seg+1, 0, nil
	}
	if t.inSeg == 0 {
		t.enc = appendPoint(appendSegmentHead(nil, t.total), nil, p)
	} else {
		t.enc = appendPoint(t.enc, &t.last, p)
	}
	t.last, t.total, t.inSeg, t.dirty = p, t.total+1, t.inSeg+1, true
	t.since = append(t.since, p)
}

// unsaved returns the segments to write. Their bytes do not change any more: later entries are written behind them.
func (t *tail) unsaved() []segment {
	out := slices.Clone(t.full)
	if t.dirty {
		out = append(out, segment{t.seg, slices.Clip(t.enc)})
	}
	return out
}

// stored says that all of unsaved is durable.
func (t *tail) stored() {
	t.durable, t.full, t.since, t.dirty = t.total, nil, nil, false
}

// unsure says that the fate of unsaved is not known. The next call writes the same bytes again.
func (t *tail) unsure() { t.owed = slices.Clone(t.since) }

// gate is the planning or the saving of a lane.
type gate func(*writing) *bool

func planning(w *writing) *bool { return &w.planning }
func saving(w *writing) *bool   { return &w.saving }

// acquire waits until no other call holds the gate of one of the lanes, and then holds those of all. Lanes that are not
// open are left out.
func (s *Store) acquire(ctx context.Context, lanes []model.Lane, g gate) (map[model.Lane]*writing, error) {
	for {
		held, wait := s.tryAcquire(lanes, g)
		if wait == nil {
			return held, nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for another write of the same lane: %w", context.Cause(ctx))
		}
	}
}

func (s *Store) tryAcquire(lanes []model.Lane, g gate) (held map[model.Lane]*writing, wait <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held = make(map[model.Lane]*writing, len(lanes))
	for _, l := range lanes {
		w := s.lanes[l]
		if w == nil {
			continue
		}
		if *g(w) {
			return nil, s.changed
		}
		held[l] = w
	}
	for _, w := range held {
		*g(w) = true
	}
	return held, nil
}

func (s *Store) release(held map[model.Lane]*writing, g gate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range held {
		*g(w) = false
	}
	close(s.changed)
	s.changed = make(chan struct{})
}
