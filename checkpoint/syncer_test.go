package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"lockstep/internal/model"
)

func TestSyncer_FollowsTheSource(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.sides.put("src", "billing", 500)
	r.sides.put("src", "y-audit", 700)
	r.pass()
	r.wants("billing", StateSynced, 490)
	if s, _ := r.Last().Summary("y-audit", nil); s.State != StateSynced || s.DstGroup != "renamed-y-audit" || r.sides.at("dst", "renamed-y-audit") != 690 {
		t.Errorf("the renamed group is %+v", s)
	}
	r.sides.put("src", "billing", 600)
	r.pass()
	r.wants("billing", StateSynced, 590)
	r.sides.put("src", "billing", 550) // moved back on the source, by little
	r.pass()
	r.wants("billing", StateSynced, 540)
	if n := len(r.heard); n != 3 || r.heard[2].Err != nil || len(r.heard[2].Rows) != 2 {
		t.Errorf("the listener heard %d passes, %+v", n, r.heard)
	}
}

// A position ahead of what was copied stands at the cursor, and follows when more is copied.
func TestSyncer_FollowsTheCopying(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.sides.put("src", "billing", 100_050)
	r.sides.ends[orders] = 100_100
	lane := r.lanes[orders]
	lane.SrcEnd = 100_010
	r.lanes[orders] = lane
	r.pass()
	r.wants("billing", StateSynced, 100_000)
	if len(r.sides.asked) == 0 {
		t.Error("the end of the source was not asked for, although the lane saw less than the group read")
	}
	r.copied(orders, 30)
	r.pass()
	r.wants("billing", StateSynced, 100_030)
	r.copied(orders, 30)
	r.pass()
	r.wants("billing", StateSynced, 100_040)
}

func TestSyncer_NothingIsReadAnewWhileNothingChanges(t *testing.T) {
	t.Parallel()
	const groups = 300
	r := newRig(t)
	for g := range groups {
		r.sides.put("src", fmt.Sprintf("group-%d", g), int64(500+g))
	}
	r.pass()
	r.sides.read = 0
	before := r.Last()
	for range 15 {
		r.pass()
	}
	if n := r.sides.read; n != groups {
		t.Errorf("in 30 s %d groups were read on the target, want each of %d once", n, groups)
	}
	if after := r.Last(); &before.Rows[0] != &after.Rows[0] {
		t.Error("rows were made anew although nothing changed")
	}
	r.sides.put("src", "group-7", 900)
	r.sides.read = 0
	if r.pass(); r.sides.at("dst", "group-7") != 890 || r.sides.read > groups/5 {
		t.Errorf("group-7 stands at %d, %d groups were read", r.sides.at("dst", "group-7"), r.sides.read)
	}
}

func TestSyncer_WhatOthersDoOnTheTarget(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, g := range []string{"active", "moved", "before"} {
		r.sides.put("src", g, 500)
	}
	r.sides.put("dst", "before", 3)
	r.pass()
	r.wants("before", StateExistsOnTarget, 3)
	r.sides.become("dst", "active", "Stable")
	r.sides.put("dst", "moved", 30)
	r.sides.put("src", "active", 520)
	r.passes()
	r.wants("active", StateActiveOnTarget, 490)
	r.wants("moved", StateMovedOnTarget, 30)
	r.logged("state=moved_on_target count=1 groups=[moved]", 1)
	r.logged("state=exists_on_target count=1 groups=[before]", 1)
	r.logged("active_on_target", 0) // is no fault
	r.restart()
	r.pass()
	r.wants("active", StateActiveOnTarget, 490)
	r.wants("moved", StateMovedOnTarget, 30)
	r.wants("before", StateExistsOnTarget, 3)
	r.sides.become("dst", "active", "Empty")
	r.pass()
	r.wants("active", StateSynced, 510)
}

// A group that gets members between the look and the write is not rewound.
func TestSyncer_BecomesActiveBetweenLookAndWrite(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.sides.put("src", "billing", 500)
	r.pass()
	r.sides.put("src", "billing", 600)
	r.sides.before = func() {
		r.sides.put("dst", "billing", 900)
		r.sides.become("dst", "billing", "Stable")
	}
	r.pass()
	r.wants("billing", StateActiveOnTarget, 900)
}

