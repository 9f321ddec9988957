package offsetsync

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func drawPoints(t *rapid.T) []point {
	var out []point
	last := point{}
	for range rapid.IntRange(0, 50).Draw(t, "n") {
		d := rapid.Int64Range(0, 300).Draw(t, "records")
		p := point{last.Count + d, last.Off + d + rapid.Int64Range(1, 1000).Draw(t, "jump")}
		out, last = append(out, p), p
	}
	return out
}

func TestSegment_GrowsWithoutReadingAgain(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pts := drawPoints(t)
		w, r := newTail(point{}, segmentSize{1 << 20, 1 << 20}), segmentReader{}
		var got []point
		for i := 0; i < len(pts); {
			n := rapid.IntRange(1, len(pts)-i).Draw(t, "more")
			if err := w.add(pts[i : i+n]); err != nil {
				t.Fatal(err)
			}
			i += n
			fresh, err := r.more(w.unsaved()[0].value)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fresh...)
		}
		if !slices.Equal(pts, got) {
			t.Fatalf("got %v, want %v", got, pts)
		}
	})
}

func TestSegment_RewrittenWithOtherEntriesIsRefused(t *testing.T) {
	t.Parallel()
	var r segmentReader
	if _, err := r.more(encodePoints([]point{{1, 10}, {2, 30}})); err != nil {
		t.Fatal(err)
	}
	for _, b := range [][]byte{encodePoints([]point{{1, 10}}), encodePoints([]point{{1, 10}, {3, 31}, {4, 50}})} {
		if _, err := r.more(b); !errors.Is(err, ErrMalformed) {
			t.Errorf("got %v, want ErrMalformed", err)
		}
	}
}

func TestSegment_NewerVersionIsRefused(t *testing.T) {
	t.Parallel()
	_, err := decodePoints([]byte{9, 0, 1, 1})
	if newer := (*NewerFormatError)(nil); !errors.As(err, &newer) || newer.Version != 9 {
		t.Errorf("got %v", err)
	}
}

func TestTail_RollsWhenFull(t *testing.T) {
	t.Parallel()
	w := newTail(point{}, segmentSize{segmentBytes, segmentBytes})
	var pts []point
	for i := range int64(10_000) {
		pts = append(pts, point{i * 100, i * 102})
	}
	pts = pts[1:]
	if err := w.add(pts); err != nil {
		t.Fatal(err)
	}
	segs := w.unsaved()
	if len(segs) < 3 {
		t.Fatalf("%d segments", len(segs))
	}
	l := newLine(point{})
	for i, s := range segs {
		if s.n != i || len(s.value) > segmentBytes || i < len(segs)-1 && len(s.value) < segmentBytes-40 {
			t.Errorf("segment %d has number %d and %d bytes", i, s.n, len(s.value))
		}
		if err := l.apply(s.n, s.value); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(l.pts[1:], pts) {
		t.Error("the line read back is another one")
	}
	w.stored()
	if err := w.add([]point{{2_000_000, 9_000_000}}); err != nil {
		t.Fatal(err)
	}
	if again := w.unsaved(); len(again) != 1 || again[0].n != len(segs)-1 {
		t.Errorf("an entry more rewrites %d segments", len(again))
	}
}

func TestTail_AddRefusesContradictions(t *testing.T) {
	t.Parallel()
	w := newTail(point{10, 100}, segmentSize{segmentBytes, segmentBytes})
	if err := w.add([]point{{12, 110}, {14, 112}, {15, 120}}); err != nil { // {14, 112} continues the line
		t.Fatal(err)
	}
	if w.total != 2 {
		t.Errorf("%d entries, want 2", w.total)
	}
	for _, p := range []point{{12, 111}, {14, 130}, {16, 120}} {
		if err := w.add([]point{p}); !errors.Is(err, ErrPlanOrder) {
			t.Errorf("add(%v): %v, want ErrPlanOrder", p, err)
		}
	}
}

func TestTail_FailedEntriesMayBeGivenAgain(t *testing.T) {
	t.Parallel()
	w := newTail(point{}, segmentSize{segmentBytes, segmentBytes})
	first := []point{{1, 10}, {2, 20}}
	if err := w.add(first); err != nil {
		t.Fatal(err)
	}
	w.unsure()
	if err := w.add([]point{{2, 21}}); !errors.Is(err, ErrPlanOrder) {
		t.Fatalf("another entry for the same record: %v", err)
	}
	if err := w.add(append(first, point{5, 50})); err != nil {
		t.Fatal(err)
	}
	got, err := decodePoints(w.unsaved()[0].value)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]point{{1, 10}, {2, 20}, {5, 50}}, got, cmp.AllowUnexported(point{})); diff != "" {
		t.Error(diff)
	}
}

func TestTail_EntriesOfTheCallBeforeMayBeGivenAgain(t *testing.T) {
	t.Parallel()
	// The caller hears of a failure that concerns another lane, so it gives all again, with more each time.
	w := newTail(point{}, segmentSize{segmentBytes, segmentBytes})
	var all []point
	for n := int64(1); n < 6; n++ {
		all = append(all, point{2 * n, 10 * n})
		if err := w.add(all); err != nil {
			t.Fatal(err)
		}
		w.stored()
		if w.total != n {
			t.Fatalf("%d entries, want %d", w.total, n)
		}
	}
	// Then it has heard of the success.
	if err := w.add([]point{{20, 100}}); err != nil {
		t.Fatal(err)
	}
	w.stored()
	if err := w.add(all); !errors.Is(err, ErrPlanOrder) {
		t.Errorf("entries of long ago: %v", err)
	}
}

func TestLine_WaitsForTheSegmentBetween(t *testing.T) {
	t.Parallel()
	w := newTail(point{}, segmentSize{1, 1})
	if err := w.add([]point{{1, 10}, {2, 20}, {3, 30}}); err != nil {
		t.Fatal(err)
	}
	segs := w.unsaved()
	l := newLine(point{})
	for _, i := range []int{0, 2} {
		if err := l.apply(i, segs[i].value); err != nil {
			t.Fatal(err)
		}
	}
	if l.total != 1 {
		t.Fatalf("%d entries count, want 1", l.total)
	}
	if err := l.apply(1, segs[1].value); err != nil {
		t.Fatal(err)
	}
	if l.total != 3 {
		t.Errorf("%d entries count, want 3", l.total)
	}
}

func FuzzSegment(f *testing.F) {
	f.Add([]byte{}, 0)
	f.Add(encodePoints([]point{{0, 5}, {3, 9}, {100, 1 << 40}}), 4)
	f.Add([]byte{1, 0, 255, 255, 255, 255, 255, 255, 255, 255, 127, 1, 1, 1}, 2)
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		pts, err := decodePoints(b)
		if err != nil {
			return
		}
		for i := 1; i < len(pts); i++ {
			if pts[i].Count < pts[i-1].Count || pts[i].jumpFrom(pts[i-1]) < 0 {
				t.Fatalf("entries go back: %v", pts)
			}
		}
		l := newLine(point{})
		_ = l.apply(cut&7, b)
		_ = l.apply(0, b)
	})
}
