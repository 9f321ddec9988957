package checkpoint

import (
	"errors"
	"strings"
	"testing"
	"time"

	"lockstep/internal/model"
	"lockstep/offsetsync"
)

var errAway = errors.New("the coordinator does not answer")

// base is what lockstep stored an hour ago: it wrote dst for src.
func base(src, dst int64) *Base {
	return &Base{Source: src, Next: dst, At: start.Add(-time.Hour), Opening: 1}
}

func at(off int64) *Group { g := group(off); return &g }

func (s situation) row(t *testing.T) Row {
	t.Helper()
	rows := s.plan(t)
	if len(rows) != 1 {
		t.Fatalf("%d rows: %+v", len(rows), rows)
	}
	return rows[0]
}

// positions plans a group without a base for several source offsets, and compares where it would stand on the target.
func positions(t *testing.T, lane Lane, want map[int64]int64) {
	t.Helper()
	for src, dst := range want {
		r := situation{source: at(src), lane: lane}.row(t)
		if !r.Write || r.Translated != dst {
			t.Errorf("source %d is planned as %d (write %v, %s %s), want %d", src, r.Translated, r.Write, r.State, r.Detail, dst)
		}
	}
}

func TestCase1_HolesMakeNoNegativeLag(t *testing.T) {
	t.Parallel()
	m := mapOf(t, 21, 20, model.Span{Src: 0, Dst: 0, N: 10}, model.Span{Src: 11, Dst: 10, N: 10})
	positions(t, laneOf(m), map[int64]int64{21: 20, 11: 10, 10: 10, 9: 9})
}

func TestCase2_FinishedBehindMarkers(t *testing.T) {
	t.Parallel()
	positions(t, laneOf(mapOf(t, 6, 5, model.Span{N: 5})), map[int64]int64{6: 5, 5: 5, 4: 4})
	positions(t, laneOf(mapOf(t, 8, 5, model.Span{N: 5})), map[int64]int64{8: 5, 7: 5})
}

func TestCase3_EmptySourcePartition(t *testing.T) {
	t.Parallel()
	lane := laneOf(offsetsync.NewMap(100, 0))
	lane.SrcStart, lane.SrcEnd = 100, 100
	positions(t, lane, map[int64]int64{100: 0})
	positions(t, laneOf(offsetsync.NewMap(0, 0)), map[int64]int64{0: 0})
}

func TestCase4_StartedAtLatest(t *testing.T) {
	t.Parallel()
	lane := laneOf(mapOf(t, 1050, 50, model.Span{Src: 1000, N: 50}))
	positions(t, lane, map[int64]int64{400: 0, 1000: 0, 1020: 20})
	r := situation{source: at(400), lane: lane}.row(t)
	if r.Kind != offsetsync.BeforeStart || r.Off != 600 || !strings.Contains(r.Detail, "400 to 999") {
		t.Errorf("%s, %d offsets, %q", r.Kind, r.Off, r.Detail)
	}
}

func TestCase6_RestartTranslatesWhatLagsBehind(t *testing.T) {
	t.Parallel()
	// Nothing but the base and the map that the state topic holds.
	r := situation{source: at(60), target: at(40), base: base(50, 40), lane: standard(t)}.row(t)
	if !r.Write || r.Translated != 50 {
		t.Errorf("%+v", r)
	}
	r = situation{source: at(50), target: at(40), base: base(50, 40), lane: standard(t)}.row(t)
	if r.Write || r.State != StateSynced {
		t.Errorf("%+v", r)
	}
}

func TestCase9_ActiveGroupIsNotRewound(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"Stable", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", ""} {
		target := group(900)
		target.State = state
		for _, b := range []*Base{nil, base(910, 900)} {
			for _, accept := range []bool{false, true} {
				r := situation{source: at(710), target: &target, base: b, lane: standard(t), accept: accept}.row(t)
				if r.Write || r.State != StateActiveOnTarget {
					t.Errorf("in state %q: %s, write %v", state, r.State, r.Write)
				}
			}
		}
	}
	for _, s := range []situation{{targetFailed: errAway}, {targetPartial: errAway}} {
		s.source, s.lane, s.base = at(710), standard(t), base(600, 590)
		if r := s.row(t); r.Write || r.State != StateTargetUnreadable || r.Detail != errAway.Error() {
			t.Errorf("could not be read: %s, write %v", r.State, r.Write)
		}
	}
}

func TestCase11_RestartAfterCutOverRewindsNobody(t *testing.T) {
	t.Parallel()
	s := situation{source: at(510), target: at(800), base: base(510, 500), lane: standard(t)}
	r := s.row(t)
	if r.Write || r.State != StateMovedOnTarget || r.Again != -300 {
		t.Errorf("%s, write %v, again %d", r.State, r.Write, r.Again)
	}
	s.base = nil
	if r := s.row(t); r.Write || r.State != StateExistsOnTarget {
		t.Errorf("without a base: %s, write %v", r.State, r.Write)
	}
	s.accept = true
	if r := s.row(t); !r.Write || r.Translated != 500 || !r.Backwards {
		t.Errorf("accepted: %+v", r)
	}
}

