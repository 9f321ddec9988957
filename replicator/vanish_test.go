package replicator

import (
	"testing"
	"time"
)

func TestVanishing_AlarmsOncePerWave(t *testing.T) {
	t.Parallel()
	var v vanishing
	start := time.Unix(1_700_000_000, 0)
	for _, c := range []struct {
		at     time.Duration
		n      int
		lately int
		alarm  bool
	}{
		{0, 1, 1, false},
		{time.Second, 2, 3, false},
		{61 * time.Second, 3, 3, false}, // all of those before are out of the window
		{62 * time.Second, 1, 4, true},
		{63 * time.Second, 5, 9, false}, // the same wave
		{124 * time.Second, 3, 3, false},
		{125 * time.Second, 2, 5, true}, // another wave
		{300 * time.Second, 2000, 2000, true},
	} {
		lately, alarm := v.note(start.Add(c.at), c.n)
		if lately != c.lately || alarm != c.alarm {
			t.Errorf("after %v, %d more: %d lately, alarm %v; want %d, %v", c.at, c.n, lately, alarm, c.lately, c.alarm)
		}
	}
}
