package acl

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/statelog"
	"lockstep/topicsync/drift"
)

// kindACL begins the keys of what lockstep wrote of permissions: one record for each resource.
const kindACL = "acl"

const recordVersion = 1

// record is what the state topic holds of one resource's permissions.
type record struct {
	V int `json:"v"`
	// Created are permissions that lockstep created; those of Pending may not be there yet.
	Created []entry `json:"created,omitempty"`
	Pending []entry `json:"pending,omitempty"`
	// Staged are those that wait for the promotion.
	Staged []entry `json:"staged,omitempty"`
	// Away are those that lockstep created and somebody else removed.
	Away []entry `json:"away,omitempty"`
}

// entry is a permission without its resource: principal, host, operation, and whether it denies.
type entry struct {
	Principal string            `json:"p"`
	Host      string            `json:"h"`
	Operation kmsg.ACLOperation `json:"o"`
	Deny      bool              `json:"d,omitempty"`
}

func (e entry) on(r resource) Binding {
	return Binding{Type: r.Type, Name: r.Name, Pattern: r.Pattern, Principal: e.Principal, Host: e.Host, Operation: e.Operation, Deny: e.Deny}
}

func (b Binding) entry() entry { return entry{b.Principal, b.Host, b.Operation, b.Deny} }

// mark says what lockstep has to do with a permission.
type mark int

const (
	created mark = iota + 1 // it created it
	pending                 // it was about to
	staged                  // it holds it back until the promotion
	away                    // it created it, and somebody else removed it
)

// Journal keeps what lockstep wrote of permissions, in the state topic of a link. Its methods may be called from any
// goroutine.
type Journal struct {
	log drift.StateWriter

	mu sync.Mutex // guards the fields below
	of map[resource]map[Binding]mark
	// wrote are resources that this process has written. It is the only one that does, and what the view reads of them
	// later is older than what is known.
	wrote map[resource]bool
}

// NewJournal returns the journal of the view's link. It has to be called before the view runs, and is complete after the
// view's first Barrier.
func NewJournal(view drift.StateReader, log *statelog.Log) *Journal { return newJournal(view, log) }

func newJournal(view drift.StateReader, log drift.StateWriter) *Journal {
	j := &Journal{log: log, of: make(map[resource]map[Binding]mark), wrote: make(map[resource]bool)}
	view.Handle(kindACL, j.read)
	return j
}

func keyOf(r resource) string {
	return statelog.Key(kindACL, strconv.Itoa(int(r.Type)), strconv.Itoa(int(r.Pattern)), r.Name)
}

func resourceOf(key string) (r resource, ok bool) {
	parts, ok := statelog.SplitKey(key)
	if !ok || len(parts) != 4 {
		return r, false
	}
	t, err := strconv.ParseInt(parts[1], 10, 8)
	p, err2 := strconv.ParseInt(parts[2], 10, 8)
	return resource{kmsg.ACLResourceType(t), parts[3], kmsg.ACLResourcePatternType(p)}, err == nil && err2 == nil
}

func (j *Journal) read(e statelog.Entry) error {
	r, ok := resourceOf(e.Key)
	if !ok {
		return fmt.Errorf("state record %q: want %s/TYPE/PATTERN/NAME", e.Key, kindACL)
	}
	var rec record
	if e.Value != nil {
		if err := json.Unmarshal(e.Value, &rec); err != nil {
			return fmt.Errorf("state record %q: %w", e.Key, err)
		}
		if rec.V != recordVersion {
			return fmt.Errorf("state record %q has version %d, this lockstep knows %d: update it", e.Key, rec.V, recordVersion)
		}
	}
	marks := make(map[Binding]mark)
	for m, entries := range map[mark][]entry{created: rec.Created, pending: rec.Pending, staged: rec.Staged, away: rec.Away} {
		for _, en := range entries {
			marks[en.on(r)] = m
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.wrote[r] {
		j.setLocked(r, marks)
	}
	return nil
}

func (j *Journal) setLocked(r resource, marks map[Binding]mark) {
	if len(marks) == 0 {
		delete(j.of, r)
		return
	}
	j.of[r] = marks
}

// all returns every permission that lockstep has to do with.
func (j *Journal) all() map[Binding]mark {
	j.mu.Lock()
	defer j.mu.Unlock()
	out := make(map[Binding]mark)
	for _, marks := range j.of {
		maps.Copy(out, marks)
	}
	return out
}

// note makes changes durable and then shows them; 0 forgets a permission.
func (j *Journal) note(ctx context.Context, changes map[Binding]mark) error {
	after := make(map[resource]map[Binding]mark)
	j.mu.Lock()
	for b, m := range changes {
		r := b.resource()
		if after[r] == nil {
			after[r] = maps.Clone(j.of[r])
		}
		switch {
		case m == 0:
			delete(after[r], b)
		case after[r] == nil:
			after[r] = map[Binding]mark{b: m}
		default:
			after[r][b] = m
		}
	}
	j.mu.Unlock()
	var entries []statelog.Entry
	for r, marks := range after {
		e, err := entryOf(r, marks)
		if err != nil {
			return err
		}
		entries = append(entries, e)
	}
	if err := j.log.Put(ctx, entries...); err != nil {
		return fmt.Errorf("store what is written of permissions on %d resources: %w", len(entries), err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for r, marks := range after {
		j.setLocked(r, marks)
		j.wrote[r] = true
	}
	return nil
}

func entryOf(r resource, marks map[Binding]mark) (statelog.Entry, error) {
	e := statelog.Entry{Partition: statelog.PartitionOf(r.Name, 0), Key: keyOf(r)}
	if len(marks) == 0 {
		return e, nil // a tombstone
	}
	rec := record{V: recordVersion}
	for _, b := range slices.SortedFunc(maps.Keys(marks), Binding.compare) {
		switch marks[b] {
		case created:
			rec.Created = append(rec.Created, b.entry())
		case pending:
			rec.Pending = append(rec.Pending, b.entry())
		case staged:
			rec.Staged = append(rec.Staged, b.entry())
		case away:
			rec.Away = append(rec.Away, b.entry())
		}
	}
	value, err := json.Marshal(rec)
	if err != nil {
		return e, fmt.Errorf("store what is written of permissions on %s: %w", r.Name, err)
	}
	e.Value = value
	return e, nil
}
