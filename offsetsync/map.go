package offsetsync

import (
	"fmt"
	"iter"
	"slices"
	"sort"

	"lockstep/internal/model"
)

// position is a place on both sides.
type position struct{ Src, Dst int64 }

// Map is an offset map: spans in ascending order on both sides. A span of no records is a mark that an opening begins
// there. The zero Map is empty; it starts where the first span does. A Map is not safe for use while it is changed;
// Clone costs next to nothing.
//
// A span takes three to six bytes, and a look-up decodes at most blockLen of them.
type Map struct {
	begun  bool
	start  position     // the first offsets that the map answers for
	stop   position     // the cursor
	blocks []block      // full blocks, shared between clones
	tail   []model.Span // behind the blocks, fewer than blockLen, shared between clones
	last   model.Span   // the newest span, which still grows; only if some
	some   bool         // last is set
}

// NewMap returns an empty map that starts at the given offsets: what is below is answered as before_start.
func NewMap(src, dst int64) *Map {
	p := position{src, dst}
	return &Map{begun: true, start: p, stop: p}
}

// Clone returns a copy that may be changed without a trace in m, and the other way round.
func (m *Map) Clone() *Map {
	c := *m
	// Cut to their lengths: the first append to the copy moves it to memory of its own.
	c.blocks, c.tail = slices.Clip(c.blocks), slices.Clip(c.tail)
	return &c
}

// Start returns the first source and target offset that the map answers for.
func (m *Map) Start() (src, dst int64) { return m.start.Src, m.start.Dst }

// End returns the cursor: the next source and target offset.
func (m *Map) End() (src, dst int64) { return m.stop.Src, m.stop.Dst }

// Append adds a span behind all others and moves the map's end behind it. A span of no records marks that an opening
// begins there. It refuses a span that begins before the end of the one before, on either side.
func (m *Map) Append(s model.Span) error {
	if !m.begun {
		m.begun, m.start, m.stop = true, position{s.Src, s.Dst}, position{s.Src, s.Dst}
	}
	low := m.start
	if m.some {
		low.Src, low.Dst = end(m.last)
	}
	if s.N < 0 || s.Src < low.Src || s.Dst < low.Dst {
		return fmt.Errorf("extend offset map: span of %d records at %d → %d does not follow %d → %d", s.N, s.Src, s.Dst, low.Src, low.Dst)
	}
	if m.some && s.Src == low.Src && s.Dst == low.Dst {
		m.last.N += s.N
	} else {
		m.push(s)
	}
	m.stop.Src, m.stop.Dst = end(s)
	return nil
}

func (m *Map) push(s model.Span) {
	if m.some {
		m.tail = append(m.tail, m.last)
	}
	m.last, m.some = s, true
	if len(m.tail) == blockLen {
		m.blocks = append(m.blocks, encodeBlock(m.tail, m.inBlocks()))
		m.tail = nil // never reused: clones still read it
	}
}

// SetEnd moves the map's end to the cursor, which may be behind the last span: offsets without a record to copy, or a
// marker, may lie in between. It refuses an end before the last span's.
func (m *Map) SetEnd(src, dst int64) error {
	low := m.start
	if m.some {
		low.Src, low.Dst = end(m.last)
	}
	if src < low.Src || dst < low.Dst {
		return fmt.Errorf("end offset map at %d → %d: its last span ends at %d → %d", src, dst, low.Src, low.Dst)
	}
	m.begun, m.stop = true, position{src, dst}
	return nil
}

// DropBefore forgets what stands below a target offset, the target's log start. The records that it forgets are
// before_start from then on; source offsets behind them, of which nothing was copied, are not.
func (m *Map) DropBefore(dst int64) {
	if dst <= m.start.Dst {
		return
	}
	if dst >= m.stop.Dst {
		stop := m.stop
		*m = Map{begun: true, start: position{m.behind(stop.Src), stop.Dst}, stop: stop}
		return
	}
	at, next := m.find(dst-1, byDst)
	if d := dst - at.Dst; d < at.N {
		m.start = position{at.Src + d, dst}
	} else {
		m.start = position{m.behind(next.Src), next.Dst}
	}
	keep := sort.Search(len(m.blocks), func(i int) bool { return m.blocks[i].src > m.start.Src })
	m.blocks = slices.Clone(m.blocks[max(keep-1, 0):]) // a copy, so that the dropped ones are freed
}

// behind is the source offset behind the last copied record before src, the map's start if there is none.
func (m *Map) behind(src int64) int64 {
	if s, ok := m.Newest(src - 1); ok {
		return s.Src + 1
	}
	return m.start.Src
}

