package kafka

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"
)

// runPipeline starts a pipeline's loop and ends it with the test, or by the returned function.
func runPipeline(t *testing.T, p *Pipeline) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { p.Run(ctx) })
	stop = func() { cancel(); wg.Wait() }
	t.Cleanup(stop)
	return stop
}

// journal records dones.
type journal struct {
	mu    sync.Mutex
	seen  []int
	bases []int64
	errs  []error
}

func (j *journal) done(i int) func(kmsg.Response, error) {
	return func(resp kmsg.Response, err error) {
		base := int64(-1)
		if err == nil {
			p := &resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
			base, err = p.BaseOffset, ProduceError(p)
		}
		j.mu.Lock()
		defer j.mu.Unlock()
		j.seen, j.bases, j.errs = append(j.seen, i), append(j.bases, base), append(j.errs, err)
	}
}

func (j *journal) len() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.seen)
}

// check waits for n dones and checks that they came in order, each once.
func (j *journal) check(t *testing.T, n int) {
	t.Helper()
	eventually(t, "all requests are done", func() bool { return j.len() == n })
	for i, got := range j.seen {
		if got != i {
			t.Fatalf("done %d came as number %d", got, i)
		}
	}
}

// swallowOne makes the broker never answer the next produce request, nor read what comes behind it.
func swallowOne(fake *kfake.Cluster) {
	fake.ControlKey(kmsg.Produce.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) { return nil, nil, true })
}

