package checkpoint

import "testing"

// A process that was frozen between its decision and the commit reads the state topic before it goes on: the link may be
// another one's since.
func TestSyncer_TakenOverInTheMiddleOfAPass(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.sides.put("src", "billing", 500)
	r.pass()
	r.sides.put("src", "billing", 600)
	looks := 0
	r.atBarrier = func() {
		if looks++; looks == 2 {
			r.hold.Writes = "another instance took it over"
		}
	}
	r.pass()
	r.wants("billing", StatePending, 490)
}
