package kafkatest

import (
	"testing"
	"time"
)

// sealByTxn ends the id's older epochs on the partitions by an empty aborted transaction, and returns when the
// coordinator has answered: that is no proof yet.
func sealByTxn(t *testing.T, c Target, txnID string, topics map[string][]int32) (pid int64, epoch int16) {
	t.Helper()
	pid, epoch = initProducer(t, c, txnID)
	for name, got := range addPartitions(t, c, txnID, pid, epoch, topics) {
		if got != ok {
			t.Fatalf("add %s: %s", name, got)
		}
	}
	if r := endTxn(t, c, txnID, pid, epoch, false); r.ErrorCode != 0 {
		t.Fatalf("end transaction: %s", ErrorName(r.ErrorCode))
	}
	return pid, epoch
}

func TestBroker_SealByTransaction_EndsTheOldEpoch(t *testing.T) {
	onEveryBroker(t, func(t *testing.T, c Target) {
		topic, txnID := Topic(t, c), txnIDFor(t)
		pid, old := initProducer(t, c, txnID)
		runSteps(t, c, topic, 0, step{"old epoch", NewBatch(pid, old, 0, 3), ok, 0})
		sealByTxn(t, c, txnID, map[string][]int32{topic: {0}})
		at := awaitMarker(t, c, topic, 0, pid, 3)
		end := End(t, c, topic, 0)
		if at != 3 || end != 4 {
			t.Fatalf("marker at %d, end %d; want 3 and 4", at, end)
		}
		_, next := initProducer(t, c, txnID)
		runSteps(t, c, topic, 0,
			step{"the old epoch goes on", NewBatch(pid, old, 3, 1), fenced, 0},
			step{"the old epoch repeats", NewBatch(pid, old, 0, 3), fenced, 0},
			step{"the newest epoch at sequence 7", NewBatch(pid, next, 7, 1), outOfOrder, 0},
			step{"the newest epoch at sequence 0", NewBatch(pid, next, 0, 1), ok, 4},
		)
	})
}

// TestBroker_SealByTransaction_AnswerIsNoProof sends the old epoch's next batch right after EndTxn has answered, many
// times, and finds it accepted. That is a race by nature: one acceptance proves the point.
func TestBroker_SealByTransaction_AnswerIsNoProof(t *testing.T) {
	onKafka(t, func(t *testing.T, c Target) {
		const rounds = 10
		accepted := 0
		for range rounds {
			topic, txnID := Topic(t, c), txnIDFor(t)
			pid, old := initProducer(t, c, txnID)
			runSteps(t, c, topic, 0, step{"old epoch", NewBatch(pid, old, 0, 1), ok, 0})
			leader := leaderNow(t, c, topic, 0)
			sealByTxn(t, c, txnID, map[string][]int32{topic: {0}})
			got, err := produceTo(t.Context(), c, leader, topic, 0, NewBatch(pid, old, 1, 1).Bytes())
			if err != nil {
				t.Fatal(err)
			}
			switch name := ErrorName(got.ErrorCode); name {
			case ok:
				accepted++
			case fenced:
			default:
				t.Fatalf("old epoch after EndTxn: %s", name)
			}
			start := time.Now()
			awaitMarker(t, c, topic, 0, pid, 1)
			t.Logf("marker seen %s after that", time.Since(start).Round(time.Millisecond))
		}
		t.Logf("%d of %d batches of the old epoch were accepted after EndTxn had answered", accepted, rounds)
		if accepted == 0 {
			t.Fatal("no batch of the old epoch was accepted: EndTxn's answer may be proof on this version")
		}
	})
}

func TestBroker_SealByTransaction_OneMissingTopicStopsAll(t *testing.T) {
	EachVersion(t, func(t *testing.T, c *Cluster) {
		topic, txnID := Topic(t, c), txnIDFor(t)
		pid, old := initProducer(t, c, txnID)
		runSteps(t, c, topic, 0, step{"old epoch", NewBatch(pid, old, 0, 1), ok, 0})
		_, next := initProducer(t, c, txnID)
		got := addPartitions(t, c, txnID, pid, next, map[string][]int32{topic: {0}, "no-such-topic": {0}})
		if got[topic] != "OPERATION_NOT_ATTEMPTED" || got["no-such-topic"] != "UNKNOWN_TOPIC_OR_PARTITION" {
			t.Fatalf("add partitions: %v", got)
		}
		want := map[string]string{Kafka4: ok, Kafka3: "INVALID_TXN_STATE"}[c.Version()]
		if name := ErrorName(endTxn(t, c, txnID, pid, next, false).ErrorCode); name != want {
			t.Fatalf("end transaction: %s, want %s", name, want)
		}
		runSteps(t, c, topic, 0, step{"nothing is sealed", NewBatch(pid, old, 1, 1), ok, 1})
	})
}

func TestBroker_SealByTransaction_EpochInTheAnswer(t *testing.T) {
	EachVersion(t, func(t *testing.T, c *Cluster) {
		topic, txnID := Topic(t, c), txnIDFor(t)
		pid, epoch := initProducer(t, c, txnID)
		addPartitions(t, c, txnID, pid, epoch, map[string][]int32{topic: {0}})
		r := endTxn(t, c, txnID, pid, epoch, false)
		if r.ErrorCode != 0 {
			t.Fatalf("end transaction: %s", ErrorName(r.ErrorCode))
		}
		if c.Version() == Kafka4 && (r.Version < 5 || r.ProducerID != pid || r.ProducerEpoch != epoch+1) {
			t.Fatalf("got %+v, want version 5 with producer %d epoch %d", r, pid, epoch+1)
		}
		if c.Version() == Kafka3 && (r.Version != 4 || r.ProducerEpoch != -1) {
			t.Fatalf("got %+v, want version 4 without an epoch", r)
		}
	})
}

// TestBroker_SealByTransaction_DeadSealerFencesTheOwner leaves a transaction open, as a sealer that dies between its
// two calls does: the coordinator aborts it later with a raised epoch.
func TestBroker_SealByTransaction_DeadSealerFencesTheOwner(t *testing.T) {
	onKafka(t, func(t *testing.T, c Target) {
		topic, txnID := Topic(t, c), txnIDFor(t)
		r, err := tryInitProducer(t.Context(), c, txnID, 1000)
		if err != nil || r.ErrorCode != 0 {
			initProducer(t, c, txnID) // waits for the coordinator
			if r, err = tryInitProducer(t.Context(), c, txnID, 1000); err != nil || r.ErrorCode != 0 {
				t.Fatalf("init: %v %+v", err, r)
			}
		}
		pid, epoch := r.ProducerID, r.ProducerEpoch
		runSteps(t, c, topic, 0, step{"the living owner writes", NewBatch(pid, epoch, 0, 1), ok, 0})
		if got := addPartitions(t, c, txnID, pid, epoch, map[string][]int32{topic: {0}}); got[topic] != ok {
			t.Fatalf("add partition: %v", got)
		}
		at := awaitMarker(t, c, topic, 0, pid, 1)
		if m := Headers(t, c, topic, 0, at)[0]; m.Epoch <= epoch {
			t.Fatalf("the coordinator's marker has epoch %d, want above %d", m.Epoch, epoch)
		}
		runSteps(t, c, topic, 0, step{"the living owner is fenced", NewBatch(pid, epoch, 1, 1), fenced, 0})
	})
}
