package kafka

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/model"
)

// metaOf builds the metadata of topic t with one partition.
func metaOf(id byte, leader, epoch int32) Meta {
	p := PartMeta{Partition: 0, Leader: leader, Epoch: epoch}
	if leader < 0 {
		p.Err = kerr.LeaderNotAvailable
	}
	return Meta{Topics: map[string]TopicMeta{"t": {Name: "t", ID: model.TopicID{id}, Parts: []PartMeta{p}}}}
}

// deaf returns Leaders whose loop does not run: tests feed it by hand.
func deaf(t *testing.T) *Leaders {
	t.Helper()
	l := NewLeaders(dialFake(t, newFake(t, kfake.NumBrokers(1)), Options{}), LeadersOptions{})
	l.Want(Part{Topic: "t"})
	return l
}

// feed gives one refresh's answer.
func (l *Leaders) feed(m Meta) (missing bool) {
	_, tick := l.begin()
	return l.learn(m, tick)
}

func (l *Leaders) check(t *testing.T, what string, want Leader, ok bool) {
	t.Helper()
	for _, p := range []Part{{Topic: "t"}, {Topic: "t", ID: model.TopicID{1}}} {
		if got, found := l.Lookup(p); found != ok || ok && got != want {
			t.Errorf("%s: Lookup = %v, %v; want %v, %v", what, got, found, want, ok)
		}
	}
}

func TestLeaders_ConsidersEpochs(t *testing.T) {
	t.Parallel()
	l := deaf(t)
	l.check(t, "at first", Leader{}, false)
	l.feed(metaOf(1, 3, 5))
	l.check(t, "learnt", Leader{3, 5}, true)
	l.feed(metaOf(1, 2, 4))
	l.check(t, "an older epoch is no news", Leader{3, 5}, true)
	l.feed(metaOf(1, 2, 6))
	l.check(t, "a newer one is", Leader{2, 6}, true)
	if !l.feed(metaOf(1, -1, 7)) {
		t.Error("a leaderless partition is not missing")
	}
	l.check(t, "leaderless", Leader{}, false)
	l.feed(metaOf(1, 3, 5))
	l.check(t, "a broker that lags does not bring the old leader back", Leader{}, false)
	l.feed(metaOf(1, 4, 8))
	l.check(t, "elected", Leader{4, 8}, true)
	l.feed(metaOf(2, 1, 0))
	l.check(t, "created again, epochs start anew", Leader{1, 0}, true)
	l.feed(Meta{})
	l.check(t, "topic gone", Leader{}, false)
}

func TestLeaders_WithoutEpochsTheNewestAnswerCounts(t *testing.T) {
	t.Parallel()
	l := deaf(t)
	l.feed(metaOf(0, 3, -1))
	l.feed(metaOf(0, 4, -1))
	l.check(t, "no epochs", Leader{4, -1}, true)
}

func TestLeaders_StaleHoldsUntilAnAnswerAskedForLater(t *testing.T) {
	t.Parallel()
	l := deaf(t)
	p := Part{Topic: "t", ID: model.TopicID{1}}
	l.feed(metaOf(1, 3, 5))
	l.Stale(p, 4)
	l.check(t, "stale by an older epoch", Leader{3, 5}, true)
	_, tick := l.begin() // a question under way
	l.Stale(p, 5)
	l.check(t, "doubted", Leader{}, false)
	if !l.learn(metaOf(1, 3, 5), tick) {
		t.Error("a doubted leader is not missing")
	}
	l.check(t, "an answer that was asked for before says nothing", Leader{}, false)
	l.feed(metaOf(1, 3, 5))
	l.check(t, "still the leader", Leader{3, 5}, true)
	l.Stale(p, -1) // whatever it is
	l.check(t, "doubted without an epoch", Leader{}, false)
	l.feed(metaOf(1, 2, 6))
	l.check(t, "moved", Leader{2, 6}, true)
}

func TestLeaders_ChangedFiresOncePerChange(t *testing.T) {
	t.Parallel()
	l := deaf(t)
	p := Part{Topic: "t"}
	fired := func(what string, want bool, do func()) {
		t.Helper()
		ch := l.Changed()
		do()
		select {
		case <-ch:
			if !want {
				t.Errorf("%s: fired", what)
			}
		default:
			if want {
				t.Errorf("%s: did not fire", what)
			}
		}
	}
	fired("learnt", true, func() { l.feed(metaOf(1, 3, 5)) })
	fired("the same again", false, func() { l.feed(metaOf(1, 3, 5)) })
	fired("doubted", true, func() { l.Stale(p, 5) })
	fired("doubted twice", false, func() { l.Stale(p, 5) })
	fired("confirmed", true, func() { l.feed(metaOf(1, 3, 5)) })
	fired("moved", true, func() { l.feed(metaOf(1, 4, 6)) })
	fired("an older answer", false, func() { l.feed(metaOf(1, 3, 5)) })
	fired("gone", true, func() { l.feed(Meta{}) })
}

