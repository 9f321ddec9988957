package offsetsync

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"lockstep/internal/model"
)

// mapVersion is the first byte of an encoded map.
const mapVersion = 1

// ErrMalformed is wrapped by the errors for bytes that this package cannot have written.
var ErrMalformed = errors.New("malformed bytes")

// Encode appends the map to out, in a form that DecodeMap reads: a version byte, start, end, number of spans, and each
// span as three small numbers.
func (m *Map) Encode(out []byte) []byte {
	out = append(out, mapVersion)
	out = binary.AppendUvarint(out, uint64(m.start.Src))
	out = binary.AppendUvarint(out, uint64(m.start.Dst))
	out = binary.AppendUvarint(out, uint64(m.stop.Src-m.start.Src))
	out = binary.AppendUvarint(out, uint64(m.stop.Dst-m.start.Dst))
	n := 0
	for range m.Spans() {
		n++
	}
	out = binary.AppendUvarint(out, uint64(n))
	src, dst := m.start.Src, m.start.Dst
	for s := range m.Spans() {
		out = appendSpans(out, src, dst, []model.Span{s})
		src, dst = end(s)
	}
	return out
}

// DecodeMap reads what Encode has written. Errors wrap [ErrMalformed], or are a [*NewerFormatError].
func DecodeMap(b []byte) (*Map, error) {
	r := reader{b: b}
	if v := r.byte(); r.err == nil && v != mapVersion {
		return nil, &NewerFormatError{Key: "offset map", Version: int(v), Known: mapVersion}
	}
	m := NewMap(r.number(0), 0)
	m.start.Dst = r.number(0)
	stop := position{r.number(m.start.Src), r.number(m.start.Dst)}
	n := r.number(0)
	src, dst := m.start.Src, m.start.Dst
	for ; n > 0 && r.err == nil; n-- {
		s := model.Span{Src: r.number(src), Dst: r.number(dst)}
		s.N = r.number(max(s.Src, s.Dst)) - max(s.Src, s.Dst)
		if r.err == nil {
			r.err = m.Append(s)
		}
		src, dst = end(s)
	}
	if r.err == nil && len(r.b) > 0 {
		r.err = fmt.Errorf("%d bytes follow the end", len(r.b))
	}
	if r.err == nil {
		r.err = m.SetEnd(stop.Src, stop.Dst)
	}
	if r.err != nil {
		return nil, fmt.Errorf("decode offset map: %w: %w", ErrMalformed, r.err)
	}
	return m, nil
}

// reader takes numbers off the front of bytes that anybody may have written. After the first error it returns zeros.
type reader struct {
	b   []byte
	err error
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.fail("it is cut")
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

// number returns base plus the next varint, refusing sums that are no offset.
func (r *reader) number(base int64) int64 {
	if r.err != nil {
		return 0
	}
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail("it is cut")
		return 0
	}
	if v > uint64(math.MaxInt64-base) {
		r.fail("a number is too large")
		return 0
	}
	r.b = r.b[n:]
	return base + int64(v)
}

func (r *reader) fail(why string) {
	if r.err == nil {
		r.err = errors.New(why)
	}
}
