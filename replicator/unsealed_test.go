package replicator

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"lockstep/internal/model"
	"lockstep/internal/statelog"
	"lockstep/offsetsync"
	"lockstep/replicator/term"
)

func TestHeir_IsAboveEveryKnownEpochOfTheOldID(t *testing.T) {
	t.Parallel()
	now, old := model.Term{N: 9, PID: 8, Epoch: 0, Owner: "me"}, model.Term{N: 3, PID: 7, Epoch: 12}
	for name, c := range map[string]struct {
		old   model.Term
		known []model.Term
		want  model.Term
	}{
		"only its own":        {old, nil, model.Term{N: 9, PID: 7, Epoch: 13, Owner: "me"}},
		"a later one":         {old, []model.Term{{N: 4, PID: 7, Epoch: 20}, {N: 5, PID: 8, Epoch: 30}}, model.Term{N: 9, PID: 7, Epoch: 21, Owner: "me"}},
		"epochs have run out": {model.Term{PID: 7, Epoch: math.MaxInt16}, nil, now},
	} {
		if got := heir(now, c.old, c.known); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// newEntering returns a lane on its way to an opening that needs a seal.
func newEntering(t *testing.T, way term.Way) (*Manager, *entry) {
	t.Helper()
	m := newTestManager(t)
	m.way.Store(way)
	l := newLane(m, Assignment{Lane: model.Lane{Link: "dr", Topic: "orders"}, Identity: model.Identity{DstTopic: "orders"}}, m.now())
	l.entering, l.unsealed = true, true
	l.setLocked(model.StateOpening, model.ReasonNone, "", m.now())
	return m, &entry{lane: l, marker: -1, state: offsetsync.LaneState{Opening: offsetsync.Opening{Term: model.Term{N: 1, PID: 7, Epoch: 3}}}}
}

func TestVerdictOn_WaitsUnlessNoMarkerIsEverAllowed(t *testing.T) {
	t.Parallel()
	denied := errors.Join(term.ErrDenied, kerr.ClusterAuthorizationFailed)
	oldID := errors.Join(term.ErrOldID, denied)
	for name, c := range map[string]struct {
		way    term.Way
		out    term.Outcome
		on     bool
		reason model.Reason // shown while it waits
	}{
		"sealed":                             {way: term.WayDirect, out: term.Outcome{Marker: 5, Way: term.WayDirect, LeaderEpoch: 4}, on: true},
		"no leader":                          {way: term.WayDirect, out: term.Outcome{Marker: -1, Err: term.ErrNoLeader}, reason: model.ReasonUnsealed},
		"too few replicas":                   {way: term.WayTransaction, out: term.Outcome{Marker: -1, Err: term.ErrBelowMinISR}, reason: model.ReasonUnsealed},
		"nothing is allowed":                 {way: term.WayNone, out: term.Outcome{Marker: -1, Err: denied}, on: true},
		"a right was taken away":             {way: term.WayDirect, out: term.Outcome{Marker: -1, Err: denied}, reason: model.ReasonUnsealed},
		"a topic's right is missing":         {way: term.WayTransaction, out: term.Outcome{Marker: -1, Err: denied}, reason: model.ReasonUnsealed},
		"an old id, no direct markers":       {way: term.WayTransaction, out: term.Outcome{Marker: -1, Err: oldID}, on: true},
		"an old id, direct markers":          {way: term.WayDirect, out: term.Outcome{Marker: -1, Err: oldID}, reason: model.ReasonUnsealed},
		"somebody's newer marker was there":  {way: term.WayDirect, out: term.Outcome{Marker: -1, Err: term.ErrSuperseded}, reason: model.ReasonNone},
		"no way, and no leader for the lane": {way: term.WayNone, out: term.Outcome{Marker: -1, Err: term.ErrNoLeader}, reason: model.ReasonNone},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, e := newEntering(t, c.way)
			m.view = offsetsync.NewView(statelog.New(m.opt.Target, "dr", statelog.Options{}))
			if on := m.verdictOn(e, model.Term{N: 5, PID: 8}, c.out); on != c.on {
				t.Fatalf("goes on: %t, want %t", on, c.on)
			}
			if e.lane.state != model.StateOpening || e.lane.reason != c.reason {
				t.Errorf("shown as %s %q: %s", e.lane.state, e.lane.reason, e.lane.detail)
			}
			if on := e.lane.unsealed; on == c.on {
				t.Errorf("unsealed: %t", on)
			}
			if c.reason == model.ReasonUnsealed && (!strings.Contains(e.lane.detail, "orders/0") || !strings.Contains(e.lane.detail, "since")) {
				t.Errorf("the detail %q names neither partition nor time", e.lane.detail)
			}
			if errors.Is(c.out.Err, term.ErrSuperseded) && (e.lane.termAbove != 5 || !e.lane.seeStop) {
				t.Errorf("next term above %d, looks at the state: %t; a term that was outrun gets nowhere", e.lane.termAbove, e.lane.seeStop)
			}
			if errors.Is(c.out.Err, term.ErrOldID) && c.on && (e.term.PID != 7 || e.term.Epoch != 4) {
				t.Errorf("goes on as producer %d, epoch %d: that ends nothing of producer 7", e.term.PID, e.term.Epoch)
			}
		})
	}
}

// A lane that stays unsealed shows as retrying after ten seconds, under the same reason.
func TestUnsealed_ShowsAsRetrying(t *testing.T) {
	t.Parallel()
	m, e := newEntering(t, term.WayDirect)
	m.later(e.lane, model.ReasonUnsealed, "partition has no leader")
	e.lane.overdue(m.now().Add(retryingAfter))
	if e.lane.state != model.StateRetrying || e.lane.reason != model.ReasonUnsealed {
		t.Fatalf("%s %s", e.lane.state, e.lane.reason)
	}
	e.lane.begin(2, testTerm, model.Cursor{Src: 100, Dst: 10}, m.now().Add(time.Minute))
	if e.lane.state != model.StateCopying || e.lane.reason != model.ReasonNone || e.lane.unsealed {
		t.Fatalf("once it is open: %s %s", e.lane.state, e.lane.reason)
	}
}

func TestDecide_LostMarkerIsSealedAgain(t *testing.T) {
	t.Parallel()
	ident := model.Identity{DstTopic: "orders"}
	state := func(count, dst int64) offsetsync.LaneState {
		return offsetsync.LaneState{Cursor: model.Cursor{Src: 50, Dst: dst, Count: count}, Opening: offsetsync.Opening{N: 3, Identity: ident,
			Term: model.Term{N: 4, Owner: "me"}, Origin: model.Cursor{Src: 50, Dst: 51}, Closed: &offsetsync.Closed{Cursor: model.Cursor{Src: 50, Dst: 50, Count: 50}}}}
	}
	for name, c := range map[string]struct {
		e    entry
		step step
	}{
		"only the marker":             {entry{found: true, end: 50, state: state(0, 51)}, stepRecover},
		"the marker and records":      {entry{found: true, end: 49, state: state(0, 51)}, stepStop},
		"records behind the marker":   {entry{found: true, end: 55, state: state(9, 60)}, stepStop},
		"nothing is lost, marker too": {entry{found: true, end: 51, state: state(0, 51)}, stepRecover},
	} {
		c.e.ident = ident
		if got, _, detail := decide(&c.e, "me"); got != c.step {
			t.Errorf("%s: step %d, want %d (%s)", name, got, c.step, detail)
		}
	}
}
