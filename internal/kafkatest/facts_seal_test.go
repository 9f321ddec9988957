package kafkatest

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A lane's writer: a producer id and epoch of a transactional id, which writes plain idempotent batches.

func TestBroker_SealDirect_EndsTheOldEpoch(t *testing.T) {
	onEveryBroker(t, func(t *testing.T, c Target) {
		topic, txnID := Topic(t, c), txnIDFor(t)
		pid, old := initProducer(t, c, txnID)
		runSteps(t, c, topic, 0, step{"plain batch of a transactional id", NewBatch(pid, old, 0, 3), ok, 0})
		_, next := initProducer(t, c, txnID)
		sealDirect(t, c, topic, 0, pid, next)
		if end := End(t, c, topic, 0); end != 4 {
			t.Fatalf("end %d: the marker took not one offset", end)
		}
		runSteps(t, c, topic, 0,
			step{"the old epoch goes on", NewBatch(pid, old, 3, 1), fenced, 0},
			step{"the old epoch repeats a written batch", NewBatch(pid, old, 0, 3), fenced, 0},
			step{"the new epoch at sequence 7", NewBatch(pid, next, 7, 1), outOfOrder, 0},
			step{"the new epoch at sequence 3", NewBatch(pid, next, 3, 1), outOfOrder, 0},
			step{"the new epoch at sequence 0", NewBatch(pid, next, 0, 2), ok, 4},
			step{"the new epoch goes on", NewBatch(pid, next, 2, 1), ok, 6},
		)
	})
}

// TestBroker_SealDirect_LeavesOtherPartitions needs a broker that keeps epochs per partition; kfake does not.
func TestBroker_SealDirect_LeavesOtherPartitions(t *testing.T) {
	onKafka(t, func(t *testing.T, c Target) {
		topic, txnID := Topic(t, c, TopicOptions{Partitions: 2}), txnIDFor(t)
		pid, old := initProducer(t, c, txnID)
		for p := range int32(2) {
			runSteps(t, c, topic, p, step{"old epoch", NewBatch(pid, old, 0, 1), ok, 0})
		}
		_, next := initProducer(t, c, txnID)
		sealDirect(t, c, topic, 0, pid, next)
		runSteps(t, c, topic, 0, step{"sealed", NewBatch(pid, old, 1, 1), fenced, 0})
		runSteps(t, c, topic, 1, step{"not sealed", NewBatch(pid, old, 1, 1), ok, 1})
	})
}

func TestBroker_SealDirect_AgainAndLower(t *testing.T) {
	onKafka(t, func(t *testing.T, c Target) {
		topic, pid := Topic(t, c), strangeID()
		sealDirect(t, c, topic, 0, pid, 5)
		runSteps(t, c, topic, 0, step{"the sealing epoch writes", NewBatch(pid, 5, 0, 2), ok, 1})
		sealDirect(t, c, topic, 0, pid, 5)
		runSteps(t, c, topic, 0, step{"the same marker again does not disturb the sequence", NewBatch(pid, 5, 2, 1), ok, 4})
		got := writeMarkers(t, c, leaderNow(t, c, topic, 0), marker{pid: pid, epoch: 4, topic: topic})
		if got[0] != fenced {
			t.Fatalf("a marker of a lower epoch: %s, want %s", got[0], fenced)
		}
		if end := End(t, c, topic, 0); end != 5 {
			t.Fatalf("end %d: the lower marker was written", end)
		}
	})
}

func TestBroker_SealDirect_PlainAndNeverIssuedIDs(t *testing.T) {
	onKafka(t, func(t *testing.T, c Target) {
		plain, epoch := initProducer(t, c, "")
		for name, pid := range map[string]int64{"plain id": plain, "never issued": strangeID()} {
			topic := Topic(t, c)
			runSteps(t, c, topic, 0, step{name + " writes", NewBatch(pid, epoch, 0, 1), ok, 0})
			sealDirect(t, c, topic, 0, pid, epoch+1)
			runSteps(t, c, topic, 0, step{name + " is ended", NewBatch(pid, epoch, 1, 1), fenced, 0})
		}
	})
}

