package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Kill ends a broker as a power cut does (SIGKILL); what it had not replicated may be lost.
func (c *Cluster) Kill(t testing.TB, node int32) {
	t.Helper()
	c.node(node).down = true
	if err := c.node(node).proc.kill(); err != nil {
		t.Fatalf("kill node %d: %v", node, err)
	}
}

// Stop ends a broker cleanly, which moves its leaderships first.
func (c *Cluster) Stop(t testing.TB, node int32) {
	t.Helper()
	c.node(node).down = true
	if err := c.node(node).proc.stop(time.Minute); err != nil {
		t.Fatalf("stop node %d: %v", node, err)
	}
}

// Restart starts a broker that was killed or stopped, and returns when the metadata names it again.
func (c *Cluster) Restart(t testing.TB, node int32) {
	t.Helper()
	n := c.node(node)
	if !n.proc.exited() {
		t.Fatalf("restart node %d: it still runs", node)
	}
	n.down = false
	if err := n.start(c.in, c.opts.HeapMB); err != nil {
		t.Fatalf("restart node %d: %v", node, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), c.opts.ReadyIn)
	defer cancel()
	err := c.await(ctx, func(ctx context.Context) error {
		ok, err := c.registered(ctx, node)
		if err == nil && !ok {
			err = errors.New("not registered yet")
		}
		if err == nil {
			err = c.renewProduceConn(ctx, node)
		}
		return err
	})
	if err != nil {
		t.Fatalf("restart node %d: %v", node, err)
	}
}

// renewProduceConn sends an empty produce request: a client notices only then that its connection is dead, and
// ProduceRaw asks only once.
func (c *Cluster) renewProduceConn(ctx context.Context, node int32) error {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 1000
	_, err := Broker(c, node).Request(ctx, pinned{req, produceByName})
	return err
}

// Freeze halts a broker's process with all its connections open (SIGSTOP), as a long pause of its machine does. It
// goes on after Thaw, or at the test's end.
func (c *Cluster) Freeze(t testing.TB, node int32) {
	t.Helper()
	p := c.node(node).proc
	if err := p.signal(sigFreeze); err != nil {
		t.Fatalf("freeze node %d: %v", node, err)
	}
	t.Cleanup(func() { c.Thaw(t, node) })
	Eventually(t, 10*time.Second, func() (bool, string) { return isFrozen(p.cmd.Process.Pid), "some of its threads still run" })
}

// Thaw lets a frozen broker go on; it does nothing to one that runs or has ended.
func (c *Cluster) Thaw(t testing.TB, node int32) {
	t.Helper()
	if err := c.node(node).proc.signal(sigThaw); err != nil {
		t.Fatalf("thaw node %d: %v", node, err)
	}
}

// AwaitInformed waits until a node that was frozen knows who leads the partitions of topics, as the others do: until then
// it answers for those that it led, with the ends of before.
func (c *Cluster) AwaitInformed(t testing.TB, node int32, topics ...string) {
	t.Helper()
	for _, topic := range topics {
		Eventually(t, time.Minute, func() (bool, string) {
			ours, err := metadataOf(t.Context(), c, node, topic)
			for _, n := range c.nodes { // all of them run
				if theirs, theirErr := metadataOf(t.Context(), c, n.id, topic); err == nil && (theirErr != nil || !slices.Equal(ours, theirs)) {
					return false, fmt.Sprintf("%s: node %d says %+v, node %d %+v (%v)", topic, node, ours, n.id, theirs, theirErr)
				}
			}
			return err == nil, fmt.Sprint(err)
		})
	}
}

// Leader returns the id of the broker that leads the partition now; the test fails when there is none.
func (c *Cluster) Leader(t testing.TB, topic string, partition int32) int32 {
	t.Helper()
	ds, err := c.Kadm().ListTopics(t.Context(), topic)
	if err != nil {
		t.Fatalf("find leader of %s/%d: %v", topic, partition, err)
	}
	p, ok := ds[topic].Partitions[partition]
	if !ok || p.Leader < 0 {
		t.Fatalf("find leader of %s/%d: %v", topic, partition, fmt.Sprintf("%+v", ds[topic]))
	}
	return p.Leader
}
