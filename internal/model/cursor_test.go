package model

import "testing"

func TestUnwrap_AcrossTheSequenceWrap(t *testing.T) {
	t.Parallel()
	for _, count := range []int64{0, 1, 1<<31 - 1, 1 << 31, 1<<31 + 5, 7<<31 - 1, 7<<31 + 1} {
		for _, d := range []int64{0, 1, -1, 5, 1000, -1000, 1 << 29, -(1 << 29)} {
			if near := count + d; near >= 0 {
				if got := Unwrap(Seq(count), near); got != count {
					t.Fatalf("Unwrap(Seq(%d), %d) = %d", count, near, got)
				}
			}
		}
	}
}
