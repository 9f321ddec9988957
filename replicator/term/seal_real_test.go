package term

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"lockstep/internal/kafka"
	"lockstep/internal/kafkatest"
	"lockstep/internal/model"
)

// sealed takes two terms, writes n records of the first to every partition and returns what a seal needs.
func twoTerms(t *testing.T, c kafkatest.Target, dst *kafka.Cluster, link, topic string, partitions, n int32) (old, now model.Term, ts []Target) {
	t.Helper()
	old = mustTake(t, dst, link, model.Term{})
	for p := range partitions {
		mustWrite(t, c, topic, p, old, 0, n)
	}
	return old, mustTake(t, dst, link, old), targets(topic, partitions)
}

func TestSeal_Direct(t *testing.T) {
	t.Parallel()
	kafkatest.EachVersion(t, func(t *testing.T, c *kafkatest.Cluster) {
		dst := dial(t, c)
		topic := kafkatest.Topic(t, c, kafkatest.TopicOptions{Partitions: 4})
		old, now, ts := twoTerms(t, c, dst, topic, topic, 3, 5)
		ts = append(ts,
			Target{Part: kafka.Part{Topic: topic, Partition: 3}}, // never written
			Target{Part: kafka.Part{Topic: topic, Partition: 7}},
		)
		got, way := NewSealer(dst, topic, Options{}).Seal(within(t), now, ts)
		if way != WayDirect {
			t.Errorf("way %q", way)
		}
		for _, target := range ts[:3] {
			checkSealed(t, c, got[target.Part], target.Part, old, now, 5)
			if o := got[target.Part]; o.Was == nil || o.Was.LastSequence != 4 || o.Was.Epoch != old.Epoch {
				t.Errorf("%s before the marker: %+v", target.Part, o.Was)
			}
		}
		checkSealed(t, c, got[ts[3].Part], ts[3].Part, old, now, 0)
		if o := got[ts[4].Part]; !errors.Is(o.Err, ErrUnknownPartition) {
			t.Errorf("outcome of a partition that does not exist: %+v", o)
		}
	})
}

// The same seal again, as a resumed run does it, finds a marker of its own and disturbs nobody.
func TestSeal_DirectAgain(t *testing.T) {
	t.Parallel()
	kafkatest.EachVersion(t, func(t *testing.T, c *kafkatest.Cluster) {
		dst := dial(t, c)
		topic := kafkatest.Topic(t, c)
		_, now, ts := twoTerms(t, c, dst, topic, topic, 1, 5)
		s := NewSealer(dst, topic, Options{})
		s.Seal(within(t), now, ts)
		mustWrite(t, c, topic, 0, now, 0, 2)
		got, _ := s.Seal(within(t), now, ts)
		if o := got[ts[0].Part]; !o.Sealed() || o.Marker != 8 {
			t.Errorf("outcome %+v", o)
		}
		mustWrite(t, c, topic, 0, now, 2, 1)
		if got, _ := s.Seal(within(t), model.Term{N: 1, PID: now.PID, Epoch: now.Epoch - 1}, ts); !errors.Is(got[ts[0].Part].Err, ErrSuperseded) {
			t.Errorf("a lower epoch: %+v", got[ts[0].Part])
		}
	})
}

func TestSeal_ByTransaction(t *testing.T) {
	t.Parallel()
	kafkatest.EachVersion(t, func(t *testing.T, c *kafkatest.Cluster) {
		dst := dial(t, c)
		topic := kafkatest.Topic(t, c, kafkatest.TopicOptions{Partitions: 3})
		old, now, ts := twoTerms(t, c, dst, topic, topic, 3, 5)
		gone := Target{Part: kafka.Part{Topic: topic, Partition: 7}}
		got, way := NewSealer(dst, topic, Options{Way: WayTransaction}).Seal(within(t), now, append(ts, gone))
		if way != WayTransaction {
			t.Errorf("way %q", way)
		}
		for _, target := range ts {
			checkSealed(t, c, got[target.Part], target.Part, old, now, 5)
		}
		if o := got[gone.Part]; !errors.Is(o.Err, ErrUnknownPartition) {
			t.Errorf("outcome of a partition that does not exist: %+v", o)
		}
		// The next term of the link is not held back.
		next := mustTake(t, dst, topic, now)
		got, _ = NewSealer(dst, topic, Options{Way: WayTransaction}).Seal(within(t), next, ts)
		checkSealed(t, c, got[ts[0].Part], ts[0].Part, now, next, 7)
	})
}

