package checkpoint

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"lockstep/internal/statelog"
	"lockstep/offsetsync"
)

// Bases keep what lockstep wrote for every position, in the state topic of a link. They show what the view has read, and
// what was saved since. Their methods may be called by many goroutines at once.
type Bases struct {
	log putter
	now func() time.Time

	turn chan struct{} // holds an element while nobody writes

	mu sync.Mutex              // guards of
	of map[string]map[Key]Base // by group; the inner maps are never changed
}

// putter writes to a state topic.
type putter interface {
	Put(ctx context.Context, entries ...statelog.Entry) error
}

// handler gives records of a state topic away.
type handler interface {
	Handle(kind string, fn func(statelog.Entry) error)
}

// NewBases returns the bases of the view's link. It has to be called before the view runs; they are complete after the
// view's first Barrier.
func NewBases(view *offsetsync.View, log *statelog.Log) *Bases { return newBases(view, log) }

func newBases(view handler, log putter) *Bases {
	b := &Bases{log: log, now: time.Now, of: map[string]map[Key]Base{}, turn: make(chan struct{}, 1)}
	b.turn <- struct{}{}
	view.Handle(kindBase, b.read)
	return b
}

// All returns the bases by group and by the source's topic and partition. The inner maps are not to be changed.
func (b *Bases) All() map[string]map[Key]Base {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.of)
}

// Save stores the bases of rows that want it, and forgets those of rows that want that. They are durable when it returns;
// after an error each of them may be or may not be, so nothing must be committed that builds upon them.
func (b *Bases) Save(ctx context.Context, rows []Row) error {
	changes := map[string]map[Key]*Base{}
	for i := range rows {
		r := &rows[i]
		if !r.Save && !r.Forget {
			continue
		}
		of := changes[r.Group]
		if of == nil {
			of = map[Key]*Base{}
			changes[r.Group] = of
		}
		of[r.Key] = nil
		if !r.Forget {
			of[r.Key] = &r.Base
		}
	}
	return b.put(ctx, changes)
}

// put makes changes durable, and then shows them. A nil base is one to forget. Whoever finds an earlier put without an
// answer waits for that first, so that a state topic which takes nothing does not fill the memory with repetitions.
func (b *Bases) put(ctx context.Context, changes map[string]map[Key]*Base) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stateWait, errStateWait)
	defer cancel()
	select {
	case <-b.turn:
	case <-ctx.Done():
		return fmt.Errorf("store the positions of %d groups: %w", len(changes), context.Cause(ctx))
	}
	stored := make(chan error, 1)
	go func() {
		defer func() { b.turn <- struct{}{} }()
		stored <- b.store(context.WithoutCancel(ctx), changes)
	}()
	select {
	case err := <-stored:
		return err
	case <-ctx.Done():
		return fmt.Errorf("store the positions of %d groups: %w", len(changes), context.Cause(ctx))
	}
}

// store is put for the one who has the turn.
func (b *Bases) store(ctx context.Context, changes map[string]map[Key]*Base) error {
	all, entries := b.All(), []statelog.Entry(nil)
	after := make(map[string]map[Key]Base, len(changes))
	for _, group := range slices.Sorted(maps.Keys(changes)) {
		after[group] = withChanges(all[group], changes[group])
		entries = append(entries, entriesOf(group, changes[group], after[group])...)
	}
	if len(entries) == 0 {
		return nil
	}
	if err := b.log.Put(ctx, entries...); err != nil {
		return fmt.Errorf("store the positions of %d groups: %w", len(changes), err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for group, of := range after {
		b.setLocked(group, of)
	}
	return nil
}

func (b *Bases) setLocked(group string, of map[Key]Base) {
	if len(of) == 0 {
		delete(b.of, group)
		return
	}
	b.of[group] = of
}

// withChanges returns a group's bases with changes made.
func withChanges(of map[Key]Base, changes map[Key]*Base) map[Key]Base {
	out := make(map[Key]Base, len(of)+len(changes))
	maps.Copy(out, of)
	for k, c := range changes {
		if c == nil {
			delete(out, k)
		} else {
			out[k] = *c
		}
	}
	return out
}

// entriesOf returns the records in which something changed, with all of the group's positions in them.
func entriesOf(group string, changes map[Key]*Base, of map[Key]Base) []statelog.Entry {
	records := map[slice]map[int32]Base{}
	for k := range changes {
		records[sliceOf(k)] = map[int32]Base{}
	}
	for k, base := range of {
		if r, ok := records[sliceOf(k)]; ok {
			r[k.Partition] = base
		}
	}
	out := make([]statelog.Entry, 0, len(records))
	for s, of := range records {
		out = append(out, encodeBases(group, s, of))
	}
	return out
}

// read takes a record of the state topic. What an older record of the key said stays known for a while: a commit that
// builds upon it may still be on its way, also one of another process.
func (b *Bases) read(e statelog.Entry) error {
	group, s, ok := splitBaseKey(e.Key)
	if !ok {
		return nil // of a release that stores something else under this name; nothing here builds upon it
	}
	of, err := decodeBases(e)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	old := b.of[group]
	out := make(map[Key]Base, len(old)+len(of))
	for k, base := range old {
		if sliceOf(k) != s {
			out[k] = base
		}
	}
	for p, base := range of {
		k := Key{s.topic, p}
		if was, known := old[k]; known {
			base.Was = merge(was, base, b.now())
		}
		out[k] = base
	}
	b.setLocked(group, out)
	return nil
}
