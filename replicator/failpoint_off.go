//go:build !failpoint

package replicator

// failpoint marks a place where a test build may kill the process.
func failpoint(string) {}
