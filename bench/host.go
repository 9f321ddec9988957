package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
)

// host stands in for a test, since the brokers of internal/kafkatest belong to one: it gives them folders, stops them
// at the end, and turns a fatal failure into an error. The embedded TB is nil; what is not overridden here is not
// used by starting a cluster.
type host struct {
	testing.TB
	ctx      context.Context
	dir      string
	dirs     int
	cleanups []func()
	failed   bool
}

// fatal is what Fatalf panics with; catch turns it into an error.
type fatal struct{ err error }

func newHost(ctx context.Context) (*host, error) {
	dir, err := os.MkdirTemp("", "lockstep-bench-")
	if err != nil {
		return nil, fmt.Errorf("make folder: %w", err)
	}
	return &host{ctx: ctx, dir: dir}, nil
}

// close runs the cleanups, last first, and removes the folder.
func (h *host) close() error {
	for _, f := range slices.Backward(h.cleanups) {
		f()
	}
	return os.RemoveAll(h.dir)
}

// catch runs fn, which gets the host as its test, and returns its fatal failure as an error.
func (h *host) catch(fn func()) (err error) {
	defer func() {
		switch f := recover().(type) {
		case nil:
		case fatal:
			h.failed = true
			err = f.err
		default:
			panic(f)
		}
	}()
	fn()
	return nil
}

func (h *host) Helper()                  {}
func (h *host) Name() string             { return "bench" }
func (h *host) Context() context.Context { return h.ctx }
func (h *host) Failed() bool             { return h.failed }
func (h *host) Cleanup(f func())         { h.cleanups = append(h.cleanups, f) }
func (h *host) Log(args ...any)          { fmt.Fprintln(os.Stderr, args...) }
func (h *host) Logf(f string, a ...any)  { fmt.Fprintf(os.Stderr, f+"\n", a...) }
func (h *host) Fatal(args ...any)        { panic(fatal{errors.New(fmt.Sprint(args...))}) }
func (h *host) Fatalf(f string, a ...any) {
	panic(fatal{fmt.Errorf(f, a...)})
}
func (h *host) Skip(args ...any)          { h.Fatal(args...) }
func (h *host) Skipf(f string, a ...any)  { h.Fatalf(f, a...) }
func (h *host) Errorf(f string, a ...any) { h.Logf(f, a...); h.failed = true }

func (h *host) TempDir() string {
	h.dirs++
	dir := fmt.Sprintf("%s/%s", h.dir, strconv.Itoa(h.dirs))
	if err := os.Mkdir(dir, 0o700); err != nil {
		h.Fatalf("make folder: %w", err)
	}
	return dir
}
