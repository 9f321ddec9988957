package offsetsync

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"sort"
)

// line is an opening's plan or landing as far as it has been read: a function from record number to offset. Entries that
// have been joined into the map are forgotten.
type line struct {
	// pts are the entries from the one that covers the record before the join on, in order. The first may be the
	// opening's implied entry. Only appended to, so that pictures may share it.
	pts    []point
	total  int64 // stored entries so far, forgotten ones included
	closed bool  // no more entries count
	seg    int   // the segment that is being read
	r      segmentReader
	// waiting are segments that begin behind what has been read: compaction kept only a later version of the one
	// between, or removed what concerns offsets below the target's log start.
	waiting map[int][]byte
	firsts  []firstEntry // of the segments that have been read and are still stored
}

// firstEntry is where a segment begins: its number, the index of its first entry, and that entry.
type firstEntry struct {
	seg   int
	index int64
	point
}

func newLine(origin point) line { return line{pts: []point{origin}} }

// apply takes a version of a segment. It fails for bytes that cannot be, and leaves the line as it was then.
func (l *line) apply(seg int, value []byte) error {
	if l.closed {
		return nil
	}
	if seg == l.seg && l.r.pos > 0 {
		if err := l.more(value); err != nil {
			return err
		}
		return l.catchUp()
	}
	first, err := segmentFirst(value)
	if err != nil {
		return err
	}
	if first > l.total {
		if l.waiting == nil {
			l.waiting = map[int][]byte{}
		}
		l.waiting[seg] = bytes.Clone(value)
		return nil
	}
	if err := l.whole(seg, value); err != nil {
		return err
	}
	return l.catchUp()
}

// catchUp reads the waiting segments that follow what has been read.
func (l *line) catchUp() error {
	for {
		seg, ok := l.follows()
		if !ok {
			return nil
		}
		value := l.waiting[seg]
		delete(l.waiting, seg)
		if err := l.whole(seg, value); err != nil {
			return err
		}
	}
}

// follows finds a waiting segment that begins at or before the end of what has been read.
func (l *line) follows() (seg int, ok bool) {
	for s, value := range l.waiting {
		if first, err := segmentFirst(value); err == nil && first <= l.total && (!ok || s < seg) {
			seg, ok = s, true
		}
	}
	return seg, ok
}

// more reads a longer version of the segment that is being read.
func (l *line) more(value []byte) error {
	pts, err := l.r.more(value)
	if err != nil {
		return fmt.Errorf("segment %d: %w", l.seg, err)
	}
	return l.add(l.seg, pts)
}

// whole reads a segment that begins at or before the end of what has been read. It may hold again what was read from
// others: they were joined into it, and compaction removed some of them before they were read.
func (l *line) whole(seg int, value []byte) error {
	var r segmentReader
	pts, err := r.more(value)
	if err != nil {
		return fmt.Errorf("segment %d: %w", seg, err)
	}
	known := l.total - r.first
	if known >= int64(len(pts)) {
		return nil
	}
	l.seg, l.r = seg, r
	return l.add(seg, pts[known:])
}

// add appends a segment's entries.
func (l *line) add(seg int, pts []point) error {
	if len(pts) > 0 && !l.stored(seg) {
		l.firsts = append(l.firsts, firstEntry{seg, l.total, pts[0]})
	}
	for _, p := range pts {
		if n := len(l.pts); n > 0 && (p.Count < l.pts[n-1].Count || p.jumpFrom(l.pts[n-1]) < 0) {
			return fmt.Errorf("segment %d: %w: entry %d → %d goes back behind %d → %d", seg, ErrMalformed, p.Count, p.Off, l.pts[n-1].Count, l.pts[n-1].Off)
		}
		l.pts = append(l.pts, p)
	}
	l.total += int64(len(pts))
	return nil
}

// stored reports whether a segment is among those that have been read and are still stored. It mostly is the last.
func (l *line) stored(seg int) bool {
	for i := len(l.firsts) - 1; i >= 0; i-- {
		if l.firsts[i].seg == seg {
			return true
		}
	}
	return false
}

// trimmed says that the entries below index first are no longer stored, since what they tell has left the target.
func (l *line) trimmed(first int64) error {
	if l.closed || l.total >= first {
		return nil
	}
	l.pts, l.total, l.r, l.firsts = nil, first, segmentReader{}, nil
	return l.catchUp()
}

// close keeps the first n stored entries; all later ones are void.
func (l *line) close(n int64) {
	if drop := l.total - n; drop > 0 {
		l.pts = slices.Clip(l.pts[:max(0, int64(len(l.pts))-drop)])
		l.total = n
	}
	l.closed, l.waiting = true, nil
}

// at returns the offset of record number c and the number of the first record behind it for which another entry counts.
// It reports false below the first entry.
func (l *line) at(c int64) (off, until int64, ok bool) {
	i := sort.Search(len(l.pts), func(i int) bool { return l.pts[i].Count > c })
	if i == 0 {
		return 0, 0, false
	}
	until = math.MaxInt64
	if i < len(l.pts) {
		until = l.pts[i].Count
	}
	p := l.pts[i-1]
	return p.Off + (c - p.Count), until, true
}

// from returns the first record number that the line knows.
func (l *line) from() (int64, bool) {
	if len(l.pts) == 0 {
		return 0, false
	}
	return l.pts[0].Count, true
}

// pass forgets entries that no record from c-1 on needs.
func (l *line) pass(c int64) {
	i := sort.Search(len(l.pts), func(i int) bool { return l.pts[i].Count > c-1 })
	if i > 1 {
		l.pts = l.pts[i-1:]
	}
}

// replaceFrom puts other entries in the place of all from record number c on.
func (l *line) replaceFrom(c int64, pts []point) {
	i := sort.Search(len(l.pts), func(i int) bool { return l.pts[i].Count >= c })
	l.pts = append(slices.Clip(l.pts[:i]), pts...)
}
