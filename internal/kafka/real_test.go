package kafka

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/config"
	"lockstep/internal/kafkatest"
	"lockstep/internal/model"
)

// Tests of this file run against real brokers of each supported version: they hold what a fake one does not show.

func dialReal(t *testing.T, kc *kafkatest.Cluster, opts Options) *Cluster {
	t.Helper()
	return dialConfig(t, config.Cluster{Name: "real", Brokers: kc.Brokers()}, opts)
}

// realParts makes a topic and returns its partitions with their id.
func realParts(t *testing.T, kc *kafkatest.Cluster, c *Cluster, n int32) []Part {
	t.Helper()
	topic := kafkatest.Topic(t, kc, kafkatest.TopicOptions{Partitions: n})
	id := withID(t, c, Part{Topic: topic}).ID
	parts := partsOf(topic, n)
	for i := range parts {
		parts[i].ID = id
	}
	return parts
}

func TestReal_ProduceByIDOrByName(t *testing.T) {
	t.Parallel()
	kafkatest.EachVersion(t, func(t *testing.T, kc *kafkatest.Cluster) {
		c := dialReal(t, kc, Options{})
		p := realParts(t, kc, c, 1)[0]
		version, err := c.ProduceMaxVersion(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		if byID := version >= ProduceByID; byID != (kc.Version() == kafkatest.Kafka4) {
			t.Fatalf("produce up to version %d", version)
		}
		pipe := NewPipeline(c.Produce(), 1, 5)
		runPipeline(t, pipe)
		answers := make(chan *kmsg.ProduceResponse, 5)
		send := func(req kmsg.Request) *kmsg.ProduceResponse {
			t.Helper()
			if err := pipe.Send(testContext(t), req, func(r kmsg.Response, err error) {
				if err != nil {
					t.Error(err)
					r = kmsg.NewPtrProduceResponse()
				}
				answers <- r.(*kmsg.ProduceResponse)
			}); err != nil {
				t.Fatal(err)
			}
			return <-answers
		}
		resp := send(produceRequest(p, testBatch(2, "x")))
		if resp.Version != version || resp.Topics[0].Partitions[0].ErrorCode != 0 {
			t.Fatalf("answer of version %d: %v", resp.Version, kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode))
		}
		if named := resp.Topics[0].Topic == p.Topic; named != (version < ProduceByID) {
			t.Errorf("the answer names %q", resp.Topics[0].Topic)
		}
		wrong := p
		wrong.ID = model.TopicID{1, 2, 3}
		got := &send(produceRequest(wrong, testBatch(1, "x"))).Topics[0].Partitions[0]
		if err := ProduceError(got); version >= ProduceByID && (!errors.Is(err, kerr.UnknownTopicID) || Outcome(err) != OutcomeNotWritten) {
			t.Errorf("a wrong id: %v with base offset %d", err, got.BaseOffset)
		} else if version < ProduceByID && err != nil {
			t.Errorf("a wrong id, by name: %v", err) // so ids have to be compared by metadata there
		}
		got = &send(produceRequest(p, testBatch(1, string(make([]byte, 2<<20))))).Topics[0].Partitions[0]
		if err := ProduceError(got); !errors.Is(err, kerr.MessageTooLarge) || got.BaseOffset != -1 {
			t.Errorf("too large: %v with base offset %d", err, got.BaseOffset)
		}
		got = &send(Pinned{produceRequest(p, testBatch(1, "x")), 9}).Topics[0].Partitions[0]
		if err := ProduceError(got); err != nil {
			t.Errorf("pinned to version 9: %v", err)
		}
	})
}

