package kafkatest_test

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"lockstep/internal/kafkatest"
)

// echo returns the address of a server that sends back what it gets.
func echo(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); _, _ = io.Copy(c, c) }()
		}
	}()
	return l.Addr().String()
}

func dial(t *testing.T, p *kafkatest.Proxy) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

// roundTrip sends s and returns what came back until len(s) bytes or an error.
func roundTrip(t *testing.T, c net.Conn, s string) (string, error) {
	t.Helper()
	if _, err := c.Write([]byte(s)); err != nil {
		return "", err
	}
	b := make([]byte, len(s))
	n, err := io.ReadFull(c, b)
	return string(b[:n]), err
}

func TestProxy_CutsInTheMiddleOfAnAnswer(t *testing.T) {
	t.Parallel()
	p := kafkatest.NewProxy(t, echo(t))
	c := dial(t, p)
	if got, err := roundTrip(t, c, "hello"); got != "hello" || err != nil {
		t.Fatalf("got %q, %v", got, err)
	}
	p.CutAfter(3)
	if got, err := roundTrip(t, c, "world"); got != "wor" || err == nil {
		t.Fatalf("got %q, %v", got, err)
	}
	if p.Cuts() != 1 {
		t.Fatalf("%d cuts", p.Cuts())
	}
	if got, err := roundTrip(t, dial(t, p), "again"); got != "again" || err != nil {
		t.Fatalf("after the cut: %q, %v", got, err)
	}
}

func TestProxy_CutRefuseDelayDrop(t *testing.T) {
	t.Parallel()
	p := kafkatest.NewProxy(t, echo(t))
	c := dial(t, p)
	p.Delay(30 * time.Millisecond)
	start := time.Now()
	if got, err := roundTrip(t, c, "slow"); got != "slow" || err != nil || time.Since(start) < 60*time.Millisecond {
		t.Fatalf("delayed: %q, %v after %s", got, err, time.Since(start))
	}
	p.Delay(0)
	p.Cut()
	if _, err := roundTrip(t, c, "dead"); err == nil {
		t.Fatal("the connection outlived Cut")
	}
	p.Refuse(true)
	if _, err := roundTrip(t, dial(t, p), "no"); err == nil {
		t.Fatal("the proxy took a connection while refusing")
	}
	p.Refuse(false)
	c = dial(t, p)
	p.Drop(true)
	if err := c.SetDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if got, err := roundTrip(t, c, "lost"); got != "" || err == nil {
		t.Fatalf("dropped: %q, %v", got, err)
	}
	p.Drop(false)
	if got, err := roundTrip(t, dial(t, p), "back"); got != "back" || err != nil {
		t.Fatalf("after Drop: %q, %v", got, err)
	}
}

func TestProxy_Rate(t *testing.T) {
	t.Parallel()
	p := kafkatest.NewProxy(t, echo(t))
	p.Rate(10_000)
	c := dial(t, p)
	start := time.Now()
	if got, err := roundTrip(t, c, strings.Repeat("x", 1000)); len(got) != 1000 || err != nil || time.Since(start) < 200*time.Millisecond {
		t.Fatalf("2000 bytes at 10 kB a second: %d back, %v after %s", len(got), err, time.Since(start))
	}
	p.Rate(0)
	start = time.Now()
	if _, err := roundTrip(t, c, strings.Repeat("x", 100_000)); err != nil || time.Since(start) > 5*time.Second {
		t.Fatalf("without a rate: %v after %s", err, time.Since(start))
	}
}

func TestProxy_CutOne(t *testing.T) {
	t.Parallel()
	p := kafkatest.NewProxy(t, echo(t))
	conns := []net.Conn{dial(t, p), dial(t, p), dial(t, p)}
	for _, c := range conns {
		if _, err := roundTrip(t, c, "hello"); err != nil {
			t.Fatal(err)
		}
	}
	p.CutOne()
	dead := 0
	for _, c := range conns {
		if err := c.SetDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if _, err := roundTrip(t, c, "still there?"); err != nil {
			dead++
		}
	}
	if dead != 1 {
		t.Fatalf("%d connections are dead, want one", dead)
	}
}

func TestProxy_MuteSwallowsAnswersOnly(t *testing.T) {
	t.Parallel()
	p := kafkatest.NewProxy(t, echo(t))
	c := dial(t, p)
	p.Mute(true)
	if _, err := c.Write([]byte("to the broker")); err != nil {
		t.Fatal(err)
	}
	kafkatest.Eventually(t, 5*time.Second, func() (bool, string) {
		return p.Muted() == int64(len("to the broker")), "the server's answer did not come"
	})
	p.Mute(false)
	if _, err := roundTrip(t, c, "dead"); err == nil {
		t.Fatal("the connection outlived Mute")
	}
	if got, err := roundTrip(t, dial(t, p), "back"); got != "back" || err != nil {
		t.Fatalf("after Mute: %q, %v", got, err)
	}
}

func TestProxy_IsWhatTheBrokerAdvertises(t *testing.T) {
	c := kafkatest.Start(t, kafkatest.Options{Proxied: true})
	topic := kafkatest.Topic(t, c)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.Brokers()...), kgo.DefaultProduceTopic(topic), kgo.RecordRetries(20))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(t.Context(), kgo.StringRecord("1")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	// The next produce answer is cut, the client sends the batch again, and the broker knows it: one copy.
	c.Proxy(1).CutAfter(10)
	if err := cl.ProduceSync(t.Context(), kgo.StringRecord(strings.Repeat("2", 1000))).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if c.Proxy(1).Cuts() != 1 {
		t.Fatalf("%d cuts: the client does not go through the proxy", c.Proxy(1).Cuts())
	}
	if end := kafkatest.End(t, c, topic, 0); end != 2 {
		t.Fatalf("%d records, want 2", end)
	}
}
