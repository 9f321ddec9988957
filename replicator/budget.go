package replicator

import (
	"context"
	"sync"
	"sync/atomic"
)

// Budget bounds the bytes of fetch answers that the process holds, over all links and lanes. The largest single
// answer may exceed it: a batch is never cut.
type Budget struct {
	limit atomic.Int64
	used  atomic.Int64

	mu    sync.Mutex // guards freed
	freed chan struct{}
}

// NewBudget returns a budget of so many bytes.
func NewBudget(bytes int64) *Budget {
	b := &Budget{freed: make(chan struct{})}
	b.limit.Store(bytes)
	return b
}

// SetLimit changes the budget while it is used. What is held above a smaller limit is given back as it is settled.
func (b *Budget) SetLimit(bytes int64) {
	b.limit.Store(bytes)
	b.wake()
}

// Used returns the bytes held now.
func (b *Budget) Used() int64 { return b.used.Load() }

// room waits until something is free and returns how much, or false when ctx has ended.
func (b *Budget) room(ctx context.Context) (int64, bool) {
	for {
		b.mu.Lock()
		freed := b.freed
		b.mu.Unlock()
		if n := b.limit.Load() - b.used.Load(); n > 0 {
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
	before, limit := b.used.Add(-n)+n, b.limit.Load()
	if before >= limit && before-n < limit {
		b.wake()
	}
}

// wake lets everyone look again who waits for room.
func (b *Budget) wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.freed)
	b.freed = make(chan struct{})
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