func TestCase12_SameTimestamps(t *testing.T) {
	t.Parallel()
	positions(t, laneOf(mapOf(t, 15, 15, model.Span{N: 15})), map[int64]int64{12: 12, 15: 15})
}

func TestCase24_CommitsWithoutNewRecords(t *testing.T) {
	t.Parallel()
	positions(t, laneOf(mapOf(t, 110, 110, model.Span{N: 110})), map[int64]int64{50: 50, 105: 105})
}

func TestCase28_LaggingGroupsAreAsExact(t *testing.T) {
	t.Parallel()
	positions(t, standard(t), map[int64]int64{1_010: 1_000, 50_010: 50_000, 99_010: 99_000})
}

func TestCase129_OffsetsDoNotExpire(t *testing.T) {
	t.Parallel()
	s := situation{source: at(510), target: at(500), base: base(510, 500), lane: standard(t), rules: usual()}
	for _, c := range []struct {
		retention, age time.Duration
		write          bool
	}{
		{2 * time.Minute, 59 * time.Second, false}, {2 * time.Minute, 61 * time.Second, true},
		{7 * 24 * time.Hour, 11 * time.Hour, false}, {7 * 24 * time.Hour, 13 * time.Hour, true},
		{0, 11 * time.Hour, false}, {0, 13 * time.Hour, true}, {0, -time.Hour, true},
	} {
		s.rules.Retention, s.base.At = c.retention, start.Add(-c.age)
		r := s.row(t)
		if r.Write != c.write || r.Translated != 500 || r.Write && (r.Base.At != start || r.Base.Next != 500 || !r.Save) {
			t.Errorf("kept for %v, written %v ago: write %v, %+v", c.retention, c.age, r.Write, r.Base)
		}
	}
	s.target = nil
	if r := s.row(t); !r.Write || r.Translated != 500 {
		t.Errorf("gone: %+v", r)
	}
	s.target, s.source, s.base.At = at(500), nil, start.Add(-48*time.Hour)
	if r := s.row(t); r.Write {
		t.Errorf("the group is deleted on the source: %+v", r)
	}
}

// What is not followed for now must not be lost meanwhile: somebody may look only days later.
func TestCase129_NorWhileSomebodyHasToLook(t *testing.T) {
	t.Parallel()
	unstable := group(0)
	unstable.Offsets, unstable.Unstable = nil, map[Key]error{orders: errAway}
	target := group(40_000)
	target.Offsets[orders] = Committed{Offset: 40_000, Metadata: "of the good position"}
	for name, s := range map[string]situation{
		"suspect":    {source: at(0)},
		"unstable":   {source: &unstable},
		"unreadable": {sourceFailed: errAway},
	} {
		s.target, s.base, s.lane = &target, base(40_010, 40_000), standard(t)
		s.base.At = start.Add(-13 * time.Hour)
		r := s.row(t)
		if !r.Write || r.Translated != 40_000 || r.Metadata != "of the good position" || r.State == StatePending || r.Base.Source != 40_010 {
			t.Errorf("%s: %+v", name, r)
		}
		state := r.State
		if r.committed(nil, false); r.State != state || r.Target != 40_000 {
			t.Errorf("%s, and written: %+v", name, r)
		}
		s.target = at(41_000)
		if r := s.row(t); r.Write {
			t.Errorf("%s and moved on the target: %+v", name, r)
		}
	}
}

func TestCase139_TargetTrimmedWhatThePositionPointsTo(t *testing.T) {
	t.Parallel()
	lane := laneOf(mapOf(t, 1000, 1000, model.Span{N: 1000}))
	lane.DstStart = 300
	r := situation{source: at(100), lane: lane}.row(t)
	if !r.Write || r.Translated != 300 || !strings.Contains(r.Detail, "100 to 299") {
		t.Errorf("%d, %q", r.Translated, r.Detail)
	}
	positions(t, lane, map[int64]int64{300: 300, 301: 301})
	lane.DstStart = 1010 // the cursor that is known is older
	positions(t, lane, map[int64]int64{100: 1000})
}

