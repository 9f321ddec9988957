package offsetsync

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep/internal/model"
	"lockstep/internal/statelog"
)

func someEpochs() []model.EpochStart {
	return []model.EpochStart{{Epoch: 2, Src: 100}, {Epoch: 5, Src: 160}}
}

// save stores how far the lane came.
func save(t *testing.T, p process, n uint64, c model.Cursor, epochs []model.EpochStart) {
	t.Helper()
	if err := p.store.Save(t.Context(), []Progress{{Lane: theLane, Opening: n, Cursor: c, Epochs: epochs}}); err != nil {
		t.Fatal(err)
	}
}

// The leader epochs of what was copied are stored with the cursor, and inherited by the next opening.
func TestStore_EpochsGoWithTheCursor(t *testing.T) {
	t.Parallel()
	p := (&memLog{}).process("a")
	openFirst(t, p)
	if st, _ := p.view.Lane(theLane); len(st.Epochs) > 0 {
		t.Errorf("a new lane has epochs %v", st.Epochs)
	}
	save(t, p, 1, model.Cursor{Src: 170, Dst: 70, Count: 70, SrcEpoch: 5}, someEpochs())
	st, _ := p.view.Lane(theLane)
	if diff := cmp.Diff(someEpochs(), st.Epochs); diff != "" {
		t.Error(diff)
	}
	o := Opening{Lane: theLane, N: 2, Prev: st.Opening.Nonce, Identity: theIdentity, Origin: st.Cursor, Epochs: st.Epochs, Closed: &Closed{Cursor: st.Cursor}}
	if won, err := p.store.Open(t.Context(), []Opening{o}); err != nil || !won[0] {
		t.Fatalf("open: %v, %v", won, err)
	}
	st, _ = p.view.Lane(theLane)
	if diff := cmp.Diff(someEpochs(), st.Epochs); diff != "" {
		t.Errorf("after the next opening: %s", diff)
	}
}

// A source that was truncated at 140 and grew again: below that the map answers as before, from there on with the records of
// the new branch; those of the old one are a hole on the target.
func TestView_TruncatedSource(t *testing.T) {
	t.Parallel()
	p := (&memLog{}).process("a")
	openFirst(t, p)
	end := model.Cursor{Src: 170, Dst: 70, Count: 70, SrcEpoch: 5}
	save(t, p, 1, end, someEpochs())
	st, _ := p.view.Lane(theLane)
	o := Opening{Lane: theLane, N: 2, Prev: st.Opening.Nonce, Term: model.Term{N: 1}, Identity: theIdentity,
		Origin: model.Cursor{Src: 140, Dst: 71, SrcEpoch: 2}, Epochs: someEpochs()[:1], Closed: &Closed{Cursor: end}}
	if won, err := p.store.Open(t.Context(), []Opening{o}); err != nil || !won[0] {
		t.Fatalf("open: %v, %v", won, err)
	}
	check := func(src map[int64]Translation, dst map[int64]Translation) {
		t.Helper()
		for off, want := range src {
			if got, _ := p.view.Translate(theLane, off); got != want {
				t.Errorf("source offset %d is %+v, want %+v", off, got, want)
			}
		}
		for off, want := range dst {
			if got, _ := p.view.Invert(theLane, off); got != want {
				t.Errorf("target offset %d is %+v, want %+v", off, got, want)
			}
		}
	}
	orphans := map[int64]Translation{39: {Offset: 139}, 40: {Offset: 140, Kind: Hole, Off: 31}, 69: {Offset: 140, Kind: Hole, Off: 2}, 71: {Offset: 140}}
	check(map[int64]Translation{139: {Offset: 39}, 140: {Offset: 71}, 169: {Offset: 71, Kind: Ahead, Off: 29}}, orphans)
	save(t, p, 2, model.Cursor{Src: 200, Dst: 131, Count: 60, SrcEpoch: 6}, nil)
	check(map[int64]Translation{100: {Offset: 0}, 139: {Offset: 39}, 140: {Offset: 71}, 169: {Offset: 100}, 200: {Offset: 131}}, orphans)
	if st, _ := p.view.Lane(theLane); st.Fault != nil {
		t.Error(st.Fault)
	}
}

