package kafkatest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestBroker_ThreeNodes holds the facts that need several brokers. They share a cluster per version, one after the
// other, and each leaves it whole.
func TestBroker_ThreeNodes(t *testing.T) {
	Long(t)
	facts := []struct {
		name string
		fn   func(*testing.T, *Cluster)
	}{
		{"NewTopicRefusesAndOvertakes", newTopicOvertakes},
		{"SealByTransaction_LeaderFrozen", leaderFrozen},
		{"ListOffsetsHidesWhatIsNotReplicated", listOffsetsHides},
		{"Seal_Leaderless", leaderless},
		{"Seal_BelowMinISR", belowMinISR},
		{"SealByTransaction_ThousandPartitions", thousandPartitions},
	}
	for _, v := range Versions() {
		t.Run(v, func(t *testing.T) {
			// One replica of the transaction state, so that a transactional id can be chosen whose coordinator does not
			// need the node that a fact hurts.
			c := Start(t, Options{Version: v, Nodes: 3, Properties: map[string]string{
				"transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1",
			}})
			for _, f := range facts {
				t.Run(f.name, func(t *testing.T) { f.fn(t, c) })
			}
		})
	}
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
	if got := ErrorName(resp.Topics[0].ErrorCode); got != ok && got != "TOPIC_ALREADY_EXISTS" { // sent twice by the client
		t.Fatalf("create topic: %s", got)
	}
	AwaitLeaders(t, c, rt.Topic)
	knownEverywhere(t, c, rt.Topic)
	return rt.Topic
}

