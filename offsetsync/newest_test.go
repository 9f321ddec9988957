package offsetsync

import (
	"testing"

	"pgregory.net/rapid"

	"lockstep/internal/model"
)

// Newest finds what a walk over all spans finds.
func TestMap_Newest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := NewMap(5, 5)
		for range rapid.IntRange(0, 3*blockLen).Draw(t, "spans") {
			src, dst := m.End()
			s := model.Span{Src: src + rapid.Int64Range(0, 2).Draw(t, "hole"), Dst: dst + rapid.Int64Range(0, 2).Draw(t, "foreign"), N: rapid.Int64Range(0, 3).Draw(t, "n")}
			if err := m.Append(s); err != nil {
				t.Fatal(err)
			}
		}
		src, dst := m.End()
		m.DropBefore(rapid.Int64Range(0, dst+1).Draw(t, "drop"))
		for x := int64(0); x < src+3; x++ {
			var want model.Span
			for s := range m.Spans() {
				if n := min(s.N, x-s.Src+1); n > 0 {
					want = model.Span{Src: s.Src + n - 1, Dst: s.Dst + n - 1, N: 1}
				}
			}
			got, ok := m.Newest(x)
			if ok != (want.N == 1) || ok && got != want {
				t.Fatalf("Newest(%d) = %+v, %t; want %+v", x, got, ok, want)
			}
		}
	})
}