func TestBroker_SealDirect_OnAPartitionNeverWritten(t *testing.T) {
	onKafka(t, func(t *testing.T, c Target) {
		topic, pid := Topic(t, c), strangeID()
		sealDirect(t, c, topic, 0, pid, 3)
		runSteps(t, c, topic, 0,
			step{"a lower epoch", NewBatch(pid, 2, 0, 1), fenced, 0},
			step{"the epoch, sequence 9", NewBatch(pid, 3, 9, 1), outOfOrder, 0},
			step{"the epoch, sequence 0", NewBatch(pid, 3, 0, 1), ok, 1},
		)
	})
}

func TestBroker_SealDirect_DescribeProducersForgetsTheSequence(t *testing.T) {
	onKafka(t, func(t *testing.T, c Target) {
		topic, pid := Topic(t, c), strangeID()
		runSteps(t, c, topic, 0, step{"a batch", NewBatch(pid, 0, 0, 5), ok, 0})
		if p := producer(t, c, topic, 0, pid); p.LastSequence != 4 {
			t.Fatalf("before the marker: last sequence %d, want 4", p.LastSequence)
		}
		sealDirect(t, c, topic, 0, pid, 1)
		if p := producer(t, c, topic, 0, pid); p.LastSequence != -1 || p.ProducerEpoch != 1 {
			t.Fatalf("after the marker: last sequence %d of epoch %d, want -1 of 1", p.LastSequence, p.ProducerEpoch)
		}
	})
}

func TestBroker_SealDirect_OneAnswerPerPartition(t *testing.T) {
	onKafka(t, func(t *testing.T, c Target) {
		topic, pid := Topic(t, c, TopicOptions{Partitions: 2}), strangeID()
		start := time.Now()
		got := writeMarkers(t, c, leaderNow(t, c, topic, 0),
			marker{pid: pid, epoch: 1, topic: topic},
			marker{pid: pid + 1, epoch: 1, topic: "no-such-topic"},
			marker{pid: pid + 2, epoch: 1, topic: topic, partition: 7},
			marker{pid: pid + 3, epoch: 1, topic: topic, partition: 1})
		t.Logf("answered in %s", time.Since(start))
		const unknown = "UNKNOWN_TOPIC_OR_PARTITION"
		if want := []string{ok, unknown, unknown, ok}; !slices.Equal(got, want) {
			t.Fatalf("answers %v, want %v", got, want)
		}
		for p := range int32(2) {
			if hs := Headers(t, c, topic, p, 0); len(hs) != 1 || !hs[0].Control() {
				t.Errorf("partition %d: %+v, want one marker when the answer is there", p, hs)
			}
		}
	})
}

func TestBroker_SealDirect_InvisibleToConsumers(t *testing.T) {
	onEveryBroker(t, func(t *testing.T, c Target) {
		topic, txnID := Topic(t, c), txnIDFor(t)
		pid, old := initProducer(t, c, txnID)
		runSteps(t, c, topic, 0, step{"old epoch", NewBatch(pid, old, 0, 2), ok, 0})
		_, next := initProducer(t, c, txnID)
		sealDirect(t, c, topic, 0, pid, next)
		if end, stable := End(t, c, topic, 0), StableEnd(t, c, topic, 0); end != 3 || stable != 3 {
			t.Fatalf("end %d, stable %d: want 3, an empty marker holds nothing back", end, stable)
		}
		runSteps(t, c, topic, 0, step{"new epoch", NewBatch(pid, next, 0, 2), ok, 3})
		for _, committed := range []bool{true, false} {
			var offsets []int64
			for _, r := range Read(t, c, topic, 0, committed) {
				offsets = append(offsets, r.Offset)
			}
			if want := []int64{0, 1, 3, 4}; !slices.Equal(offsets, want) {
				t.Errorf("committed %v: records at %v, want %v", committed, offsets, want)
			}
		}
	})
}