// TestReal_TopicIsReadyWhenListOffsetsAnswers: from the moment that its leader answers ListOffsets, a new topic takes
// records.
func TestReal_TopicIsReadyWhenListOffsetsAnswers(t *testing.T) {
	t.Parallel()
	kafkatest.EachVersion(t, func(t *testing.T, kc *kafkatest.Cluster) {
		c := dialReal(t, kc, Options{})
		for range 5 {
			topic := kafkatest.CreateTopic(t, kc, kafkatest.TopicOptions{Partitions: 3})
			parts := partsOf(topic, 3)
			eventually(t, "all leaders answer", func() bool {
				for _, o := range c.ListOffsets(testContext(t), parts, AtEnd, false) {
					if o.Err != nil {
						return false
					}
				}
				return true
			})
			for _, p := range parts {
				put(t, c, p, 1, "x")
			}
		}
	})
}

func TestReal_PipelineConnectionCut(t *testing.T) {
	t.Parallel()
	kafkatest.EachVersion(t, func(t *testing.T, kc *kafkatest.Cluster) {
		const n = 400
		cut := newCutter()
		c := dialReal(t, kc, Options{Dialer: cut.dial})
		p := realParts(t, kc, c, 1)[0]
		pipe := NewPipeline(c.Produce(), 1, 50)
		runPipeline(t, pipe)
		var j journal
		for i := range n {
			if i == 150 || i == 300 {
				cut.cut("")
			}
			if err := pipe.Send(testContext(t), produceRequest(p, testBatch(1, fmt.Sprintf("<%04d>", i))), j.done(i)); err != nil {
				t.Fatal(err)
			}
		}
		j.check(t, n)
		last, lost := int64(-1), 0
		for i, base := range j.bases {
			if j.errs[i] != nil {
				lost++
				if got := Outcome(j.errs[i]); got != OutcomeUnknown {
					t.Errorf("request %d: %v: %v", i, j.errs[i], got)
				}
				continue
			}
			if base <= last {
				t.Fatalf("request %d landed at %d, after %d", i, base, last)
			}
			last = base
		}
		if lost == 0 || lost > 2*50 {
			t.Errorf("%d answers lost by two cuts", lost)
		}
		// Every answered request stands in the log, behind those that were answered before it. Unanswered ones may
		// stand anywhere: a broker may read the old connection's last bytes after the new one's first.
		got, err := c.ReadAt(testContext(t), p, 0, 16<<20, false)
		if err != nil {
			t.Fatal(err)
		}
		from := 0
		for i := range n {
			if j.errs[i] != nil {
				continue
			}
			at := bytes.Index(got.RecordBatches[from:], fmt.Appendf(nil, "<%04d>", i))
			if at < 0 {
				t.Fatalf("answered request %d is not behind its predecessors", i)
			}
			from += at
		}
	})
}

func TestReal_ReadAt(t *testing.T) {
	t.Parallel()
	kafkatest.EachVersion(t, func(t *testing.T, kc *kafkatest.Cluster) {
		c := dialReal(t, kc, Options{})
		ctx := testContext(t)
		p := realParts(t, kc, c, 1)[0]
		put(t, c, p, 5, "hello")
		kafkatest.Produce(t, kc, p.Topic, 0, kafkatest.Records(3, 1), kafkatest.ProduceOptions{Txn: kafkatest.Abort})
		eventually(t, "the abort marker stands", func() bool { return c.ListOffsets(ctx, []Part{p}, AtEnd, true)[p].Offset == 9 })
		for _, p := range []Part{p, {Topic: p.Topic}} {
			got, err := c.ReadAt(ctx, p, 3, 1, true)
			if err != nil || !bytes.Contains(got.RecordBatches, []byte("hello")) {
				t.Errorf("data: %d bytes, %v", len(got.RecordBatches), err)
			}
			got, err = c.ReadAt(ctx, p, 5, 1<<20, true)
			if err != nil || len(got.AbortedTransactions) != 1 || got.HighWatermark != 9 || got.LastStableOffset != 9 {
				t.Errorf("aborted: %+v, %v", got.AbortedTransactions, err)
			}
			start := time.Now()
			got, err = c.ReadAt(ctx, p, 9, 1<<20, false)
			if err != nil || len(got.RecordBatches) != 0 || time.Since(start) > time.Second {
				t.Errorf("end: %d bytes after %v, %v", len(got.RecordBatches), time.Since(start), err)
			}
			if _, err = c.ReadAt(ctx, p, 10, 1<<20, false); !errors.Is(err, kerr.OffsetOutOfRange) {
				t.Errorf("behind the end: %v", err)
			}
		}
		if _, err := c.ReadAt(ctx, Part{Topic: p.Topic, ID: model.TopicID{7}}, 0, 1, false); !errors.Is(err, ErrRecreated) {
			t.Errorf("another id: %v", err)
		}
	})
}

