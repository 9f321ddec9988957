package kafka

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// poller drives a session by hand against one broker.
type poller struct {
	t      *testing.T
	cl     *kgo.Client
	broker int
	s      *Session
	wait   time.Duration
}

func newPoller(t *testing.T, c *Cluster, broker int) *poller {
	t.Helper()
	cl, err := c.NewFetch()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return &poller{t: t, cl: cl, broker: broker, s: NewSession(), wait: 20 * time.Millisecond}
}

func (p *poller) try(ctx context.Context) (map[Part]*kmsg.FetchResponseTopicPartition, error) {
	resp, err := p.cl.Broker(p.broker).Request(ctx, p.s.Next(p.wait, 1<<24, false, ""))
	if err != nil {
		return nil, p.s.Answer(nil, err)
	}
	r := resp.(*kmsg.FetchResponse)
	if err := p.s.Answer(r, nil); err != nil {
		return nil, err
	}
	out := map[Part]*kmsg.FetchResponseTopicPartition{}
	for part, rp := range p.s.Parts(r) {
		out[part] = rp
	}
	return out, nil
}

func (p *poller) poll() map[Part]*kmsg.FetchResponseTopicPartition {
	p.t.Helper()
	out, err := p.try(testContext(p.t))
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

func pos(off int64) Position {
	return Position{Offset: off, LeaderEpoch: -1, LastEpoch: -1, MaxBytes: 1 << 20}
}

func TestSession_OnABroker(t *testing.T) {
	t.Parallel()
	for name, versions := range map[string]*kversion.Versions{"by id": nil, "by name": kversion.V3_0_0()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := []kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(3, "t"), kfake.SeedTopics(1, "u")}
			if versions != nil {
				opts = append(opts, kfake.MaxVersions(versions))
			}
			fake := newFake(t, opts...)
			c := dialFake(t, fake, Options{})
			t0, u0 := withID(t, c, Part{Topic: "t"}), withID(t, c, Part{Topic: "u"})
			t1, t2 := Part{"t", t0.ID, 1}, Part{"t", t0.ID, 2}
			put(t, c, t0, 2, "zero")
			f := newPoller(t, c, 0)
			for _, p := range []Part{t0, t1, t2, u0} {
				f.s.Set(p, pos(0))
			}
			got := f.poll()
			if len(got) != 4 || !bytes.Contains(got[t0].RecordBatches, []byte("zero")) {
				t.Fatalf("first poll: %v", got)
			}
			f.s.Set(t0, pos(2))
			if got = f.poll(); len(got) != 0 {
				t.Fatalf("idle poll names %d partitions", len(got))
			}
			if f.s.id == 0 || f.s.epoch != 2 {
				t.Fatalf("session %d, epoch %d", f.s.id, f.s.epoch)
			}
			put(t, c, t2, 1, "two")
			put(t, c, u0, 1, "you")
			if got = f.poll(); !bytes.Contains(got[t2].RecordBatches, []byte("two")) || !bytes.Contains(got[u0].RecordBatches, []byte("you")) {
				t.Fatalf("news: %v", got)
			}
			// u/0 is full and left out, t/2 goes on.
			f.s.Set(t2, pos(1))
			put(t, c, u0, 1, "more")
			if got = f.poll(); got[u0] != nil {
				t.Fatal("a partition that was left out was answered")
			}
			f.s.Set(u0, pos(1))
			if got = f.poll(); !bytes.Contains(got[u0].RecordBatches, []byte("more")) {
				t.Fatalf("back: %v", got)
			}
		})
	}
}

func TestSession_ErrorsDoNotSpin(t *testing.T) {
	t.Parallel()
	fake := newFake(t, kfake.NumBrokers(1), kfake.SeedTopics(2, "t"))
	c := dialFake(t, fake, Options{})
	bad := withID(t, c, Part{Topic: "t"})
	good := Part{"t", bad.ID, 1}
	f := newPoller(t, c, 0)
	f.s.Set(bad, pos(1000))
	f.s.Set(good, pos(0))
	if got := f.poll(); got[bad].ErrorCode != kerr.OffsetOutOfRange.Code {
		t.Fatalf("first poll: %+v", got[bad])
	}
	for range 3 {
		if got := f.poll(); len(got) != 0 {
			t.Fatalf("the error is answered again: %v", got)
		}
	}
	put(t, c, good, 1, "x")
	if got := f.poll(); len(got[good].RecordBatches) == 0 {
		t.Error("the good partition got nothing")
	}
}

