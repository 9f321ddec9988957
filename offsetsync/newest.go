package offsetsync

import "lockstep/internal/model"

// Newest returns the last copied record at or before source offset src, as a span of one. It reports false when the map
// holds none.
func (m *Map) Newest(src int64) (model.Span, bool) {
	for {
		at, _ := m.find(src, bySrc)
		if at.N < 0 {
			return model.Span{}, false
		}
		if at.N == 0 { // a mark: what is before it ends there
			src = at.Src - 1
			continue
		}
		d := min(src-at.Src, at.N-1)
		s := model.Span{Src: at.Src + d, Dst: at.Dst + d, N: 1}
		return s, s.Src >= m.start.Src && s.Dst >= m.start.Dst
	}
}
