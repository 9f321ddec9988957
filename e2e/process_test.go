package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// process is one run of the program. Its output goes to a file.
type process struct {
	cmd     *exec.Cmd
	logFile string
	done    chan struct{} // closed when it has ended
}

// startProcess runs the program. It is killed by the kernel when this test process dies, however that happens.
func startProcess(t testing.TB, logFile string, env []string, args ...string) *process {
	t.Helper()
	out, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(program(t), args...), logFile: logFile, done: make(chan struct{})}
	p.cmd.Env = append(cleanEnv(), env...)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = childAttr()
	started := make(chan error, 1)
	go p.run(out, started)
	if err := <-started; err != nil {
		t.Fatalf("start lockstep: %v", err)
	}
	return p
}

// run starts the child and waits for it on one locked thread: the death signal is tied to the starting thread, which
// must not end before the child does.
func (p *process) run(out *os.File, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer out.Close()
	defer close(p.done)
	err := p.cmd.Start()
	started <- err
	if err == nil {
		_ = p.cmd.Wait() // its state tells how it ended
	}
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// wait returns the exit code, -1 when a signal ended it, and false when it has not ended in time.
func (p *process) wait(d time.Duration) (code int, ok bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode(), true
	case <-timer.C:
		return 0, false
	}
}

// signal sends s to this very process; one that has ended is not an error.
func (p *process) signal(t testing.TB, s os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatalf("signal process %d: %v", p.cmd.Process.Pid, err)
	}
}

// kill ends it at once, without any warning.
func (p *process) kill(t testing.TB) {
	t.Helper()
	p.signal(t, os.Kill)
	<-p.done
}

// freeze suspends it with all its connections open, as a long pause of its machine does; thaw lets it go on.
func (p *process) freeze(t testing.TB) { t.Helper(); p.signal(t, syscall.SIGSTOP) }
func (p *process) thaw(t testing.TB)   { t.Helper(); p.signal(t, syscall.SIGCONT) }

// killedItself reports whether a fail point ended it.
func (p *process) killedItself() bool {
	w, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && w.Signaled() && w.Signal() == syscall.SIGKILL
}

// log returns what it wrote.
func (p *process) log() string {
	b, err := os.ReadFile(p.logFile)
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	return string(b)
}

// tail returns the last lines of a text.
func tail(text string, lines int) string {
	text = strings.TrimRight(text, "\n")
	for i := len(text) - 1; i >= 0; i-- {
		if text[i] == '\n' {
			if lines--; lines == 0 {
				return text[i+1:]
			}
		}
	}
	return text
}

// head returns the first lines of a text.
func head(text string, lines int) string {
	parts := bytes.SplitAfterN([]byte(text), []byte("\n"), lines+1)
	return string(bytes.Join(parts[:min(lines, len(parts))], nil))
}
