package offsetsync

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep/internal/model"
	"lockstep/internal/statelog"
)

// Records as any process may have written them, stale ones too.

func openingRecord(n uint64, nonce, prev string, origin model.Cursor, closed *Closed) statelog.Entry {
	o := Opening{Lane: theLane, N: n, Nonce: nonce, Prev: prev, Identity: theIdentity, Origin: origin, Closed: closed}
	return statelog.Entry{Key: openingKey(theLane, kindOpening, openingID{n, nonce}), Value: encodeOpening(o)}
}

func cursorRecord(n uint64, nonce string, c model.Cursor, planN, landN int64) statelog.Entry {
	v := cursorValue{V: recordVersion, Cursor: c, PlanN: planN, LandN: landN}
	return statelog.Entry{Key: openingKey(theLane, kindCursor, openingID{n, nonce}), Value: encodeJSON(v)}
}

func segmentRecord(kind string, n uint64, nonce string, pts ...point) statelog.Entry {
	return statelog.Entry{Key: segmentKey(theLane, kind, openingID{n, nonce}, 0), Value: encodePoints(pts)}
}

func tombstone(e statelog.Entry) statelog.Entry {
	e.Value = nil
	return e
}

func at(src, dst, count int64) model.Cursor { return model.Cursor{Src: src, Dst: dst, Count: count} }

func newestOf(t *testing.T, es ...statelog.Entry) LaneState {
	t.Helper()
	v := replay(es)
	st, ok := v.Lane(theLane)
	if v.err != nil || !ok {
		t.Fatalf("no state: %v", v.err)
	}
	return st
}

func TestLane_FirstSuccessorInTheLogWins(t *testing.T) {
	t.Parallel()
	st := newestOf(t,
		openingRecord(1, "a", "", at(0, 0, 0), nil),
		openingRecord(2, "b", "a", at(10, 10, 0), nil),
		openingRecord(2, "c", "a", at(20, 20, 0), nil),
		openingRecord(3, "d", "c", at(30, 30, 0), nil), // follows a void one
		openingRecord(1, "e", "", at(0, 0, 0), nil),
	)
	if st.Opening.Nonce != "b" {
		t.Errorf("newest is %s, want b", st.Opening.Nonce)
	}
}

func TestLane_VoidOpeningThatOutlivedTheValidOneGivesWay(t *testing.T) {
	t.Parallel()
	// Opening 2 "b" was valid and has been trimmed together with opening 1; compaction has removed it, but not yet its
	// void rival "c".
	rival := openingRecord(2, "c", "a", at(20, 20, 0), nil)
	st := newestOf(t,
		rival,
		openingRecord(3, "d", "b", at(30, 30, 0), nil),
		cursorRecord(3, "d", at(35, 35, 5), 0, 0),
		tombstone(rival),
	)
	if st.Opening.Nonce != "d" || st.Cursor.Count != 5 {
		t.Errorf("newest is %s at %+v, want d", st.Opening.Nonce, st.Cursor)
	}
}

func TestLane_FirstOpeningThatOutlivedItsRivalGivesWay(t *testing.T) {
	t.Parallel()
	st := newestOf(t, openingRecord(1, "void", "", at(0, 0, 0), nil), openingRecord(2, "b", "a", at(20, 20, 0), nil))
	if st.Opening.Nonce != "b" {
		t.Errorf("newest is %s, want b", st.Opening.Nonce)
	}
}

func TestLane_UnknownTopicIDsAreNoOtherTopic(t *testing.T) {
	t.Parallel()
	id := func(src byte) model.Identity {
		return model.Identity{DstTopic: "orders", Src: model.TopicID{src}}
	}
	var es []statelog.Entry
	prev := ""
	for i, ident := range []model.Identity{id(0), id(1), id(0), id(1), id(2), id(0), id(1)} {
		n := int64(i + 1)
		o := Opening{Lane: theLane, N: uint64(n), Nonce: itoa(n), Prev: prev, Identity: ident, Origin: at(10*n, 10*n, 0)}
		prev = o.Nonce
		es = append(es, statelog.Entry{Key: openingKey(theLane, kindOpening, openingID{o.N, o.Nonce}), Value: encodeOpening(o)})
		want := []int64{10, 10, 10, 10, 50, 50, 70}[i] // another source topic at 5 and at 7, behind the gap at 6
		if src, _ := newestOf(t, es...).Map.Start(); src != want {
			t.Errorf("after %d openings the map starts at %d, want %d", n, src, want)
		}
	}
}

