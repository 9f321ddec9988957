package reset

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"lockstep/checkpoint"
)

// store is a cluster's groups in memory.
type store struct {
	mu      sync.Mutex // guards the fields below
	groups  map[string]checkpoint.Group
	failed  map[string]error
	looks   int
	onLook  func(s *store, look int) // before a look is answered
	deny    map[checkpoint.Key]error // positions that a commit is refused for
	fail    error                    // of commits and deletions as a whole
	lose    bool                     // acknowledge, and forget
	commits int
}

func newStore(gs ...checkpoint.Group) *store {
	return &store{groups: picture(gs...).Groups, failed: map[string]error{}}
}

func (s *store) Reread(_ context.Context, names []string) checkpoint.Picture {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks++
	if s.onLook != nil {
		s.onLook(s, s.looks)
	}
	p := picture()
	for _, n := range names {
		if err := s.failed[n]; err != nil {
			p.Failed[n] = err
		} else if g, ok := s.groups[n]; ok {
			g.Offsets = maps.Clone(g.Offsets)
			p.Groups[n] = g
		}
	}
	return p
}

func (s *store) Commit(_ context.Context, name string, offsets map[checkpoint.Key]checkpoint.Committed) (map[checkpoint.Key]error, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commits++
	if s.fail != nil {
		return nil, s.fail
	}
	g, ok := s.groups[name]
	if !ok {
		g = group(name)
		s.groups[name] = g
	}
	for k, c := range offsets {
		if s.deny[k] == nil && !s.lose {
			g.Offsets[k] = c
		}
	}
	return s.deny, nil
}

func (s *store) Delete(_ context.Context, name string, keys []checkpoint.Key) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return s.fail
	}
	for _, k := range keys {
		delete(s.groups[name].Offsets, k)
	}
	return nil
}

func (s *store) at(name string, p int32) int64 { return offsetIn(s.groups[name], key("orders", p)) }

// moves are of group g in orders/0 and 1 from where it stands, and of a new group h.
func moves() []Move {
	return []Move{
		{Group: "g", Key: key("orders", 0), Old: 5, New: 7, OldMetadata: "m5", Metadata: "new"},
		{Group: "g", Key: key("orders", 1), Old: 6, New: -1, OldMetadata: "m6"},
		{Group: "h", Key: key("orders", 0), Old: -1, New: 3},
		{Group: "x", Key: key("orders", 0), Old: 1, New: 2, Refused: "active"},
	}
}

func applied(t *testing.T, s *store, keep func([]Move) error) ([]Move, Counts, error) {
	t.Helper()
	if keep == nil {
		keep = func([]Move) error { return nil }
	}
	return Apply(t.Context(), s, "backup", moves(), keep)
}

func TestApply_KeepsWritesAndReadsBack(t *testing.T) {
	t.Parallel()
	s := newStore(group("g", 5, 6))
	var kept []KeptPosition
	out, counts, err := applied(t, s, func(ms []Move) error {
		if s.commits > 0 {
			t.Error("written before the old positions were kept")
		}
		kept = KeptOf(ms)
		return nil
	})
	if err != nil || counts != (Counts{Written: 3, Verified: 3}) {
		t.Fatalf("%+v, %v", counts, err)
	}
	if got := s.groups["g"].Offsets[key("orders", 0)]; got != (checkpoint.Committed{Offset: 7, LeaderEpoch: -1, Metadata: "new"}) || s.at("g", 1) != -1 || s.at("h", 0) != 3 {
		t.Errorf("groups are %+v", s.groups)
	}
	if len(kept) != 3 || kept[0] != (KeptPosition{"g", key("orders", 0), 5, "m5", 7}) || kept[2].Was != -1 {
		t.Errorf("kept %+v", kept)
	}
	if !out[0].Done || !out[1].Done || !out[2].Done || out[3].Done || out[3].Refused != "active" {
		t.Errorf("%+v", out)
	}
}

