package batch

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func splitAll(raw []byte) (offsets []int64, fault error) {
	for h, b := range SplitErr(raw, &fault) {
		if len(b) != h.Size() || cap(b) != len(b) {
			panic("bytes do not end with the batch")
		}
		offsets = append(offsets, h.BaseOffset)
	}
	return offsets, fault
}

// One answer can hold all formats, one behind the other, while a topic is upgraded.
func TestSplit_MixedFormats(t *testing.T) {
	t.Parallel()
	raw := join(message(0, 10, 0, 0, nil, nil), message(1, 11, 5, 0, nil, []byte("x")), plainBatch(), markerBatch(43, 1, 1, true, 0))
	got, fault := splitAll(raw)
	if d := cmp.Diff([]int64{10, 11, 40, 43}, got); d != "" || fault != nil {
		t.Error(d, fault)
	}
}

func TestSplit_CutBatchIsLeftOut(t *testing.T) {
	t.Parallel()
	whole := plainBatch()
	for n := range len(whole) {
		got, fault := splitAll(join(whole, whole[:n]))
		if len(got) != 1 || fault != nil {
			t.Fatalf("%d bytes of the second: %d batches, %v", n, len(got), fault)
		}
		got, fault = splitAll(whole[:n])
		if len(got) != 0 || (n > 0) != errors.Is(fault, ErrCut) {
			t.Fatalf("%d bytes of the first: %d batches, %v", n, len(got), fault)
		}
	}
}

func TestSplit_DamageIsReported(t *testing.T) {
	t.Parallel()
	bad := plainBatch()
	bad[16] = 9
	got, fault := splitAll(join(plainBatch(), bad, plainBatch()))
	if len(got) != 1 || !errors.Is(fault, ErrCorrupt) {
		t.Errorf("%d batches, %v", len(got), fault)
	}
	n := 0
	for range Split(join(plainBatch(), bad)) {
		n++
	}
	if n != 1 {
		t.Errorf("Split gave %d batches", n)
	}
}

func TestSplit_StopsWhenAsked(t *testing.T) {
	t.Parallel()
	fault := errors.New("of an earlier use")
	for range SplitErr(join(plainBatch(), plainBatch()), &fault) {
		break
	}
	if fault != nil {
		t.Error(fault)
	}
}

func TestSplit_Allocations(t *testing.T) {
	raw := join(plainBatch(), plainBatch(), plainBatch())
	if n := testing.AllocsPerRun(100, func() {
		for range Split(raw) {
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