func TestSyncer_SourceAway(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.sides.put("src", "billing", 500)
	good := r.pass()
	r.sides.srcErr = errors.New("connection refused")
	for range 5 {
		r.pass()
	}
	s := r.wants("billing", StateSourceUnreadable, 490)
	if p := r.Last(); p.Err == nil || !p.At.Equal(good.At) || !s.Read.Equal(good.At) || s.Rows[0].Source != 500 || !strings.Contains(s.Detail, "connection refused") {
		t.Errorf("while the source is away the pass is %+v, the group %+v", p, s)
	}
	r.logged("groups cannot be kept in step", 1)
	r.sides.srcErr = nil
	r.sides.put("src", "billing", 501)
	r.pass()
	r.wants("billing", StateSynced, 491)
	r.logged("groups are kept in step again", 1)
	r.sides.dstErr = errors.New("broken pipe")
	r.pass()
	r.wants("billing", StateTargetUnreadable, 491)
	r.sides.srcErr, r.sides.dstErr = errors.New("refused"), nil
	r.pass()
	r.logged("groups cannot be kept in step", 3)
}

// One group that cannot be read, and groups that an incomplete list lacks, are as they were; nothing has vanished.
func TestSyncer_SomeGroupsUnreadable(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.sides.put("src", "billing", 500)
	r.sides.put("src", "audit", 600)
	good := r.pass()
	r.sides.failed = map[string]error{"billing": errors.New("the coordinator is loading")}
	r.sides.put("src", "audit", 601)
	r.pass()
	p := r.pass()
	s := r.wants("billing", StateSourceUnreadable, 490)
	r.wants("audit", StateSynced, 591)
	if !s.Read.Equal(good.At) || s.Type != TypeClassic || p.Err != nil || !p.At.After(good.At) {
		t.Errorf("the group is %+v, of %v; the pass is of %v, %v", s, s.Read, p.At, p.Err)
	}
	r.sides.failed = nil
	r.pass()
	r.wants("billing", StateSynced, 490)

	delete(r.sides.src, "billing")
	r.sides.partial = errors.New("a broker did not answer")
	r.passes()
	r.wants("billing", StateSourceUnreadable, 490)
	r.sides.partial = nil
	r.pass()
	r.wants("billing", StateSuspectSource, 490)
	r.sides.put("src", "billing", 505)
	r.pass()
	r.wants("billing", StateSynced, 495)
}

func TestSyncer_EveryGroupIsExplained(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.sides.put("src", "x-left-out", 5)
	r.sides.putIn("src", "elsewhere", map[Key]Committed{{"payments", 0}: {Offset: 5}})
	r.sides.putIn("src", "waiting", map[Key]Committed{{"later", 2}: {Offset: 5}})
	r.sides.putIn("src", "shared", nil)
	shared := r.sides.src["shared"]
	shared.Type = TypeShare
	r.sides.src["shared"] = shared
	r.pass()
	for group, want := range map[string]State{"x-left-out": StateExcluded, "elsewhere": StateNoMirroredTopics, "waiting": StateNotYetCopied, "shared": StateUnsupportedType} {
		if s := r.wants(group, want, -1); s.Shown() != (want == StateNotYetCopied || want == StateUnsupportedType) {
			t.Errorf("%s: shown is %v", group, s.Shown())
		}
	}
	if s, _ := r.Last().Summary("x-left-out", nil); s.Detail != "groups.exclude matches" {
		t.Errorf("the reason is %q", s.Detail)
	}
	delete(r.sides.src, "x-left-out")
	delete(r.sides.src, "elsewhere")
	r.pass()
	for _, group := range []string{"x-left-out", "elsewhere"} {
		if s, ok := r.Last().Summary(group, nil); ok {
			t.Errorf("%s is gone, and shown as %+v", group, s)
		}
	}
}

func TestSyncer_SettingsChangeWhileItRuns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.sides.put("src", "x-one", 500)
	r.sides.put("src", "billing", 500)
	r.pass()
	r.wants("x-one", StateExcluded, -1)
	set := r.set
	set.Filter = prefixed{except: "x-one"}
	r.Tune(set)
	r.pass()
	r.wants("x-one", StateSynced, 490)
	r.Tune(r.set)
	r.sides.put("src", "x-one", 600)
	r.pass()
	r.wants("x-one", StateExcluded, 490)
	set.Sync = false
	r.Tune(set)
	r.sides.put("src", "billing", 600)
	r.pass()
	r.wants("billing", StateSyncOff, 490)
	set.Sync = true
	r.Tune(set)
	r.pass()
	r.wants("billing", StateSynced, 590)
	r.wants("x-one", StateSynced, 590)
}

