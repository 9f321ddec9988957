package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/config"
)

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func newFake(t *testing.T, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	fake, err := kfake.NewCluster(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	return fake
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func dialFake(t *testing.T, fake *kfake.Cluster, opts Options) *Cluster {
	t.Helper()
	return dialConfig(t, config.Cluster{Name: "test", Brokers: fake.ListenAddrs()}, opts)
}

func dialConfig(t *testing.T, cfg config.Cluster, opts Options) *Cluster {
	t.Helper()
	if opts.Logger == nil {
		opts.Logger = quiet()
	}
	c, err := Dial(cfg, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// testBatch builds a batch of n records of magic 2 without producer id, each with the given value.
func testBatch(n int, value string) []byte {
	var records []byte
	for i := range n {
		var r []byte
		r = append(r, 0)                              // attributes
		r = binary.AppendVarint(r, 0)                 // time delta
		r = binary.AppendVarint(r, int64(i))          // offset delta
		r = binary.AppendVarint(r, -1)                // key
		r = binary.AppendVarint(r, int64(len(value))) // value
		r = append(append(r, value...), 0)            // value, no headers
		records = append(binary.AppendVarint(records, int64(len(r))), r...)
	}
	now := time.Now().UnixMilli()
	b := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, LastOffsetDelta: int32(n - 1), FirstTimestamp: now, MaxTimestamp: now,
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: int32(n), Records: records,
	}
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

func produceRequest(p Part, raw []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 60_000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic, rt.TopicID = p.Topic, p.ID
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Partition, rp.Records = p.Partition, raw
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

// produced returns the only partition of a produce answer.
func produced(t *testing.T, resp kmsg.Response, err error) *kmsg.ProduceResponseTopicPartition {
	t.Helper()
	if err != nil {
		t.Fatalf("produce: %v", err)
	}
	r := resp.(*kmsg.ProduceResponse)
	if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
		t.Fatalf("produce answer names %d topics", len(r.Topics))
	}
	return &r.Topics[0].Partitions[0]
}

// put writes one batch of n records and returns its base offset.
func put(t *testing.T, c *Cluster, p Part, n int, value string) int64 {
	t.Helper()
	ctx := testContext(t)
	p = withID(t, c, p)
	leader, err := c.leader(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.admin.Broker(int(leader.Broker)).Request(ctx, produceRequest(p, testBatch(n, value)))
	got := produced(t, resp, err)
	if err := ProduceError(got); err != nil {
		t.Fatalf("produce to %s: %v", p, err)
	}
	return got.BaseOffset
}

func withID(t *testing.T, c *Cluster, p Part) Part {
	t.Helper()
	m, err := c.Metadata(testContext(t), p.Topic)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Topics[p.Topic].Err; err != nil {
		t.Fatalf("metadata of %s: %v", p.Topic, err)
	}
	p.ID = m.Topics[p.Topic].ID
	return p
}

// eventually waits for a condition that nothing signals, looking every few milliseconds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for ctx := testContext(t); !ok(); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("timed out waiting until %s", what)
		}
	}
}

// cutter dials connections that a test can cut, refuse, or make fail before a byte is written.
type cutter struct {
	mu     sync.Mutex
	conns  map[*cutConn]struct{}
	refuse map[string]bool // by address
	dials  int
	tries  int
	gate   chan struct{} // answers wait for it; nil: they pass
}

func newCutter() *cutter {
	return &cutter{conns: map[*cutConn]struct{}{}, refuse: map[string]bool{}}
}

func (c *cutter) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c.mu.Lock()
	refused := c.refuse[addr]
	c.tries++
	c.mu.Unlock()
	if refused {
		return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("refused by the test")}
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	cc := &cutConn{Conn: conn, addr: addr, cutter: c}
	c.dials++
	c.conns[cc] = struct{}{}
	return cc, nil
}

func (c *cutter) setRefused(addr string, refused bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuse[addr] = refused
}

// cut closes all connections to an address, "" for all.
func (c *cutter) cut(addr string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for cc := range c.conns {
		if addr == "" || cc.addr == addr {
			cc.Conn.Close()
			delete(c.conns, cc)
		}
	}
}

// hold keeps all answers back until the returned function is called.
func (c *cutter) hold() (release func()) {
	gate := make(chan struct{})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gate = gate
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.gate = nil
		close(gate)
	}
}

// breakWrites makes the next write of every open connection fail before a byte is written.
func (c *cutter) breakWrites() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for cc := range c.conns {
		cc.mu.Lock()
		cc.broken = true
		cc.mu.Unlock()
	}
}

func (c *cutter) dialled() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dials
}

func (c *cutter) tried() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tries
}

type cutConn struct {
	net.Conn
	cutter *cutter
	addr   string
	mu     sync.Mutex
	broken bool
}

func (c *cutConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.cutter.mu.Lock()
	gate := c.cutter.gate
	c.cutter.mu.Unlock()
	if gate != nil {
		<-gate
	}
	return n, err
}

func (c *cutConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	broken := c.broken
	c.mu.Unlock()
	if broken {
		c.Conn.Close()
		return 0, net.ErrClosed
	}
	return c.Conn.Write(b)
}
