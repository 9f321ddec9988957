package pause

import (
	"context"
	"testing"
	"time"
)

func TestFor(t *testing.T) {
	t.Parallel()
	if !For(t.Context(), time.Microsecond) {
		t.Error("the pause was over and is said not to be")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 { // whatever is ready first
		if For(ctx, time.Hour) || For(ctx, 0) {
			t.Fatal("an ended context did not end the pause")
		}
	}
}
