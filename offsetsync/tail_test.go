package offsetsync

import (
	"errors"
	"iter"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep/internal/model"
	"lockstep/replicator/batch"
)

const (
	ourPID   = int64(7)
	ourEpoch = int16(2)
)

func own(base, count int64, n int32) batch.Header {
	return batch.Header{BaseOffset: base, Magic: 2, PID: ourPID, Epoch: ourEpoch, BaseSeq: model.Seq(count), Count: n, LastOffsetDelta: n - 1}
}

func foreign(base int64, n int32) batch.Header {
	return batch.Header{BaseOffset: base, Magic: 2, PID: -1, Epoch: -1, BaseSeq: -1, Count: n, LastOffsetDelta: n - 1}
}

func marker(base int64) batch.Header {
	return batch.Header{BaseOffset: base, Magic: 2, Attrs: 0x20, PID: ourPID, Epoch: ourEpoch + 1, BaseSeq: -1, Count: 1}
}

func each(hs ...batch.Header) iter.Seq2[batch.Header, error] {
	return func(yield func(batch.Header, error) bool) {
		for _, h := range hs {
			if !yield(h, nil) {
				return
			}
		}
	}
}

// tailState is a lane whose cursor is at source 110, target 60, record 10, with a jump to source 200 at record 12.
func tailState() LaneState {
	return LaneState{
		Opening:  Opening{Lane: theLane, N: 3, Origin: model.Cursor{Src: 100, Dst: 50, Count: 0}},
		Cursor:   model.Cursor{Src: 110, Dst: 60, Count: 10, SrcEpoch: 4},
		Plan:     []model.Jump{{Count: 0, Src: 100}, {Count: 12, Src: 200}},
		Landings: []model.Landing{{Count: 0, Dst: 50}},
	}
}

