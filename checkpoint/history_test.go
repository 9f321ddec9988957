package checkpoint

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// notes is a history and the passes that it is told of.
type notes struct {
	t     *testing.T
	topic *stateTopic
	h     *History
}

func newNotes(t *testing.T) *notes {
	topic := &stateTopic{}
	return &notes{t, topic, newHistory(topic, topic)}
}

func (n *notes) pass(at time.Time, rows ...Row) {
	n.t.Helper()
	if err := n.h.Note(n.t.Context(), Pass{At: at, Rows: rows}); err != nil {
		n.t.Fatal(err)
	}
}

// stood is a row of the group billing at a source offset.
func stood(src int64, s State) Row {
	return Row{Group: "billing", Key: orders, Source: src, Translated: src - 10, Target: src - 10, State: s}
}

// sources are the moments as the source's offsets.
func (n *notes) sources() (out []int64) {
	for _, m := range n.h.Of("billing") {
		out = append(out, m.Positions[0].Source)
	}
	return out
}

func TestHistory_OnePerMinuteAndOnlyWhatChanged(t *testing.T) {
	t.Parallel()
	n := newNotes(t)
	for i := range int64(200) { // three seconds apart, and no longer moving after two minutes
		n.pass(start.Add(time.Duration(i)*3*time.Second), stood(min(i, 40), StateSynced))
	}
	if got := n.sources(); !slices.Equal(got, []int64{0, 20, 40}) {
		t.Errorf("kept %v", got)
	}
	if n.h.Of("another") != nil {
		t.Error("somebody else has a history")
	}
}

// A start shows lanes that are not open yet, which is no news of a group that did not move.
func TestHistory_StartsTakeNoPlace(t *testing.T) {
	t.Parallel()
	n := newNotes(t)
	opening := stood(20, StateNotYetCopied)
	opening.Translated = -1
	for i, s := range []State{StateSynced, StateSuspectSource} {
		for j, r := range []Row{stood(20, s), opening, stood(20, s)} {
			n.pass(start.Add(time.Duration(3*i+j)*10*time.Second), r)
		}
		if got := n.h.Of("billing"); len(got) != i+1 || got[i].Positions[0].State != s {
			t.Errorf("%s: kept %+v", s, got)
		}
	}
	opening.Source = 40
	n.pass(start.Add(4*time.Minute), opening)
	if got := n.sources(); !slices.Equal(got, []int64{20, 20, 40}) {
		t.Errorf("a group that moved while its lane is closed: kept %v", got)
	}
}

func TestHistory_BeforeAndAfterWhatIsUnusual(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ before, after Row }{
		"suspect":  {stood(900, StateSynced), stood(0, StateSuspectSource)},
		"passed":   {stood(0, StateSuspectSource), stood(900, StatePending)},
		"moved":    {stood(900, StateSynced), stood(901, StateMovedOnTarget)},
		"accepted": {stood(900, StateExistsOnTarget), stood(901, StateSynced)},
		"back":     {stood(900, StateSynced), func() Row { r := stood(800, StateSynced); r.Backwards = true; return r }()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNotes(t)
			first := stood(1, c.before.State)
			n.pass(start, first)
			n.pass(start.Add(2*time.Second), c.before)
			n.pass(start.Add(4*time.Second), c.after)
			n.pass(start.Add(6*time.Second), stood(c.after.Source+5, c.after.State))
			if got := n.sources(); !slices.Equal(got, []int64{1, c.before.Source, c.after.Source}) {
				t.Errorf("kept %v", got)
			}
			// They are still there when a day of ordinary moments has passed.
			for i := range int64(24 * 60) {
				n.pass(start.Add(time.Duration(i+1)*time.Minute), stood(10_000+i, c.after.State))
			}
			got := n.sources()
			if !slices.Contains(got, c.before.Source) || !slices.Contains(got, c.after.Source) {
				t.Errorf("a day later: %v", got)
			}
		})
	}
}

// A group about which nothing is decided anew keeps its rows from pass to pass.
func TestHistory_OneMoveBackIsNotedOnce(t *testing.T) {
	t.Parallel()
	n := newNotes(t)
	n.pass(start, stood(900, StateSynced))
	r := stood(800, StateSynced)
	r.Backwards, r.Base.At = true, start.Add(2*time.Second)
	for i := range 20 {
		n.pass(start.Add(time.Duration(i+1)*2*time.Second), r)
	}
	r.Base.At = start.Add(time.Minute)
	r.Source = 700
	n.pass(start.Add(time.Minute), r)
	if got := n.sources(); !slices.Equal(got, []int64{900, 800, 700}) {
		t.Errorf("kept %v", got)
	}
}

