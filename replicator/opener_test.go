package replicator

import (
	"testing"

	"lockstep/internal/model"
	"lockstep/offsetsync"
)

func TestDecide_EveryWayToEnter(t *testing.T) {
	t.Parallel()
	id := func(b byte) model.TopicID { return model.TopicID{b} }
	ident := model.Identity{DstTopic: "orders", Src: id(1), Dst: id(2)}
	known := func(clean bool, owner string, dst int64) offsetsync.LaneState {
		return offsetsync.LaneState{Clean: clean, Cursor: model.Cursor{Src: 50, Dst: dst, Count: 50},
			Opening: offsetsync.Opening{N: 2, Identity: ident, Term: model.Term{N: 4, Owner: owner}}}
	}
	for name, c := range map[string]struct {
		e      entry
		step   step
		reason model.Reason
	}{
		"new and empty":                {e: entry{start: 7, end: 7}, step: stepFresh},
		"new and not empty":            {e: entry{start: 0, end: 7}, step: stepStop, reason: model.ReasonNotEmpty},
		"clean":                        {e: entry{found: true, end: 50, state: known(true, "me", 50)}, step: stepClean},
		"clean, but written since":     {e: entry{found: true, end: 51, state: known(true, "me", 50)}, step: stepRecover},
		"clean, but of another owner":  {e: entry{found: true, end: 50, state: known(true, "you", 50)}, step: stepRecover},
		"clean, but a new term needed": {e: entry{found: true, end: 50, above: 4, state: known(true, "me", 50)}, step: stepRecover},
		"not clean":                    {e: entry{found: true, end: 50, state: known(false, "me", 50)}, step: stepRecover},
		"target shorter than the state": {e: entry{found: true, end: 49, state: known(true, "me", 50)}, step: stepStop,
			reason: model.ReasonDiverged},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.e.ident = ident
			got, reason, _ := decide(&c.e, "me")
			if got != c.step || reason != c.reason {
				t.Fatalf("step %d, reason %q; want %d, %q", got, reason, c.step, c.reason)
			}
		})
	}
}

func TestDecide_OtherIdentityStops(t *testing.T) {
	t.Parallel()
	was := model.Identity{DstTopic: "orders", Src: model.TopicID{1}, Dst: model.TopicID{2}}
	st := offsetsync.LaneState{Opening: offsetsync.Opening{Identity: was, Term: model.Term{N: 1, Owner: "me"}}, Clean: true}
	for name, c := range map[string]struct {
		now  model.Identity
		want model.Reason
	}{
		"source created again": {model.Identity{DstTopic: "orders", Src: model.TopicID{9}, Dst: model.TopicID{2}}, model.ReasonRecreated},
		"target created again": {model.Identity{DstTopic: "orders", Src: model.TopicID{1}, Dst: model.TopicID{9}}, model.ReasonTargetLost},
		"target renamed":       {model.Identity{DstTopic: "other", Src: model.TopicID{1}, Dst: model.TopicID{2}}, model.ReasonTargetLost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			step, reason, detail := decide(&entry{found: true, ident: c.now, state: st}, "me")
			if step != stepStop || reason != c.want || detail == "" {
				t.Fatalf("step %d, reason %q, detail %q", step, reason, detail)
			}
		})
	}
}
