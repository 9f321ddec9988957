package offsetsync

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

const (
	segmentVersion = 1
	// pieceBytes is when a segment that is being filled is full. It is written again with each entry, under the same key,
	// so what an entry costs grows with it.
	pieceBytes = 128
	// segmentBytes is when segments that are full are joined into one: it takes the place of the first, and the others get
	// tombstones. What is read at a failover so stays near three bytes an entry.
	segmentBytes = 8 << 10
)

// point is one entry of a plan or a landing: from record number Count on, records come from, or stand at, Off, Off+1, ….
type point struct{ Count, Off int64 }

// jumpFrom returns how far p lies beyond where the line through last would have come.
func (p point) jumpFrom(last point) int64 { return p.Off - last.Off - (p.Count - last.Count) }

// A segment is a version byte, the index of its first entry in the opening's list, and its entries: the first one as it
// is, the others as the number of records since the one before and the offsets that were jumped over. A longer version of
// a segment begins with the shorter one's bytes.

func appendSegmentHead(out []byte, first int64) []byte {
	return binary.AppendUvarint(append(out, segmentVersion), uint64(first))
}

// appendPoint appends an entry; last is the segment's entry before, nil for its first.
func appendPoint(out []byte, last *point, p point) []byte {
	if last == nil {
		return binary.AppendUvarint(binary.AppendUvarint(out, uint64(p.Count)), uint64(p.Off))
	}
	return binary.AppendUvarint(binary.AppendUvarint(out, uint64(p.Count-last.Count)), uint64(p.jumpFrom(*last)))
}

// segmentReader decodes a segment that grows: each call of more gets a longer version and returns what is new.
type segmentReader struct {
	first int64 // index of the first entry
	n     int64 // entries so far
	last  point
	pos   int    // bytes so far
	sum   uint32 // of these bytes
}

// more returns the entries behind those of the calls before.
func (s *segmentReader) more(value []byte) ([]point, error) {
	if len(value) < s.pos || crc32.Checksum(value[:s.pos], castagnoli()) != s.sum {
		return nil, fmt.Errorf("read segment: %w: it was rewritten with other entries", ErrMalformed)
	}
	next := *s
	r := reader{b: value[s.pos:]}
	if s.pos == 0 {
		next.first = segmentHead(&r)
	}
	var out []point
	for len(r.b) > 0 && r.err == nil {
		p := nextPoint(&r, next.n > 0, next.last)
		if p.Count > topOffset || p.Off > topOffset {
			r.fail("a number is too large")
		}
		if r.err == nil {
			next.last, next.n = p, next.n+1
			out = append(out, p)
		}
	}
	if r.err != nil {
		return nil, segmentError(r.err)
	}
	next.pos, next.sum = len(value), crc32.Checksum(value, castagnoli())
	*s = next
	return out, nil
}

func nextPoint(r *reader, delta bool, last point) point {
	if !delta {
		return point{r.number(0), r.number(0)}
	}
	c := r.number(last.Count)
	return point{c, r.number(r.add(last.Off, c-last.Count))}
}

// add returns a sum of two offsets, or fails.
func (r *reader) add(a, b int64) int64 {
	if a > 0 && b > 0 && a+b < 0 {
		r.fail("a number is too large")
		return 0
	}
	return a + b
}

// segmentFirst returns the index of a segment's first entry.
func segmentFirst(value []byte) (int64, error) {
	r := reader{b: value}
	first := segmentHead(&r)
	if r.err != nil {
		return 0, segmentError(r.err)
	}
	return first, nil
}

func segmentHead(r *reader) int64 {
	if v := r.byte(); r.err == nil && v != segmentVersion {
		r.err = &NewerFormatError{Version: int(v), Known: segmentVersion}
	}
	return r.number(0)
}

func segmentError(err error) error {
	if newer, ok := errors.AsType[*NewerFormatError](err); ok {
		return newer
	}
	return fmt.Errorf("read segment: %w: %w", ErrMalformed, err)
}

// encodePoints encodes a whole list, as one segment.
func encodePoints(pts []point) []byte {
	out := appendSegmentHead(nil, 0)
	for i, p := range pts {
		if i == 0 {
			out = appendPoint(out, nil, p)
		} else {
			out = appendPoint(out, &pts[i-1], p)
		}
	}
	return out
}

// decodePoints reads what encodePoints has written.
func decodePoints(b []byte) ([]point, error) {
	var r segmentReader
	return r.more(b)
}

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }
