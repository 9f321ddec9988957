//go:build failpoint

package replicator

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// failpoints counts how often each place was passed; only test builds have it.
var failpoints struct {
	mu   sync.Mutex
	seen map[string]int
}

// failpoint kills this process with SIGKILL when LOCKSTEP_FAILPOINT is "name:n" and the place is passed the n-th time.
func failpoint(name string) {
	want, nth, ok := strings.Cut(os.Getenv("LOCKSTEP_FAILPOINT"), ":")
	if !ok || want != name {
		return
	}
	failpoints.mu.Lock()
	defer failpoints.mu.Unlock()
	if failpoints.seen == nil {
		failpoints.seen = make(map[string]int)
	}
	failpoints.seen[name]++
	if strconv.Itoa(failpoints.seen[name]) == nth {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal ends the process before anything else happens
	}
}

// firstCount is LOCKSTEP_FIRST_COUNT: lanes that begin close to where the sequence wraps get there at once.
func firstCount() int64 {
	n, err := strconv.ParseInt(os.Getenv("LOCKSTEP_FIRST_COUNT"), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
