package quota

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"

	"lockstep/internal/statelog"
	"lockstep/topicsync/drift"
)

// kindQuota begins the keys of what lockstep wrote of quotas: quota/USER/CLIENT/IP, one record for each entity.
const kindQuota = "quota"

const recordVersion = 1

// record is what the state topic holds of one entity.
type record struct {
	V       int             `json:"v"`
	Written map[string]base `json:"written"` // by key
}

// base is a limit that lockstep wrote. While a write is under way Was is what stood there before: whether the write took
// effect is not known after a crash.
type base struct {
	Value   *float64 `json:"value"` // nil: it is being removed
	Was     *float64 `json:"was,omitempty"`
	Pending bool     `json:"pending,omitempty"`
	// Found says that somebody else's limit stood there when lockstep wrote it on an operator's order. It is never removed.
	Found bool `json:"found,omitempty"`
}

// is reports whether what the target has is what lockstep left there.
func (b base) is(theirs *float64) bool {
	return same(b.Value, theirs) || b.Pending && same(b.Was, theirs)
}

func same(a, b *float64) bool { return a == b || a != nil && b != nil && *a == *b }

// Journal keeps what lockstep wrote of quotas, in the state topic of a link. Its methods may be called from any goroutine.
type Journal struct {
	log drift.StateWriter

	mu sync.Mutex // guards of
	of map[entity]map[string]base
}

// NewJournal returns the journal of the view's link. It has to be called before the view runs, and is complete after the
// view's first Barrier.
func NewJournal(view drift.StateReader, log *statelog.Log) *Journal { return newJournal(view, log) }

func newJournal(view drift.StateReader, log drift.StateWriter) *Journal {
	j := &Journal{log: log, of: make(map[entity]map[string]base)}
	view.Handle(kindQuota, j.read)
	return j
}

func (j *Journal) read(e statelog.Entry) error {
	who, ok := entityOf(e.Key)
	if !ok {
		return fmt.Errorf("state record %q: want %s/USER/CLIENT/IP", e.Key, kindQuota)
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
	j.set(who, r.Written)
	return nil
}

func (j *Journal) set(e entity, written map[string]base) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(written) == 0 {
		delete(j.of, e)
		return
	}
	j.of[e] = written
}

// all returns every limit that lockstep wrote.
func (j *Journal) all() map[limit]base {
	j.mu.Lock()
	defer j.mu.Unlock()
	out := make(map[limit]base)
	for e, written := range j.of {
		for key, b := range written {
			out[limit{e, key}] = b
		}
	}
	return out
}

// note makes changes durable and then shows them; a nil base is forgotten. Nothing that builds upon them may be written
// before.
func (j *Journal) note(ctx context.Context, changes map[limit]*base) error {
	if len(changes) == 0 {
		return nil
	}
	after := j.changed(changes)
	entries := make([]statelog.Entry, 0, len(after))
	for e, written := range after {
		entry := statelog.Entry{Partition: statelog.PartitionOf(e.recordKey(), 0), Key: e.recordKey()}
		if len(written) > 0 {
			value, err := json.Marshal(record{V: recordVersion, Written: written})
			if err != nil {
				return fmt.Errorf("store what is written of the quotas of %s: %w", e, err)
			}
			entry.Value = value
		}
		entries = append(entries, entry)
	}
	if err := j.log.Put(ctx, entries...); err != nil {
		return fmt.Errorf("store what is written of the quotas of %d entities: %w", len(entries), err)
	}
	for e, written := range after {
		j.set(e, written)
	}
	return nil
}

// changed returns what is written of the entities that changes concern, with the changes made.
func (j *Journal) changed(changes map[limit]*base) map[entity]map[string]base {
	j.mu.Lock()
	defer j.mu.Unlock()
	after := make(map[entity]map[string]base)
	for l, b := range changes {
		if after[l.entity] == nil {
			after[l.entity] = make(map[string]base)
			maps.Copy(after[l.entity], j.of[l.entity])
		}
		if b == nil {
			delete(after[l.entity], l.key)
		} else {
			after[l.entity][l.key] = *b
		}
	}
	return after
}