func TestCase152_OpenTransactionHoldsThePosition(t *testing.T) {
	t.Parallel()
	src := group(0)
	src.Offsets, src.Unstable = nil, map[Key]error{orders: errors.New("UNSTABLE_OFFSET_COMMIT")}
	r := situation{source: &src, target: at(90), base: base(100, 90), lane: standard(t)}.row(t)
	if r.Write || r.State != StateUnstable || r.Source != 100 || r.Translated != 90 {
		t.Errorf("%+v", r)
	}
	held := group(100) // and what it was before is told too
	held.Unstable = src.Unstable
	if r := (situation{source: &held, target: at(90), base: base(100, 90), lane: standard(t)}).row(t); r.Write || r.State != StateUnstable {
		t.Errorf("%+v", r)
	}
	r = situation{source: &src, lane: standard(t)}.row(t)
	if r.Write || r.State != StateUnstable || r.Source != -1 {
		t.Errorf("never seen before: %+v", r)
	}
	r = situation{source: at(160), target: at(90), base: base(100, 90), lane: standard(t)}.row(t)
	if !r.Write || r.Translated != 150 {
		t.Errorf("after it: %+v", r)
	}
	if r.committed(nil, false); r.State != StateSynced || r.Target != 150 {
		t.Errorf("and written: %+v", r)
	}
}

// A group that stood at 0 when it was first seen, and is through since: somebody who sets it to 0 on the target, to have
// all of it read there, has moved it. What lockstep wrote there once is no reason to take it back.
func TestRule_SetBackToWhereItOnceStood(t *testing.T) {
	t.Parallel()
	b := base(510, 500)
	b.Was = []Stamped{{Offset: 0, At: b.At, Landed: true}}
	r := situation{source: at(510), target: at(500), lane: standard(t), base: b}.row(t)
	if r.State != StateSynced || !r.Save || r.Write {
		t.Fatalf("landed long ago: %+v", r)
	}
	if r := (situation{source: at(510), target: at(0), lane: standard(t), base: &r.Base}).row(t); r.State != StateMovedOnTarget || r.Write {
		t.Errorf("set back: %+v", r)
	}
	if r := (situation{source: at(510), target: at(500), lane: standard(t), base: &r.Base}).row(t); r.Save || r.Write {
		t.Errorf("without news: %+v", r)
	}
	if r := (situation{source: at(510), target: at(0), lane: standard(t), base: b}).row(t); !r.Write {
		t.Errorf("a crash before the commit: %+v", r)
	}
}

// What lockstep wrote into one group of the target tells nothing about another one, which groups.rename names now.
func TestRule_RenameChanges(t *testing.T) {
	t.Parallel()
	in := Input{
		Now: start, Rules: usual(), Lanes: map[Key]Lane{orders: standard(t)}, Bases: map[string]map[Key]Base{"billing": {orders: *base(510, 500)}},
		Source: Picture{Groups: map[string]Group{"billing": group(610)}}, Target: Picture{Groups: map[string]Group{"dr-billing": group(500)}},
	}
	in.Rules.DstGroup = func(g string) string { return "dr-" + g }
	if r := Plan(in)[0]; r.State != StateExistsOnTarget || r.Write {
		t.Errorf("somebody's group, which stands where lockstep put another one: %+v", r)
	}
	in.Target.Groups = nil
	r := Plan(in)[0]
	if !r.Write || r.Base.DstGroup != "dr-billing" || r.Base.wrote(500, start) || r.Backwards {
		t.Errorf("a new group: %+v", r)
	}
	if was := merge(*base(510, 500), r.Base, start.Add(-time.Hour)); len(was) > 0 {
		t.Errorf("read back: %+v", was)
	}
	in.Bases["billing"] = map[Key]Base{orders: r.Base}
	in.Target.Groups = map[string]Group{"dr-billing": group(r.Translated)}
	if r := Plan(in)[0]; r.State != StateSynced || r.Save {
		t.Errorf("written: %+v", r)
	}
	in.Source.Groups = map[string]Group{"billing": group(710)}
	if r := Plan(in)[0]; !r.Write {
		t.Errorf("goes on: %+v", r)
	}
}

// A lane that waits for an operator, or is not open since the last start, may do so for weeks. What the target has stays
// there as long.
func TestRule_WaitingLanesKeepWhatTheTargetHas(t *testing.T) {
	t.Parallel()
	held, unopened := standard(t), standard(t)
	held.Held, unopened.Map = model.ReasonDiverged, nil
	for state, lane := range map[State]Lane{StateLaneHeld: held, StateNotYetCopied: unopened} {
		s := situation{source: at(610), target: at(500), base: base(510, 500), lane: lane}
		if r := s.row(t); r.State != state || r.Write || r.Save {
			t.Errorf("%s, written an hour ago: %+v", state, r)
		}
		s.base.At = start.Add(-13 * time.Hour)
		if r := s.row(t); r.State != state || !r.Write || r.Translated != 500 || r.Base.Next != 500 || r.Base.At != start || !r.Save {
			t.Errorf("%s, written 13 hours ago: %+v", state, r)
		}
		s.target = at(501)
		if r := s.row(t); r.State != state || r.Write || r.Save {
			t.Errorf("%s, moved by somebody: %+v", state, r)
		}
	}
}
