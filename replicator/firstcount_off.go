//go:build !failpoint

package replicator

// firstCount is the count at which lanes begin that were never copied; a test build may have them begin elsewhere.
func firstCount() int64 { return 0 }
