package replicator

import (
	"context"
	"slices"
	"testing"

	"lockstep/internal/kafka"
	"lockstep/internal/model"
	"lockstep/offsetsync"
	"lockstep/replicator/term"
)

func TestNewEnding_EveryIDThatTheLaneMayStillBeOpenedIn(t *testing.T) {
	t.Parallel()
	first, other, mine := model.Term{N: 1, PID: 7, Epoch: 4}, model.Term{N: 2, PID: 8}, model.Term{N: 3, PID: 9}
	same := model.Term{N: 2, PID: 6} // taken at the same moment as the other one
	known := []model.Term{first, same, other, {N: 2, PID: 8, Epoch: 1}, mine}
	for name, c := range map[string]struct {
		last  model.Term
		known []model.Term
		want  []model.Term
	}{
		"never opened":               {model.Term{}, known, []model.Term{{}, first, same, other}},
		"opened in the oldest":       {first, known, []model.Term{first, {}, same, other}},
		"opened in one of two":       {other, known, []model.Term{other, {}, same}},
		"opened in the newest":       {mine, known, []model.Term{mine}},
		"others are not asked after": {first, nil, []model.Term{first, {}}},
	} {
		got := newEnding(model.Lane{}, kafka.Part{}, offsetsync.LaneState{Opening: offsetsync.Opening{Term: c.last}}, mine, c.known)
		if !slices.Equal(got.under, c.want) {
			t.Errorf("%s: under %+v, want %+v", name, got.under, c.want)
		}
	}
}

// markers is a sealer whose markers stand one behind the other, except those of a producer id that is refused.
type markers struct {
	next    int64
	refused int64
}

func (s *markers) Seal(_ context.Context, t model.Term, targets []term.Target) (map[kafka.Part]term.Outcome, term.Way) {
	out := make(map[kafka.Part]term.Outcome)
	for _, x := range targets {
		o := term.Outcome{Marker: s.next, PID: x.Ends.PID, Way: term.WayDirect, Was: &kafka.Producer{PID: x.Ends.PID}}
		if s.next++; x.Ends.N > 0 && x.Ends.PID == s.refused {
			o.Marker, o.Err = -1, term.ErrOldID
		}
		out[x.Part] = o
	}
	return out, term.WayDirect
}

func TestEndAll_SealedOnlyUnderAllItsIDs(t *testing.T) {
	t.Parallel()
	now, old, older := model.Term{N: 3, PID: 9}, model.Term{N: 2, PID: 8}, model.Term{N: 1, PID: 7}
	one, two := kafka.Part{Topic: "orders"}, kafka.Part{Topic: "orders", Partition: 1}
	es := []ending{
		{target: term.Target{Part: one}, under: []model.Term{old, {}}},
		{target: term.Target{Part: two}, under: []model.Term{old, {}, older}},
	}
	out, way := endAll(t.Context(), &markers{refused: 7}, now, es)
	if o := out[one]; way != term.WayDirect || !o.Sealed() || o.Marker != 2 || o.Was.PID != 8 {
		t.Errorf("%s: %+v, want the last marker, and what was known before the first", way, o)
	}
	if o := out[two]; o.Sealed() {
		t.Errorf("%+v counts as sealed, and a term of producer %d may still write", o, older.PID)
	}
}