func TestApply_LeavesOutWhatChangedSinceThePlan(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*store)
		says   string
	}{
		"members came": {func(s *store) {
			g := s.groups["g"]
			g.State = "Stable"
			s.groups["g"] = g
		}, "the group is active"},
		"not readable": {func(s *store) { s.failed["g"] = errors.New("no coordinator") }, "no coordinator"},
		"it moved":     {func(s *store) { s.groups["g"].Offsets[key("orders", 0)] = checkpoint.Committed{Offset: 99} }, "it moved since the plan was made, to 99"},
		"it vanished":  {func(s *store) { delete(s.groups["g"].Offsets, key("orders", 0)) }, "to no position"},
	} {
		s := newStore(group("g", 5, 6))
		c.change(s)
		var kept []Move
		out, counts, err := applied(t, s, func(ms []Move) error { kept = ms; return nil })
		if err != nil || !strings.Contains(out[0].Refused, c.says) || out[0].Done || counts.Written != counts.Verified {
			t.Errorf("%s: %+v, %+v, %v", name, out[0], counts, err)
		}
		for _, m := range kept {
			if m.Group == "g" && m.Partition == 0 {
				t.Errorf("%s: a position was kept that is not written", name)
			}
		}
		if !out[2].Done {
			t.Errorf("%s: the other group was held up: %+v", name, out[2])
		}
	}
}

func TestApply_WritesNothingWhenNothingIsKept(t *testing.T) {
	t.Parallel()
	s := newStore(group("g", 5, 6))
	if _, _, err := applied(t, s, func([]Move) error { return errors.New("state topic is gone") }); err == nil || !strings.Contains(err.Error(), "state topic is gone") {
		t.Fatalf("error %v", err)
	}
	if s.commits != 0 || s.at("g", 0) != 5 || s.at("g", 1) != 6 {
		t.Errorf("groups are %+v after %d commits", s.groups, s.commits)
	}
}

func TestApply_SaysWhatWasNotWritten(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		s    *store
		says string
		want Counts
	}{
		"refused":               {&store{deny: map[checkpoint.Key]error{key("orders", 0): errors.New("group authorization failed")}}, "group authorization failed", Counts{1, 1}},
		"no answer":             {&store{fail: errors.New("timed out")}, "timed out", Counts{0, 0}},
		"acknowledged and lost": {&store{lose: true}, "written, but read back as 5", Counts{3, 1}},
		"not read back": {&store{onLook: func(s *store, look int) {
			if look == 2 {
				s.failed["g"] = errors.New("no coordinator")
			}
		}}, "written, but not read back: no coordinator", Counts{3, 1}},
		"moved at once": {&store{onLook: func(s *store, look int) {
			if look == 2 {
				s.groups["g"].Offsets[key("orders", 0)] = checkpoint.Committed{Offset: 8}
			}
		}}, "written, but read back as 8", Counts{3, 2}},
	} {
		s := c.s
		s.groups, s.failed = picture(group("g", 5, 6)).Groups, map[string]error{}
		out, counts, err := applied(t, s, nil)
		if err != nil || counts != c.want || out[0].Done || !strings.Contains(out[0].Error, c.says) {
			t.Errorf("%s: %+v, %+v, %v, want %q and %+v", name, out[0], counts, err, c.says, c.want)
		}
	}
}

// A member that comes between the look and the commit is seen by the coordinator.
func TestApply_GroupBecomesActiveAtTheLastMoment(t *testing.T) {
	t.Parallel()
	s := newStore(group("g", 5, 6))
	s.deny = map[checkpoint.Key]error{key("orders", 0): kerr.UnknownMemberID}
	out, counts, err := applied(t, s, nil)
	if err != nil || counts.Written != counts.Verified || out[0].Done || !strings.Contains(out[0].Refused, "became active") || s.at("g", 0) != 5 {
		t.Errorf("%+v, %+v, %v", out[0], counts, err)
	}
}

// 58 positions of 20 groups: as many are reported as were written and read back.
func TestApply_CountsAll(t *testing.T) {
	t.Parallel()
	s := newStore()
	var ms []Move
	for i := range 58 {
		ms = append(ms, Move{Group: fmt.Sprintf("g%d", i%20), Key: key("orders", int32(i/20)), Old: -1, New: int64(i)})
	}
	out, counts, err := Apply(t.Context(), s, "backup", ms, func([]Move) error { return nil })
	if err != nil || counts != (Counts{58, 58}) || s.commits != 20 {
		t.Fatalf("%+v, %d commits, %v", counts, s.commits, err)
	}
	for i, m := range out {
		if !m.Done || s.at(m.Group, m.Partition) != int64(i) {
			t.Errorf("%+v stands at %d", m, s.at(m.Group, m.Partition))
		}
	}
}