func TestBroker_SealDirect_TimeIsNow(t *testing.T) {
	onKafka(t, func(t *testing.T, c Target) {
		topic, pid := Topic(t, c, TopicOptions{Configs: map[string]string{"retention.ms": "-1"}}), strangeID()
		month := time.Now().Add(-30 * 24 * time.Hour).UnixMilli()
		before := time.Now().UnixMilli()
		runSteps(t, c, topic, 0, step{"data 30 days old", NewBatch(pid, 0, 0, 3).At(month), ok, 0})
		sealDirect(t, c, topic, 0, pid, 1)
		runSteps(t, c, topic, 0, step{"more old data", NewBatch(pid, 1, 0, 3).At(month + 1000), ok, 4})
		if h := Headers(t, c, topic, 0, 3)[0]; !h.Control() || h.MaxTimestamp < before {
			t.Fatalf("the marker's header: %+v, want a time not before %d", h, before)
		}
		p := leaderOf{leader: leaderNow(t, c, topic, 0)}
		for _, at := range []int64{month + 1, month + 1000, month + 2000, before - 1000} {
			got, err := listOffset(t.Context(), c, topic, p, at, false)
			if err != nil || got != 3 {
				t.Errorf("look-up of time %d (30 days ago is %d): offset %d, %v; want the marker's 3", at, month, got, err)
			}
		}
	})
}

// TestBroker_SealDirect_DelaysRetention compares expired data with and without a marker in it.
func TestBroker_SealDirect_DelaysRetention(t *testing.T) {
	onKafka(t, func(t *testing.T, c Target) {
		topic, pid := Topic(t, c, TopicOptions{Partitions: 2, Configs: map[string]string{"retention.ms": "3600000"}}), strangeID()
		sealDirect(t, c, topic, 0, pid, 0)
		old := time.Now().Add(-30 * 24 * time.Hour).UnixMilli()
		for p := range int32(2) {
			runSteps(t, c, topic, p, step{"expired data", NewBatch(pid, 0, 0, 3).At(old), ok, anyOffset})
		}
		Eventually(t, 30*time.Second, func() (bool, string) {
			start := LogStart(t, c, topic, 1)
			return start == 3, fmt.Sprintf("log start of the partition without marker: %d", start)
		})
		if start := LogStart(t, c, topic, 0); start != 0 {
			t.Fatalf("log start %d of the partition with the marker, want 0: still kept", start)
		}
	})
}

func TestBroker_ManyMarkersMoveTheEnd(t *testing.T) {
	onKafka(t, func(t *testing.T, c Target) { manyMarkers(t, c, 1000) })
}

func TestBroker_TenThousandMarkersMoveTheEnd(t *testing.T) {
	Long(t)
	onKafka(t, func(t *testing.T, c Target) { manyMarkers(t, c, 10_000) })
}

// manyMarkers shows that holes can be filled: n markers in one request move the end by exactly n, and nothing shows.
func manyMarkers(t *testing.T, c Target, n int) {
	topic, pid := Topic(t, c), strangeID()
	ms := make([]marker, n)
	for i := range ms {
		ms[i] = marker{pid: pid, epoch: 1, topic: topic}
	}
	start := time.Now()
	writeMarkers(t, c, leaderNow(t, c, topic, 0), ms...)
	t.Logf("%d markers in %s", n, time.Since(start))
	if end := End(t, c, topic, 0); end != int64(n) {
		t.Fatalf("end %d after %d markers", end, n)
	}
	if rs := Read(t, c, topic, 0, false); len(rs) != 0 {
		t.Fatalf("%d records show", len(rs))
	}
}

