package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"lockstep/internal/kafkatest"
)

// whole is the one package-level state: brokers and the binary cost seconds to get, so all scenarios share them, and Go
// offers TestMain no other way to hand something to tests.
var whole = &wholeRun{}

// wholeRun stands in for a test where something has to outlive single tests. It has those methods of testing.TB that
// kafkatest uses to start clusters.
type wholeRun struct {
	testing.TB // nil

	mu     sync.Mutex // guards the fields below
	undo   []func()
	failed bool

	clusters once[[2]*kafkatest.Cluster]
	program  once[string]
}

// once is a value that is made by whoever needs it first; an error stays.
type once[T any] struct {
	once sync.Once
	v    T
	err  error
}

func (o *once[T]) get(make func() (T, error)) (T, error) {
	o.once.Do(func() {
		o.err = errors.New("given up half-way") // if make panics
		o.v, o.err = make()
	})
	return o.v, o.err
}

func (w *wholeRun) Helper()                  {}
func (w *wholeRun) Context() context.Context { return context.Background() }
func (w *wholeRun) Logf(f string, a ...any)  { fmt.Fprintf(os.Stderr, f+"\n", a...) }

func (w *wholeRun) Cleanup(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.undo = append(w.undo, f)
}

func (w *wholeRun) Failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}

// Fatalf ends start by a panic, which it recovers.
func (w *wholeRun) Fatalf(f string, a ...any) { panic(fmt.Errorf(f, a...)) }

func (w *wholeRun) TempDir() string {
	dir, err := os.MkdirTemp("", "lockstep-e2e-")
	if err != nil {
		w.Fatalf("make folder: %v", err)
	}
	w.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// end undoes everything, the newest first.
func (w *wholeRun) end() {
	w.mu.Lock()
	undo := w.undo
	w.undo = nil
	w.mu.Unlock()
	for i := len(undo) - 1; i >= 0; i-- {
		undo[i]()
	}
}

// pair returns the two clusters that scenarios share: source, target. One node each. Scenarios use topics and links of
// their own there, and leave the brokers alone.
func pair(t testing.TB) (src, dst *kafkatest.Cluster) {
	t.Helper()
	kafkatest.Require(t)
	cs, err := whole.clusters.get(whole.startPair)
	if err != nil {
		t.Fatalf("start the shared clusters: %v", err)
	}
	return cs[0], cs[1]
}

func (w *wholeRun) startPair() (cs [2]*kafkatest.Cluster, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	both := kafkatest.StartAll(w, kafkatest.Options{Authorizer: true}, kafkatest.Options{Authorizer: true})
	return [2]*kafkatest.Cluster(both), nil
}
