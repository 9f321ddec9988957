package kafkatest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// process is one child of this test process. Its output goes to a file.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the child has ended
	err  error         // how it ended; read after done
}

// startProcess starts argv with its output appended to logPath. The child is killed by the kernel when this test
// process dies, however that happens.
func startProcess(logPath string, argv ...string) (*process, error) {
	out, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open log of %s: %w", argv[0], err)
	}
	p := &process{cmd: exec.Command(argv[0], argv[1:]...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = childAttr()
	started := make(chan error, 1)
	go p.run(out, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	return p, nil
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
		p.err = p.cmd.Wait()
	}
}

// exited reports whether the child has ended.
func (p *process) exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// signal sends s to this very child; a child that has ended is not an error.
func (p *process) signal(s os.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal process %d: %w", p.cmd.Process.Pid, err)
	}
	return nil
}

// kill ends the child at once and waits for it.
func (p *process) kill() error {
	if err := p.signal(os.Kill); err != nil {
		return err
	}
	<-p.done
	return nil
}

// stop asks the child to end and waits; after the time-out it is killed and an error tells so.
func (p *process) stop(timeout time.Duration) error {
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
		return errors.Join(fmt.Errorf("process %d did not stop in %s", p.cmd.Process.Pid, timeout), p.kill())
	}
}