func TestSyncer_PausedLinkWritesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.sides.put("src", "billing", 500)
	r.pass()
	r.hold.Writes = "the link is paused by ann"
	r.sides.put("src", "billing", 600)
	r.pass()
	if s := r.wants("billing", StateSyncOff, 490); s.Detail != r.hold.Writes || s.Rows[0].Translated != 590 {
		t.Errorf("the group is %+v", s)
	}
	if _, err := r.Accept(t.Context(), []string{"billing"}, false); err == nil || !strings.Contains(err.Error(), "paused") {
		t.Errorf("accept while paused: %v", err)
	}
	r.hold.Writes = ""
	r.pass()
	r.wants("billing", StateSynced, 590)
}

func TestSyncer_ReplacedSourceIsNotLookedAt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.sides.put("src", "billing", 500)
	r.pass()
	r.hold.Source = "another cluster answers"
	clear(r.sides.src)
	r.passes()
	if s := r.wants("billing", StateLaneHeld, 490); !strings.Contains(s.Detail, "another cluster answers") {
		t.Errorf("the group is %+v", s)
	}
	r.hold.Source = ""
	r.sides.put("src", "billing", 500)
	r.pass()
	r.wants("billing", StateSynced, 490)
}

// What begins to hold the link in the middle of a pass holds its writes.
func TestSyncer_HeldInTheMiddleOfAPass(t *testing.T) {
	t.Parallel()
	for _, hold := range []Hold{{Source: "another cluster answers"}, {Writes: "paused"}} {
		r := newRig(t)
		r.sides.put("src", "billing", 500)
		r.pass()
		r.sides.put("src", "billing", 600)
		asked := 0
		r.opt.Hold = func() Hold {
			if asked++; asked > 1 {
				return hold
			}
			return Hold{}
		}
		if p := r.pass(); p.Err == nil {
			t.Errorf("%+v: the pass shows no error", hold)
		}
		r.wants("billing", StatePending, 490)
		if b := r.store.of["billing"][orders]; b.Next != 490 {
			t.Errorf("%+v: the base is %+v", hold, b)
		}
	}
}

// Without a durable base nothing is committed: a crash in between would make of us a stranger.
func TestSyncer_BaseComesFirst(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.sides.put("src", "billing", 500)
	r.store.err = errors.New("not enough replicas")
	if p := r.pass(); p.Err == nil {
		t.Error("the pass shows no error")
	}
	if s := r.wants("billing", StatePending, -1); !strings.Contains(s.Detail, "not enough replicas") {
		t.Errorf("the group is %+v", s)
	}
	r.store.err = nil
	r.pass()
	r.wants("billing", StateSynced, 490)

	r.sides.put("src", "billing", 600)
	r.sides.before = func() {
		if b := r.store.of["billing"][orders]; b.Next != 590 {
			t.Errorf("the base right before the commit is %+v", b)
		}
	}
	r.pass()
	r.wants("billing", StateSynced, 590)
}

// A crash between storing the base and committing leaves nothing behind.
func TestSyncer_DiesBetweenBaseAndCommit(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.sides.put("src", "billing", 500)
	r.pass()
	r.sides.put("src", "billing", 600)
	r.opt.Sides = deadSides{r.sides}
	r.pass()
	if r.store.of["billing"][orders].Next != 590 || r.sides.at("dst", "billing") != 490 {
		t.Fatal("the test did not die where it wants to")
	}
	r.restart()
	r.pass()
	r.wants("billing", StateSynced, 590)
}

// deadSides write nothing.
type deadSides struct{ *fakeSides }

func (d deadSides) Apply(_ context.Context, rows []Row) []Row { return rows }

func TestSyncer_LaneHeldAndOpenedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.sides.put("src", "billing", 500)
	r.pass()
	lane := r.lanes[orders]
	lane.Held = model.ReasonRecreated
	r.lanes[orders] = lane
	r.sides.put("src", "billing", 5)
	r.pass()
	r.wants("billing", StateLaneHeld, 490)
	lane.Held, lane.Opening = model.ReasonNone, 2
	lane.Map = mapOf(t, 100, 100_090, model.Span{Src: 0, Dst: 99_990, N: 100})
	r.lanes[orders] = lane
	r.pass()
	r.wants("billing", StateSynced, 99_995)
}

