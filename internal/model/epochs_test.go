package model

import (
	"slices"
	"testing"
)

func TestEpochs_AppendAndCut(t *testing.T) {
	t.Parallel()
	var h []EpochStart
	for _, r := range []EpochStart{{-1, 5}, {2, 10}, {2, 11}, {4, 20}, {3, 25}, {7, 30}} {
		h = AppendEpoch(h, r.Epoch, r.Src)
	}
	want := []EpochStart{{2, 10}, {4, 20}, {7, 30}}
	if !slices.Equal(h, want) {
		t.Fatalf("history %v, want %v", h, want)
	}
	for src, n := range map[int64]int{10: 0, 11: 1, 20: 1, 30: 2, 31: 3} {
		if got := EpochsBelow(h, src); !slices.Equal(got, want[:n]) {
			t.Errorf("below %d: %v", src, got)
		}
	}
	a, b := AppendEpoch(h[:2], 5, 40), AppendEpoch(h[:2], 6, 50)
	if a[2].Epoch != 5 || b[2].Epoch != 6 || h[2].Epoch != 7 {
		t.Error("histories share memory")
	}
}

func TestEpochs_TheNewestAreKept(t *testing.T) {
	t.Parallel()
	var h []EpochStart
	for i := range int64(3 * KeepEpochs) {
		h = AppendEpoch(h, int32(i), i)
	}
	got := EpochsBelow(h, 2*KeepEpochs)
	if len(got) != KeepEpochs || got[0].Src != KeepEpochs || got[KeepEpochs-1].Src != 2*KeepEpochs-1 {
		t.Errorf("kept %d from %v to %v", len(got), got[0], got[len(got)-1])
	}
}