// knownEverywhere waits until every broker tells of a topic: any of them may be asked for it.
func knownEverywhere(t *testing.T, c *Cluster, topic string) {
	t.Helper()
	Eventually(t, 30*time.Second, func() (bool, string) {
		for node := range int32(3) {
			if _, err := metadataOf(t.Context(), c, node+1, topic); err != nil {
				return false, fmt.Sprintf("broker %d: %v", node+1, err)
			}
		}
		return true, ""
	})
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

// awaitPartition waits until the metadata shows partition 0 as wanted.
func awaitPartition(t *testing.T, c *Cluster, topic, want string, is func(leader int32, isr []int32) bool) {
	t.Helper()
	Eventually(t, time.Minute, func() (bool, string) {
		ts, err := c.Kadm().ListTopics(t.Context(), topic)
		if err != nil {
			return false, err.Error()
		}
		p := ts[topic].Partitions[0]
		return is(p.Leader, p.ISR), fmt.Sprintf("leader %d, in sync %v; want %s", p.Leader, p.ISR, want)
	})
}

func awaitLeader(t *testing.T, c *Cluster, topic string, want int32) {
	t.Helper()
	awaitPartition(t, c, topic, fmt.Sprintf("leader %d", want), func(leader int32, _ []int32) bool { return leader == want })
}

func awaitInSync(t *testing.T, c *Cluster, topic string, want ...int32) {
	t.Helper()
	awaitPartition(t, c, topic, fmt.Sprintf("%v in sync", want), func(_ int32, isr []int32) bool {
		slices.Sort(isr)
		return slices.Equal(isr, want)
	})
}

// newTopicOvertakes sends numbered batches to new topics as soon as some broker's metadata names the leader, one after
// the other whatever is answered. When the first ones are refused, a later one lands at offset 0.
func newTopicOvertakes(t *testing.T, c *Cluster) {
	overtaken := 0
	for range 10 {
		topic := CreateTopic(t, c, TopicOptions{Replicas: 3})
		var leader int32
		done, state := poll(30*time.Second, time.Millisecond, func() (bool, string) {
			parts, err := rawMetadata(t.Context(), c, topic)
			if err != nil {
				return false, err.Error()
			}
			leader = parts[0].leader
			return leader >= 0, "no leader"
		})
		if !done {
			t.Fatal(state)
		}
		if refused := sendUntilTaken(t, c, leader, topic); refused > 0 {
			overtaken++
			t.Logf("%d batches were refused, the next one was taken at offset 0", refused)
		}
	}
	t.Logf("on %d of 10 new topics the first batches were lost", overtaken)
}

// sendUntilTaken returns how many batches were refused before one was taken, which must be at offset 0.
func sendUntilTaken(t *testing.T, c *Cluster, leader int32, topic string) (refused int) {
	t.Helper()
	pid := strangeID()
	for seq := range int32(10_000) {
		got, err := produceTo(t.Context(), c, leader, topic, 0, NewBatch(pid, 0, seq, 1).Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if got.ErrorCode == 0 && got.BaseOffset != 0 {
			t.Fatalf("first accepted batch at offset %d", got.BaseOffset)
		}
		if got.ErrorCode == 0 {
			break
		}
		refused++
	}
	return refused
}

// leaderFrozen: EndTxn answers while the leader cannot write anything, and a batch of the old epoch that was on its
// way is taken two seconds later.
func leaderFrozen(t *testing.T, c *Cluster) {
	for range 3 {
		if got := frozenLeaderRound(t, c, 1); got == ok {
			return
		}
	}
	t.Fatal("no batch of the old epoch was accepted after EndTxn had answered")
}

// frozenLeaderRound returns what the old epoch's batch was answered.
func frozenLeaderRound(t *testing.T, c *Cluster, node int32) string {
	t.Helper()
	topic, txnID := topicOn(t, c, "1", node), txnIDAwayFrom(t, c, node)
	pid, old := initProducer(t, c, txnID)
	runSteps(t, c, topic, 0, step{"old epoch", NewBatch(pid, old, 0, 1), ok, 0})
	_, next := initProducer(t, c, txnID)
	c.Freeze(t, node)
	late := make(chan string, 1)
	go func() {
		got, err := produceTo(context.Background(), c, node, topic, 0, NewBatch(pid, old, 1, 1).Bytes())
		if err != nil {
			late <- err.Error()
			return
		}
		late <- ErrorName(got.ErrorCode)
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
	return got
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

// listOffsetsHides: an end asked for is not the end of what the leader has written.
func listOffsetsHides(t *testing.T, c *Cluster) {
	topic := topicOn(t, c, "1", 1, 2)
	awaitInSync(t, c, topic, 1, 2)
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
}

// leaderless: a transaction leaves a partition without leader out silently and shows as complete on 4.3.1; on 3.9.1 it
// hangs until the leader returns. The direct way answers an error for it and is done for the others.
func leaderless(t *testing.T, c *Cluster) {
	lost, other := topicOn(t, c, "1", 1), topicOn(t, c, "1", 2)
	txnID := txnIDAwayFrom(t, c, 1)
	pid, old := initProducer(t, c, txnID)
	for _, topic := range []string{lost, other} {
		runSteps(t, c, topic, 0, step{"old epoch", NewBatch(pid, old, 0, 1), ok, 0})
	}
	c.Kill(t, 1)
	awaitLeader(t, c, lost, -1)
	direct := writeMarkers(t, c, 2, marker{pid: 1 << 50, epoch: 1, topic: lost}, marker{pid: 1<<50 + 1, epoch: 1, topic: other})
	t.Logf("direct marker for the leaderless partition: %s", direct[0])
	if direct[0] == ok || direct[1] != ok {
		t.Fatalf("direct markers: %v", direct)
	}
	_, next := initProducer(t, c, txnID)
	got := addPartitions(t, c, txnID, pid, next, map[string][]int32{lost: {0}, other: {0}})
	if got[lost] != ok || got[other] != ok {
		t.Fatalf("add partitions: %v", got)
	}
	if r := endTxn(t, c, txnID, pid, next, false); r.ErrorCode != 0 {
		t.Fatalf("end transaction: %s", ErrorName(r.ErrorCode))
	}
	awaitMarker(t, c, other, 0, pid, 1)
	wantComplete := c.Version() == Kafka4
	complete, state := poll(5*time.Second, 50*time.Millisecond, func() (bool, string) {
		state := describeTxn(t, c, txnID)
		return state == "CompleteAbort", state
	})
	if complete != wantComplete || (!complete && state != "PrepareAbort") {
		t.Fatalf("transaction state %s without the leader; want it complete: %v", state, wantComplete)
	}
	c.Restart(t, 1)
	awaitLeader(t, c, lost, 1)
	AwaitLeaders(t, c, lost)
	if complete {
		runSteps(t, c, lost, 0, step{"left out: the old epoch writes on", NewBatch(pid, old, 1, 1), ok, 1})
	} else {
		awaitMarker(t, c, lost, 0, pid, 1)
	}
	runSteps(t, c, other, 0, step{"the other partition is sealed", NewBatch(pid, old, 1, 1), fenced, 0})
}

// belowMinISR: the direct way names the partition and is done for the others; a transaction hangs, and with it every
// later InitProducerId, until the partition heals.
func belowMinISR(t *testing.T, c *Cluster) {
	thin, good := topicOn(t, c, "2", 1, 3), topicOn(t, c, "1", 1)
	txnID := txnIDAwayFrom(t, c, 3)
	pid, epoch := initProducer(t, c, txnID)
	for _, topic := range []string{thin, good} {
		runSteps(t, c, topic, 0, step{"a batch", NewBatch(pid, epoch, 0, 1), ok, 0})
	}
	c.Kill(t, 3)
	awaitInSync(t, c, thin, 1)
	Eventually(t, time.Minute, func() (bool, string) {
		// While the leader itself still counts the dead node as in sync, it holds the answer back.
		got, err := tryWriteMarkers(t, c, 1, marker{pid: 1 << 50, epoch: 1, topic: thin}, marker{pid: 1<<50 + 1, epoch: 1, topic: good})
		if err != nil {
			return false, err.Error()
		}
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
}

// thousandPartitions measures; it fails only when a seal never completes.
func thousandPartitions(t *testing.T, c *Cluster) {
	topic := CreateTopic(t, c, TopicOptions{Partitions: 1000, Replicas: 3})
	all := make([]int32, 1000)
	for i := range all {
		all[i] = int32(i)
	}
	txnID := txnIDFor(t)
	initProducer(t, c, txnID)
	for _, when := range []string{"right after creation", "warm"} {
		AwaitLeaders(t, c, topic)
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
}