// startAt lets the map answer from a source offset on that is below its start, if one is given: nothing was copied in between.
func (m *Map) startAt(src *int64) {
	if src != nil {
		m.start.Src = min(m.start.Src, *src)
	}
}

// cut forgets everything at and behind a source offset, and everything at and behind a target offset.
func (m *Map) cut(src, dst int64) {
	for m.some {
		keep := min(src-m.last.Src, dst-m.last.Dst)
		if keep > 0 {
			m.last.N = min(m.last.N, keep)
			break
		}
		m.pop()
	}
	m.endAtLast()
}

// cutRecords forgets the last n records and returns where they stood, in order. Marks behind them go too.
func (m *Map) cutRecords(n int64) (cut []model.Span) {
	for n > 0 && m.some {
		if m.last.N > n {
			m.last.N -= n
			cut = append(cut, model.Span{Src: m.last.Src + m.last.N, Dst: m.last.Dst + m.last.N, N: n})
			break
		}
		if m.last.N > 0 {
			cut = append(cut, m.last)
		}
		n -= m.last.N
		m.pop()
	}
	m.endAtLast()
	slices.Reverse(cut)
	return cut
}

// pop takes the last span away. What clones share is left as it is.
func (m *Map) pop() {
	if len(m.tail) == 0 && len(m.blocks) > 0 {
		n := len(m.blocks) - 1
		m.tail = m.blocks[n].spans(make([]model.Span, 0, blockLen))
		m.blocks = slices.Clip(m.blocks[:n])
	}
	if len(m.tail) == 0 {
		m.last, m.some = model.Span{}, false
		return
	}
	n := len(m.tail) - 1
	m.last = m.tail[n]
	m.tail = slices.Clip(m.tail[:n])
}

func (m *Map) endAtLast() {
	m.stop = m.start
	if m.some {
		src, dst := end(m.last)
		m.stop = position{max(src, m.start.Src), max(dst, m.start.Dst)}
	}
}

// find returns the last span that begins at or before x on one side, and what follows it: the next span, or the end as a
// span of no records.
func (m *Map) find(x int64, side func(model.Span) int64) (at, next model.Span) {
	next = model.Span{Src: m.stop.Src, Dst: m.stop.Dst}
	if !m.some {
		return none(x), next
	}
	if side(m.last) <= x {
		return m.last, next
	}
	next = m.last
	if len(m.tail) > 0 && side(m.tail[0]) <= x {
		return pick(m.tail, x, side, next)
	}
	if len(m.tail) > 0 {
		next = m.tail[0]
	}
	i := sort.Search(len(m.blocks), func(i int) bool { return side(model.Span{Src: m.blocks[i].src, Dst: m.blocks[i].dst}) > x })
	if i < len(m.blocks) {
		next = m.blocks[i].first()
	}
	if i == 0 {
		return none(x), next
	}
	var buf [blockLen]model.Span
	return pick(m.blocks[i-1].spans(buf[:0]), x, side, next)
}

// none stands for "no span begins at or before x": it contains nothing.
func none(x int64) model.Span { return model.Span{Src: x, Dst: x, N: -1} }

// pick does find's work in spans of which the first begins at or before x; next follows them.
func pick(spans []model.Span, x int64, side func(model.Span) int64, next model.Span) (at, n model.Span) {
	i := sort.Search(len(spans), func(i int) bool { return side(spans[i]) > x })
	if i < len(spans) {
		next = spans[i]
	}
	return spans[i-1], next
}

// Spans returns the spans from the map's start on, in order, marks without records included.
func (m *Map) Spans() iter.Seq[model.Span] {
	return func(yield func(model.Span) bool) {
		each := func(s model.Span) bool {
			if d := m.start.Src - s.Src; d > 0 {
				s = model.Span{Src: s.Src + d, Dst: s.Dst + d, N: s.N - d}
				if s.N <= 0 {
					return true
				}
			}
			return s.Dst < m.start.Dst || yield(s)
		}
		var buf [blockLen]model.Span
		for _, b := range m.blocks {
			for _, s := range b.spans(buf[:0]) {
				if !each(s) {
					return
				}
			}
		}
		for _, s := range m.tail {
			if !each(s) {
				return
			}
		}
		if m.some {
			each(m.last)
		}
	}
}

// Len returns the number of spans, marks where openings begin included.
func (m *Map) Len() int {
	n := len(m.blocks)*blockLen + len(m.tail)
	if m.some {
		n++
	}
	return n
}

// Bytes returns about how much memory the map takes.
func (m *Map) Bytes() int {
	n := 128 + 24*cap(m.tail) + 56*cap(m.blocks)
	for _, b := range m.blocks {
		n += len(b.data)
	}
	return n
}