func TestHistory_SpreadOverAWeek(t *testing.T) {
	t.Parallel()
	n := newNotes(t)
	now := start
	for i := range int64(9 * 24 * 60) {
		now = start.Add(time.Duration(i) * time.Minute)
		n.pass(now, stood(i, StateSynced))
	}
	ms := n.h.Of("billing")
	if len(ms) != keepMoments {
		t.Fatalf("%d moments", len(ms))
	}
	oldest := now.Sub(ms[0].At)
	if oldest < 3*24*time.Hour || oldest > keepFor+time.Hour || !ms[len(ms)-1].At.Equal(now) {
		t.Errorf("from %v ago to %v", oldest, ms[len(ms)-1].At)
	}
	for i := 1; i < len(ms); i++ {
		a, b := now.Sub(ms[i-1].At)+time.Minute, now.Sub(ms[i].At)+time.Minute
		if ratio := float64(a) / float64(b); ratio > 4 {
			t.Errorf("nothing between %v and %v ago", a, b)
		}
	}
	if len(n.topic.entries) != 9*24*60 {
		t.Errorf("%d records written", len(n.topic.entries))
	}
	keys := map[string]bool{}
	for _, e := range n.topic.entries {
		keys[e.Key] = true
	}
	if len(keys) != keepMoments {
		t.Errorf("%d keys", len(keys))
	}
}

func TestHistory_MarkedOnesDoNotFillIt(t *testing.T) {
	t.Parallel()
	n := newNotes(t)
	for i := range int64(400) {
		state := StateSynced
		if i%2 == 0 {
			state = StateSuspectSource
		}
		n.pass(start.Add(time.Duration(i)*time.Minute), stood(i, state))
	}
	for i := range int64(120) {
		n.pass(start.Add(time.Duration(400+i)*time.Minute), stood(400+i, StateSynced))
	}
	if ms := n.h.Of("billing"); len(ms) != keepMoments {
		t.Errorf("%d moments", len(ms))
	}
	if got := n.sources(); got[0] != 0 || got[len(got)-1] != 519 || got[len(got)-6] < 400 {
		t.Errorf("kept %v", got)
	}
}

func TestHistory_AnotherProcessGoesOn(t *testing.T) {
	t.Parallel()
	n := newNotes(t)
	for i := range int64(100) {
		n.pass(start.Add(time.Duration(i)*time.Minute), stood(100+i, StateSynced), Row{Group: "billing", Key: Key{"other", 3}, Source: i, State: StatePending}, Row{Group: "none"})
	}
	other := newNotes(t)
	other.topic.entries = n.topic.entries
	if err := other.topic.show(); err != nil {
		t.Fatal(err)
	}
	if want, got := fmt.Sprint(n.h.Of("billing")), fmt.Sprint(other.h.Of("billing")); want != got {
		t.Errorf("it reads\n%s\nwant\n%s", got, want)
	}
	other.pass(start.Add(100*time.Minute+time.Second), stood(0, StateSuspectSource))
	ms := other.h.Of("billing")
	if last := ms[len(ms)-1]; last.Positions[0].Source != 0 || ms[len(ms)-2].Positions[len(ms[len(ms)-2].Positions)-2].Source != 199 {
		t.Errorf("%+v", ms[len(ms)-2:])
	}
}

func TestHistory_WhatIsGoneForAWeekIsRemoved(t *testing.T) {
	t.Parallel()
	n := newNotes(t)
	for i := range int64(5) {
		n.pass(start.Add(time.Duration(i)*time.Minute), stood(i, StateSynced))
	}
	n.pass(start.Add(6 * 24 * time.Hour))
	if len(n.h.Of("billing")) != 5 {
		t.Error("gone too early")
	}
	n.pass(start.Add(8 * 24 * time.Hour))
	if len(n.h.Of("billing")) != 0 {
		t.Errorf("%+v", n.h.Of("billing"))
	}
	left := map[string]bool{}
	for _, e := range n.topic.entries {
		left[e.Key] = e.Value != nil
	}
	for k, there := range left {
		if there {
			t.Errorf("%s is still stored", k)
		}
	}
}

func TestHistory_PassThatFailedOrCannotBeStored(t *testing.T) {
	t.Parallel()
	n := newNotes(t)
	if err := n.h.Note(t.Context(), Pass{At: start, Rows: []Row{stood(1, StateSourceUnreadable)}, Err: errAway}); err != nil || len(n.sources()) > 0 {
		t.Errorf("%v, %v", err, n.sources())
	}
	n.topic.fail = errAway
	if err := n.h.Note(t.Context(), Pass{At: start, Rows: []Row{stood(1, StateSynced)}}); err == nil || len(n.sources()) > 0 {
		t.Errorf("%v, %v", err, n.sources())
	}
	n.topic.fail = nil
	n.pass(start.Add(time.Second), stood(2, StateSynced))
	if got := n.sources(); !slices.Equal(got, []int64{2}) {
		t.Errorf("kept %v", got)
	}
}
