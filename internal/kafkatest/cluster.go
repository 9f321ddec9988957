package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Cluster is a running Kafka cluster of real broker processes. Its methods that take a node may be called from one
// goroutine at a time per node.
type Cluster struct {
	opts  Options
	in    *install
	root  string // removed at the end
	dir   string // in it, one per try to start
	id    string
	nodes []*node
	certs *Certs // nil without TLS
	admin *kgo.Client
	stop  sync.Once
}

// Start runs a cluster for this test alone and returns when it takes topics. It is stopped by t.Cleanup; when the
// test failed, the ends of the brokers' logs are printed. It skips the test as Require does.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	return StartAll(t, o)[0]
}

// StartAll is Start for several clusters at once, which takes less time than one after the other.
func StartAll(t testing.TB, os ...Options) []*Cluster {
	t.Helper()
	Require(t)
	cs := make([]*Cluster, len(os))
	errs := make([]error, len(os))
	var wg sync.WaitGroup
	for i, o := range os {
		wg.Go(func() { cs[i], errs[i] = launch(o) })
	}
	wg.Wait()
	for _, c := range cs {
		if c != nil {
			t.Cleanup(func() { c.printLogs(t); c.close(); c.removeUnless(t.Failed()) })
		}
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatalf("start Kafka: %v", err)
	}
	return cs
}

// launch starts a cluster, with fresh ports when somebody took one in the meantime.
func launch(o Options) (*Cluster, error) {
	o = o.withDefaults()
	dir, err := tempDir()
	if err != nil {
		return nil, err
	}
	in, err := loadInstall(o.Version)
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		c, err := launchOnce(filepath.Join(dir, strconv.Itoa(try)), in, o)
		if err == nil {
			c.root = dir
		}
		if err == nil || try == 3 || !errors.Is(err, errPortTaken) {
			return c, err
		}
	}
}

var errPortTaken = errors.New("port is taken")

func launchOnce(dir string, in *install, o Options) (_ *Cluster, err error) {
	c := &Cluster{opts: o, in: in, dir: dir, id: newUUID()}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	if err := c.prepare(); err != nil {
		return nil, err
	}
	for _, n := range c.nodes {
		if err := n.start(in, o.HeapMB); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), o.ReadyIn)
	defer cancel()
	if err := c.awaitReady(ctx); err != nil {
		return nil, err
	}
	return c, c.createUsers(ctx)
}

// prepare makes folders, ports, certificates, settings and the admin client; nothing runs yet.
func (c *Cluster) prepare() error {
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	if c.opts.Security.TLS {
		certs, err := NewCerts(c.dir)
		if err != nil {
			return err
		}
		c.certs = certs
	}
	for i := range c.opts.Nodes {
		ps, err := takePorts(listeners)
		if err != nil {
			return err
		}
		n := &node{id: int32(i + 1), dir: filepath.Join(c.dir, "node"+strconv.Itoa(i+1)), ports: ps}
		c.nodes = append(c.nodes, n)
		if c.opts.Proxied {
			if n.proxy, err = newProxy(ps[listenClient].addr()); err != nil {
				return err
			}
		}
	}
	for _, n := range c.nodes {
		if err := n.format(c.in, c.id); err != nil {
			return err
		}
		if err := n.writeConfig(c.properties(n)); err != nil {
			return err
		}
	}
	var err error
	c.admin, err = kgo.NewClient(append(c.internalOpts(), kgo.MetadataMinAge(100*time.Millisecond))...)
	return err
}

func (c *Cluster) internalOpts() []kgo.Opt {
	var seeds []string
	for _, n := range c.nodes {
		seeds = append(seeds, n.ports[listenInternal].addr())
	}
	return []kgo.Opt{kgo.SeedBrokers(seeds...), kgo.DisableClientMetrics()}
}

// close kills what runs and gives everything back; calling it again does nothing.
func (c *Cluster) close() {
	c.stop.Do(func() {
		if c.admin != nil {
			c.admin.Close()
		}
		for _, n := range c.nodes {
			if n.proc != nil {
				_ = n.proc.kill() // a child that cannot be signalled has ended
			}
			if n.proxy != nil {
				n.proxy.Close()
			}
			freePorts(n.ports)
		}
	})
}

// removeUnless removes the cluster's files, unless they are worth a look.
func (c *Cluster) removeUnless(failed bool) {
	if !failed {
		os.RemoveAll(c.root)
	}
}

// printLogs shows the brokers' last complaints when the test failed.
func (c *Cluster) printLogs(t testing.TB) {
	if !t.Failed() {
		return
	}
	for _, n := range c.nodes {
		t.Logf("node %d of Kafka %s, log at %s, last complaints:\n%s", n.id, c.opts.Version, n.logFile(), complaints(n.logFile(), -8))
	}
}

// Version returns the Kafka version.
func (c *Cluster) Version() string { return c.opts.Version }

// ID returns the cluster id.
func (c *Cluster) ID() string { return c.id }

// Brokers returns the addresses for clients: of the proxies with Options.Proxied.
func (c *Cluster) Brokers() []string {
	var out []string
	for _, n := range c.nodes {
		if n.proxy != nil {
			out = append(out, n.proxy.Addr())
		} else {
			out = append(out, n.ports[listenClient].addr())
		}
	}
	return out
}

// Certs returns the files that a client needs with TLS, nil without.
func (c *Cluster) Certs() *Certs { return c.certs }

// Proxy returns the proxy before a node; only with Options.Proxied.
func (c *Cluster) Proxy(node int32) *Proxy { return c.node(node).proxy }

// Admin returns a client with all rights on a listener of its own, which no proxy cuts. The cluster closes it.
func (c *Cluster) Admin() *kgo.Client { return c.admin }

// Kadm returns Admin's kadm client.
func (c *Cluster) Kadm() *kadm.Client { return kadm.NewClient(c.admin) }

// PID returns the process id of a node, to look at what it uses. It is another one after Restart.
func (c *Cluster) PID(node int32) int { return c.node(node).proc.cmd.Process.Pid }

// node returns the node with the id; an unknown id is a fault of the test.
func (c *Cluster) node(id int32) *node {
	if id < 1 || int(id) > len(c.nodes) {
		panic(fmt.Sprintf("kafkatest: no node %d in a cluster of %d", id, len(c.nodes)))
	}
	return c.nodes[id-1]
}