// More partitions than go into one transaction take several, under one epoch.
func TestSeal_ByTransactionInChunks(t *testing.T) {
	t.Parallel()
	kafkatest.EachVersion(t, func(t *testing.T, c *kafkatest.Cluster) {
		dst := dial(t, c)
		const partitions = 25
		topic := kafkatest.Topic(t, c, kafkatest.TopicOptions{Partitions: partitions})
		old, now, _ := twoTerms(t, c, dst, topic, topic, 1, 5)
		s := NewSealer(dst, topic, Options{Way: WayTransaction})
		s.perTxn = 10
		got, _ := s.Seal(within(t), now, targets(topic, partitions))
		for part, o := range got {
			if !o.Sealed() || o.Epoch != now.Epoch {
				t.Fatalf("outcome of %s: %+v", part, o)
			}
		}
		first := kafka.Part{Topic: topic}
		checkSealed(t, c, got[first], first, old, now, 5)
	})
}

// A coordinator epoch above 0 (a coordinator that moved) has to be carried by later direct markers.
func TestSeal_DirectAfterRealTransaction(t *testing.T) {
	t.Parallel()
	c := kafkatest.Start(t, kafkatest.Options{})
	dst := dial(t, c)
	topic := kafkatest.Topic(t, c, kafkatest.TopicOptions{Partitions: 2})
	mustTake(t, dst, "warm-up", model.Term{})
	c.Stop(t, 1)
	c.Restart(t, 1) // the coordinator's epoch is its partition's leader epoch
	kafkatest.AwaitLeaders(t, c, topic)
	old, now, ts := twoTerms(t, c, dst, "dr", topic, 2, 5)
	byTxn, _ := NewSealer(dst, "dr", Options{Way: WayTransaction}).Seal(within(t), now, ts)
	checkSealed(t, c, byTxn[ts[0].Part], ts[0].Part, old, now, 5)
	shown := dst.DescribeProducers(within(t), []kafka.Part{ts[0].Part})[ts[0].Part]
	if p, _ := shown.Find(now.PID); p.CoordinatorEpoch <= 0 {
		t.Fatalf("coordinator epoch %d: the test proves nothing", p.CoordinatorEpoch)
	}
	next := mustTake(t, dst, "dr", now)
	direct, way := NewSealer(dst, "dr", Options{}).Seal(within(t), next, ts)
	if way != WayDirect {
		t.Errorf("way %q", way)
	}
	checkSealed(t, c, direct[ts[0].Part], ts[0].Part, now, next, 7)
	// And the id's next transaction does not hang.
	last := mustTake(t, dst, "dr", next)
	byTxn, _ = NewSealer(dst, "dr", Options{Way: WayTransaction}).Seal(within(t), last, ts)
	checkSealed(t, c, byTxn[ts[1].Part], ts[1].Part, next, last, 7)
}