// A topic that was deleted and made again is noticed seconds later by whoever watches topics. A group that begins anew in
// it does not take the target back meanwhile.
func TestSyncer_TopicMadeAgainMovesNothingBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	lane := r.lanes[orders]
	lane.SrcID = model.TopicID{1}
	r.lanes[orders] = lane
	r.sides.put("src", "billing", 500)
	r.pass()
	r.sides.put("src", "billing", 50)
	for _, ids := range []map[string]model.TopicID{{"orders": {2}}, nil} {
		r.sides.ids = ids
		r.pass()
		if s, _ := r.Last().Summary("billing", nil); r.sides.at("dst", "billing") != 490 || s.State == StateSynced || r.store.of["billing"][orders].Next != 490 {
			t.Errorf("ids %v: the group is %+v, its base %+v", ids, s, r.store.of["billing"])
		}
	}
	r.sides.ids = map[string]model.TopicID{"orders": {1}}
	r.passes()
	r.wants("billing", StateSynced, 40)
}

func TestSyncer_RunPassesAndWakes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.sides.put("src", "billing", 500)
	heard := make(chan Pass, 10)
	r.opt.Listeners = []Listener{listen(heard)}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	slow := r.set
	slow.Interval = time.Hour
	r.Tune(slow)
	<-r.wake
	go func() { defer close(ended); r.Run(ctx) }()
	<-heard
	slow.MaxRewind++
	r.Tune(slow) // does not wait for an hour
	<-heard
	stop()
	<-ended
}

type listen chan Pass

func (l listen) Passed(p Pass) { l <- p }

func TestAccept_PlansThenDoes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, g := range []string{"moved", "before", "active", "fine"} {
		r.sides.put("src", g, 500)
	}
	r.sides.put("dst", "before", 600)
	r.pass()
	r.sides.put("dst", "moved", 30)
	r.sides.become("dst", "active", "Stable")
	r.sides.put("src", "active", 600)
	r.passes()
	groups := []string{"moved", "before", "active", "fine", "x-out", "nobody"}
	plan, err := r.Accept(t.Context(), groups, true)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"dr:moved orders/0": "30 -> 490", "dr:before orders/0": "600 -> 490", "dr:active": "refused", "dr:fine": "refused", "dr:x-out": "refused", "dr:nobody": "refused"}
	checkSteps(t, plan, want, false)
	r.wants("moved", StateMovedOnTarget, 30)
	done, err := r.Accept(t.Context(), groups, false)
	if err != nil {
		t.Fatal(err)
	}
	checkSteps(t, done, want, true)
	r.wants("moved", StateSynced, 490)
	r.wants("before", StateSynced, 490)
	r.passes()
	r.wants("moved", StateSynced, 490)
	r.wants("active", StateActiveOnTarget, 490)
}

func checkSteps(t *testing.T, steps []model.OrderStep, want map[string]string, done bool) {
	t.Helper()
	if len(steps) != len(want) {
		t.Errorf("%d steps, want %d: %+v", len(steps), len(want), steps)
	}
	for _, s := range steps {
		text, ok := want[s.Subject]
		refused := text == "refused"
		if !ok || refused != (s.Refused != "") || !refused && !strings.Contains(s.Does, text) || s.Done != (done && !refused) || s.Error != "" {
			t.Errorf("want %q: %+v", text, s)
		}
	}
}

// A source position that is suspect is followed when it is accepted; one that vanished is forgotten.
func TestAccept_SuspectSource(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.sides.put("src", "reset", 50_000)
	r.sides.put("src", "gone", 500)
	r.pass()
	r.sides.put("src", "reset", 0)
	delete(r.sides.src, "gone")
	r.passes()
	r.wants("reset", StateSuspectSource, 49_990)
	r.wants("gone", StateSuspectSource, 490)
	steps, err := r.Accept(t.Context(), []string{"reset", "gone"}, false)
	if err != nil || len(steps) != 2 || !steps[0].Done || !steps[1].Done {
		t.Fatalf("%+v, %v", steps, err)
	}
	r.wants("reset", StateSynced, 0)
	r.passes()
	r.wants("reset", StateSynced, 0)
	if s, there := r.Last().Summary("gone", nil); there || len(r.store.of["gone"]) > 0 || r.sides.at("dst", "gone") != 490 {
		t.Errorf("the forgotten group is %+v, its bases %v", s, r.store.of["gone"])
	}
}
