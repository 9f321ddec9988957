package checkpoint

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"lockstep/internal/statelog"
	"lockstep/offsetsync"
)

// Moment is where a group stood at one time. Of its rows only group, key, source, translated and target offset, and the
// state are known.
type Moment struct {
	At        time.Time
	Positions []Row
}

// History keeps, in the state topic, where groups stood in the last week: twenty moments of each group and topic, dense
// now and sparse long ago. A moment holds until the next one. Its methods may be called by many goroutines at once, Note
// by one at a time.
type History struct {
	log putter

	mu sync.Mutex // guards of
	of map[string]map[string][]moment

	// Of the pass that was noted last; Note's alone.
	last   map[subjectTopic][]Row
	lastAt time.Time
	swept  time.Time // when groups that are gone were looked for
}

// subjectTopic is a group in one topic.
type subjectTopic struct{ group, topic string }

// moment is where a group stood in one topic at one time.
type moment struct {
	at   time.Time
	slot int
	// mark says that something unusual happened then: it is kept longer.
	mark  bool
	spots []spot
}

// spot is one position.
type spot struct {
	partition                  int32
	source, translated, target int64
	state                      State
}

const (
	keepMoments = 20
	keepMarked  = keepMoments / 2
	keepFor     = 7 * 24 * time.Hour
	momentsFrom = time.Minute // between two ordinary moments
)

// NewHistory returns the history of the view's link. It has to be called before the view runs; it is complete after the
// view's first Barrier.
func NewHistory(view *offsetsync.View, log *statelog.Log) *History { return newHistory(view, log) }

func newHistory(view handler, log putter) *History {
	h := &History{log: log, of: map[string]map[string][]moment{}}
	view.Handle(kindHistory, h.read)
	return h
}

// Note keeps what of a pass is worth it, durably. A pass that failed tells nothing new.
func (h *History) Note(ctx context.Context, p Pass) error {
	if p.Err != nil {
		return nil
	}
	now := byTopic(p.Rows)
	var entries []statelog.Entry
	for t, rows := range now {
		entries = h.note(entries, t, rows, p.At)
	}
	entries = h.sweep(entries, now, p.At)
	if len(entries) > 0 {
		if err := h.log.Put(ctx, entries...); err != nil {
			return fmt.Errorf("store the history of groups: %w", err)
		}
	}
	h.last, h.lastAt = now, p.At
	for _, e := range entries {
		if err := h.read(e); err != nil {
			return err
		}
	}
	return nil
}

// byTopic cuts rows, which come in order, where group or topic change. Rows without a position are left out.
func byTopic(rows []Row) map[subjectTopic][]Row {
	out := make(map[subjectTopic][]Row)
	for i := 0; i < len(rows); {
		j := i + 1
		for j < len(rows) && rows[j].Group == rows[i].Group && rows[j].Topic == rows[i].Topic {
			j++
		}
		if rows[i].Topic != "" {
			out[subjectTopic{rows[i].Group, rows[i].Topic}] = rows[i:j]
		}
		i = j
	}
	return out
}

// note adds the records of what is to be kept of a group in one topic.
func (h *History) note(entries []statelog.Entry, t subjectTopic, rows []Row, at time.Time) []statelog.Entry {
	had := h.moments(t)
	before, known := h.last[t]
	var newest moment
	if len(had) > 0 {
		newest = had[len(had)-1]
		if !known {
			before, known = newest.rows(t), true
		}
	}
	switch {
	case newest.reopening(rows):
	case known && turned(before, rows):
		if len(had) == 0 || !newest.reopening(before) {
			had, entries = add(had, entries, t, moment{at: h.lastAt, mark: true, spots: spotsOf(before)})
		}
		_, entries = add(had, entries, t, moment{at: at, mark: true, spots: spotsOf(rows)})
	case len(had) == 0, at.Sub(newest.at) >= momentsFrom:
		_, entries = add(had, entries, t, moment{at: at, spots: spotsOf(rows)})
	}
	return entries
}

// turned reports whether something unusual happened between two looks: the source jumped or vanished, somebody moved the
// group on the target, an operator accepted that, or lockstep moved it back.
func turned(before, rows []Row) bool {
	for i, r := range rows {
		if i >= len(before) || before[i].Key != r.Key {
			if r.Backwards {
				return true
			}
			continue
		}
		was := before[i]
		if r.Backwards && !(was.Backwards && was.Base.At.Equal(r.Base.At)) { // else it is the row of that pass
			return true
		}
		if was.State != r.State && (unusual(was.State) || unusual(r.State)) {
			return true
		}
	}
	return false
}

func unusual(s State) bool {
	return s == StateSuspectSource || s == StateMovedOnTarget || s == StateExistsOnTarget
}

