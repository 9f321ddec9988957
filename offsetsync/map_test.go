package offsetsync

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lockstep/internal/model"
)

func spansOf(m *Map) []model.Span { return slices.Collect(m.Spans()) }

func TestMap_AppendJoinsNeighbours(t *testing.T) {
	t.Parallel()
	m := mapOf(t, model.Span{Src: 10, Dst: 0, N: 5}, model.Span{Src: 15, Dst: 5, N: 5}, model.Span{Src: 21, Dst: 10, N: 1})
	want := []model.Span{{Src: 10, Dst: 0, N: 10}, {Src: 21, Dst: 10, N: 1}}
	if diff := cmp.Diff(want, spansOf(m)); diff != "" {
		t.Error(diff)
	}
}

func TestMap_AppendRefusesWhatGoesBack(t *testing.T) {
	t.Parallel()
	for _, s := range []model.Span{{Src: 14, Dst: 5, N: 1}, {Src: 15, Dst: 4, N: 1}, {Src: 15, Dst: 5, N: -1}} {
		m := mapOf(t, model.Span{Src: 10, Dst: 0, N: 5})
		if err := m.Append(s); err == nil {
			t.Errorf("Append(%+v) was accepted", s)
		}
	}
}

func TestMap_Translate(t *testing.T) {
	t.Parallel()
	m := NewMap(8, 0)
	for _, s := range []model.Span{{Src: 10, Dst: 0, N: 5}, {Src: 18, Dst: 7, N: 2}, {Src: 25, Dst: 12, N: 0}, {Src: 26, Dst: 12, N: 1}} {
		if err := m.Append(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.SetEnd(30, 14); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		src  int64
		want Translation
	}{
		{0, Translation{0, BeforeStart, 8}},
		{7, Translation{0, BeforeStart, 1}},
		{8, Translation{0, Hole, 2}},
		{10, Translation{0, Exact, 0}},
		{14, Translation{4, Exact, 0}},
		{15, Translation{7, Hole, 3}},
		{19, Translation{8, Exact, 0}},
		{20, Translation{12, Hole, 6}},
		{25, Translation{12, Hole, 1}},
		{26, Translation{12, Exact, 0}},
		{27, Translation{14, Hole, 3}},
		{30, Translation{14, Exact, 0}},
		{33, Translation{14, Ahead, 3}},
	} {
		if got := m.Translate(c.src); got != c.want {
			t.Errorf("Translate(%d) = %+v, want %+v", c.src, got, c.want)
		}
	}
	for _, c := range []struct {
		dst  int64
		want Translation
	}{
		{0, Translation{10, Exact, 0}},
		{5, Translation{18, Hole, 2}},
		{9, Translation{25, Hole, 3}},
		{12, Translation{26, Exact, 0}},
		{13, Translation{30, Hole, 1}},
		{14, Translation{30, Exact, 0}},
		{20, Translation{30, Ahead, 6}},
	} {
		if got := m.Invert(c.dst); got != c.want {
			t.Errorf("Invert(%d) = %+v, want %+v", c.dst, got, c.want)
		}
	}
}

func TestMap_EmptyAnswersItsCursor(t *testing.T) {
	t.Parallel()
	m := NewMap(100, 7)
	for src, want := range map[int64]Translation{40: {7, BeforeStart, 60}, 100: {7, Exact, 0}, 101: {7, Ahead, 1}} {
		if got := m.Translate(src); got != want {
			t.Errorf("Translate(%d) = %+v, want %+v", src, got, want)
		}
	}
}

func TestMap_DropBefore(t *testing.T) {
	t.Parallel()
	m := mapOf(t, model.Span{Src: 10, Dst: 0, N: 5}, model.Span{Src: 20, Dst: 5, N: 5})
	m.DropBefore(3)
	if got, want := m.Translate(5), (Translation{3, BeforeStart, 8}); got != want {
		t.Errorf("Translate(5) = %+v, want %+v", got, want)
	}
	if diff := cmp.Diff([]model.Span{{Src: 13, Dst: 3, N: 2}, {Src: 20, Dst: 5, N: 5}}, spansOf(m)); diff != "" {
		t.Error(diff)
	}
	m.DropBefore(99)
	if got, want := m.Translate(5), (Translation{10, BeforeStart, 20}); got != want {
		t.Errorf("Translate(5) of an empty map = %+v, want %+v", got, want)
	}
}

// Where nothing was copied nothing is forgotten: on another branch of the source something may stand there.
func TestMap_DropBeforeKeepsWhatNothingWasCopiedOf(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		dst   int64
		start int64
		want  Translation // of source offset 17
	}{
		"between two spans":    {dst: 6, start: 15, want: Translation{8, Hole, 3}},
		"up to the next one":   {dst: 8, start: 15, want: Translation{8, Hole, 3}},
		"inside the next one":  {dst: 9, start: 21, want: Translation{9, BeforeStart, 4}},
		"behind the last one":  {dst: 14, start: 25, want: Translation{20, BeforeStart, 8}},
		"behind the map's end": {dst: 99, start: 25, want: Translation{20, BeforeStart, 8}},
	} {
		m := mapOf(t, model.Span{Src: 10, Dst: 0, N: 5}, model.Span{Src: 18, Dst: 6}, model.Span{Src: 20, Dst: 8, N: 5})
		if err := m.SetEnd(40, 20); err != nil {
			t.Fatal(err)
		}
		m.DropBefore(c.dst)
		if src, _ := m.Start(); src != c.start {
			t.Errorf("%s: the map starts at source offset %d, want %d", name, src, c.start)
		}
		if got := m.Translate(17); got != c.want {
			t.Errorf("%s: Translate(17) = %+v, want %+v", name, got, c.want)
		}
		if s, ok := m.Newest(19); ok {
			t.Errorf("%s: a record at source offset %d was not forgotten", name, s.Src)
		}
	}
}