func TestLane_NumberThatLeavesSomeOutProvesThatTheyWereTrimmed(t *testing.T) {
	t.Parallel()
	st := newestOf(t,
		openingRecord(4, "stale", "x", at(20, 20, 0), nil),
		openingRecord(9, "d", "c", at(90, 90, 0), nil),
		openingRecord(5, "stale2", "stale", at(30, 30, 0), nil),
	)
	if src, _ := st.Map.Start(); st.Opening.Nonce != "d" || src != 90 {
		t.Errorf("newest is %s, map starts at %d", st.Opening.Nonce, src)
	}
}

func TestLane_PlanWrittenAfterTheEndIsVoid(t *testing.T) {
	t.Parallel()
	es := []statelog.Entry{
		openingRecord(1, "a", "", at(0, 0, 0), nil),
		segmentRecord(kindPlan, 1, "a", point{3, 5}),
		openingRecord(2, "b", "a", at(12, 11, 0), &Closed{Cursor: at(12, 10, 10), PlanN: 1}),
	}
	late := segmentRecord(kindPlan, 1, "a", point{3, 5}, point{6, 100})
	want := []model.Span{{Src: 0, Dst: 0, N: 3}, {Src: 5, Dst: 3, N: 7}, {Src: 12, Dst: 11, N: 0}}
	for name, log := range map[string][]statelog.Entry{
		"in order":  append(slices.Clone(es), late),
		"compacted": {es[0], es[2], late},
	} {
		st := newestOf(t, log...)
		if diff := cmp.Diff(want, spansOf(st.Map)); diff != "" || st.Fault != nil {
			t.Errorf("%s: %s %v", name, diff, st.Fault)
		}
	}
}

func TestLane_LandingWrittenAfterTheEndIsVoid(t *testing.T) {
	t.Parallel()
	es := []statelog.Entry{
		openingRecord(1, "a", "", at(0, 0, 0), nil),
		segmentRecord(kindLand, 1, "a", point{3, 5}),
		openingRecord(2, "b", "a", at(10, 13, 0), &Closed{Cursor: at(10, 12, 10), LandN: 1}),
	}
	late := segmentRecord(kindLand, 1, "a", point{3, 5}, point{6, 100})
	want := []model.Span{{Src: 0, Dst: 0, N: 3}, {Src: 3, Dst: 5, N: 7}, {Src: 10, Dst: 13, N: 0}}
	for name, log := range map[string][]statelog.Entry{
		"in order":  append(slices.Clone(es), late),
		"compacted": {es[0], es[2], late},
	} {
		st := newestOf(t, log...)
		if diff := cmp.Diff(want, spansOf(st.Map)); diff != "" || st.Fault != nil {
			t.Errorf("%s: %s %v", name, diff, st.Fault)
		}
	}
}

func TestLane_RecoveryWinsFromItsFirstLandingOn(t *testing.T) {
	t.Parallel()
	recovered := []model.Landing{{Count: 4, Dst: 7}, {Count: 8, Dst: 20}}
	st := newestOf(t,
		openingRecord(1, "a", "", at(0, 0, 0), nil),
		segmentRecord(kindPlan, 1, "a", point{2, 50}, point{6, 60}),
		segmentRecord(kindLand, 1, "a", point{3, 5}, point{5, 30}),
		cursorRecord(1, "a", at(63, 34, 9), 2, 2), // joined up to record 9 before recovery is read
		openingRecord(2, "b", "a", at(64, 40, 0), &Closed{Cursor: at(64, 22, 10), Landings: recovered, PlanN: 2, LandN: 2}),
	)
	want := []model.Span{
		{Src: 0, Dst: 0, N: 2}, {Src: 50, Dst: 2, N: 1}, {Src: 51, Dst: 5, N: 1}, {Src: 52, Dst: 7, N: 2},
		{Src: 60, Dst: 9, N: 2}, {Src: 62, Dst: 20, N: 2}, {Src: 64, Dst: 40, N: 0},
	}
	if diff := cmp.Diff(want, spansOf(st.Map)); diff != "" || st.Fault != nil {
		t.Error(diff, st.Fault)
	}
}

