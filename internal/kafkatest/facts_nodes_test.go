package kafkatest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// threeNodes has one replica of the transaction state, so that a transactional id can be chosen whose coordinator does
// not need the node that a fact hurts.
func threeNodes() Options {
	return Options{Nodes: 3, Properties: map[string]string{"transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1"}}
}

// topicOn creates a topic of one partition on exactly these nodes; the first leads it.
func topicOn(t *testing.T, c *Cluster, minISR string, nodes ...int32) string {
	t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 10_000
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = TopicName(t), -1, -1
	ra := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
	ra.Replicas = nodes
	rt.ReplicaAssignment = append(rt.ReplicaAssignment, ra)
	rc := kmsg.NewCreateTopicsRequestTopicConfig()
	rc.Name, rc.Value = "min.insync.replicas", &minISR
	rt.Configs = append(rt.Configs, rc)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(t.Context(), c.Admin())
	if err != nil {
		t.Fatalf("create topic: %v", err)
	}
	if got := ErrorName(resp.Topics[0].ErrorCode); got != ok {
		t.Fatalf("create topic: %s", got)
	}
	AwaitLeaders(t, c, rt.Topic)
	return rt.Topic
}

// txnIDAwayFrom returns a transactional id whose coordinator is another node, and that is ready.
func txnIDAwayFrom(t *testing.T, c Target, node int32) string {
	t.Helper()
	for {
		txnID := txnIDFor(t)
		initProducer(t, c, txnID)
		coord, err := coordinator(t, c, txnID)
		if err != nil {
			t.Fatal(err)
		}
		if coord != node {
			return txnID
		}
	}
}

// awaitLeader waits until the metadata names this leader; −1 waits for a partition without one.
func awaitLeader(t *testing.T, c Target, topic string, want int32) {
	t.Helper()
	Eventually(t, time.Minute, func() (bool, string) {
		parts, err := rawMetadata(t.Context(), c, topic)
		if err != nil {
			return false, err.Error()
		}
		return parts[0].leader == want, fmt.Sprintf("leader %d, want %d", parts[0].leader, want)
	})
}

// TestBroker_SealByTransaction_LeaderFrozen: EndTxn answers while the leader cannot write anything, and a batch of the
// old epoch that was on its way is taken two seconds later.
func TestBroker_SealByTransaction_LeaderFrozen(t *testing.T) {
	Long(t)
	eachOwn(t, threeNodes(), func(t *testing.T, c *Cluster) {
		accepted := 0
		for range 3 {
			accepted += frozenLeaderRound(t, c, 1)
		}
		t.Logf("%d of 3 batches of the old epoch were accepted after EndTxn", accepted)
		if accepted == 0 {
			t.Fatal("none was accepted")
		}
	})
}

// frozenLeaderRound returns 1 if the old epoch's batch was accepted.
func frozenLeaderRound(t *testing.T, c *Cluster, node int32) int {
	t.Helper()
	topic, txnID := topicOn(t, c, "1", node), txnIDAwayFrom(t, c, node)
	pid, old := initProducer(t, c, txnID)
	runSteps(t, c, topic, 0, step{"old epoch", NewBatch(pid, old, 0, 1), ok, 0})
	_, next := initProducer(t, c, txnID)
	c.Freeze(t, node)
	late := make(chan string, 1)
	go func() {
		got, err := produceTo(context.Background(), c, node, topic, 0, NewBatch(pid, old, 1, 1).Bytes())
		late <- fmt.Sprint(ErrorName(got.ErrorCode), err)
	}()
	if got := addPartitions(t, c, txnID, pid, next, map[string][]int32{topic: {0}}); got[topic] != ok {
		t.Fatalf("add partition: %v", got)
	}
	if r := endTxn(t, c, txnID, pid, next, false); r.ErrorCode != 0 {
		t.Fatalf("end transaction: %s", ErrorName(r.ErrorCode))
	}
	pause(t, 2*time.Second)
	select {
	case got := <-late:
		t.Fatalf("a frozen leader answered %s", got)
	default:
	}
	c.Thaw(t, node)
	got := <-late
	t.Logf("old epoch, after EndTxn: %s", got)
	awaitMarker(t, c, topic, 0, pid, 1)
	if got == fmt.Sprint(ok, error(nil)) {
		return 1
	}
	return 0
}