func TestReal_ListOffsetsAndDescribeProducers(t *testing.T) {
	t.Parallel()
	kafkatest.EachVersion(t, func(t *testing.T, kc *kafkatest.Cluster) {
		c := dialReal(t, kc, Options{})
		ctx := testContext(t)
		parts := realParts(t, kc, c, 8)
		for i, p := range parts[1:] {
			kafkatest.Produce(t, kc, p.Topic, p.Partition, kafkatest.Records(i+1, 1))
		}
		unknown := Part{Topic: "none-" + parts[0].Topic}
		asked := append(parts, unknown)
		ends := c.ListOffsets(ctx, asked, AtEnd, true)
		starts := c.ListOffsets(ctx, asked, AtStart, false)
		times := c.ListOffsets(ctx, asked, 1, false)
		producers := c.DescribeProducers(ctx, asked)
		for i, p := range parts {
			if ends[p].Offset != int64(i) || ends[p].Err != nil || starts[p].Offset != 0 {
				t.Errorf("%s: start %+v, end %+v", p, starts[p], ends[p])
			}
			if want := min(int64(i)-1, 0); times[p].Offset != want {
				t.Errorf("%s: first record after 1970 at %d, want %d", p, times[p].Offset, want)
			}
			ps := producers[p]
			if i == 0 && (ps.Err != nil || len(ps.Active) != 0) {
				t.Errorf("%s: producers %+v", p, ps)
			}
			if i > 0 && (len(ps.Active) != 1 || ps.Active[0].LastSequence != int32(i-1) || ps.Active[0].TxnStart != -1) {
				t.Errorf("%s: producers %+v", p, ps)
			}
		}
		for what, err := range map[string]error{"ends": ends[unknown].Err, "producers": producers[unknown].Err} {
			if !errors.Is(err, kerr.UnknownTopicOrPartition) {
				t.Errorf("%s of an unknown topic: %v", what, err)
			}
		}
		if id, err := c.ID(ctx); err != nil || id != kc.ID() {
			t.Errorf("cluster id %q, %v; want %q", id, err, kc.ID())
		}
	})
}

func TestReal_SessionLostAnswer(t *testing.T) {
	t.Parallel()
	kafkatest.EachVersion(t, func(t *testing.T, kc *kafkatest.Cluster) {
		c := dialReal(t, kc, Options{})
		parts := realParts(t, kc, c, 3)
		f := newPoller(t, c, 1)
		for _, p := range parts {
			f.s.Set(p, pos(0))
		}
		f.poll()
		old := f.s.id
		if old == 0 {
			t.Fatal("no session")
		}
		put(t, c, parts[1], 1, "lost")
		// The broker answers with data, and counts the epoch; the answer never arrives.
		lost := f.s.Next(f.wait, 1<<20, false, "")
		if _, err := f.cl.Broker(1).Request(testContext(t), lost); err != nil {
			t.Fatal(err)
		}
		_ = f.s.Answer(nil, io.EOF)
		if got := f.poll(); !bytes.Contains(got[parts[1]].RecordBatches, []byte("lost")) {
			t.Fatalf("after the loss: %v", got)
		}
		if f.s.id == old || f.s.id == 0 {
			t.Errorf("session %d after %d", f.s.id, old)
		}
		// The old one is gone; to guess its epoch would not have helped.
		stale := &Session{id: old, epoch: 2, want: map[partKey]entry{}, have: map[partKey]entry{}}
		resp, err := f.cl.Broker(1).Request(testContext(t), stale.Next(0, 1, false, ""))
		if err != nil {
			t.Fatal(err)
		}
		if err := stale.Answer(resp.(*kmsg.FetchResponse), nil); !errors.Is(err, kerr.FetchSessionIDNotFound) {
			t.Errorf("the old session: %v", err)
		}
	})
}

