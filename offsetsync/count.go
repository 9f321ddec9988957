package offsetsync

import (
	"sort"

	"lockstep/internal/model"
)

// Records returns how many copied records stand at target offsets [dstFrom, dstTo), of those that the map covers. It
// decodes at most two blocks.
func (m *Map) Records(dstFrom, dstTo int64) int64 {
	dstFrom, dstTo = max(dstFrom, m.start.Dst), min(dstTo, m.stop.Dst)
	if dstFrom >= dstTo {
		return 0
	}
	return m.below(dstTo) - m.below(dstFrom)
}

// below counts the records at target offsets below dst, from a beginning that all counts of one map share.
func (m *Map) below(dst int64) int64 {
	if m.some && m.last.Dst < dst {
		return m.inBlocks() + countRecords(m.tail) + min(m.last.N, dst-m.last.Dst)
	}
	if len(m.tail) > 0 && m.tail[0].Dst < dst {
		return m.inBlocks() + countBelow(m.tail, dst)
	}
	i := sort.Search(len(m.blocks), func(i int) bool { return m.blocks[i].dst >= dst })
	if i == 0 {
		return m.inFront()
	}
	var buf [blockLen]model.Span
	spans := m.blocks[i-1].spans(buf[:0])
	return m.blocks[i-1].upTo - countRecords(spans) + countBelow(spans, dst)
}

// inBlocks returns the number of records up to the end of the blocks.
func (m *Map) inBlocks() int64 {
	if len(m.blocks) == 0 {
		return 0
	}
	return m.blocks[len(m.blocks)-1].upTo
}

// inFront returns the number of records in front of the blocks: those that DropBefore took away.
func (m *Map) inFront() int64 {
	if len(m.blocks) == 0 {
		return 0
	}
	var buf [blockLen]model.Span
	return m.blocks[0].upTo - countRecords(m.blocks[0].spans(buf[:0]))
}

func countRecords(spans []model.Span) (n int64) {
	for _, s := range spans {
		n += s.N
	}
	return n
}

// countBelow counts the records of spans that stand below a target offset.
func countBelow(spans []model.Span, dst int64) (n int64) {
	for _, s := range spans {
		if s.Dst >= dst {
			break
		}
		n += min(s.N, dst-s.Dst)
	}
	return n
}