func TestSession_ConnectionCutUnderALongPoll(t *testing.T) {
	t.Parallel()
	fake := newFake(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	cut := newCutter()
	c := dialFake(t, fake, Options{Dialer: cut.dial})
	p := withID(t, c, Part{Topic: "t"})
	f := newPoller(t, c, 0)
	f.s.Set(p, pos(0))
	f.poll()
	seen := make(chan struct{}, 1)
	fake.ControlKey(kmsg.Fetch.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		seen <- struct{}{}
		return nil, nil, false
	})
	go func() {
		<-seen
		cut.cut("")
	}()
	f.wait = 10 * time.Second
	if _, err := f.try(testContext(t)); err == nil {
		t.Fatal("the poll survived the cut")
	} else if action, _ := Classify(err); action != Refresh {
		t.Errorf("Classify(%v) = %v", err, action)
	}
	put(t, c, p, 1, "after")
	f.wait = 20 * time.Millisecond
	if got := f.poll(); !bytes.Contains(got[p].RecordBatches, []byte("after")) {
		t.Errorf("after the cut: %v", got)
	}
}

func TestSession_TopicDeletedAndCreatedAgain(t *testing.T) {
	t.Parallel()
	fake := newFake(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "t"), kfake.SeedTopics(1, "u"))
	c := dialFake(t, fake, Options{})
	old, other := withID(t, c, Part{Topic: "t"}), withID(t, c, Part{Topic: "u"})
	f := newPoller(t, c, 0)
	f.s.Set(old, pos(0))
	f.s.Set(other, pos(0))
	f.poll()
	if err := errors.Join(fake.DeleteTopic("t"), fake.CreateTopic("t", 1, nil)); err != nil {
		t.Fatal(err)
	}
	if got := f.poll(); got[old] == nil || got[old].ErrorCode == 0 {
		t.Fatalf("the old topic answers %+v", got[old])
	}
	if f.s.Has(old) {
		t.Error("the old topic is still asked for")
	}
	again := withID(t, c, Part{Topic: "t"})
	put(t, c, again, 1, "new")
	f.s.Set(again, pos(0))
	if got := f.poll(); !bytes.Contains(got[again].RecordBatches, []byte("new")) {
		t.Errorf("the new topic: %v", got)
	}
}

func TestSession_PlaceGivenAway(t *testing.T) {
	t.Parallel()
	fake := newFake(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "t"),
		kfake.BrokerConfigs(map[string]string{"max.incremental.fetch.session.cache.slots": "1"}))
	c := dialFake(t, fake, Options{})
	p := withID(t, c, Part{Topic: "t"})
	one, two := newPoller(t, c, 0), newPoller(t, c, 0)
	one.s.Set(p, pos(0))
	one.poll()
	two.s.Set(p, pos(0))
	two.poll() // takes the only place
	if _, err := one.try(testContext(t)); !errors.Is(err, kerr.FetchSessionIDNotFound) {
		t.Fatalf("error %v", err)
	}
	put(t, c, p, 1, "x")
	if got := one.poll(); len(got[p].RecordBatches) == 0 {
		t.Errorf("after the repair: %v", got)
	}
}

func TestSession_EndOnABroker(t *testing.T) {
	t.Parallel()
	fake := newFake(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	c := dialFake(t, fake, Options{})
	f := newPoller(t, c, 0)
	f.s.Set(withID(t, c, Part{Topic: "t"}), pos(0))
	f.poll()
	resp, err := f.cl.Broker(0).Request(testContext(t), f.s.End())
	if err != nil || resp.(*kmsg.FetchResponse).SessionID != 0 {
		t.Errorf("end: %+v, %v", resp, err)
	}
	f.poll()
}
