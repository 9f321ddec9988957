package kafkatest

import (
	"slices"
	"testing"
)

// Where kfake (the pinned version) differs from Kafka. Tests of the product that run on it must be right on both; when
// a new kfake behaves as Kafka does, a test here fails and can move to onEveryBroker.

func TestBroker_FakeKeepsEpochsPerProducerNotPerPartition(t *testing.T) {
	t.Parallel()
	c := NewFake(t)
	topic, txnID := Topic(t, c, TopicOptions{Partitions: 2}), txnIDFor(t)
	pid, old := initProducer(t, c, txnID)
	for p := range int32(2) {
		runSteps(t, c, topic, p, step{"old epoch", NewBatch(pid, old, 0, 1), ok, 0})
	}
	_, next := initProducer(t, c, txnID)
	for p := range int32(2) {
		runSteps(t, c, topic, p,
			step{"the old epoch is refused everywhere at once, without any marker", NewBatch(pid, old, 1, 1), fenced, 0},
			step{"the new epoch at sequence 0", NewBatch(pid, next, 0, 1), ok, 1},
		)
	}
}

func TestBroker_FakeRefusesAFirstSequenceOtherThanZero(t *testing.T) {
	t.Parallel()
	c := NewFake(t)
	topic := Topic(t, c)
	pid, epoch := initProducer(t, c, "")
	runSteps(t, c, topic, 0,
		step{"first sequence 1000", NewBatch(pid, epoch, 1000, 1), outOfOrder, 0},
		step{"first sequence 0", NewBatch(pid, epoch, 0, 1), ok, 0},
	)
}

func TestBroker_FakeDescribesNoProducers(t *testing.T) {
	t.Parallel()
	c := NewFake(t)
	topic := Topic(t, c)
	pid, epoch := initProducer(t, c, "")
	runSteps(t, c, topic, 0, step{"a batch", NewBatch(pid, epoch, 0, 1), ok, 0})
	if ps := producers(t, c, topic, 0); len(ps) != 0 {
		t.Fatalf("kfake lists %+v", ps)
	}
}

func TestBroker_FakeAnswersCorruptWhereKafkaAnswersInvalid(t *testing.T) {
	t.Parallel()
	c := NewFake(t)
	topic := Topic(t, c)
	two := slices.Concat(NewBatch(-1, 0, 0, 1).Bytes(), NewBatch(-1, 0, 0, 1).Bytes())
	if got := ErrorName(ProduceRaw(t, c, topic, 0, two).ErrorCode); got != corrupt {
		t.Errorf("two batches: %s", got)
	}
	for _, name := range []string{"a hole between the records", "a hole behind the records"} {
		runSteps(t, c, topic, 0, step{name, wrongBatches(-1)[name], corrupt, 0})
	}
}

func TestBroker_FakeSealsOnlyTransactionalIDs(t *testing.T) {
	t.Parallel()
	c := NewFake(t)
	topic := Topic(t, c)
	pid, epoch := initProducer(t, c, "")
	runSteps(t, c, topic, 0, step{"a plain id writes", NewBatch(pid, epoch, 0, 1), ok, 0})
	got := writeMarkers(t, c, leaderNow(t, c, topic, 0), marker{pid: pid, epoch: epoch + 1, topic: topic})
	after := ErrorName(ProduceRaw(t, c, topic, 0, NewBatch(pid, epoch, 1, 1).Bytes()).ErrorCode)
	if got[0] == ok && after == fenced {
		t.Fatal("kfake seals plain ids now")
	}
	t.Logf("marker: %s, the old epoch afterwards: %s", got[0], after)
}

func TestBroker_FakeIgnoresTheCoordinatorEpoch(t *testing.T) {
	t.Parallel()
	c := NewFake(t)
	topic, txnID := Topic(t, c), txnIDFor(t)
	pid, epoch := realTransaction(t, c, topic, txnID)
	for _, coord := range []int32{1 << 30, 0} {
		if got := writeMarkers(t, c, leaderNow(t, c, topic, 0), marker{pid: pid, epoch: epoch, coord: coord, topic: topic}); got[0] != ok {
			t.Fatalf("coordinator epoch %d: %s", coord, got[0])
		}
	}
}

func TestBroker_FakeTakesWhatKafkaRefuses(t *testing.T) {
	t.Parallel()
	c := NewFake(t)
	noKey := NewBatch(-1, 0, 0, 1)
	noKey.Records[0].Key = nil
	future := NewBatch(-1, 0, 0, 1).At(1 << 45)
	runSteps(t, c, CompactedTopic(t, c, TopicOptions{}), 0,
		step{"no key on a compacted topic", noKey, ok, anyOffset},
		step{"a time stamp of the year 3084", future, ok, anyOffset},
	)
}
