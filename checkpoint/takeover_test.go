package checkpoint

import (
	"context"
	"testing"
	"testing/synctest"
)

// A process that was frozen between its decision and the commit reads the state topic before it goes on: the link may be
// another one's since.
func TestSyncer_TakenOverInTheMiddleOfAPass(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.sides.put("src", "billing", 500)
	r.pass()
	r.sides.put("src", "billing", 600)
	looks := 0
	r.atBarrier = func(context.Context) error {
		if looks++; looks == 2 {
			r.hold.Writes = "another instance took it over"
		}
		return nil
	}
	r.pass()
	r.wants("billing", StatePending, 490)
}

// While the state topic cannot be read, the groups are shown as what they are: not followed.
func TestSyncer_StateTopicDoesNotAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.sides.put("src", "billing", 500)
		r.pass()
		r.atBarrier = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		if p := r.pass(); p.Err == nil {
			t.Error("the pass has no error")
		}
		r.wants("billing", StateTargetUnreadable, 490)
		r.atBarrier = nil
		r.pass()
		r.wants("billing", StateSynced, 490)
	})
}
