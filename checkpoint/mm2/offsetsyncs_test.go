package mm2

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lockstep/checkpoint"
	"lockstep/internal/model"
	"lockstep/offsetsync"
)

var orders3 = checkpoint.Key{Topic: "orders", Partition: 3}

// mapOf returns a map that begins at src, dst and has the spans; its end is the last span's.
func mapOf(t interface{ Fatal(...any) }, src, dst int64, spans ...model.Span) *offsetsync.Map {
	m := offsetsync.NewMap(src, dst)
	for _, s := range spans {
		if err := m.Append(s); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func pair(u, d int64) OffsetSync { return OffsetSync{orders3, u, d} }

func TestPairs(t *testing.T) {
	t.Parallel()
	dense := mapOf(t, 0, 0, model.Span{Src: 0, Dst: 0, N: 101})
	holes := mapOf(t, 0, 0, model.Span{Src: 0, Dst: 0, N: 10}, model.Span{Src: 50, Dst: 10, N: 1})
	last := func(s OffsetSync) *OffsetSync { return &s }
	for _, c := range []struct {
		name string
		m    *offsetsync.Map
		last *OffsetSync
		want []OffsetSync
	}{
		{"nothing copied", mapOf(t, 5, 0), nil, nil},
		{"first", dense, nil, []OffsetSync{pair(0, 0), pair(36, 36), pair(84, 84), pair(96, 96), pair(99, 99), pair(100, 100)}},
		{"one more", dense, last(pair(99, 99)), []OffsetSync{pair(100, 100)}},
		{"nothing new", dense, last(pair(100, 100)), nil},
		{"a hole gives the record before it, once", holes, nil, []OffsetSync{pair(0, 0), pair(9, 9), pair(50, 10)}},
		{"the source went back, the target not", dense, last(pair(500, 100)), []OffsetSync{pair(0, 0), pair(36, 36), pair(84, 84), pair(96, 96), pair(99, 99), pair(100, 100)}},
		{"the target was made anew", mapOf(t, 40, 0, model.Span{Src: 40, Dst: 0, N: 2}), last(pair(30, 30)), []OffsetSync{pair(-1, -1), pair(40, 0), pair(41, 1)}},
		{"the target was made anew and is empty", mapOf(t, 40, 0), last(pair(30, 30)), []OffsetSync{pair(-1, -1)}},
	} {
		got := pairs(c.m, orders3, c.last)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

// store translates as MirrorMaker's does, but forgets nothing that a reader could still have in memory.
type store []OffsetSync

func (s *store) sync(p OffsetSync) {
	if n := len(*s); n > 0 && p.Upstream < (*s)[n-1].Upstream {
		*s = nil
	}
	*s = append(*s, p)
}

// translate reports false where MirrorMaker writes no checkpoint.
func (s store) translate(g int64) (int64, bool) {
	for i := len(s) - 1; i >= 0; i-- {
		switch u, d := s[i].Upstream, s[i].Downstream; {
		case u == g:
			return d, d >= 0
		case u < g:
			return d + 1, true
		}
	}
	return 0, false
}

// Whatever becomes of a lane, MirrorMaker's way of translating leads never behind ours, whichever of the pairs a reader
// has; and for the newest record and what follows it to the very same place.
func TestPairs_NeverLeadBehindTheExactTranslation(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := mapOf(t, rapid.Int64Range(0, 20).Draw(t, "src"), rapid.Int64Range(0, 20).Draw(t, "dst"))
		var all, some store
		var stands *OffsetSync
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			m = evolve(t, m)
			for _, p := range pairs(m, orders3, stands) {
				all.sync(p)
				if len(some) == 0 || p.Upstream < some[len(some)-1].Upstream || rapid.Bool().Draw(t, "kept") {
					some.sync(p)
				}
				stands = &p
			}
			judge(t, m, all)
			judge(t, m, some)
			if newest, ok := m.Newest(1 << 40); ok {
				if got, ok := all.translate(newest.Src); !ok || got != newest.Dst {
					t.Fatalf("the newest record stands at %+v, translated to %d, %t", newest, got, ok)
				}
			}
		}
	})
}

// judge compares both translations for every offset that a group might have.
func judge(t *rapid.T, m *offsetsync.Map, s store) {
	for g := int64(0); g < 400; g++ {
		if got, ok := s.translate(g); ok && got > m.Translate(g).Offset {
			t.Fatalf("MirrorMaker translates %d to %d by %v, ours is %+v", g, got, s, m.Translate(g))
		}
	}
}

// evolve is what may become of a map between two passes: it grows, with holes on both sides, or begins anew.
func evolve(t *rapid.T, m *offsetsync.Map) *offsetsync.Map {
	m = m.Clone()
	src, dst := m.End()
	switch rapid.IntRange(0, 9).Draw(t, "what") {
	case 0: // the target was made anew, maybe after the source deleted old records
		return mapOf(t, rapid.Int64Range(0, src).Draw(t, "src"), 0)
	case 1: // the source was made anew, or copied again behind what is there
		return mapOf(t, rapid.Int64Range(0, src).Draw(t, "src"), dst+rapid.Int64Range(0, 3).Draw(t, "gap"))
	case 2: // retention on the target
		m.DropBefore(rapid.Int64Range(0, dst+1).Draw(t, "drop"))
		return m
	case 3: // a marker, offsets without records
		if err := m.SetEnd(src+rapid.Int64Range(0, 3).Draw(t, "gap"), dst+rapid.Int64Range(0, 1).Draw(t, "marker")); err != nil {
			t.Fatal(err)
		}
		return m
	}
	s := model.Span{Src: src + rapid.Int64Range(0, 5).Draw(t, "hole"), Dst: dst + rapid.Int64Range(0, 2).Draw(t, "foreign"), N: rapid.Int64Range(0, 30).Draw(t, "n")}
	if err := m.Append(s); err != nil {
		t.Fatal(err)
	}
	return m
}
