package replicator

import (
	"context"
	"sync"
	"sync/atomic"
)

// Budget bounds the bytes of fetch answers that the process holds, over all links and lanes. The largest single
// answer may exceed it: a batch is never cut.
type Budget struct {
	limit int64
	used  atomic.Int64

	mu    sync.Mutex // guards freed
	freed chan struct{}
}

// NewBudget returns a budget of so many bytes.
func NewBudget(bytes int64) *Budget {
	return &Budget{limit: bytes, freed: make(chan struct{})}
}

// Used returns the bytes held now.
func (b *Budget) Used() int64 { return b.used.Load() }

// room waits until something is free and returns how much, or false when ctx has ended.
func (b *Budget) room(ctx context.Context) (int64, bool) {
	for {
		b.mu.Lock()
		freed := b.freed
		b.mu.Unlock()
		if n := b.limit - b.used.Load(); n > 0 {
			return n, true
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return 0, false
		}
	}
}

func (b *Budget) take(n int64) { b.used.Add(n) }

func (b *Budget) give(n int64) {
	before := b.used.Add(-n) + n
	if before >= b.limit && before-n < b.limit {
		b.mu.Lock()
		close(b.freed)
		b.freed = make(chan struct{})
		b.mu.Unlock()
	}
}

// buffer counts one fetch answer's memory: every batch of it points into the same array, so the bytes are free only
// when the last batch has been settled.
type buffer struct {
	budget *Budget
	size   int64
	refs   atomic.Int32
}

// newBuffer takes size bytes; the caller holds the first reference.
func newBuffer(b *Budget, size int64) *buffer {
	b.take(size)
	buf := &buffer{budget: b, size: size}
	buf.refs.Store(1)
	return buf
}

func (b *buffer) hold() *buffer {
	b.refs.Add(1)
	return b
}

func (b *buffer) release() {
	if b.refs.Add(-1) == 0 {
		b.budget.give(b.size)
	}
}
