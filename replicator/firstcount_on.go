//go:build failpoint

package replicator

import (
	"os"
	"strconv"
)

// firstCount is LOCKSTEP_FIRST_COUNT: lanes that begin close to where the sequence wraps get there at once.
func firstCount() int64 {
	n, err := strconv.ParseInt(os.Getenv("LOCKSTEP_FIRST_COUNT"), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