// TestBroker_SealDirect_CoordinatorEpoch needs a restart, after which the coordinator's epoch is above 0.
func TestBroker_SealDirect_CoordinatorEpoch(t *testing.T) {
	Long(t)
	eachOwn(t, Options{}, func(t *testing.T, c *Cluster) {
		topic, txnID := Topic(t, c), txnIDFor(t)
		initProducer(t, c, txnID)
		c.Stop(t, 1)
		c.Restart(t, 1)
		AwaitLeaders(t, c, topic)
		pid, epoch := realTransaction(t, c, topic, txnID)
		shown := producer(t, c, topic, 0, pid).CoordinatorEpoch
		if shown <= 0 {
			t.Fatalf("DescribeProducers shows coordinator epoch %d, want above 0", shown)
		}
		seal := func(coord int32) string {
			return writeMarkers(t, c, 1, marker{pid: pid, epoch: epoch, coord: coord, topic: topic})[0]
		}
		if got := seal(0); got != "TRANSACTION_COORDINATOR_FENCED" {
			t.Fatalf("coordinator epoch 0: %s", got)
		}
		if got := seal(shown); got != ok {
			t.Fatalf("coordinator epoch %d, as shown: %s", shown, got)
		}
		if got := seal(math.MaxInt32); got != ok {
			t.Fatalf("coordinator epoch 2^31-1: %s", got)
		}
		hangsNext(t, c, topic, txnID)
	})
}

// realTransaction commits one record and returns the id's producer and a new epoch.
func realTransaction(t *testing.T, c Target, topic, txnID string) (pid int64, epoch int16) {
	t.Helper()
	from := Produce(t, c, topic, 0, Records(1, 1), ProduceOptions{Txn: Commit, TxnID: txnID})
	pid, epoch = initProducer(t, c, txnID)
	awaitMarker(t, c, topic, 0, pid, from)
	return pid, epoch
}

// hangsNext shows that the id's next transaction ends without error and yet never completes.
func hangsNext(t *testing.T, c Target, topic, txnID string) {
	t.Helper()
	pid, epoch := initProducer(t, c, txnID)
	if got := addPartitions(t, c, txnID, pid, epoch, map[string][]int32{topic: {0}}); got[topic] != ok {
		t.Fatalf("add partition: %v", got)
	}
	end := End(t, c, topic, 0)
	if r := endTxn(t, c, txnID, pid, epoch, false); r.ErrorCode != 0 {
		t.Fatalf("end transaction: %s", ErrorName(r.ErrorCode))
	}
	staysConcurrent(t, c, txnID, 3*time.Second)
	if now := End(t, c, topic, 0); now != end {
		t.Fatalf("the end moved from %d to %d: the marker was written", end, now)
	}
}

// staysConcurrent checks that InitProducerId answers CONCURRENT_TRANSACTIONS for the whole time.
func staysConcurrent(t *testing.T, c Target, txnID string, during time.Duration) {
	t.Helper()
	broken, state := poll(during, 100*time.Millisecond, func() (bool, string) {
		r, err := tryInitOnce(t, c, txnID)
		if err != nil {
			return true, err.Error()
		}
		name := ErrorName(r.ErrorCode)
		return name != "CONCURRENT_TRANSACTIONS", "InitProducerId: " + name
	})
	if broken {
		t.Fatalf("%s, want CONCURRENT_TRANSACTIONS for %s", state, during)
	}
}

// tryInitOnce asks the coordinator itself, since a kgo client would repeat the request on CONCURRENT_TRANSACTIONS.
func tryInitOnce(t *testing.T, c Target, txnID string) (*kmsg.InitProducerIDResponse, error) {
	t.Helper()
	coord, err := coordinator(t, c, txnID)
	if err != nil {
		return nil, err
	}
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionTimeoutMillis, req.TransactionalID = 60_000, &txnID
	req.ProducerID, req.ProducerEpoch = -1, -1
	resp, err := Broker(c, coord).Request(t.Context(), req)
	if err != nil {
		return nil, err
	}
	return resp.(*kmsg.InitProducerIDResponse), nil
}

// coordinator returns the broker that coordinates the transactional id.
func coordinator(t *testing.T, c Target, txnID string) (int32, error) {
	t.Helper()
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorType, req.CoordinatorKeys = 1, []string{txnID}
	resp, err := c.Admin().Request(t.Context(), req)
	if err != nil {
		return 0, err
	}
	return resp.(*kmsg.FindCoordinatorResponse).Coordinators[0].NodeID, nil
}
