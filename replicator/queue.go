package replicator

import (
	"context"
	"sync"
)

// queue hands lanes to workers: a lane stands in it at most once, and one that is pushed while a worker has it comes
// up again. Its lock is a leaf: nothing else is locked under it.
type queue struct {
	mu    sync.Mutex // guards the two fields below
	items []*lane
	in    map[*lane]struct{}

	ready chan struct{} // holds a token while items may be waiting
}

func newQueue() *queue {
	return &queue{in: make(map[*lane]struct{}), ready: make(chan struct{}, 1)}
}

// push adds lanes at the end, except those that are waiting already.
func (q *queue) push(lanes ...*lane) {
	q.mu.Lock()
	for _, l := range lanes {
		if _, ok := q.in[l]; !ok {
			q.in[l] = struct{}{}
			q.items = append(q.items, l)
		}
	}
	q.mu.Unlock()
	q.signal()
}

// pop takes the first lane, if there is one.
func (q *queue) pop() (*lane, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) == 0 {
		return nil, false
	}
	l := q.items[0]
	q.items[0] = nil
	q.items = q.items[1:]
	delete(q.in, l)
	if len(q.items) > 0 {
		q.signal() // another worker may take the next one
	}
	return l, true
}

// wait returns the next lane, or false when ctx has ended.
func (q *queue) wait(ctx context.Context) (*lane, bool) {
	for {
		if l, ok := q.pop(); ok {
			return l, true
		}
		select {
		case <-q.ready:
		case <-ctx.Done():
			return nil, false
		}
	}
}

// drain takes all lanes.
func (q *queue) drain() []*lane {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := q.items
	q.items = nil
	clear(q.in)
	return out
}

func (q *queue) signal() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}
