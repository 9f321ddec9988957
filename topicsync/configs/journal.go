package configs

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"

	"lockstep/internal/model"
	"lockstep/internal/statelog"
	"lockstep/topicsync/drift"
)

// kindTopic begins the keys of what lockstep wrote of topics.
const kindTopic = "topic"

// recordVersion is the form of records that this version writes.
const recordVersion = 1

// Record is what the state topic holds of one source topic's copy.
type Record struct {
	V int `json:"v"`
	// N grows with each record of a topic: one that is read late does not take the place of a newer one.
	N int64 `json:"n"`
	// Dst and DstID are the topic on the target. A topic of another id is another one: nothing of it was written by lockstep.
	Dst   string        `json:"dst"`
	DstID model.TopicID `json:"dst_id"`
	// Made says that lockstep created it.
	Made bool `json:"made,omitempty"`
	// Intent are the settings of a topic that is about to be created; nil when none is.
	Intent map[string]string `json:"intent"`
	// Written are the settings that lockstep wrote.
	Written map[string]Base `json:"written,omitempty"`
	// Source are the source topic's explicit settings as they were last seen; nil before they were.
	Source map[string]string `json:"source"`
}

// Base is a setting that lockstep wrote. While a write is under way Was is what stood there before: whether the write
// took effect is not known after a crash.
type Base struct {
	Value   *string `json:"value"` // nil: it was removed
	Was     *string `json:"was,omitempty"`
	Pending bool    `json:"pending,omitempty"`
}

// equal reports whether two bases say the same.
func (b Base) equal(o Base) bool {
	return same(b.Value, o.Value) && same(b.Was, o.Was) && b.Pending == o.Pending
}

// is reports whether what the target has is what lockstep wrote.
func (b Base) is(theirs *string) bool {
	return same(b.Value, theirs) || b.Pending && same(b.Was, theirs)
}

func same(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

// Journal keeps the records of a link, in its state topic. Its methods may be called from any goroutine.
type Journal struct {
	log drift.StateWriter

	mu sync.Mutex // guards of
	of map[string]Record
}

// NewJournal returns the journal of the view's link. It has to be called before the view runs, and is complete after the
// view's first Barrier.
func NewJournal(view drift.StateReader, log *statelog.Log) *Journal { return newJournal(view, log) }

func newJournal(view drift.StateReader, log drift.StateWriter) *Journal {
	j := &Journal{log: log, of: make(map[string]Record)}
	view.Handle(kindTopic, j.read)
	return j
}

func (j *Journal) read(e statelog.Entry) error {
	parts, ok := statelog.SplitKey(e.Key)
	if !ok || len(parts) != 2 {
		return fmt.Errorf("state record %q: want %s/TOPIC", e.Key, kindTopic)
	}
	topic := parts[1]
	if e.Value == nil {
		j.set(topic, nil)
		return nil
	}
	var r Record
	if err := json.Unmarshal(e.Value, &r); err != nil {
		return fmt.Errorf("state record %q: %w", e.Key, err)
	}
	if r.V != recordVersion {
		return fmt.Errorf("state record %q has version %d, this lockstep knows %d: update it", e.Key, r.V, recordVersion)
	}
	j.set(topic, &r)
	return nil
}

func (j *Journal) set(topic string, r *Record) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case r == nil:
		delete(j.of, topic)
	case r.N >= j.of[topic].N:
		j.of[topic] = *r
	}
}

// Of returns what is known of a source topic's copy; its maps are not to be changed.
func (j *Journal) Of(topic string) (Record, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r, ok := j.of[topic]
	return r, ok
}

// Made reports whether lockstep created the topic that a source topic is copied to, which has that id on the target.
func (j *Journal) Made(topic string, dst model.TopicID) bool {
	r, ok := j.Of(topic)
	return ok && r.Made && r.DstID == dst
}

// put makes records durable and then shows them. Nothing that builds upon them may be written before.
func (j *Journal) put(ctx context.Context, records map[string]Record) error {
	entries := make([]statelog.Entry, 0, len(records))
	for topic, r := range records {
		was, _ := j.Of(topic)
		r.V, r.N = recordVersion, was.N+1
		records[topic] = r
		value, err := json.Marshal(r)
		if err != nil {
			return fmt.Errorf("store what is written of topic %s: %w", topic, err)
		}
		entries = append(entries, statelog.Entry{Partition: statelog.PartitionOf(topic, 0), Key: statelog.Key(kindTopic, topic), Value: value})
	}
	if err := j.log.Put(ctx, entries...); err != nil {
		return fmt.Errorf("store what is written of %d topics: %w", len(records), err)
	}
	for topic, r := range records {
		j.set(topic, &r)
	}
	return nil
}

// Intend notes topics that are about to be created, with their settings, by source topic.
func (j *Journal) Intend(ctx context.Context, creations []Creation) error {
	records := make(map[string]Record, len(creations))
	for _, c := range creations {
		r, _ := j.Of(c.Topic)
		r.Dst, r.DstID, r.Made, r.Written, r.Intent, r.Source = c.Dst, model.TopicID{}, false, nil, c.Settings, c.Source
		if r.Intent == nil {
			r.Intent = map[string]string{}
		}
		records[c.Topic] = r
	}
	return j.put(ctx, records)
}

// Creation is a topic that lockstep creates.
type Creation struct {
	Topic, Dst string
	Settings   map[string]string // as they are asked for, and at last as they were taken
	Source     map[string]string // the source topic's explicit settings
	ID         model.TopicID     // of the new topic
}

// Created notes topics that were created.
func (j *Journal) Created(ctx context.Context, creations []Creation) error {
	records := make(map[string]Record, len(creations))
	for _, c := range creations {
		records[c.Topic] = made(c)
	}
	return j.put(ctx, records)
}

func made(c Creation) Record {
	r := Record{Dst: c.Dst, DstID: c.ID, Made: true, Source: c.Source, Written: make(map[string]Base, len(c.Settings))}
	for key, value := range c.Settings {
		r.Written[key] = Base{Value: &value}
	}
	return r
}

// recordOf returns what counts of a topic's record for the topic that stands on the target now, whose explicit settings
// are theirs. A topic that was to be created when this process ended, and now has just the settings that it was to get,
// is taken for ours.
func (j *Journal) recordOf(topic, dst string, id model.TopicID, theirs map[string]string) Record {
	r, ok := j.Of(topic)
	switch {
	case !ok, r.Dst != dst:
		return Record{Dst: dst, DstID: id}
	case r.Intent != nil && maps.Equal(r.Intent, theirs):
		return made(Creation{Topic: topic, Dst: dst, Settings: r.Intent, Source: r.Source, ID: id})
	case r.DstID != id:
		return Record{Dst: dst, DstID: id, Source: r.Source}
	}
	r.Intent = nil
	return r
}