// A leader that is gone leaves its partitions unsealed, on both ways, and holds back neither the others nor the next
// term.
func TestSeal_LeaderlessIsListed(t *testing.T) {
	t.Parallel()
	kafkatest.Long(t)
	c := kafkatest.Start(t, kafkatest.Options{Nodes: 3})
	dst := dial(t, c)
	topic := kafkatest.Topic(t, c, kafkatest.TopicOptions{Partitions: 6, Replicas: 1})
	old, now, ts := twoTerms(t, c, dst, "dr", topic, 6, 5)
	down := c.Leader(t, topic, 0)
	lost := make(map[kafka.Part]bool)
	for _, target := range ts {
		lost[target.Part] = c.Leader(t, topic, target.Partition) == down
	}
	c.Kill(t, down)
	awaitLeaderless(t, dst, topic)
	check := func(way Way, old, now model.Term, want int64) {
		t.Helper()
		got, _ := NewSealer(dst, "dr", Options{Way: way}).Seal(within(t), now, ts)
		for _, target := range ts {
			if !lost[target.Part] {
				checkSealed(t, c, got[target.Part], target.Part, old, now, want)
			} else if o := got[target.Part]; !errors.Is(o.Err, ErrNoLeader) || o.Marker >= 0 {
				t.Errorf("%s, %s: %+v", way, target.Part, o)
			}
		}
	}
	check(WayDirect, old, now, 5)
	next := mustTake(t, dst, "dr", now)
	check(WayTransaction, now, next, 7)
	c.Restart(t, down)
	kafkatest.AwaitLeaders(t, c, topic)
	got, _ := NewSealer(dst, "dr", Options{Way: WayTransaction}).Seal(within(t), mustTake(t, dst, "dr", next), ts)
	for part := range lost {
		if o := got[part]; !o.Sealed() {
			t.Errorf("%s after the leader is back: %+v", part, o)
		}
	}
}

func awaitLeaderless(t *testing.T, dst *kafka.Cluster, topic string) {
	t.Helper()
	kafkatest.Eventually(t, 30*time.Second, func() (bool, string) {
		meta, err := dst.Metadata(within(t), topic)
		if err != nil {
			return false, err.Error()
		}
		for _, p := range meta.Topics[topic].Parts {
			if p.Leader < 0 {
				return true, ""
			}
		}
		return false, "every partition has a leader"
	})
}

// A partition below min.insync.replicas is refused at once on the direct way, and left out on the other, where it
// would hold back every later term.
func TestSeal_BelowMinISR(t *testing.T) {
	t.Parallel()
	kafkatest.Long(t)
	c := kafkatest.Start(t, kafkatest.Options{Nodes: 3})
	dst := dial(t, c)
	strict := kafkatest.Topic(t, c, kafkatest.TopicOptions{Replicas: 3, Configs: map[string]string{"min.insync.replicas": "3"}})
	easy := kafkatest.Topic(t, c, kafkatest.TopicOptions{Replicas: 3, Configs: map[string]string{"min.insync.replicas": "1"}})
	old, now, ts := twoTerms(t, c, dst, "dr", easy, 1, 5)
	mustWrite(t, c, strict, 0, old, 0, 5)
	ts = append(ts, targets(strict, 1)...)
	c.Kill(t, follower(t, c, strict, easy))
	kafkatest.Eventually(t, 60*time.Second, func() (bool, string) {
		meta, err := dst.Metadata(within(t), strict)
		if err != nil {
			return false, err.Error()
		}
		p, _ := meta.Topics[strict].Part(0)
		return len(p.ISR) < 3, "all replicas are in sync"
	})
	got, _ := NewSealer(dst, "dr", Options{}).Seal(within(t), now, ts)
	checkSealed(t, c, got[ts[0].Part], ts[0].Part, old, now, 5)
	if o := got[ts[1].Part]; !errors.Is(o.Err, kerr.NotEnoughReplicas) {
		t.Errorf("direct: %+v", o)
	}
	next := mustTake(t, dst, "dr", now)
	got, _ = NewSealer(dst, "dr", Options{Way: WayTransaction}).Seal(within(t), next, ts)
	checkSealed(t, c, got[ts[0].Part], ts[0].Part, now, next, 7)
	if o := got[ts[1].Part]; !errors.Is(o.Err, ErrBelowMinISR) {
		t.Errorf("by transaction: %+v", o)
	}
	mustTake(t, dst, "dr", next)
}

// follower returns a broker that leads neither topic's partition 0 nor coordinates, as far as that can be had.
func follower(t *testing.T, c *kafkatest.Cluster, topics ...string) int32 {
	t.Helper()
	leads := make(map[int32]bool)
	for _, topic := range topics {
		leads[c.Leader(t, topic, 0)] = true
	}
	for id := int32(3); id > 0; id-- {
		if !leads[id] {
			return id
		}
	}
	t.Fatal("every broker leads")
	return 0
}

