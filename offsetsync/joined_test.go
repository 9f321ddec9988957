package offsetsync

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// written is a segment's record in the order of the log.
type written struct {
	segment
	at int // place in the log before compaction
}

// compacted keeps the last record of each segment among the first n, and all behind them.
func compacted(log []written, n int) []written {
	last := map[int]int{}
	for i, w := range log[:n] {
		last[w.n] = i
	}
	var out []written
	for i, w := range log {
		if i >= n || last[w.n] == i {
			out = append(out, w)
		}
	}
	return out
}

// A reader is somewhere in the log when compaction removes what it has not read: it must find every entry all the same, in
// the segments that took the place of others.
func TestLine_ReadsJoinedSegmentsWhileTheLogIsCompacted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newTail(point{}, segmentSize{rapid.IntRange(1, 40).Draw(t, "piece"), rapid.IntRange(1, 150).Draw(t, "whole")})
		want := []point{{}}
		var log []written
		for range rapid.IntRange(1, 60).Draw(t, "calls") {
			var pts []point
			for range rapid.IntRange(1, 12).Draw(t, "entries") {
				last := want[len(want)-1]
				n, jump := rapid.Int64Range(1, 300).Draw(t, "records"), rapid.Int64Range(1, 300).Draw(t, "jump")
				p := point{last.Count + n, last.Off + n + jump}
				want, pts = append(want, p), append(pts, p)
			}
			if err := w.add(pts); err != nil {
				t.Fatal(err)
			}
			for _, s := range w.unsaved() {
				log = append(log, written{s, len(log)})
			}
			if rapid.Bool().Draw(t, "answered") {
				w.stored()
			} else {
				w.unsure()
			}
		}
		l := newLine(point{})
		for pos := 0; pos < len(log); { // all reading is from pos on, whatever compaction does meanwhile
			until := rapid.IntRange(pos+1, len(log)).Draw(t, "reads up to")
			for _, r := range compacted(log, rapid.IntRange(0, len(log)).Draw(t, "compacted up to")) {
				if r.at < pos || r.at >= until {
					continue
				}
				if r.value == nil {
					l.forgetIf(true, r.n)
				} else if err := l.apply(r.n, r.value); err != nil {
					t.Fatal(err)
				}
			}
			pos = until
		}
		if !slices.Equal(l.pts, want) {
			t.Fatalf("read %d entries of %d: %v", len(l.pts), len(want), l.pts)
		}
		stored := map[int]bool{}
		for _, r := range log {
			stored[r.n] = r.value != nil
		}
		fresh := newLine(point{}) // whoever reads what is left finds the same, wherever writing ended
		left := rapid.IntRange(0, len(log)).Draw(t, "written")
		for _, r := range compacted(log[:left], left) {
			if err := fresh.apply(r.n, r.value); r.value != nil && err != nil {
				t.Fatal(err)
			}
		}
		before := newLine(point{})
		for _, r := range log[:left] {
			if err := before.apply(r.n, r.value); r.value != nil && err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(fresh.pts, before.pts) {
			t.Fatalf("%d entries are left of %d", len(fresh.pts), len(before.pts))
		}
		for _, f := range l.firsts {
			if !stored[f.seg] {
				t.Fatalf("segment %d is taken for stored", f.seg)
			}
		}
	})
}