func TestLane_EndBeforeTheStoredCursorCutsTheMap(t *testing.T) {
	t.Parallel()
	// The target lost its log's end: of ten stored records six are left.
	for name, origin := range map[string]model.Cursor{"same place": at(6, 6, 0), "further on": at(20, 7, 0)} {
		st := newestOf(t,
			openingRecord(1, "a", "", at(0, 0, 0), nil),
			cursorRecord(1, "a", at(10, 10, 10), 0, 0),
			openingRecord(2, "b", "a", origin, &Closed{Cursor: at(6, 6, 6)}),
		)
		if got := spansOf(st.Map)[0]; got != (model.Span{Src: 0, Dst: 0, N: 6}) {
			t.Errorf("%s: %+v", name, got)
		}
		if got := st.Map.Translate(8); origin.Src > 8 && got != (Translation{7, Hole, 12}) {
			t.Errorf("%s: Translate(8) = %+v", name, got)
		}
	}
}

// The target lost more than the newest opening, and the next one goes on further on: the marker stands where a record of
// an older opening stood, which must not be answered with it.
func TestLane_EndBeforeTheOpeningsBeginningCutsOlderOnes(t *testing.T) {
	t.Parallel()
	st := newestOf(t,
		openingRecord(1, "a", "", at(0, 0, 0), nil),
		cursorRecord(1, "a", at(10, 10, 10), 0, 0),
		openingRecord(2, "b", "a", at(10, 11, 0), &Closed{Cursor: at(10, 10, 10)}),
		cursorRecord(2, "b", at(13, 14, 3), 0, 0),
		openingRecord(3, "c", "b", at(20, 7, 0), &Closed{Cursor: at(6, 6, 0)}),
	)
	want := []model.Span{{Src: 0, Dst: 0, N: 6}, {Src: 20, Dst: 7, N: 0}}
	if diff := cmp.Diff(want, spansOf(st.Map)); diff != "" || st.Fault != nil {
		t.Error(diff, st.Fault)
	}
	if got := st.Map.Translate(6); got != (Translation{7, Hole, 14}) {
		t.Errorf("Translate(6) = %+v", got)
	}
}

func TestLane_EndAtTheOriginLeavesTheOpeningsBeginning(t *testing.T) {
	t.Parallel()
	st := newestOf(t,
		openingRecord(1, "a", "", at(0, 0, 0), nil),
		cursorRecord(1, "a", at(4, 4, 4), 0, 0),
		openingRecord(2, "b", "a", at(10, 6, 0), &Closed{Cursor: at(4, 4, 4)}),
		cursorRecord(2, "b", at(13, 9, 3), 0, 0),
		openingRecord(3, "c", "b", at(20, 8, 0), &Closed{Cursor: at(10, 6, 0)}), // nothing of opening 2 is left
	)
	want := []model.Span{{Src: 0, Dst: 0, N: 4}, {Src: 10, Dst: 6, N: 0}, {Src: 20, Dst: 8, N: 0}}
	if diff := cmp.Diff(want, spansOf(st.Map)); diff != "" {
		t.Error(diff)
	}
}

func TestLane_OpeningsWithoutRecordsTakeNoRoom(t *testing.T) {
	t.Parallel()
	es := []statelog.Entry{openingRecord(1, "n1", "", at(0, 0, 0), nil), cursorRecord(1, "n1", at(5, 5, 5), 0, 0)}
	for n := uint64(2); n < 1000; n++ {
		end := at(5, int64(n)+3, 0)
		if n == 2 {
			end = at(5, 5, 5)
		}
		es = append(es, openingRecord(n, "n"+itoa(int64(n)), "n"+itoa(int64(n-1)), at(5, int64(n)+4, 0), &Closed{Cursor: end}))
	}
	if got := spansOf(newestOf(t, es...).Map); len(got) != 2 {
		t.Errorf("%d spans", len(got))
	}
}

