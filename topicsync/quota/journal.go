package quota

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"

	"lockstep/internal/statelog"
)

// kindQuota begins the keys of the quotas that lockstep wrote: one record for each entity.
const kindQuota = "quota"

const recordVersion = 1

// record is what the state topic holds of one entity.
type record struct {
	V      int             `json:"v"`
	Limits map[string]base `json:"limits"`
}

// base is a limit that lockstep wrote. While a write is under way Was is what stood there before.
type base struct {
	Value   *float64 `json:"value"` // nil: it was removed
	Was     *float64 `json:"was,omitempty"`
	Pending bool     `json:"pending,omitempty"`
}

// is reports whether what the target has is what lockstep wrote.
func (b base) is(theirs *float64) bool {
	return same(b.Value, theirs) || b.Pending && same(b.Was, theirs)
}

func same(a, b *float64) bool { return a == b || a != nil && b != nil && *a == *b }

// Journal keeps which quotas lockstep wrote, in the state topic of a link. Its methods may be called from any goroutine.
type Journal struct {
	log putter

	mu sync.Mutex // guards of
	of map[limit]base
}

// putter writes to a state topic.
type putter interface {
	Put(ctx context.Context, entries ...statelog.Entry) error
}

// Handler gives records of a state topic away.
type Handler interface {
	Handle(kind string, fn func(statelog.Entry) error)
}

// NewJournal returns the journal of the view's link. It has to be called before the view runs, and is complete after the
// view's first Barrier.
func NewJournal(view Handler, log *statelog.Log) *Journal { return newJournal(view, log) }

func newJournal(view Handler, log putter) *Journal {
	j := &Journal{log: log, of: make(map[limit]base)}
	view.Handle(kindQuota, j.read)
	return j
}

func (j *Journal) read(e statelog.Entry) error {
	parts, ok := statelog.SplitKey(e.Key)
	if !ok || len(parts) != 2 {
		return fmt.Errorf("state record %q: want %s/ENTITY", e.Key, kindQuota)
	}
	var r record
	if e.Value != nil {
		if err := json.Unmarshal(e.Value, &r); err != nil {
			return fmt.Errorf("state record %q: %w", e.Key, err)
		}
		if r.V != recordVersion {
			return fmt.Errorf("state record %q has version %d, this lockstep knows %d: update it", e.Key, r.V, recordVersion)
		}
	}
	j.set(Entity(parts[1]), r.Limits)
	return nil
}

func (j *Journal) set(e Entity, limits map[string]base) {
	j.mu.Lock()
	defer j.mu.Unlock()
	maps.DeleteFunc(j.of, func(l limit, _ base) bool { return l.entity == e })
	for key, b := range limits {
		j.of[limit{e, key}] = b
	}
}

func (j *Journal) all() map[limit]base {
	j.mu.Lock()
	defer j.mu.Unlock()
	return maps.Clone(j.of)
}

// note makes changes durable and then shows them; a nil base forgets a limit.
func (j *Journal) note(ctx context.Context, changes map[limit]*base) error {
	after := make(map[Entity]map[string]base)
	all := j.all()
	for l := range changes {
		after[l.entity] = make(map[string]base)
	}
	for l, b := range all {
		if limits, ok := after[l.entity]; ok {
			limits[l.key] = b
		}
	}
	for l, b := range changes {
		if b == nil {
			delete(after[l.entity], l.key)
		} else {
			after[l.entity][l.key] = *b
		}
	}
	var entries []statelog.Entry
	for e, limits := range after {
		entry := statelog.Entry{Partition: statelog.PartitionOf(string(e), 0), Key: statelog.Key(kindQuota, string(e))}
		if len(limits) > 0 {
			value, err := json.Marshal(record{V: recordVersion, Limits: limits})
			if err != nil {
				return fmt.Errorf("store the quotas of %s: %w", e, err)
			}
			entry.Value = value
		}
		entries = append(entries, entry)
	}
	if err := j.log.Put(ctx, entries...); err != nil {
		return fmt.Errorf("store the quotas of %d entities: %w", len(entries), err)
	}
	for e, limits := range after {
		j.set(e, limits)
	}
	return nil
}