func TestTail(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		st   func(*LaneState)
		hs   []batch.Header
		stop int64 // offset of the marker, -1 none
		want Tailed
	}{
		"nothing came, no marker": {
			stop: -1,
			want: Tailed{Cursor: model.Cursor{Src: 110, Dst: 60, Count: 10, SrcEpoch: 4}, End: 60},
		},
		"nothing came but the marker": {
			hs: []batch.Header{marker(60)}, stop: 60,
			want: Tailed{Cursor: model.Cursor{Src: 110, Dst: 61, Count: 10, SrcEpoch: 4}, End: 61, Stopped: true},
		},
		"records cross a jump of the plan": {
			hs: []batch.Header{own(60, 10, 3), own(63, 13, 2), marker(65)}, stop: 65,
			want: Tailed{Cursor: model.Cursor{Src: 203, Dst: 66, Count: 15, SrcEpoch: -1}, Records: 5, End: 66, Stopped: true},
		},
		"without a marker the cursor is behind the last record": {
			hs: []batch.Header{own(60, 10, 1), foreign(61, 4)}, stop: -1,
			want: Tailed{Cursor: model.Cursor{Src: 111, Dst: 61, Count: 11, SrcEpoch: -1}, Records: 1, Foreign: 4, End: 65},
		},
		"a foreign writer in between": {
			hs: []batch.Header{own(60, 10, 1), foreign(61, 2), own(63, 11, 1), own(64, 12, 1), marker(65)}, stop: 65,
			want: Tailed{
				Cursor:   model.Cursor{Src: 201, Dst: 66, Count: 13, SrcEpoch: -1},
				Landings: []model.Landing{{Count: 11, Dst: 63}}, Foreign: 2, Records: 3, End: 66, Stopped: true,
			},
		},
		"a marker of ours in between only takes an offset": {
			hs: []batch.Header{marker(60), own(61, 10, 2)}, stop: -1,
			want: Tailed{
				Cursor:   model.Cursor{Src: 112, Dst: 63, Count: 12, SrcEpoch: -1},
				Landings: []model.Landing{{Count: 10, Dst: 61}}, Records: 2, End: 63,
			},
		},
		"a batch that begins before the cursor": {
			hs: []batch.Header{own(58, 8, 4)}, stop: -1,
			want: Tailed{Cursor: model.Cursor{Src: 112, Dst: 62, Count: 12, SrcEpoch: -1}, Records: 2, End: 62},
		},
		"batches before the cursor": {
			hs: []batch.Header{foreign(40, 10), own(50, 0, 10), own(60, 10, 1)}, stop: -1,
			want: Tailed{Cursor: model.Cursor{Src: 111, Dst: 61, Count: 11, SrcEpoch: -1}, Records: 1, End: 61},
		},
		"compaction thinned a batch": {
			hs: []batch.Header{{BaseOffset: 60, Magic: 2, PID: ourPID, Epoch: ourEpoch, BaseSeq: 10, Count: 1, LastOffsetDelta: 4}}, stop: -1,
			want: Tailed{Cursor: model.Cursor{Src: 203, Dst: 65, Count: 15, SrcEpoch: -1}, Records: 5, End: 65},
		},
		"compaction removed a batch": {
			hs: []batch.Header{own(60, 10, 1), own(65, 15, 1)}, stop: -1,
			want: Tailed{Cursor: model.Cursor{Src: 204, Dst: 66, Count: 16, SrcEpoch: -1}, Records: 6, End: 66},
		},
		"compaction removed a batch beside a foreign one": {
			hs: []batch.Header{own(60, 10, 1), foreign(63, 2), own(66, 13, 1)}, stop: -1,
			want: Tailed{
				Cursor:   model.Cursor{Src: 202, Dst: 67, Count: 14, SrcEpoch: -1},
				Landings: []model.Landing{{Count: 11, Dst: 62}, {Count: 12, Dst: 65}}, Records: 4, Foreign: 2, End: 67,
			},
		},
		"the sequence wraps": {
			st: func(st *LaneState) {
				st.Cursor.Count = 1<<31 - 1
				st.Opening.Origin = model.Cursor{Src: 109 - (1<<31 - 2), Dst: 59 - (1<<31 - 2)}
				st.Plan, st.Landings = nil, nil
			},
			hs: []batch.Header{own(60, 1<<31-1, 3)}, stop: -1,
			want: Tailed{Cursor: model.Cursor{Src: 113, Dst: 63, Count: 1<<31 + 2, SrcEpoch: -1}, Records: 3, End: 63},
		},
		"landings stored behind the cursor are replaced": {
			st: func(st *LaneState) { st.Landings = append(st.Landings, model.Landing{Count: 11, Dst: 70}) },
			hs: []batch.Header{own(60, 10, 2)}, stop: -1,
			want: Tailed{
				Cursor:   model.Cursor{Src: 112, Dst: 62, Count: 12, SrcEpoch: -1},
				Landings: []model.Landing{{Count: 10, Dst: 60}}, Records: 2, End: 62,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := tailState()
			if c.st != nil {
				c.st(&st)
			}
			stop := func(h batch.Header) bool { return h.BaseOffset == c.stop }
			got, err := Tail(each(c.hs...), ourPID, ourEpoch, st, stop)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTail_Diverged(t *testing.T) {
	t.Parallel()
	other := own(60, 10, 1)
	other.Epoch--
	for name, hs := range map[string][]batch.Header{
		"records again":                {own(60, 9, 1)},
		"records missing":              {own(60, 11, 1)},
		"more missing than offsets":    {own(60, 10, 1), own(62, 13, 1)},
		"an older epoch of ours":       {other},
		"the marker before the cursor": {marker(40)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stop := func(h batch.Header) bool { return h.Control() }
			if _, err := Tail(each(hs...), ourPID, ourEpoch, tailState(), stop); !errors.Is(err, ErrDiverged) {
				t.Errorf("got %v, want ErrDiverged", err)
			}
		})
	}
}

func TestTail_HeaderErrorEndsIt(t *testing.T) {
	t.Parallel()
	gone := errors.New("connection lost")
	hs := func(yield func(batch.Header, error) bool) {
		_ = yield(own(60, 10, 1), nil) && yield(batch.Header{}, gone)
	}
	got, err := Tail(hs, ourPID, ourEpoch, tailState(), nil)
	if !errors.Is(err, gone) || got.Cursor.Count != 11 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestPlanSrc(t *testing.T) {
	t.Parallel()
	origin := model.Cursor{Src: 100, Count: 7}
	plan := []model.Jump{{Count: 10, Src: 200}, {Count: 10, Src: 210}, {Count: 12, Src: 300}}
	got := []int64{}
	for c := int64(7); c < 14; c++ {
		got = append(got, PlanSrc(plan, origin, c))
	}
	if want := []int64{100, 101, 102, 210, 211, 300, 301}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
