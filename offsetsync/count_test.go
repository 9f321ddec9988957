package offsetsync

import (
	"testing"

	"pgregory.net/rapid"

	"lockstep/internal/model"
)

func TestMap_Records(t *testing.T) {
	t.Parallel()
	m := mapOf(t, model.Span{Src: 10, Dst: 0, N: 5}, model.Span{Src: 15, Dst: 7, N: 0}, model.Span{Src: 21, Dst: 8, N: 3})
	for _, c := range []struct{ from, to, want int64 }{
		{0, 11, 8}, {-9, 99, 8}, {0, 0, 0}, {4, 5, 1}, {5, 8, 0}, {4, 9, 2}, {9, 4, 0}, {11, 20, 0},
	} {
		if got := m.Records(c.from, c.to); got != c.want {
			t.Errorf("%d records in [%d, %d), want %d", got, c.from, c.to, c.want)
		}
	}
	if got := (&Map{}).Records(0, 9); got != 0 {
		t.Errorf("%d records in an empty map", got)
	}
}

// Blocks that DropBefore took away count for nothing, also where it cuts exactly between two of them.
func TestMap_RecordsBehindTheLogStart(t *testing.T) {
	t.Parallel()
	whole := holes(t, 3*blockLen)
	_, stop := whole.End()
	for s := range whole.Spans() {
		m := whole.Clone()
		m.DropBefore(s.Dst)
		if got, want := m.Records(0, stop), naiveRecords(m, 0, stop); got != want {
			t.Fatalf("%d records behind %d, want %d", got, s.Dst, want)
		}
	}
}

// Whatever happened to a map, it counts as one does who looks at every span.
func TestMap_RecordsEqualsANaiveCount(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := drawMap(t)
		for range rapid.IntRange(0, 4).Draw(t, "changes") {
			change(t, m)
		}
		_, stop := m.End()
		at := append(places(m, byDst), stop+5)
		for range 20 {
			from, to := rapid.SampledFrom(at).Draw(t, "from"), rapid.SampledFrom(at).Draw(t, "to")
			if got, want := m.Records(from, to), naiveRecords(m, from, to); got != want {
				t.Fatalf("%d records in [%d, %d), want %d", got, from, to, want)
			}
		}
	})
}

// change does to a map what a view does: it drops its front, cuts its end, or goes on.
func change(t *rapid.T, m *Map) {
	src, dst := m.End()
	switch rapid.IntRange(0, 3).Draw(t, "change") {
	case 0:
		m.DropBefore(rapid.SampledFrom(places(m, byDst)).Draw(t, "log start"))
	case 1:
		m.cutRecords(rapid.Int64Range(0, 500).Draw(t, "cut"))
	case 2:
		m.cut(rapid.SampledFrom(places(m, bySrc)).Draw(t, "src"), rapid.SampledFrom(places(m, byDst)).Draw(t, "dst"))
	case 3:
		for i := range rapid.Int64Range(0, 300).Draw(t, "more") {
			if err := m.Append(model.Span{Src: src + 1 + 4*i, Dst: dst + 3*i, N: 1 + i%3}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func naiveRecords(m *Map, from, to int64) (n int64) {
	for s := range m.Spans() {
		n += max(0, min(s.Dst+s.N, to)-max(s.Dst, from))
	}
	return n
}

func BenchmarkMap_Records(b *testing.B) {
	m := holes(b, 1_000_000)
	_, stop := m.End()
	for i := 0; b.Loop(); i++ {
		m.Records(int64(i)*7_919%stop, stop)
	}
}