func TestReal_SessionRepeatedEpochIsRefused(t *testing.T) {
	t.Parallel()
	kafkatest.EachVersion(t, func(t *testing.T, kc *kafkatest.Cluster) {
		c := dialReal(t, kc, Options{})
		p := realParts(t, kc, c, 1)[0]
		f := newPoller(t, c, 1)
		f.s.Set(p, pos(0))
		f.poll()
		again := *f.s
		f.poll()
		resp, err := f.cl.Broker(1).Request(testContext(t), again.Next(0, 1, false, ""))
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Answer(resp.(*kmsg.FetchResponse), nil); !errors.Is(err, kerr.InvalidFetchSessionEpoch) {
			t.Fatalf("the same epoch twice: %v", err)
		}
		f.s = &again
		f.s.Set(p, pos(0))
		put(t, c, p, 1, "x")
		if got := f.poll(); len(got[p].RecordBatches) == 0 {
			t.Errorf("after the repair: %v", got)
		}
	})
}

func TestReal_SessionFullPartitionBesideIdleOnes(t *testing.T) {
	t.Parallel()
	kafkatest.EachVersion(t, func(t *testing.T, kc *kafkatest.Cluster) {
		c := dialReal(t, kc, Options{})
		parts := realParts(t, kc, c, 20)
		full, other := parts[7], parts[12]
		f := newPoller(t, c, 1)
		for _, p := range parts {
			f.s.Set(p, pos(0))
		}
		f.poll()
		put(t, c, full, 1, "first")
		f.wait = 5 * time.Second
		if got := f.poll(); !bytes.Contains(got[full].RecordBatches, []byte("first")) {
			t.Fatalf("first: %v", got)
		}
		// The lane is full: it is not Set again, and its data neither come again nor end the poll at once.
		put(t, c, full, 1, "second")
		f.wait = 300 * time.Millisecond
		for range 2 {
			start := time.Now()
			if got := f.poll(); len(got) != 0 || time.Since(start) < f.wait*9/10 { // a broker's timer may be a little early
				t.Fatalf("idle poll: %d partitions after %v", len(got), time.Since(start))
			}
		}
		f.wait = 5 * time.Second
		put(t, c, other, 1, "other")
		if got := f.poll(); !bytes.Contains(got[other].RecordBatches, []byte("other")) || got[full] != nil {
			t.Fatalf("others go on: %v", got)
		}
		f.s.Set(full, pos(1))
		if got := f.poll(); !bytes.Contains(got[full].RecordBatches, []byte("second")) {
			t.Errorf("back: %v", got)
		}
	})
}

func TestReal_SessionErrorsDoNotSpin(t *testing.T) {
	t.Parallel()
	kafkatest.EachVersion(t, func(t *testing.T, kc *kafkatest.Cluster) {
		c := dialReal(t, kc, Options{})
		parts := realParts(t, kc, c, 3)
		beyond, diverged, good := parts[0], parts[1], parts[2]
		put(t, c, diverged, 3, "x")
		f := newPoller(t, c, 1)
		f.wait = 250 * time.Millisecond
		f.s.Set(beyond, pos(1000))
		f.s.Set(diverged, Position{Offset: 100, LeaderEpoch: -1, LastEpoch: 0, MaxBytes: 1 << 20})
		f.s.Set(good, pos(0))
		got := f.poll()
		if err := kerr.ErrorForCode(got[beyond].ErrorCode); !errors.Is(err, kerr.OffsetOutOfRange) {
			t.Errorf("beyond the end: %v", err)
		}
		if d := got[diverged]; !Diverged(d) || d.DivergingEpoch.EndOffset != 3 {
			t.Errorf("diverged: %+v", d.DivergingEpoch)
		}
		for range 2 {
			start := time.Now()
			if got := f.poll(); len(got) != 0 || time.Since(start) < f.wait*9/10 { // a broker's timer may be a little early
				t.Fatalf("idle poll: %d partitions after %v", len(got), time.Since(start))
			}
		}
	})
}

