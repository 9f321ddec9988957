package kafkatest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// childAttr makes the kernel kill the child when the thread that started it ends; process.run keeps that thread.
// A process group of its own keeps a terminal's interrupt away from the child: the test stops it.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// isFrozen reports whether every thread of the process has stopped: SIGSTOP takes a moment to reach them all.
func isFrozen(pid int) bool {
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(stats) == 0 {
		return false
	}
	for _, name := range stats {
		stat, err := os.ReadFile(name)
		if err != nil {
			continue // this thread has ended
		}
		if state := stat[strings.LastIndexByte(string(stat), ')')+2:]; state[0] != 'T' {
			return false
		}
	}
	return true
}
