//go:build linux

package kafkatest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestProcess_DiesWithTheTest kills a stand-in for the test process, which has no chance to clean up, and finds its
// child gone.
func TestProcess_DiesWithTheTest(t *testing.T) {
	t.Parallel()
	parent := exec.Command(os.Args[0], "-test.run=^TestProcess_standIn$")
	parent.Env = append(os.Environ(), "KAFKATEST_STAND_IN=1")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	var pid int
	for pid == 0 && lines.Scan() {
		if s, ok := strings.CutPrefix(lines.Text(), "child "); ok {
			if pid, err = strconv.Atoi(s); err != nil {
				t.Fatal(err)
			}
		}
	}
	if pid == 0 || !isRunning(pid) {
		t.Fatalf("no child is running (pid %d)", pid)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // it was killed
	Eventually(t, 10*time.Second, func() (bool, string) {
		return !isAlive(pid), fmt.Sprintf("process %d still runs", pid)
	})
}

// TestProcess_standIn is the process that TestProcess_DiesWithTheTest kills; by itself it does nothing.
func TestProcess_standIn(t *testing.T) {
	if os.Getenv("KAFKATEST_STAND_IN") != "1" {
		return // not inside of TestProcess_DiesWithTheTest
	}
	p, err := startProcess(os.DevNull, "sleep", "60")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("child %d\n", p.cmd.Process.Pid)
	<-p.done
}

// isAlive is isRunning without dead processes that nobody has waited for yet.
func isAlive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

func TestPort_TakenOnce(t *testing.T) {
	t.Parallel()
	ps, err := takePorts(20)
	if err != nil {
		t.Fatal(err)
	}
	defer freePorts(ps)
	seen := map[int]bool{}
	for _, p := range ps {
		if seen[p.number] {
			t.Fatalf("port %d was given twice", p.number)
		}
		seen[p.number] = true
	}
}

func TestPoll_TellsTheLastState(t *testing.T) {
	t.Parallel()
	n := 0
	done, state := poll(100*time.Millisecond, time.Millisecond, func() (bool, string) { n++; return false, fmt.Sprintf("look %d", n) })
	if done || state != fmt.Sprintf("look %d", n) || n < 2 {
		t.Fatalf("done %v, state %q after %d looks", done, state, n)
	}
}
