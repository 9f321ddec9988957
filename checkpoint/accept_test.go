package checkpoint

import "testing"

// An order about one group does not make the next pass believe that it never saw the others: those that a coordinator
// does not list for a moment would have vanished.
func TestSyncer_AcceptLooksAtAllGroups(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, group := range []string{"billing", "audit", "x-left-out"} {
		r.sides.put("src", group, 100)
	}
	r.pass()
	if _, err := r.Accept(t.Context(), []string{"billing"}, true); err != nil {
		t.Fatal(err)
	}
	if len(r.sides.seen) != 2 {
		t.Errorf("looked at %q", r.sides.seen)
	}
}