// pause lets time pass where a fact is about time passing.
func pause(t *testing.T, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}

// TestBroker_Seal_Leaderless: a transaction leaves a partition without leader out and shows as complete; the direct
// way answers an error for it and is done for the others.
func TestBroker_Seal_Leaderless(t *testing.T) {
	Long(t)
	eachOwn(t, threeNodes(), func(t *testing.T, c *Cluster) {
		lost, other := topicOn(t, c, "1", 1), topicOn(t, c, "1", 2)
		txnID := txnIDAwayFrom(t, c, 1)
		pid, old := initProducer(t, c, txnID)
		for _, topic := range []string{lost, other} {
			runSteps(t, c, topic, 0, step{"old epoch", NewBatch(pid, old, 0, 1), ok, 0})
		}
		c.Kill(t, 1)
		awaitLeader(t, c, lost, -1)
		_, next := initProducer(t, c, txnID)
		got := addPartitions(t, c, txnID, pid, next, map[string][]int32{lost: {0}, other: {0}})
		if got[lost] != ok || got[other] != ok {
			t.Fatalf("add partitions: %v", got)
		}
		if r := endTxn(t, c, txnID, pid, next, false); r.ErrorCode != 0 {
			t.Fatalf("end transaction: %s", ErrorName(r.ErrorCode))
		}
		awaitMarker(t, c, other, 0, pid, 1)
		Eventually(t, 10*time.Second, func() (bool, string) {
			state := describeTxn(t, c, txnID)
			return state == "CompleteAbort", "transaction state: " + state
		})
		direct := writeMarkers(t, c, 2, marker{pid: pid, epoch: next + 1, topic: lost}, marker{pid: pid + 1, epoch: 1, topic: other})
		t.Logf("direct marker for the leaderless partition: %s", direct[0])
		if direct[0] == ok || direct[1] != ok {
			t.Fatalf("direct markers: %v", direct)
		}
		c.Restart(t, 1)
		awaitLeader(t, c, lost, 1)
		AwaitLeaders(t, c, lost)
		runSteps(t, c, lost, 0, step{"the old epoch writes on after the leader's return", NewBatch(pid, old, 1, 1), ok, 1})
		runSteps(t, c, other, 0, step{"the other partition is sealed", NewBatch(pid, old, 1, 1), fenced, 0})
	})
}

// TestBroker_Seal_BelowMinISR: the direct way names the partition and is done for the others; a transaction hangs, and
// with it every later InitProducerId, until the partition heals.
func TestBroker_Seal_BelowMinISR(t *testing.T) {
	Long(t)
	eachOwn(t, threeNodes(), func(t *testing.T, c *Cluster) {
		thin, good := topicOn(t, c, "2", 1, 3), topicOn(t, c, "1", 1)
		txnID := txnIDAwayFrom(t, c, 3)
		pid, epoch := initProducer(t, c, txnID)
		for _, topic := range []string{thin, good} {
			runSteps(t, c, topic, 0, step{"a batch", NewBatch(pid, epoch, 0, 1), ok, 0})
		}
		c.Kill(t, 3)
		Eventually(t, time.Minute, func() (bool, string) {
			got := writeMarkers(t, c, 1, marker{pid: 1 << 50, epoch: 1, topic: thin}, marker{pid: 1<<50 + 1, epoch: 1, topic: good})
			return got[0] == "NOT_ENOUGH_REPLICAS" && got[1] == ok, fmt.Sprintf("direct markers, thin and good: %v", got)
		})
		_, next := initProducer(t, c, txnID)
		if got := addPartitions(t, c, txnID, pid, next, map[string][]int32{thin: {0}}); got[thin] != ok {
			t.Fatalf("add partition: %v", got)
		}
		if r := endTxn(t, c, txnID, pid, next, false); r.ErrorCode != 0 {
			t.Fatalf("end transaction: %s", ErrorName(r.ErrorCode))
		}
		staysConcurrent(t, c, txnID, 3*time.Second)
		if state := describeTxn(t, c, txnID); state != "PrepareAbort" {
			t.Fatalf("transaction state %s, want PrepareAbort", state)
		}
		c.Restart(t, 3)
		initProducer(t, c, txnID) // waits until it succeeds
		runSteps(t, c, thin, 0, step{"healed: the old epoch is ended", NewBatch(pid, epoch, 1, 1), fenced, 0})
	})
}

