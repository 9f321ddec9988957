//go:build failpoint

package failpoint

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// seen counts how often each place was passed; only test builds have it.
var seen struct {
	mu    sync.Mutex
	times map[string]int
}

// Pass kills this process with SIGKILL when LOCKSTEP_FAILPOINT is "name:n" and the place is passed the n-th time.
func Pass(name string) {
	want, nth, ok := strings.Cut(os.Getenv("LOCKSTEP_FAILPOINT"), ":")
	if !ok || want != name {
		return
	}
	seen.mu.Lock()
	defer seen.mu.Unlock()
	if seen.times == nil {
		seen.times = make(map[string]int)
	}
	seen.times[name]++
	if strconv.Itoa(seen.times[name]) == nth {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal ends the process before anything else happens
	}
}
