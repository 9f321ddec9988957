package kafkatest

import (
	"testing"
	"time"
)

// Eventually calls look every 20 ms until it says done, and fails the test after the time-out with the last state
// that it described.
func Eventually(t testing.TB, timeout time.Duration, look func() (done bool, lastState string)) {
	t.Helper()
	done, state := poll(timeout, 20*time.Millisecond, look)
	if !done {
		t.Fatalf("not reached in %s; last state: %s", timeout, state)
	}
}

// poll is Eventually without a test, at another pace.
func poll(timeout, every time.Duration, look func() (bool, string)) (bool, string) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	end := time.NewTimer(timeout)
	defer end.Stop()
	for {
		done, state := look()
		if done {
			return true, state
		}
		select {
		case <-tick.C:
		case <-end.C:
			return false, state
		}
	}
}
