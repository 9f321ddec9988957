package trim

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"lockstep/internal/model"
	"lockstep/offsetsync"
	"lockstep/topicsync/drift"
)

var (
	srcID = model.TopicID{1}
	dstID = model.TopicID{2}
	topic = drift.Topic{Src: "t", Dst: "t", SrcID: srcID, DstID: dstID, Partitions: 1, DstPartitions: 1}
	ident = model.Identity{DstTopic: "t", Src: srcID, Dst: dstID}
)

func laneOf(m *offsetsync.Map, of model.Identity) Lane {
	src, _ := m.Start()
	_, dst := m.End()
	return Lane{Identity: of, Start: src, Cursor: dst, Translate: func(src int64) int64 { return m.Translate(src).Offset }}
}

// By a naive list of what was copied where: no copy of a record that the source still has is dropped, nothing at or
// behind the cursor, nor the newest offset below it; and all else that is a copy is.
func TestBefore_KeepsWhatTheSourceHas(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		src, dst := rapid.Int64Range(0, 5).Draw(t, "src"), rapid.Int64Range(0, 5).Draw(t, "dst")
		first, m := src, offsetsync.NewMap(src, dst)
		copies := map[int64]int64{}
		for range rapid.IntRange(0, 8).Draw(t, "spans") {
			src += rapid.Int64Range(0, 3).Draw(t, "hole")
			dst += rapid.Int64Range(0, 3).Draw(t, "markers")
			n := rapid.Int64Range(0, 5).Draw(t, "records") // none: an opening begins there
			if err := m.Append(model.Span{Src: src, Dst: dst, N: n}); err != nil {
				t.Fatal(err)
			}
			for range n {
				copies[src] = dst
				src, dst = src+1, dst+1
			}
		}
		src, dst = src+rapid.Int64Range(0, 3).Draw(t, "behind"), dst+rapid.Int64Range(0, 2).Draw(t, "marker behind")
		if err := m.SetEnd(src, dst); err != nil {
			t.Fatal(err)
		}
		start := rapid.Int64Range(0, src+5).Draw(t, "source start")
		to, ok := before(topic, laneOf(m, ident), start)
		if !ok {
			to = 0
		}
		if to > max(dst-1, 0) {
			t.Fatalf("drops up to %d, the cursor is at %d", to, dst)
		}
		for s, d := range copies {
			switch {
			case s >= start && d < to:
				t.Fatalf("source start %d drops up to %d: record %d stands at %d", start, to, s, d)
			case s < start && d >= to && d < dst-1 && start > first:
				t.Fatalf("source start %d drops up to %d: record %d at %d stays", start, to, s, d)
			}
		}
	})
}

func TestBefore_NotOfAnotherTopic(t *testing.T) {
	t.Parallel()
	m := offsetsync.NewMap(0, 0)
	if err := m.Append(model.Span{N: 10}); err != nil {
		t.Fatal(err)
	}
	if to, ok := before(topic, laneOf(m, ident), 5); !ok || to != 5 {
		t.Fatalf("of these topics: %d, %v", to, ok)
	}
	for what, id := range map[string]model.Identity{
		"another source": {DstTopic: "t", Src: model.TopicID{9}, Dst: dstID}, "another target": {DstTopic: "t", Src: srcID, Dst: model.TopicID{9}},
		"another name": {DstTopic: "u", Src: srcID, Dst: dstID}, "unknown": {DstTopic: "t"},
	} {
		if to, ok := before(topic, laneOf(m, id), 5); ok {
			t.Errorf("%s: drops up to %d", what, to)
		}
	}
	unknown := drift.Topic{Src: "t", Dst: "t"}
	if _, ok := before(unknown, laneOf(m, model.Identity{DstTopic: "t"}), 5); ok {
		t.Error("ids that neither side knows count as alike")
	}
}

func TestHistory_Waits(t *testing.T) {
	t.Parallel()
	t0 := time.Unix(0, 0)
	type step struct {
		after time.Duration
		ends
		want int64 // -1: nothing is due
	}
	for name, steps := range map[string][]step{
		"a start stands":         {{0, ends{5, 100}, -1}, {9 * time.Minute, ends{5, 100}, -1}, {10 * time.Minute, ends{5, 100}, 5}},
		"each for itself":        {{0, ends{5, 100}, -1}, {9 * time.Minute, ends{7, 100}, -1}, {10 * time.Minute, ends{7, 100}, 5}, {19 * time.Minute, ends{7, 100}, 7}},
		"it goes back":           {{0, ends{50, 100}, -1}, {9 * time.Minute, ends{5, 100}, -1}, {11 * time.Minute, ends{5, 100}, -1}, {19 * time.Minute, ends{5, 100}, 5}},
		"emptied":                {{0, ends{100, 100}, -1}, {23 * time.Hour, ends{100, 100}, -1}, {24 * time.Hour, ends{100, 100}, 100}},
		"emptied while written":  {{0, ends{5, 100}, -1}, {time.Minute, ends{100, 103}, -1}, {time.Hour, ends{100, 900}, 5}, {25 * time.Hour, ends{100, 900}, 100}},
		"what follows waits too": {{0, ends{5, 100}, -1}, {time.Minute, ends{100, 103}, -1}, {time.Hour, ends{102, 900}, 5}, {2 * time.Hour, ends{102, 900}, 5}, {25 * time.Hour, ends{102, 900}, 102}},
	} {
		var h history
		for i, s := range steps {
			h = h.look(s.ends, t0.Add(s.after))
			got, rest, ok := h.due(t0.Add(s.after), 10*time.Minute, 24*time.Hour)
			if h = rest; !ok {
				got = -1
			}
			if got != s.want {
				t.Errorf("%s, step %d: %d is due, want %d", name, i, got, s.want)
			}
		}
	}
}

// However often a start moves, none is followed before it stood long enough, and a history stays small.
func TestHistory_NeverEarly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var h history
		now, first := time.Unix(0, 0), map[int64]time.Time{}
		start, end := int64(0), int64(1000)
		for range rapid.IntRange(1, 100).Draw(t, "looks") {
			now = now.Add(time.Duration(rapid.IntRange(1, 300).Draw(t, "seconds")) * time.Second)
			start += rapid.Int64Range(0, 3).Draw(t, "moved")
			if _, ok := first[start]; !ok {
				first[start] = now
			}
			h = h.look(ends{start, end}, now)
			to, rest, ok := h.due(now, 10*time.Minute, time.Hour)
			if h = rest; ok && now.Sub(first[to]) < 10*time.Minute {
				t.Fatalf("%d was seen first %v ago", to, now.Sub(first[to]))
			}
			if len(h.starts) > most {
				t.Fatalf("%d starts are kept", len(h.starts))
			}
		}
	})
}
