package checkpoint

import (
	"errors"
	"testing"
	"time"
)

// A target that forgets soon and cannot be asked for a while forgets as soon as before.
func TestSyncer_RetentionIsNotForgotten(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.sides.retention = 10 * time.Minute
	r.sides.put("src", "billing", 500)
	r.pass()
	r.sides.now = r.sides.now.Add(2 * time.Hour)
	r.passes()
	r.sides.retention, r.sides.retentionErr = 0, errors.New("no answer")
	r.sides.now = r.sides.now.Add(2 * time.Hour)
	before := r.sides.now
	r.passes()
	if at := r.store.of["billing"][orders].At; !at.After(before) {
		t.Errorf("the position was written again at %v, last before %v", at, before)
	}
}