func TestLeaders_WantAndDropCount(t *testing.T) {
	t.Parallel()
	l := deaf(t)
	p := Part{Topic: "t"}
	l.Want(p)
	l.feed(metaOf(1, 3, 5))
	l.Drop(p, Part{Topic: "stranger"})
	l.check(t, "one of two", Leader{3, 5}, true)
	l.Drop(p)
	l.check(t, "none", Leader{}, false)
	if topics, _ := l.begin(); len(topics) != 0 {
		t.Errorf("still asks for %v", topics)
	}
	l.Stale(p, -1)
}

// runLeaders runs the loop until the test ends.
func runLeaders(t *testing.T, c *Cluster, opts LeadersOptions) *Leaders {
	t.Helper()
	l := NewLeaders(c, opts)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := l.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	return l
}

// waitFor waits on Changed until a partition is led by a broker.
func (l *Leaders) waitFor(t *testing.T, p Part, broker int32) Leader {
	t.Helper()
	ctx := testContext(t)
	for {
		changed := l.Changed()
		if got, ok := l.Lookup(p); ok && got.Broker == broker {
			return got
		}
		select {
		case <-changed:
		case <-ctx.Done():
			got, ok := l.Lookup(p)
			t.Fatalf("%s: leader %v, %v; want broker %d", p, got, ok, broker)
		}
	}
}

func TestLeaders_RunFollowsTheCluster(t *testing.T) {
	t.Parallel()
	fake := newFake(t, kfake.NumBrokers(2), kfake.SeedTopics(1, "t"))
	c := dialFake(t, fake, Options{})
	// An hour between regular questions: what is seen here was asked for by Want and Stale.
	l := runLeaders(t, c, LeadersOptions{Refresh: time.Hour})
	p := Part{Topic: "t"}
	if err := fake.MoveTopicPartition("t", 0, 0); err != nil {
		t.Fatal(err)
	}
	l.Want(p)
	was := l.waitFor(t, p, 0)
	if err := fake.MoveTopicPartition("t", 0, 1); err != nil {
		t.Fatal(err)
	}
	l.Stale(p, was.Epoch)
	if now := l.waitFor(t, p, 1); now.Epoch <= was.Epoch {
		t.Errorf("epoch %d after %d", now.Epoch, was.Epoch)
	}
	late := Part{Topic: "late"}
	l.Want(late) // does not exist yet: asked for again and again, without a kick
	if err := fake.CreateTopic("late", 1, nil); err != nil {
		t.Fatal(err)
	}
	l.waitFor(t, late, fake.LeaderFor("late", 0))
}

func TestLeaders_RunRefreshesRegularly(t *testing.T) {
	t.Parallel()
	fake := newFake(t, kfake.NumBrokers(2), kfake.SeedTopics(1, "t"))
	l := runLeaders(t, dialFake(t, fake, Options{}), LeadersOptions{Refresh: 120 * time.Millisecond})
	p := Part{Topic: "t"}
	l.Want(p)
	for _, broker := range []int32{1, 0, 1} {
		if err := fake.MoveTopicPartition("t", 0, broker); err != nil {
			t.Fatal(err)
		}
		l.waitFor(t, p, broker)
	}
}

func TestLeaders_ManyStaleAskOnce(t *testing.T) {
	t.Parallel()
	fake := newFake(t, kfake.NumBrokers(1), kfake.SeedTopics(100, "t"))
	l := runLeaders(t, dialFake(t, fake, Options{}), LeadersOptions{Refresh: time.Hour})
	parts := partsOf("t", 100)
	l.Want(parts...)
	l.waitFor(t, parts[99], 0)
	var mu sync.Mutex
	questions := 0
	fake.ControlKey(kmsg.Metadata.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		mu.Lock()
		defer mu.Unlock()
		questions++
		return nil, nil, false
	})
	start := time.Now()
	for range 20 {
		for _, p := range parts {
			l.Stale(p, -1)
		}
		l.waitFor(t, parts[0], 0)
	}
	mu.Lock()
	defer mu.Unlock()
	if most := int(time.Since(start)/minMetadataAge) + 2; questions > most {
		t.Errorf("%d questions in %v", questions, time.Since(start))
	}
}

func TestLeaders_RunSurvivesADeadCluster(t *testing.T) {
	t.Parallel()
	fake := newFake(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	cut := newCutter()
	c := dialFake(t, fake, Options{Dialer: cut.dial, Timeout: 100 * time.Millisecond})
	cut.setRefused(fake.ListenAddrs()[0], true)
	l := runLeaders(t, c, LeadersOptions{})
	p := Part{Topic: "t"}
	l.Want(p)
	dialled := cut.tried()
	eventually(t, "it has tried", func() bool { return cut.tried() > dialled+2 })
	cut.setRefused(fake.ListenAddrs()[0], false)
	l.waitFor(t, p, 0)
}