func TestPipeline_ThousandsOutstandingKeepTheirOrder(t *testing.T) {
	t.Parallel()
	const n = 3000
	fake := newFake(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	cut := newCutter()
	c := dialFake(t, fake, Options{Dialer: cut.dial})
	p := withID(t, c, Part{Topic: "t"})
	if _, err := c.Produce().Broker(0).Request(testContext(t), &ordered{Request: produceRequest(p, nil), serialised: make(chan struct{})}); err != nil {
		t.Fatal(err) // the connection stands now
	}
	release := sync.OnceFunc(cut.hold())
	defer release()
	pipe := NewPipeline(c.Produce(), 0, n)
	runPipeline(t, pipe)
	var j journal
	for i := range n {
		if err := pipe.Send(testContext(t), produceRequest(p, testBatch(1, "x")), j.done(i)); err != nil {
			t.Fatal(err)
		}
		if i == n-1 {
			if got := pipe.Outstanding(); got != n {
				t.Errorf("%d outstanding, want %d", got, n)
			}
			release()
		}
	}
	j.check(t, n)
	for i, base := range j.bases {
		if base != int64(i) || j.errs[i] != nil {
			t.Fatalf("request %d landed at %d: %v", i, base, j.errs[i])
		}
	}
}

func TestPipeline_ManySenders(t *testing.T) {
	t.Parallel()
	fake := newFake(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	c := dialFake(t, fake, Options{})
	p := withID(t, c, Part{Topic: "t"})
	pipe := NewPipeline(c.Produce(), 0, 5)
	runPipeline(t, pipe)
	ctx := testContext(t)
	var (
		wg   sync.WaitGroup
		last = int64(-1) // of the one goroutine of dones
		bad  atomic.Int64
		n    atomic.Int64
	)
	for range 8 {
		wg.Go(func() {
			for range 50 {
				err := pipe.Send(ctx, produceRequest(p, testBatch(1, "x")), func(resp kmsg.Response, err error) {
					if err != nil || resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].BaseOffset != last+1 {
						bad.Add(1)
					}
					last++
					n.Add(1)
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	eventually(t, "all requests are done", func() bool { return n.Load() == 400 })
	if bad.Load() != 0 {
		t.Errorf("%d of 400 answers out of order", bad.Load())
	}
}

func TestPipeline_ConnectionCut(t *testing.T) {
	t.Parallel()
	fake := newFake(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	cut := newCutter()
	c := dialFake(t, fake, Options{Dialer: cut.dial})
	p := withID(t, c, Part{Topic: "t"})
	swallowOne(fake)
	pipe := NewPipeline(c.Produce(), 0, 100)
	runPipeline(t, pipe)
	ctx := testContext(t)
	var j journal
	send := func(i int) {
		if err := pipe.Send(ctx, produceRequest(p, testBatch(1, "x")), j.done(i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 50 {
		send(i)
	}
	cut.cut("")
	j.check(t, 50)
	for i, err := range j.errs {
		if err == nil && i == 49 {
			break // serialised, but not written yet: repeated on the new connection
		}
		if err == nil {
			t.Fatalf("request %d had an answer over a connection that was cut", i)
		}
		if got := Outcome(err); got != OutcomeUnknown {
			t.Fatalf("request %d: %v: outcome %v", i, err, got)
		}
		if action, _ := Classify(err); action != Refresh {
			t.Fatalf("request %d: %v: %v", i, err, action)
		}
	}
	for i := 50; i < 60; i++ {
		send(i) // goes on over a new connection
	}
	j.check(t, 60)
	for i, err := range j.errs[50:] {
		if err != nil {
			t.Errorf("request %d after the cut: %v", 50+i, err)
		}
	}
}

func TestPipeline_WriteThatFailsBeforeAByteIsRepeatedOnce(t *testing.T) {
	t.Parallel()
	fake := newFake(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	cut := newCutter()
	c := dialFake(t, fake, Options{Dialer: cut.dial})
	p := withID(t, c, Part{Topic: "t"})
	pipe := NewPipeline(c.Produce(), 0, 3)
	runPipeline(t, pipe)
	ctx := testContext(t)
	var j journal
	for i := range 10 {
		eventually(t, "nothing is outstanding", func() bool { return pipe.Outstanding() == 0 })
		cut.breakWrites()
		if err := pipe.Send(ctx, produceRequest(p, testBatch(1, "x")), j.done(i)); err != nil {
			t.Fatal(err)
		}
	}
	j.check(t, 10)
	for i, base := range j.bases {
		if base != int64(i) {
			t.Errorf("request %d landed at %d: %v", i, base, j.errs[i])
		}
	}
}

func TestPipeline_BrokerThatCannotBeReached(t *testing.T) {
	t.Parallel()
	fake := newFake(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	cut := newCutter()
	c := dialFake(t, fake, Options{Dialer: cut.dial})
	p := withID(t, c, Part{Topic: "t"})
	if _, err := c.metadata(testContext(t), c.Produce(), []string{}); err != nil {
		t.Fatal(err)
	}
	cut.setRefused(fake.ListenAddrs()[0], true)
	cut.cut("")
	for name, tc := range map[string]struct {
		broker int32
		want   Certainty
	}{
		"refused": {0, OutcomeNotWritten},
		"unknown": {77, OutcomeUnknown}, // whatever the client tried to learn about it
	} {
		pipe := NewPipeline(c.Produce(), tc.broker, 5)
		runPipeline(t, pipe)
		var j journal
		for i := range 3 {
			if err := pipe.Send(testContext(t), produceRequest(p, testBatch(1, "x")), j.done(i)); err != nil {
				t.Fatal(err)
			}
		}
		j.check(t, 3)
		if action, _ := Classify(j.errs[0]); action != Refresh {
			t.Errorf("%s: Classify(%v) = %v", name, j.errs[0], action)
		}
		if got := Outcome(j.errs[0]); tc.want == OutcomeNotWritten && got != tc.want {
			t.Errorf("%s: Outcome(%v) = %v", name, j.errs[0], got)
		}
	}
}

func TestPipeline_EndGivesEveryRequestItsDone(t *testing.T) {
	t.Parallel()
	fake := newFake(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	c := dialFake(t, fake, Options{})
	p := withID(t, c, Part{Topic: "t"})
	swallowOne(fake)
	pipe := NewPipeline(c.Produce(), 0, 20)
	stop := runPipeline(t, pipe)
	var j journal
	for i := range 20 {
		if err := pipe.Send(testContext(t), produceRequest(p, testBatch(1, "x")), j.done(i)); err != nil {
			t.Fatal(err)
		}
	}
	// The window is full: this one waits for a place, and is told when the pipeline ends.
	waiting := make(chan error, 1)
	go func() {
		waiting <- pipe.Send(context.Background(), produceRequest(p, testBatch(1, "x")), func(kmsg.Response, error) {
			t.Error("done of a request that was not sent")
		})
	}()
	full, cancel := context.WithCancel(context.Background())
	cancel()
	if err := pipe.Send(full, produceRequest(p, nil), nil); !errors.Is(err, ErrNotSent) || !errors.Is(err, context.Canceled) {
		t.Errorf("Send with an ended context: %v", err)
	}
	stop()
	j.check(t, 20)
	if err := <-waiting; !errors.Is(err, ErrNotSent) || Outcome(err) != OutcomeNotWritten {
		t.Errorf("waiting Send: %v", err)
	}
	if err := pipe.Send(testContext(t), produceRequest(p, nil), nil); !errors.Is(err, ErrNotSent) {
		t.Errorf("Send after the end: %v", err)
	}
	if n := pipe.Outstanding(); n != 0 {
		t.Errorf("%d outstanding after the end", n)
	}
}

func TestPipeline_LeavesNoGoroutine(t *testing.T) {
	// Not parallel: it counts the goroutines of the whole process.
	before := goleak.IgnoreCurrent()
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	if err != nil {
		t.Fatal(err)
	}
	c := dialFake(t, fake, Options{})
	p := withID(t, c, Part{Topic: "t"})
	pipe := NewPipeline(c.Produce(), 0, 4)
	stop := runPipeline(t, pipe)
	var j journal
	for i := range 40 {
		if err := pipe.Send(testContext(t), produceRequest(p, testBatch(1, "x")), j.done(i)); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	c.Close()
	fake.Close()
	goleak.VerifyNone(t, before)
}

func TestPipeline_RequestGoesOutAsItIs(t *testing.T) {
	t.Parallel()
	fake := newFake(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	c := dialFake(t, fake, Options{})
	p := withID(t, c, Part{Topic: "t"})
	// A client whose own acks differ from the request's.
	cl, err := c.NewClient("produce", kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	type seen struct{ acks, version int16 }
	got := make(chan seen, 2)
	fake.ControlKey(kmsg.Produce.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		got <- seen{req.(*kmsg.ProduceRequest).Acks, req.GetVersion()}
		return nil, nil, false
	})
	pipe := NewPipeline(cl, 0, 2)
	runPipeline(t, pipe)
	var j journal
	for i, req := range []kmsg.Request{produceRequest(p, testBatch(1, "x")), Pinned{produceRequest(p, testBatch(1, "x")), 9}} {
		if err := pipe.Send(testContext(t), req, j.done(i)); err != nil {
			t.Fatal(err)
		}
	}
	j.check(t, 2)
	first, second := <-got, <-got
	if first.acks != -1 || first.version < ProduceByID {
		t.Errorf("plain request went out as %+v", first)
	}
	if second.acks != -1 || second.version != 9 {
		t.Errorf("pinned request went out as %+v", second)
	}
	if j.errs[0] != nil || j.errs[1] != nil {
		t.Errorf("errors %v", j.errs)
	}
}

func TestPinned_KeepsWhatTheLibraryLooksAt(t *testing.T) {
	t.Parallel()
	produce := kmsg.NewPtrProduceRequest()
	produce.TimeoutMillis = 4321
	fetch := kmsg.NewPtrFetchRequest()
	fetch.MaxWaitMillis = 765
	for _, tc := range []struct {
		req   kmsg.Request
		max   int16
		wait  int32
		limit int16
	}{{produce, 12, 4321, 12}, {fetch, 12, 765, 12}, {fetch, 99, 765, fetch.MaxVersion()}, {kmsg.NewPtrMetadataRequest(), 5, 0, 5}} {
		pinned := Pinned{tc.req, tc.max}
		for _, r := range []kmsg.Request{pinned, &ordered{Request: pinned}} {
			if r.Key() != tc.req.Key() || r.MaxVersion() != tc.limit {
				t.Errorf("%T of %T: key %d, MaxVersion %d", r, tc.req, r.Key(), r.MaxVersion())
			}
			if got := r.(kmsg.TimeoutRequest).Timeout(); got != tc.wait {
				t.Errorf("%T of %T: Timeout %d", r, tc.req, got)
			}
		}
	}
}

func TestPipeline_RefusedByTheBroker(t *testing.T) {
	t.Parallel()
	fake := newFake(t, kfake.NumBrokers(2), kfake.SeedTopics(1, "t"))
	c := dialFake(t, fake, Options{})
	p := withID(t, c, Part{Topic: "t"})
	other := 1 - fake.LeaderFor("t", 0)
	pipe := NewPipeline(c.Produce(), other, 1)
	runPipeline(t, pipe)
	var j journal
	if err := pipe.Send(testContext(t), produceRequest(p, testBatch(1, "x")), j.done(0)); err != nil {
		t.Fatal(err)
	}
	j.check(t, 1)
	if !errors.Is(j.errs[0], kerr.NotLeaderForPartition) {
		t.Fatalf("error %v", j.errs[0])
	}
	// kfake answers base offset 0, which on a real broker says that the batch was appended.
	if got := Outcome(j.errs[0]); got == OutcomeWritten {
		t.Errorf("outcome %v with base offset %d", got, j.bases[0])
	}
}
