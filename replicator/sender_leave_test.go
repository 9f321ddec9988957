package replicator

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/config"
	"lockstep/internal/kafka"
	"lockstep/internal/kafkatest"
)

// mutedTarget gives a manager a target whose broker takes requests and answers none.
func mutedTarget(t *testing.T, m *Manager) {
	t.Helper()
	fake := kafkatest.NewFake(t, kfake.NumBrokers(1))
	proxy := kafkatest.NewProxy(t, fake.ListenAddrs()[0])
	toProxy := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, proxy.Addr())
	}
	target, err := kafka.Dial(config.Cluster{Name: "muted", Brokers: []string{proxy.Addr()}}, kafka.Options{Dialer: toProxy})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(target.Close)
	// The connection is there and its versions are known before the broker falls silent, or nothing would be sent at all.
	if _, err := target.Metadata(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := target.Produce().Broker(0).Request(t.Context(), &kmsg.ProduceRequest{Acks: -1, TimeoutMillis: 1000}); err != nil {
		t.Fatal(err)
	}
	m.opt.Target = target
	proxy.Mute(true)
}

// A sender that is given up has batches without an answer, and one that waits for its turn. They are of one lane: what is
// sent again later has to be in the old order.
func TestSender_GivenUpKeepsTheOrderOfBatches(t *testing.T) {
	t.Parallel()
	m, l, _ := newOpenLane(t)
	mutedTarget(t, m)
	feed(t, l, 100, 1, 1, 1, 1, 1, 1)
	l.mu.Lock()
	l.proven, l.lastTS = true, m.now().UnixMilli()
	l.mu.Unlock()
	m.pulse = newPulse()
	s := &sender{m: m, ready: newQueue(), pipe: kafka.NewPipeline(m.opt.Target.Produce(), 0, sendWindow)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); s.run(ctx) }()
	s.ready.push(l)
	kafkatest.Eventually(t, 20*time.Second, func() (bool, string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.inflight) == maxInFlight, "the lane has not sent all it may"
	})
	kafkatest.Eventually(t, 20*time.Second, func() (bool, string) { return s.pipe.Outstanding() == sendWindow, "requests wait to be sent" })
	cancel()
	<-ended
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.verdict != mending || len(l.out) != 6 {
		t.Fatalf("verdict %d with %d batches, want a repair with all six", l.verdict, len(l.out))
	}
	for i, o := range l.out {
		if o.count != int64(i) {
			t.Errorf("batch %d in line is that of count %d", i, o.count)
		}
	}
}
