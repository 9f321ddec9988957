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

// An order that comes before the first pass shows no groups without a time.
func TestSyncer_AcceptBeforeTheFirstPass(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.sides.put("src", "billing", 500)
	if _, err := r.Accept(t.Context(), []string{"billing"}, false); err != nil {
		t.Fatal(err)
	}
	for _, p := range r.heard {
		t.Errorf("told of a pass at %v", p.At)
	}
	r.pass()
	r.wants("billing", StateSynced, 490)
}
