package offsetsync

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"lockstep/internal/model"
	"lockstep/internal/statelog"
)

// Plan makes plan entries durable; when it returns nil, batches behind the jumps may be sent. Errors are joined
// [*LaneError]s for lanes that are not open or whose entries contradict earlier ones (the others are written all the
// same), or that of the write. After an error the same entries may be given again, alone or with new ones behind them.
func (s *Store) Plan(ctx context.Context, adds map[model.Lane]PlanAdd) error {
	held, err := s.acquire(ctx, slices.Collect(maps.Keys(adds)), planning)
	if err != nil {
		return err
	}
	defer s.release(held, planning)
	var entries []statelog.Entry
	var tails []*tail
	var errs []error
	for l, add := range adds {
		es, err := s.plan(l, held[l], add)
		if err != nil {
			errs = append(errs, &LaneError{l, err})
			continue
		}
		entries, tails = append(entries, es...), append(tails, &held[l].plan)
	}
	errs = append(errs, s.write(ctx, entries, tails))
	return errors.Join(errs...)
}

// plan adds to one lane's plan and returns what is to be written. The lane's gate is held.
func (s *Store) plan(l model.Lane, w *writing, add PlanAdd) ([]statelog.Entry, error) {
	if err := w.isOpen(add.Opening); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := w.plan.add(jumpPoints(add.Jumps)); err != nil {
		return nil, fmt.Errorf("extend plan of opening %d: %w", add.Opening, err)
	}
	return s.segments(l, kindPlan, w, &w.plan), nil
}

func (w *writing) isOpen(n uint64) error {
	switch {
	case w == nil:
		return ErrNotOpen
	case w.id.n != n:
		return fmt.Errorf("%w: it is open under number %d, not %d", ErrNotOpen, w.id.n, n)
	}
	return nil
}

func (s *Store) segments(l model.Lane, kind string, w *writing, t *tail) []statelog.Entry {
	var out []statelog.Entry
	for _, seg := range t.unsaved() {
		out = append(out, s.laneEntry(l, segmentKey(l, kind, w.id, seg.n), seg.value))
	}
	return out
}

// write writes entries and notes for the tails that they are from whether they are durable.
func (s *Store) write(ctx context.Context, entries []statelog.Entry, tails []*tail) error {
	if len(entries) == 0 {
		return nil
	}
	err := s.put(ctx, entries...)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range tails {
		if err != nil {
			t.unsure()
		} else {
			t.stored()
		}
	}
	return err
}

// Save stores how far lanes came: for each the new landings first, then the cursor, all in one write. Progress that is
// older than what was saved before is left out. Errors are as those of Plan, and after one the same landings may be given
// again.
func (s *Store) Save(ctx context.Context, progress []Progress) error {
	lanes := make([]model.Lane, len(progress))
	for i, p := range progress {
		lanes[i] = p.Lane
	}
	held, err := s.acquire(ctx, lanes, saving)
	if err != nil {
		return err
	}
	defer s.release(held, saving)
	var entries []statelog.Entry
	var tails []*tail
	var errs []error
	for _, p := range progress {
		es, err := s.save(held[p.Lane], p)
		if err != nil {
			errs = append(errs, &LaneError{p.Lane, err})
			continue
		}
		entries, tails = append(entries, es...), append(tails, &held[p.Lane].land)
	}
	errs = append(errs, s.write(ctx, entries, tails))
	return errors.Join(errs...)
}

// save adds to one lane's landing and returns what is to be written. The lane's gate is held.
func (s *Store) save(w *writing, p Progress) ([]statelog.Entry, error) {
	if err := w.isOpen(p.Opening); err != nil {
		return nil, err
	}
	if err := sound("", p.Cursor); err != nil {
		return nil, fmt.Errorf("save: cursor %+v is no position", p.Cursor)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.Cursor.Count < w.cursor.Count {
		return nil, nil
	}
	if err := w.land.add(landPoints(p.Landings)); err != nil {
		return nil, fmt.Errorf("extend landing of opening %d: %w", p.Opening, err)
	}
	w.cursor = p.Cursor
	c := cursorValue{V: recordVersion, Cursor: p.Cursor, PlanN: w.plan.durable, LandN: w.land.total, Clean: p.Clean, Epochs: p.Epochs}
	out := s.segments(p.Lane, kindLand, w, &w.land)
	return append(out, s.laneEntry(p.Lane, openingKey(p.Lane, kindCursor, w.id), encodeJSON(c))), nil
}