func TestReal_SessionConnectionCut(t *testing.T) {
	t.Parallel()
	kafkatest.EachVersion(t, func(t *testing.T, kc *kafkatest.Cluster) {
		cut := newCutter()
		c := dialReal(t, kc, Options{Dialer: cut.dial})
		p := realParts(t, kc, c, 1)[0]
		f := newPoller(t, c, 1)
		f.s.Set(p, pos(0))
		f.poll()
		for i := range int64(10) {
			cut.cut("")
			put(t, c, p, 1, "x")
			f.s.Set(p, pos(i))
			// The first try may meet the cut connection; the next one is over a new one.
			got, err := f.try(testContext(t))
			if err != nil {
				got = f.poll()
			}
			if len(got[p].RecordBatches) == 0 {
				t.Fatalf("round %d: %v", i, got)
			}
		}
	})
}

func TestReal_SessionTopicCreatedAgain(t *testing.T) {
	t.Parallel()
	kafkatest.EachVersion(t, func(t *testing.T, kc *kafkatest.Cluster) {
		c := dialReal(t, kc, Options{})
		old, other := realParts(t, kc, c, 1)[0], realParts(t, kc, c, 1)[0]
		f := newPoller(t, c, 1)
		f.s.Set(old, pos(0))
		f.s.Set(other, pos(0))
		f.poll()
		if _, err := kc.Kadm().DeleteTopic(testContext(t), old.Topic); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the name is free", func() bool {
			m, err := c.Metadata(testContext(t), old.Topic)
			return err == nil && m.Topics[old.Topic].Err != nil
		})
		kafkatest.Topic(t, kc, kafkatest.TopicOptions{Name: old.Topic})
		eventually(t, "the old topic answers an error", func() bool { return f.poll()[old] != nil })
		if f.s.Has(old) {
			t.Error("the old topic is still asked for")
		}
		again := withID(t, c, Part{Topic: old.Topic})
		put(t, c, again, 1, "new")
		put(t, c, other, 1, "other")
		f.s.Set(again, pos(0))
		got := map[Part]bool{}
		eventually(t, "both topics have answered", func() bool {
			for p, rp := range f.poll() {
				got[p] = got[p] || len(rp.RecordBatches) > 0
			}
			return got[again] && got[other]
		})
	})
}

// TestReal_Authentication runs one cluster with everything that the shared ones do not have: TLS, SCRAM, and no places
// for fetch sessions.
func TestReal_Authentication(t *testing.T) {
	t.Parallel()
	kafkatest.Require(t)
	kc := kafkatest.Start(t, kafkatest.Options{
		Security:   kafkatest.Security{TLS: true, SASL: "SCRAM-SHA-512", Users: map[string]string{"sue": "sue-secret"}},
		Properties: map[string]string{"max.incremental.fetch.session.cache.slots": "0"},
	})
	cfg := config.Cluster{Name: "secure", Brokers: kc.Brokers(), TLS: &config.TLS{CAFile: kc.Certs().CAFile},
		SASL: &config.SASL{Mechanism: "scram-sha-512", Username: "sue", Password: config.NewSecret("sue-secret")}}
	c := dialConfig(t, cfg, Options{})
	// A new user is refused until the broker has heard of it: that is one reason why a refusal waits and does not stop.
	eventually(t, "the user is let in", func() bool {
		id, err := c.ID(testContext(t))
		if err != nil {
			checkNotAuthorized(t, err)
		}
		return id == kc.ID()
	})
	wrong := cfg
	wrong.SASL = &config.SASL{Mechanism: "scram-sha-512", Username: "sue", Password: config.NewSecret("hunter2")}
	start := time.Now()
	checkNotAuthorized(t, ping(t, wrong, Options{Timeout: 15 * time.Second}))
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("a wrong password took %v to be told", took)
	}
	other := cfg
	other.SASL = &config.SASL{Mechanism: "plain", Username: "sue", Password: config.NewSecret("sue-secret")}
	checkNotAuthorized(t, ping(t, other, Options{}))
	stranger := cfg
	stranger.TLS = &config.TLS{}
	checkNotAuthorized(t, ping(t, stranger, Options{}))
	bare := cfg
	bare.SASL, bare.TLS = nil, nil
	if err := ping(t, bare, Options{Timeout: 2 * time.Second}); err == nil {
		t.Error("plain text was let in")
	}
	testFullRequests(t, kc)
}

