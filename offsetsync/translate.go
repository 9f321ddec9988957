package offsetsync

import (
	"fmt"

	"lockstep/internal/model"
)

// Kind says how an offset was translated.
type Kind int8

// The kinds of a translation.
const (
	// Exact: the very record, or exactly the cursor.
	Exact Kind = iota
	// Hole: no record was copied from this offset; the answer is the start of what comes next.
	Hole
	// BeforeStart: before everything that the map covers; the answer is where it begins.
	BeforeStart
	// Ahead: not copied yet; the answer is the cursor's, of the same picture.
	Ahead
)

// String returns the word that the command line and the HTTP interface use.
func (k Kind) String() string {
	switch k {
	case Exact:
		return "exact"
	case Hole:
		return "hole"
	case BeforeStart:
		return "before_start"
	case Ahead:
		return "ahead"
	}
	return fmt.Sprintf("kind(%d)", int8(k))
}

// MarshalText implements encoding.TextMarshaler.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *Kind) UnmarshalText(b []byte) error {
	for _, c := range []Kind{Exact, Hole, BeforeStart, Ahead} {
		if string(b) == c.String() {
			*k = c
			return nil
		}
	}
	return fmt.Errorf("parse translation kind %q: want exact, hole, before_start or ahead", b)
}

// Translation is the answer for one offset. Off is how many offsets of the asking side lie between the asked one and the
// one that the answer stands for: 0 when exact, forward to what comes next in a hole, forward to the map's start before
// it, and back to the cursor when ahead.
type Translation struct {
	Offset int64
	Kind   Kind
	Off    int64
}

// Translate returns where a group goes on that stands at source offset src: at the very record, or at the first one
// behind it that was copied. It never answers behind a copied record that src has not passed.
func (m *Map) Translate(src int64) Translation {
	switch {
	case src > m.stop.Src:
		return Translation{Offset: m.stop.Dst, Kind: Ahead, Off: src - m.stop.Src}
	case src == m.stop.Src:
		return Translation{Offset: m.stop.Dst}
	case src < m.start.Src:
		return Translation{Offset: m.Translate(m.start.Src).Offset, Kind: BeforeStart, Off: m.start.Src - src}
	}
	at, next := m.find(src, bySrc)
	if d := src - at.Src; d < at.N {
		return Translation{Offset: at.Dst + d}
	}
	next = m.copied(next)
	return Translation{Offset: next.Dst, Kind: Hole, Off: next.Src - src}
}

// copied returns the first span with records from next on, or the cursor. Where only an opening begins nothing can be
// read but what is not of this source: markers, others' records, those of a branch that the source has lost.
func (m *Map) copied(next model.Span) model.Span {
	for next.N == 0 && next.Src < m.stop.Src {
		at, behind := m.find(next.Src, bySrc)
		if at.N > 0 {
			return at
		}
		next = behind
	}
	if next.N == 0 {
		return model.Span{Src: m.stop.Src, Dst: m.stop.Dst}
	}
	return next
}

// Invert returns the source offset to go on at for a position on the target: the other direction of Translate, with the
// same rules. Target offsets of foreign records and of markers are holes.
func (m *Map) Invert(dst int64) Translation {
	switch {
	case dst > m.stop.Dst:
		return Translation{Offset: m.stop.Src, Kind: Ahead, Off: dst - m.stop.Dst}
	case dst == m.stop.Dst:
		return Translation{Offset: m.stop.Src}
	case dst < m.start.Dst:
		return Translation{Offset: m.Invert(m.start.Dst).Offset, Kind: BeforeStart, Off: m.start.Dst - dst}
	}
	at, next := m.find(dst, byDst)
	if d := dst - at.Dst; d < at.N {
		return Translation{Offset: at.Src + d}
	}
	return Translation{Offset: next.Src, Kind: Hole, Off: next.Dst - dst}
}

func bySrc(s model.Span) int64 { return s.Src }
func byDst(s model.Span) int64 { return s.Dst }