// add puts a moment into a free slot, or into that of the one that is missed least.
func add(had []moment, entries []statelog.Entry, t subjectTopic, m moment) ([]moment, []statelog.Entry) {
	if m.slot = freeSlot(had); m.slot == keepMoments {
		m.slot = had[thin(had, m.at)].slot
	}
	return insert(had, m), append(entries, encodeMoment(t, m))
}

// freeSlot returns the first slot that no moment is in; keepMoments when there is none.
func freeSlot(had []moment) int {
	for slot := range keepMoments {
		if !slices.ContainsFunc(had, func(m moment) bool { return m.slot == slot }) {
			return slot
		}
	}
	return keepMoments
}

// insert returns the moments with one more, oldest first. What was in its slot is gone.
func insert(had []moment, m moment) []moment {
	out := make([]moment, 0, len(had)+1)
	for _, o := range had {
		if o.slot != m.slot {
			out = append(out, o)
		}
	}
	i, _ := slices.BinarySearchFunc(out, m, func(a, b moment) int {
		if a.at.After(b.at) {
			return 1
		}
		return -1
	})
	return slices.Insert(out, i, m)
}

// sweep adds tombstones for groups that have been gone for longer than history goes back. It looks once an hour.
func (h *History) sweep(entries []statelog.Entry, now map[subjectTopic][]Row, at time.Time) []statelog.Entry {
	if at.Sub(h.swept) < time.Hour {
		return entries
	}
	h.swept = at
	h.mu.Lock()
	defer h.mu.Unlock()
	for group, topics := range h.of {
		for topic, ms := range topics {
			t := subjectTopic{group, topic}
			if _, there := now[t]; there || at.Sub(ms[len(ms)-1].at) < keepFor {
				continue
			}
			for _, m := range ms {
				entries = append(entries, momentEntry(t, m.slot))
			}
		}
	}
	return entries
}

// Of returns the moments of a group that are kept, the oldest first.
func (h *History) Of(group string) []Moment {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []Moment
	for topic, ms := range h.of[group] {
		for _, m := range ms {
			out = append(out, Moment{At: m.at, Positions: m.rows(subjectTopic{group, topic})})
		}
	}
	slices.SortFunc(out, func(a, b Moment) int { return a.At.Compare(b.At) })
	return together(out)
}

// together joins moments of the same time.
func together(ms []Moment) []Moment {
	out := ms[:0]
	for _, m := range ms {
		if n := len(out) - 1; n >= 0 && out[n].At.Equal(m.At) {
			out[n].Positions = append(out[n].Positions, m.Positions...)
			continue
		}
		out = append(out, m)
	}
	for _, m := range out {
		slices.SortFunc(m.Positions, func(a, b Row) int { return a.Key.Compare(b.Key) })
	}
	return out
}

// read takes a record of the state topic.
func (h *History) read(e statelog.Entry) error {
	t, slot, ok := splitMomentKey(e.Key)
	if !ok {
		return nil // of a release that stores something else under this name; nothing here builds upon it
	}
	m, err := decodeMoment(e, slot)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	topics := h.of[t.group]
	if topics == nil {
		topics = map[string][]moment{}
		h.of[t.group] = topics
	}
	if e.Value != nil {
		topics[t.topic] = insert(topics[t.topic], m)
		return nil
	}
	topics[t.topic] = slices.DeleteFunc(slices.Clone(topics[t.topic]), func(m moment) bool { return m.slot == slot })
	if len(topics[t.topic]) == 0 {
		delete(topics, t.topic)
	}
	if len(topics) == 0 {
		delete(h.of, t.group)
	}
	return nil
}

func (h *History) moments(t subjectTopic) []moment {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.of[t.group][t.topic]
}

func spotsOf(rows []Row) []spot {
	out := make([]spot, len(rows))
	for i, r := range rows {
		out[i] = spot{r.Partition, r.Source, r.Translated, r.Target, r.State}
	}
	return out
}

// reopening reports whether rows show what a moment does, or differ in nothing but lanes that are not open yet, as after
// every start: restarts would take the place of what happened.
func (m moment) reopening(rows []Row) bool {
	return slices.EqualFunc(m.spots, rows, func(s spot, r Row) bool {
		return s.partition == r.Partition && s.source == r.Source && s.target == r.Target &&
			(s.state == r.State && s.translated == r.Translated || r.State == StateNotYetCopied)
	})
}

func (m moment) rows(t subjectTopic) []Row {
	out := make([]Row, len(m.spots))
	for i, s := range m.spots {
		out[i] = Row{Group: t.group, Key: Key{t.topic, s.partition}, Source: s.source, Translated: s.translated, Target: s.target, State: s.state}
	}
	return out
}