func TestLane_OlderSegmentAgainChangesNothing(t *testing.T) {
	t.Parallel()
	w := newTail(point{}, segmentSize{1, 1})
	if err := w.add([]point{{1, 10}, {2, 20}}); err != nil {
		t.Fatal(err)
	}
	segs := w.unsaved()
	l := newLine(point{})
	for _, i := range []int{0, 1, 0, 1} {
		if err := l.apply(i, segs[i].value); err != nil {
			t.Fatal(err)
		}
	}
	if want := []point{{0, 0}, {1, 10}, {2, 20}}; !slices.Equal(l.pts, want) || len(l.waiting) > 0 {
		t.Errorf("got %v, %d waiting", l.pts, len(l.waiting))
	}
}

func TestStore_TrimRemovesOpeningsOfAnotherTopic(t *testing.T) {
	t.Parallel()
	p := (&memLog{}).process("a")
	openFirst(t, p)
	st, _ := p.view.Lane(theLane)
	other := theIdentity
	other.Src[0] = 9
	o := Opening{Lane: theLane, N: 2, Prev: st.Opening.Nonce, Identity: other, Origin: at(0, 500, 0)}
	if won, err := p.store.Open(t.Context(), []Opening{o}); err != nil || !won[0] {
		t.Fatal(won, err)
	}
	if n, err := p.store.Trim(t.Context(), theLane, 0); err != nil || n == 0 {
		t.Errorf("%d records removed, %v", n, err)
	}
	if st, ok := p.view.Lane(theLane); !ok || st.Opening.N != 2 {
		t.Errorf("newest opening is %d", st.Opening.N)
	}
}

// The openings that told where the last trimmed record came from are gone, and still it is known.
func TestStore_TrimTellsBehindWhichRecordNothingWasCopied(t *testing.T) {
	t.Parallel()
	log := &memLog{}
	p := log.process("a")
	openFirst(t, p)
	if err := p.store.Plan(t.Context(), plan(1, model.Jump{Count: 0, Src: 100})); err != nil {
		t.Fatal(err)
	}
	for n, dst := range []int64{5, 7} { // five records end at source offset 105; nothing of what follows was copied
		c := model.Cursor{Src: 150, Dst: 5, Count: 5}
		if n > 0 {
			c = model.Cursor{Src: 190, Dst: 7}
		}
		if err := p.store.Save(t.Context(), []Progress{{Lane: theLane, Opening: uint64(n + 1), Cursor: c, Clean: true}}); err != nil {
			t.Fatal(err)
		}
		st, _ := p.view.Lane(theLane)
		o := Opening{Lane: theLane, N: st.Opening.N + 1, Prev: st.Opening.Nonce, Identity: theIdentity,
			Origin: model.Cursor{Src: c.Src, Dst: dst + 2}, Closed: &Closed{Cursor: st.Cursor}}
		if won, err := p.store.Open(t.Context(), []Opening{o}); err != nil || !won[0] {
			t.Fatal(won, err)
		}
	}
	if removed, err := p.store.Trim(t.Context(), theLane, 9); err != nil || removed == 0 {
		t.Fatalf("%d records removed, %v", removed, err)
	}
	for name, es := range map[string][]statelog.Entry{"all": log.entries, "compacted": compact(log.entries, len(log.entries))} {
		v := replay(es)
		v.DropBefore(theLane, 9)
		st, ok := v.Lane(theLane)
		src, dst := st.Map.Start()
		if !ok || st.Fault != nil || src != 105 || dst != 9 {
			t.Errorf("%s: the map starts at %d, %d, want 105, 9; fault %v", name, src, dst, st.Fault)
		}
		if got, want := st.Map.Translate(120), (Translation{9, Hole, 70}); got != want {
			t.Errorf("%s: Translate(120) = %+v, want %+v", name, got, want)
		}
	}
}

func TestLane_GapIsNeverForgotten(t *testing.T) {
	t.Parallel()
	g := model.Gap{Lane: theLane, From: 5, To: 9, Reason: "retention", At: goldenTime}
	e := statelog.Entry{Key: gapKey(g, "a.1"), Value: encodeJSON(gapValue{V: 1, To: 9, Reason: "retention", At: goldenTime})}
	again := e
	again.Key = gapKey(g, "a.2")
	v := replay([]statelog.Entry{e, again, tombstone(e)})
	if diff := cmp.Diff([]model.Gap{g}, v.Gaps()); diff != "" {
		t.Error(diff)
	}
}