func TestMap_CloneIsIndependent(t *testing.T) {
	t.Parallel()
	grow := func(m *Map, by, n int64) {
		src, dst := m.End()
		for i := range n {
			if err := m.Append(model.Span{Src: src + i*9 + by, Dst: dst + i*9, N: 2}); err != nil {
				t.Fatal(err)
			}
		}
	}
	// Clones and originals are changed in turn; what one of them held must stay in it.
	for size := range 300 {
		m := holes(t, size)
		a, want := m.Clone(), spansOf(m)
		grow(a, 1, 6)
		b, wantA := a.Clone(), spansOf(a)
		grow(m, 2, 200)
		stop, _ := a.End()
		a.cut(stop-25, 1<<40)
		grow(a, 3, 4)
		if !slices.Equal(spansOf(b), wantA) {
			t.Fatalf("%d spans: a clone changed with its original", size)
		}
		if got := spansOf(m)[:len(want)]; len(want) > 0 && !slices.Equal(got[:len(want)-1], want[:len(want)-1]) {
			t.Fatalf("%d spans: the original changed with its clone", size)
		}
		c, wantM := m.Clone(), spansOf(m)
		grow(c, 4, 3)
		grow(m, 5, 3)
		if !slices.Equal(spansOf(c)[:len(wantM)], wantM) || !slices.Equal(spansOf(m)[:len(wantM)], wantM) || spansOf(c)[len(wantM)] == spansOf(m)[len(wantM)] {
			t.Fatalf("%d spans: clone and original write into the same memory", size)
		}
	}
}

// holes returns a map with n holes on the source, one before each span of up to 3 records.
func holes(t testing.TB, n int) *Map {
	t.Helper()
	m := NewMap(0, 0)
	src, dst := int64(0), int64(0)
	for i := range n {
		s := model.Span{Src: src + 1 + int64(i%3), Dst: dst, N: 1 + int64(i%200)}
		if err := m.Append(s); err != nil {
			t.Fatal(err)
		}
		src, dst = end(s)
	}
	return m
}

func TestMap_MillionHolesInAFewMegabytes(t *testing.T) {
	t.Parallel()
	m := holes(t, 1_000_000)
	if b := m.Bytes(); b > 5<<20 {
		t.Errorf("a million holes take %d bytes", b)
	}
	if n := len(m.Encode(nil)); n > 5<<20 {
		t.Errorf("a million holes encode to %d bytes", n)
	}
}

func BenchmarkMap_Translate(b *testing.B) {
	m := holes(b, 1_000_000)
	stop, _ := m.End()
	for i := 0; b.Loop(); i++ {
		m.Translate(int64(i) * 7_919 % stop)
	}
}

func BenchmarkMap_Clone(b *testing.B) {
	m := holes(b, 1_000_000)
	for b.Loop() {
		m.Clone()
	}
}