// TestBroker_ListOffsetsHidesWhatIsNotReplicated: an end asked for is not the end of what the leader has written.
func TestBroker_ListOffsetsHidesWhatIsNotReplicated(t *testing.T) {
	Long(t)
	eachOwn(t, threeNodes(), func(t *testing.T, c *Cluster) {
		topic := topicOn(t, c, "1", 1, 2)
		runSteps(t, c, topic, 0, step{"a batch", NewBatch(-1, 0, 0, 1), ok, 0})
		c.Freeze(t, 2)
		got, err := produceAcks(t.Context(), c, 1, topic, 0, NewBatch(-1, 0, 0, 1).Bytes(), 1)
		if err != nil || got.ErrorCode != 0 || got.BaseOffset != 1 {
			t.Fatalf("produce with acks=1: %v %+v", err, got)
		}
		end, err := listOffset(t.Context(), c, topic, leaderOf{leader: 1}, latest, false)
		if err != nil || end != 1 {
			t.Fatalf("end %d, %v; want 1, the written record is not shown", end, err)
		}
		c.Thaw(t, 2)
		Eventually(t, 30*time.Second, func() (bool, string) {
			end := End(t, c, topic, 0)
			return end == 2, fmt.Sprintf("end %d after the follower's return", end)
		})
	})
}

// TestBroker_NewTopicRefusesAndOvertakes sends numbered batches to new topics as soon as metadata names the leader, one
// after the other whatever is answered. When the first ones are refused, a later one lands at offset 0.
func TestBroker_NewTopicRefusesAndOvertakes(t *testing.T) {
	Long(t)
	eachOwn(t, Options{Nodes: 3}, func(t *testing.T, c *Cluster) {
		overtaken := 0
		for range 20 {
			topic, pid := CreateTopic(t, c, TopicOptions{Replicas: 3}), strangeID(t)
			done, state := poll(30*time.Second, time.Millisecond, func() (bool, string) {
				parts, err := rawMetadata(t.Context(), c, topic)
				return err == nil && parts[0].leader >= 0, fmt.Sprint(parts, err)
			})
			if !done {
				t.Fatal(state)
			}
			refused := 0
			for seq := range int32(500) {
				got := ProduceRaw(t, c, topic, 0, NewBatch(pid, 0, seq, 1).Bytes())
				if got.ErrorCode == 0 && got.BaseOffset != 0 {
					t.Fatalf("first accepted batch at offset %d", got.BaseOffset)
				}
				if got.ErrorCode == 0 {
					break
				}
				refused++
			}
			if refused > 0 {
				overtaken++
				t.Logf("%d batches were refused, the next one was taken at offset 0", refused)
			}
		}
		t.Logf("on %d of 20 new topics the first batches were lost", overtaken)
	})
}

// TestBroker_SealByTransaction_ThousandPartitions measures; it fails only when a seal never completes.
func TestBroker_SealByTransaction_ThousandPartitions(t *testing.T) {
	Long(t)
	eachOwn(t, Options{Nodes: 3}, func(t *testing.T, c *Cluster) {
		topic := CreateTopic(t, c, TopicOptions{Partitions: 1000, Replicas: 3})
		all := make([]int32, 1000)
		for i := range all {
			all[i] = int32(i)
		}
		AwaitLeaders(t, c, topic)
		txnID := txnIDFor(t)
		for _, when := range []string{"right after creation", "warm"} {
			pid, epoch := initProducer(t, c, txnID)
			start := time.Now()
			if got := addPartitions(t, c, txnID, pid, epoch, map[string][]int32{topic: all}); got[topic] != ok {
				t.Fatalf("add partitions: %v", got)
			}
			if r := endTxn(t, c, txnID, pid, epoch, false); r.ErrorCode != 0 {
				t.Fatalf("end transaction: %s", ErrorName(r.ErrorCode))
			}
			Eventually(t, time.Minute, func() (bool, string) {
				state := describeTxn(t, c, txnID)
				return state == "CompleteAbort", "transaction state: " + state
			})
			t.Logf("1,000 partitions, %s: complete after %s", when, time.Since(start).Round(time.Millisecond))
		}
	})
}
