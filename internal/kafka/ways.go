package kafka

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// maxWays is over how many connections commits go to one broker at most: it serves one request of a connection at a time.
const maxWays = 4

// ways are clients for requests that are many at a time. The first one is there, the others are made when they are needed.
type ways struct {
	mu    sync.Mutex // guards the fields below
	all   []*way
	ended bool
}

// way is one client, and how many requests of it are under way.
type way struct {
	cl   *kgo.Client
	busy int
}

// take returns the client that has least to do. Whoever takes it gives it back.
func (w *ways) take(make func() (*kgo.Client, error)) *way {
	w.mu.Lock()
	defer w.mu.Unlock()
	least := w.all[0]
	for _, o := range w.all {
		if o.busy < least.busy {
			least = o
		}
	}
	if least.busy > 0 && len(w.all) < maxWays && !w.ended {
		if cl, err := make(); err == nil { // without it the others do
			least = &way{cl: cl}
			w.all = append(w.all, least)
		}
	}
	least.busy++
	return least
}

func (w *ways) give(o *way) {
	w.mu.Lock()
	defer w.mu.Unlock()
	o.busy--
}

// close ends all but the first client, which belongs to somebody else.
func (w *ways) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	for _, o := range w.all[min(1, len(w.all)):] {
		o.cl.Close()
	}
}
