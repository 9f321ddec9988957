//go:build !linux

package e2e

import (
	"syscall"
	"testing"
	"time"
)

// childAttr: only Linux can tie a child's life to its parent's; elsewhere a killed test leaves its child behind.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

func processorTime(t testing.TB, _ int) time.Duration {
	t.Helper()
	t.Skip("what a process uses is read from /proc, which is Linux's")
	return 0
}

func peakMemory(t testing.TB, _ int) int64 {
	t.Helper()
	t.Skip("what a process uses is read from /proc, which is Linux's")
	return 0
}