// A truncation of a truncation, below the first one, and one to before all that is known.
func TestView_TruncatedAgain(t *testing.T) {
	t.Parallel()
	p := (&memLog{}).process("a")
	openFirst(t, p)
	at := model.Cursor{Src: 170, Dst: 70, Count: 70}
	for n, common := range []int64{140, 120, 100} {
		save(t, p, uint64(n+1), at, nil)
		st, _ := p.view.Lane(theLane)
		origin := model.Cursor{Src: common, Dst: at.Dst + 1}
		o := Opening{Lane: theLane, N: st.Opening.N + 1, Prev: st.Opening.Nonce, Term: model.Term{N: uint64(n + 1)}, Identity: theIdentity,
			Origin: origin, Closed: &Closed{Cursor: at}}
		if won, err := p.store.Open(t.Context(), []Opening{o}); err != nil || !won[0] {
			t.Fatalf("open: %v, %v", won, err)
		}
		at = model.Cursor{Src: common + 10, Dst: origin.Dst + 10, Count: 10}
		if got, _ := p.view.Invert(theLane, origin.Dst-2); got.Offset != common {
			t.Errorf("the orphan at target offset %d is source offset %+v, want %d", origin.Dst-2, got, common)
		}
		if got, _ := p.view.Translate(theLane, common-1); common > 100 && got != (Translation{Offset: common - 101}) {
			t.Errorf("source offset %d is %+v", common-1, got)
		}
	}
	save(t, p, 4, at, nil)
	if got, _ := p.view.Translate(theLane, 105); got.Kind != Exact || got.Offset != at.Dst-5 {
		t.Errorf("source offset 105 is %+v", got)
	}
}

// The stored forms with leader epochs, and of a claim that accepted a replaced source. Files without them are those of
// TestGolden_RecordsAreWrittenAsBefore.
func TestGolden_Epochs(t *testing.T) {
	t.Parallel()
	log := &memLog{}
	s := newStore(log, log.view(), "b1946ac9")
	o := goldenOpening()
	o.Epochs = someEpochs()
	files := map[string]statelog.Entry{
		"opening_epochs": s.laneEntry(theLane, openingKey(theLane, kindOpening, openingID{o.N, o.Nonce}), encodeOpening(o)),
	}
	s.begin(o)
	cursor := model.Cursor{Src: 12_400, Dst: 12_391, Count: 50, SrcEpoch: 6}
	if err := s.Save(t.Context(), []Progress{{Lane: theLane, Opening: 4, Cursor: cursor, Epochs: someEpochs()}}); err != nil {
		t.Fatal(err)
	}
	files["cursor_epochs"] = log.entries[len(log.entries)-1]
	claim := Claim{ID: "9f", Prev: "", Owner: "c1f0", Link: "dr", SourceCluster: "src-id", TargetCluster: "dst-id", At: goldenTime, AcceptedTerm: 9}
	if err := s.PutClaim(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	files["claim_accepted"] = log.entries[len(log.entries)-1]
	for name, e := range files {
		got := append([]byte(e.Key+"\n"), e.Value...)
		if want := golden(t, name+".v1", got); string(want) != string(got) {
			t.Errorf("%s is written as\n%q\nwant\n%q", name, got, want)
		}
	}
	v := replay([]statelog.Entry{readGolden(t, "opening_epochs"), readGolden(t, "cursor_epochs"), readGolden(t, "claim_accepted")})
	st, _ := v.Lane(theLane)
	if diff := cmp.Diff(someEpochs(), st.Opening.Epochs); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(someEpochs(), st.Epochs); diff != "" {
		t.Error(diff)
	}
	if c, _ := v.Claim(); c != claim {
		t.Errorf("claim %+v", c)
	}
}

// What an operator accepted holds under later claims too, whoever makes them.
func TestView_AcceptedTermIsKept(t *testing.T) {
	t.Parallel()
	p := (&memLog{}).process("a")
	for _, c := range []Claim{{ID: "1"}, {ID: "2", Prev: "1", AcceptedTerm: 7}, {ID: "3", Prev: "2"}} {
		if err := p.store.PutClaim(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.view.Barrier(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c, _ := p.view.Claim(); c.ID != "3" || c.AcceptedTerm != 7 {
		t.Errorf("claim %+v", c)
	}
}
