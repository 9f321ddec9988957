package kafkatest

import (
	"errors"
	"os"
	"strconv"
	"sync"
	"testing"
)

// Main runs the package's tests, stops the shared clusters and exits. A package that uses Shared has
//
//	func TestMain(m *testing.M) { kafkatest.Main(m) }
func Main(m *testing.M) { os.Exit(M{m}.Run()) }

// M is a test main that stops the shared clusters at its end; it fits goleak.VerifyTestMain(kafkatest.M{m}).
type M struct{ *testing.M }

// Run runs the tests and returns the exit code.
func (m M) Run() int {
	shared.open()
	code := m.M.Run()
	shared.closeAll(code != 0)
	return code
}

// shared is the one package-level state here: starting a cluster costs seconds, so the tests of one package share
// them, and Go offers TestMain no other way to hand something to tests.
var shared = &holder{}

type holder struct {
	// mu guards the fields below; it is not held while a cluster starts.
	mu       sync.Mutex
	inMain   bool
	clusters map[string]func() (*Cluster, error)
}

func (h *holder) open() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.inMain = true
	h.clusters = map[string]func() (*Cluster, error){}
}

// get returns the cluster of this version and size; the first caller starts it and the others wait.
func (h *holder) get(version string, nodes int) (*Cluster, error) {
	h.mu.Lock()
	if !h.inMain {
		h.mu.Unlock()
		return nil, errors.New("the package needs: func TestMain(m *testing.M) { kafkatest.Main(m) }")
	}
	key := version + "/" + strconv.Itoa(nodes)
	start, ok := h.clusters[key]
	if !ok {
		start = sync.OnceValues(func() (*Cluster, error) {
			return launch(Options{Version: version, Nodes: nodes, Authorizer: true})
		})
		h.clusters[key] = start
	}
	h.mu.Unlock()
	return start()
}

func (h *holder) closeAll(failed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, start := range h.clusters {
		if c, err := start(); err == nil {
			c.close()
			c.removeUnless(failed)
		}
	}
	h.inMain, h.clusters = false, nil
}

// Shared returns a cluster that all tests of the package share: plain text, with an authorizer that allows its
// clients everything. Tests use topics of their own (Topic), and leave the brokers alone: who kills, stops or
// reconfigures one uses Start.
func Shared(t testing.TB, version string, nodes int) *Cluster {
	t.Helper()
	Require(t)
	c, err := shared.get(version, nodes)
	if err != nil {
		t.Fatalf("start shared Kafka %s: %v", version, err)
	}
	t.Cleanup(func() { c.printLogs(t) })
	return c
}

// EachVersion runs fn as a parallel subtest against a shared single node of each Kafka version.
func EachVersion(t *testing.T, fn func(t *testing.T, c *Cluster)) {
	t.Helper()
	for _, v := range Versions() {
		t.Run(v, func(t *testing.T) {
			t.Parallel()
			fn(t, Shared(t, v, 1))
		})
	}
}