// drawMap draws spans and the map of them. Neighbours may touch, on both sides or on one.
func drawMap(t *rapid.T) *Map {
	step := rapid.Custom(func(t *rapid.T) model.Span {
		small := rapid.SampledFrom([]int64{0, 0, 1, 3, 1 << 33})
		return model.Span{Src: small.Draw(t, "hole"), Dst: small.Draw(t, "foreign"), N: rapid.Int64Range(0, 5).Draw(t, "n")}
	})
	m := NewMap(rapid.Int64Range(0, 9).Draw(t, "src0"), rapid.Int64Range(0, 9).Draw(t, "dst0"))
	src, dst := m.End()
	for _, s := range rapid.SliceOfN(step, 0, 400).Draw(t, "spans") {
		s.Src, s.Dst = s.Src+src, s.Dst+dst
		if err := m.Append(s); err != nil {
			t.Fatal(err)
		}
		src, dst = end(s)
	}
	if err := m.SetEnd(src+rapid.Int64Range(0, 3).Draw(t, "read on"), dst+rapid.Int64Range(0, 2).Draw(t, "marker")); err != nil {
		t.Fatal(err)
	}
	return m
}

// places are offsets where answers change, and their neighbours.
func places(m *Map, side func(model.Span) int64) []int64 {
	out := []int64{0}
	for s := range m.Spans() {
		for d := int64(-1); d <= 1; d++ {
			out = append(out, side(s)+d, side(s)+s.N+d)
		}
	}
	src, dst := m.End()
	at := side(model.Span{Src: src, Dst: dst})
	out = append(out, at-1, at, at+1)
	return slices.DeleteFunc(out, func(x int64) bool { return x < 0 })
}

func TestMap_MonotoneBothWays(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := drawMap(t)
		for side, f := range map[string]func(int64) Translation{"Translate": m.Translate, "Invert": m.Invert} {
			at := places(m, map[string]func(model.Span) int64{"Translate": bySrc, "Invert": byDst}[side])
			slices.Sort(at)
			last := int64(0)
			for _, x := range at {
				if got := f(x).Offset; got < last {
					t.Fatalf("%s(%d) = %d after %d", side, x, got, last)
				} else {
					last = got
				}
			}
		}
	})
}

func TestMap_InvertUndoesTranslateForEveryRecord(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := drawMap(t)
		for s := range m.Spans() {
			for i := range s.N {
				if got := m.Translate(s.Src + i); got != (Translation{Offset: s.Dst + i}) {
					t.Fatalf("Translate(%d) = %+v, want %d", s.Src+i, got, s.Dst+i)
				}
				if got := m.Invert(s.Dst + i); got != (Translation{Offset: s.Src + i}) {
					t.Fatalf("Invert(%d) = %+v, want %d", s.Dst+i, got, s.Src+i)
				}
			}
		}
	})
}

func TestMap_EncodeDecodeGivesTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := drawMap(t)
		if rapid.Bool().Draw(t, "trimmed") {
			m.DropBefore(rapid.Int64Range(0, 50).Draw(t, "log start"))
		}
		got, err := DecodeMap(m.Encode(nil))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(spansOf(m), spansOf(got)); diff != "" {
			t.Fatal(diff)
		}
		for _, x := range places(m, bySrc) {
			if a, b := m.Translate(x), got.Translate(x); a != b {
				t.Fatalf("Translate(%d) = %+v, after decoding %+v", x, a, b)
			}
		}
	})
}

func TestMap_CutRecordsIsTheEndOfTheMap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := drawMap(t)
		type pair struct{ src, dst int64 }
		list := func(spans []model.Span) (out []pair) {
			for _, s := range spans {
				for i := range s.N {
					out = append(out, pair{s.Src + i, s.Dst + i})
				}
			}
			return out
		}
		all := list(spansOf(m))
		n := rapid.IntRange(0, len(all)).Draw(t, "n")
		cut := list(m.cutRecords(int64(n)))
		if !slices.Equal(cut, all[len(all)-n:]) || !slices.Equal(list(spansOf(m)), all[:len(all)-n]) {
			t.Fatalf("cut %v of %v", cut, all)
		}
	})
}

func FuzzDecodeMap(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{2})
	f.Add(NewMap(3, 4).Encode(nil))
	f.Add(mapOf(f, model.Span{Src: 10, Dst: 0, N: 5}, model.Span{Src: 20, Dst: 8, N: 5}).Encode(nil))
	f.Add(holes(f, 300).Encode(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := DecodeMap(b)
		if err != nil {
			return
		}
		again, err := DecodeMap(m.Encode(nil))
		if err != nil {
			t.Fatalf("its own encoding: %v", err)
		}
		if !slices.Equal(spansOf(m), spansOf(again)) {
			t.Fatal("decoding and encoding gives another map")
		}
		m.Translate(12)
		m.Invert(12)
	})
}
