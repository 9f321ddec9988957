package checkpoint

import (
	"testing"
	"time"

	"lockstep/internal/model"
	"lockstep/offsetsync"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

var orders = Key{"orders", 0}

// mapOf returns a map of spans that ends at a cursor.
func mapOf(t testing.TB, src, dst int64, spans ...model.Span) *offsetsync.Map {
	t.Helper()
	m := &offsetsync.Map{}
	for _, s := range spans {
		if err := m.Append(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.SetEnd(src, dst); err != nil {
		t.Fatal(err)
	}
	return m
}

// laneOf is a lane whose logs both begin at 0.
func laneOf(m *offsetsync.Map) Lane {
	_, dst := m.End()
	return Lane{DstTopic: "orders", Map: m, Opening: 1, SrcEnd: 1 << 40, DstEnd: dst}
}

// standard is a lane of 100,000 records that stand ten offsets lower on the target.
func standard(t testing.TB) Lane {
	return laneOf(mapOf(t, 100_010, 100_000, model.Span{Src: 10, N: 100_000}))
}

// group is an empty classic group with one position in orders/0.
func group(off int64) Group {
	return Group{Type: TypeClassic, Protocol: "consumer", State: "Empty", Offsets: map[Key]Committed{orders: {Offset: off, LeaderEpoch: -1}}}
}

// situation is the group billing at one time.
type situation struct {
	source, target *Group
	lane           Lane
	base           *Base
	rules          Rules
	accept         bool
	sourceFailed   error
	targetFailed   error
	partial        error // of the source
	targetPartial  error
}

func usual() Rules {
	return Rules{Link: "dr", Sync: true, MaxRewind: 10_000, RewindHold: 5 * time.Minute, Retention: 7 * 24 * time.Hour}
}

func (s situation) plan(t *testing.T) []Row {
	t.Helper()
	in := Input{
		Now: start, Rules: s.rules, Lanes: map[Key]Lane{orders: s.lane}, Bases: map[string]map[Key]Base{},
		Source: Picture{Groups: map[string]Group{}, Failed: map[string]error{}, Partial: s.partial},
		Target: Picture{Groups: map[string]Group{}, Failed: map[string]error{}, Partial: s.targetPartial},
		Accept: map[string]bool{"billing": s.accept},
	}
	if in.Rules.Link == "" {
		in.Rules = usual()
	}
	if s.source != nil {
		in.Source.Groups["billing"] = *s.source
	}
	if s.target != nil {
		in.Target.Groups["billing"] = *s.target
	}
	if s.sourceFailed != nil {
		in.Source.Failed["billing"] = s.sourceFailed
	}
	if s.targetFailed != nil {
		in.Target.Failed["billing"] = s.targetFailed
	}
	if s.base != nil {
		in.Bases["billing"] = map[Key]Base{orders: *s.base}
	}
	return Plan(in)
}

func TestPlan_WritesTheTranslation(t *testing.T) {
	t.Parallel()
	src := group(510)
	rows := situation{source: &src, lane: standard(t)}.plan(t)
	if len(rows) != 1 || !rows[0].Write || rows[0].Translated != 500 || rows[0].State != StatePending || rows[0].Base.Next != 500 {
		t.Errorf("%+v", rows)
	}
}
