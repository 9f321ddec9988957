package e2e

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// childAttr makes the kernel kill the child when the thread that started it ends; process.run keeps that thread.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// clockTick is the unit of processor time in /proc on every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

// processorTime returns what all threads of a process have used so far.
func processorTime(t testing.TB, pid int) time.Duration {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:])) // the name before may hold anything
	sum := time.Duration(0)
	for _, f := range fields[11:13] { // utime, stime
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += time.Duration(n) * clockTick
	}
	return sum
}

// peakMemory returns the largest resident size that a process ever had, in bytes.
func peakMemory(t testing.TB, pid int) int64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(b), "VmHWM:")
	number, _, ok2 := strings.Cut(strings.TrimSpace(rest), " kB")
	n, err := strconv.ParseInt(number, 10, 64)
	if !ok || !ok2 || err != nil {
		t.Fatalf("no peak in %q", b)
	}
	return n << 10
}