// testFullRequests polls brokers that have no place for a session.
func testFullRequests(t *testing.T, kc *kafkatest.Cluster) {
	t.Helper()
	topic := kafkatest.Topic(t, kc)
	f := &poller{t: t, cl: kc.Admin(), broker: 1, s: NewSession(), wait: 20 * time.Millisecond}
	m, err := kc.Kadm().Metadata(testContext(t), topic)
	if err != nil {
		t.Fatal(err)
	}
	p := Part{Topic: topic, ID: model.TopicID(m.Topics[topic].ID)}
	for i := range int64(3) {
		kafkatest.Produce(t, kc, topic, 0, kafkatest.Records(1, 1))
		f.s.Set(p, pos(i))
		if got := f.poll(); len(got[p].RecordBatches) == 0 {
			t.Fatalf("poll %d: nothing", i)
		}
		if f.s.id != 0 {
			t.Fatalf("session %d", f.s.id)
		}
	}
}

func TestReal_LeadersFollowAKilledBroker(t *testing.T) {
	t.Parallel()
	kafkatest.Long(t)
	kafkatest.Require(t)
	kc := kafkatest.Start(t, kafkatest.Options{Nodes: 3})
	c := dialReal(t, kc, Options{})
	topic := kafkatest.Topic(t, kc, kafkatest.TopicOptions{Partitions: 1, Replicas: 3})
	p := withID(t, c, Part{Topic: topic})
	l := runLeaders(t, c, LeadersOptions{})
	l.Want(p)
	was := kc.Leader(t, topic, 0)
	before := l.waitFor(t, p, was)
	other := was%3 + 1
	resp, err := c.Admin().Broker(int(other)).Request(testContext(t), produceRequest(p, testBatch(1, "x")))
	got := produced(t, resp, err)
	if err := ProduceError(got); !errors.Is(err, kerr.NotLeaderForPartition) || got.BaseOffset != -1 || Outcome(err) != OutcomeNotWritten {
		t.Errorf("produce to a follower: %v with base offset %d", err, got.BaseOffset)
	}
	put(t, c, p, 1, "x")
	kc.Kill(t, was)
	l.Stale(p, before.Epoch)
	ctx, cancel := context.WithTimeout(testContext(t), 25*time.Second)
	defer cancel()
	for {
		changed := l.Changed()
		if now, ok := l.Lookup(p); ok && now.Broker != was && now.Epoch > before.Epoch {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatal("no new leader was found")
		}
	}
	if got, err := c.ReadAt(testContext(t), p, 0, 1<<20, false); err != nil || len(got.RecordBatches) == 0 {
		t.Errorf("ReadAt from the new leader: %v", err)
	}
	// A new leader tells no end before its followers have fetched from it.
	kafkatest.Eventually(t, 25*time.Second, func() (bool, string) {
		end := c.ListOffsets(testContext(t), []Part{p}, AtEnd, false)[p]
		return end.Err == nil && end.Offset == 1, fmt.Sprintf("end %+v", end)
	})
}