// EndTxn answers before the markers stand: with the partition's leader frozen there is no seal, and the old term's
// marker is waited for.
func TestSeal_LeaderFrozen(t *testing.T) {
	t.Parallel()
	kafkatest.Long(t)
	c := kafkatest.Start(t, kafkatest.Options{Nodes: 3})
	dst := dial(t, c)
	topic := kafkatest.Topic(t, c, kafkatest.TopicOptions{Partitions: 3, Replicas: 1})
	old, now, ts := twoTerms(t, c, dst, "dr", topic, 3, 5)
	frozen := notCoordinating(t, dst, c, topic)
	broker := c.Leader(t, topic, frozen)
	c.Freeze(t, broker)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	got, _ := NewSealer(dst, "dr", Options{Way: WayTransaction}).Seal(ctx, now, ts[frozen:frozen+1])
	if o := got[ts[frozen].Part]; o.Sealed() {
		t.Errorf("sealed at a frozen leader: %+v", o)
	}
	c.Thaw(t, broker)
	kafkatest.AwaitLeaders(t, c, topic)
	next := mustTake(t, dst, "dr", now)
	got, _ = NewSealer(dst, "dr", Options{Way: WayTransaction}).Seal(within(t), next, ts)
	if o := got[ts[frozen].Part]; !o.Sealed() {
		t.Errorf("after the thaw: %+v", o)
	}
	if got := write(t, c, topic, frozen, old, 0, 1); got != "INVALID_PRODUCER_EPOCH" {
		t.Errorf("old term's batch: %s", got)
	}
}

// notCoordinating returns a partition whose leader does not coordinate the link's transactional id.
func notCoordinating(t *testing.T, dst *kafka.Cluster, c *kafkatest.Cluster, topic string) int32 {
	t.Helper()
	node, err := newCoordinator(dst, "dr").find(within(t))
	if err != nil {
		t.Fatal(err)
	}
	for p := range int32(3) {
		if c.Leader(t, topic, p) != node {
			return p
		}
	}
	t.Fatal("one broker leads everything")
	return 0
}

// Without Alter on the cluster the link seals by transaction; without the transactional id too, not at all, and the
// error says what to grant.
func TestSeal_WithoutAlter(t *testing.T) {
	t.Parallel()
	for _, version := range kafkatest.Versions() {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			c := kafkatest.Start(t, kafkatest.Options{
				Version: version, Authorizer: true,
				Security: kafkatest.Security{SASL: "PLAIN", Users: map[string]string{"lockstep": "lockstep"}},
			})
			topic := kafkatest.Topic(t, c, kafkatest.TopicOptions{Partitions: 2})
			grant(t, c, kadm.NewACLs().Allow("User:lockstep").Topics(topic).
				Operations(kadm.OpWrite, kadm.OpRead, kadm.OpDescribe, kadm.OpDescribeConfigs))
			dst := dialAs(t, c, "lockstep")
			if _, err := Take(within(t), dst, "dr", model.Term{}, "me"); !errors.Is(err, ErrDenied) {
				t.Errorf("Take without the transactional id: %v", err)
			}
			plain, err := TakePlain(within(t), dst, model.Term{}, "me")
			if err != nil {
				t.Fatal(err)
			}
			got, way := NewSealer(dst, "dr", Options{}).Seal(within(t), plain, targets(topic, 2))
			if o := got[kafka.Part{Topic: topic}]; way != WayNone || !errors.Is(o.Err, ErrDenied) || o.Way != WayNone {
				t.Errorf("way %q, %+v", way, o)
			}
			grant(t, c, kadm.NewACLs().Allow("User:lockstep").TransactionalIDs("lockstep.dr").Operations(kadm.OpWrite, kadm.OpDescribe))
			old, now, ts := twoTerms(t, c, dst, "dr", topic, 2, 5)
			kafkatest.Eventually(t, 10*time.Second, func() (bool, string) {
				got, way = NewSealer(dst, "dr", Options{}).Seal(within(t), now, ts)
				return way == WayTransaction, string(way)
			})
			for _, target := range ts {
				checkSealed(t, c, got[target.Part], target.Part, old, now, 5)
			}
		})
	}
}
