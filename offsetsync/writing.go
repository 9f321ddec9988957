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
	size    segmentSize
	last    point // the newest entry, at first the implied one
	total   int64 // entries given
	durable int64 // of them certainly stored
	seg     int   // the segment that is being filled
	inSeg   int   // entries in it
	enc     []byte
	joined  joined    // the full segments in front of it that are to become one, and it
	handed  int       // the highest segment that was handed out for writing, -1: none
	full    []segment // segments that were filled or joined since all was durable
	given   []point   // entries of the last call: a caller that did not hear of its success gives them again
	unknown bool      // whether that call's entries are stored is not known
	dirty   bool      // the segment that is being filled has entries that are not durable
}

// segment is one segment's number and bytes; no bytes are its tombstone.
type segment struct {
	n     int
	value []byte
}

// segmentSize says when a segment is full: one that is being filled, and one that takes the place of several.
type segmentSize struct{ piece, whole int }

// joined is what several segments hold, as one.
type joined struct {
	seg int // the number of the first
	enc []byte
}

func newTail(origin point, size segmentSize) tail { return tail{size: size, last: origin, handed: -1} }

// add takes entries. One that continues the line is none, and one of the call before is taken as the same. One that goes
// back or contradicts is refused with ErrPlanOrder, and nothing of the call is kept.
func (t *tail) add(pts []point) error {
	given, fresh, err := t.check(pts)
	if err != nil {
		return err
	}
	t.given = given
	for _, p := range fresh {
		t.push(p)
	}
	return nil
}

// check separates what is new. It returns the entries to be recognised when they are given again: those of this call,
// and those of the call before whose fate is not known.
func (t *tail) check(pts []point) (given, fresh []point, err error) {
	last, before := t.last, t.given
	for _, p := range pts {
		if i := slices.Index(before, p); i >= 0 {
			given, before = append(given, before[:i+1]...), before[i+1:]
			continue
		}
		jump := p.jumpFrom(last)
		if p.Count < last.Count || jump < 0 || t.unknown && len(before) > 0 && p.Count <= last.Count {
			return nil, nil, fmt.Errorf("%w: %d → %d after %d → %d", ErrPlanOrder, p.Count, p.Off, last.Count, last.Off)
		}
		if jump == 0 {
			continue
		}
		fresh, last = append(fresh, p), p
	}
	if t.unknown {
		given = append(given, before...)
	}
	return append(given, fresh...), fresh, nil
}

// push appends an entry to the segment that is being filled, or to the next one when that is full.
func (t *tail) push(p point) {
	const most = 20 // bytes of one entry
	if t.inSeg > 0 && len(t.enc)+most > t.size.piece {
		t.full = append(t.full, segment{t.seg, t.enc})
		t.seg, t.inSeg, t.enc = t.seg+1, 0, nil
		if len(t.joined.enc)+most > t.size.whole {
			t.join()
		}
	}
	if t.inSeg == 0 {
		t.enc = appendPoint(appendSegmentHead(nil, t.total), nil, p)
	} else {
		t.enc = appendPoint(t.enc, &t.last, p)
	}
	if t.joined.enc == nil {
		t.joined = joined{t.seg, appendPoint(appendSegmentHead(nil, t.total), nil, p)}
	} else {
		t.joined.enc = appendPoint(t.joined.enc, &t.last, p)
	}
	t.last, t.total, t.inSeg, t.dirty = p, t.total+1, t.inSeg+1, true
}

// join puts one segment in the place of all full ones since the last join. It stands in front of their tombstones, and its
// bytes begin with the first one's. None of them is written again, also where the fate of a write is not known: behind the
// tombstones the first one alone would be what compaction keeps. Those that never were handed out need no tombstone.
func (t *tail) join() {
	j := t.joined
	t.joined = joined{}
	t.full = slices.DeleteFunc(t.full, func(s segment) bool { return s.n >= j.seg })
	t.full = append(t.full, segment{j.seg, j.enc})
	for n := j.seg + 1; n <= min(t.handed, t.seg-1); n++ {
		t.full = append(t.full, segment{n, nil})
	}
	t.handed = max(t.handed, j.seg)
}

// unsaved returns the segments to write. Their bytes do not change any more: later entries are written behind them.
func (t *tail) unsaved() []segment {
	out := slices.Clone(t.full)
	if t.dirty {
		out = append(out, segment{t.seg, slices.Clip(t.enc)})
	}
	if n := len(out); n > 0 {
		t.handed = max(t.handed, out[n-1].n)
	}
	return out
}

// stored says that all of unsaved is durable.
func (t *tail) stored() { t.durable, t.full, t.dirty, t.unknown = t.total, nil, false, false }

// unsure says that the fate of unsaved is not known. The next call writes the same bytes again.
func (t *tail) unsure() { t.unknown = true }

// gate is the planning or the saving of a lane.
type gate func(*writing) *bool

func planning(w *writing) *bool { return &w.planning }
func saving(w *writing) *bool   { return &w.saving }

// acquire waits until no other call holds one of the gates of one of the lanes, and then holds all of them. Lanes that are
// not open are left out.
func (s *Store) acquire(ctx context.Context, lanes []model.Lane, gs ...gate) (map[model.Lane]*writing, error) {
	for {
		held, wait := s.tryAcquire(lanes, gs)
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

func (s *Store) tryAcquire(lanes []model.Lane, gs []gate) (held map[model.Lane]*writing, wait <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held = make(map[model.Lane]*writing, len(lanes))
	for _, l := range lanes {
		w := s.lanes[l]
		if w == nil {
			continue
		}
		for _, g := range gs {
			if *g(w) {
				return nil, s.changed
			}
		}
		held[l] = w
	}
	set(held, gs, true)
	return held, nil
}

func set(held map[model.Lane]*writing, gs []gate, to bool) {
	for _, w := range held {
		for _, g := range gs {
			*g(w) = to
		}
	}
}

func (s *Store) release(held map[model.Lane]*writing, gs ...gate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	set(held, gs, false)
	close(s.changed)
	s.changed = make(chan struct{})
}
