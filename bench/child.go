package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// child is a running copier process.
type child struct {
	cmd  *exec.Cmd
	log  bytes.Buffer
	peak atomic.Int64 // bytes, as last looked at
	done chan struct{}
	err  error // how it ended; read after done
}

// usage is what a process used from its start to its end.
type usage struct {
	cpu time.Duration // user and system time
	rss int64         // peak memory, bytes
}

// start runs a copier. Its output is kept and shown only when something goes wrong.
func (j *job) start(ctx context.Context) (*child, error) {
	c := &child{cmd: exec.CommandContext(ctx, j.argv[0], j.argv[1:]...), done: make(chan struct{})}
	c.cmd.Stdout, c.cmd.Stderr = &c.log, &c.log
	c.cmd.Cancel = func() error { return c.cmd.Process.Signal(syscall.SIGTERM) }
	c.cmd.WaitDelay = 10 * time.Second
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", j.argv[0], err)
	}
	go func() {
		defer close(c.done)
		c.err = c.cmd.Wait()
	}()
	return c, nil
}

// look notes the peak of memory so far. It is read while the process lives: what wait4 tells of a child begins with
// the size of its parent, which here is the larger one.
func (c *child) look() {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(c.cmd.Process.Pid) + "/status")
	if err != nil {
		return
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			if kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64); err == nil {
				c.peak.Store(kb << 10)
			}
		}
	}
}

// wait waits for the process to end by itself and tells what it used.
func (c *child) wait() (usage, error) {
	<-c.done
	return c.usage(), c.failure()
}

// stop asks the process to end and waits for it.
func (c *child) stop() (usage, error) {
	c.look()
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return usage{}, fmt.Errorf("stop %s: %w", c.cmd.Path, err)
	}
	return c.wait()
}

func (c *child) usage() usage {
	u := usage{rss: c.peak.Load()}
	if r, ok := c.cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		u.cpu = time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	return u
}

func (c *child) failure() error {
	if c.err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w\n%s", strings.Join(c.cmd.Args, " "), c.err, tail(c.log.String(), 4000))
}

// watched returns a context that also ends when the process does, so that nobody waits for what will not come.
func (c *child) watched(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-c.done:
			cancel(fmt.Errorf("the copier ended before: %w", errors.Join(c.failure(), errEnded)))
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

var errEnded = errors.New("process ended")

func tail(s string, n int) string {
	if len(s) > n {
		return "…" + s[len(s)-n:]
	}
	return s
}
