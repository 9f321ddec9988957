package kafkatest

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	outOfOrder = "OUT_OF_ORDER_SEQUENCE_NUMBER"
	fenced     = "INVALID_PRODUCER_EPOCH"
	invalid    = "INVALID_RECORD"
	corrupt    = "CORRUPT_MESSAGE"
)

func TestBroker_TakesAFetchedBatchWithAPatchedHeader(t *testing.T) {
	onEveryBroker(t, func(t *testing.T, c Target) {
		src, dst := Topic(t, c), Topic(t, c)
		Produce(t, c, src, 0, Records(100, 1), ProduceOptions{Codec: "lz4", BatchRecords: 25})
		_, batches := ParseBatches(FetchRaw(t, c, src, 0, 0, true).RecordBatches)
		if len(batches) != 4 {
			t.Fatalf("%d batches, want 4", len(batches))
		}
		pid, epoch := initProducer(t, c, "")
		for i, b := range batches {
			Restamp(b, 0, pid, epoch, int32(25*i))
			got := ProduceRaw(t, c, dst, 0, b)
			if ErrorName(got.ErrorCode) != ok || got.BaseOffset != int64(25*i) {
				t.Fatalf("batch %d: %s at %d", i, ErrorName(got.ErrorCode), got.BaseOffset)
			}
		}
		MustEqual(t, c, c, []Pair{{src, dst}})
	})
}

func TestBroker_KnowsTheLastFiveBatches(t *testing.T) {
	onEveryBroker(t, func(t *testing.T, c Target) {
		topic := Topic(t, c)
		pid, epoch := initProducer(t, c, "")
		for i := range 10 {
			runSteps(t, c, topic, 0, step{"batch", NewBatch(pid, epoch, int32(i), 1), ok, int64(i)})
		}
		runSteps(t, c, topic, 0,
			step{"the last batch again", NewBatch(pid, epoch, 9, 1), ok, 9},
			step{"the 8th of 10 again, inside the last five", NewBatch(pid, epoch, 7, 1), ok, 7},
			step{"the 6th of 10 again, the oldest of five", NewBatch(pid, epoch, 5, 1), ok, 5},
			step{"the 3rd of 10 again, older than five", NewBatch(pid, epoch, 2, 1), outOfOrder, 0},
			step{"two known batches cut into one", NewBatch(pid, epoch, 8, 2), outOfOrder, 0},
			step{"a sequence that skips ahead", NewBatch(pid, epoch, 12, 1), outOfOrder, 0},
		)
		if end := End(t, c, topic, 0); end != 10 {
			t.Fatalf("end %d: a repetition was written", end)
		}
	})
}

func TestBroker_RepetitionIsJudgedBySequenceAlone(t *testing.T) {
	onEveryBroker(t, func(t *testing.T, c Target) {
		topic := Topic(t, c)
		pid, epoch := initProducer(t, c, "")
		other := NewBatch(pid, epoch, 0, 2)
		other.Records[0].Value = []byte("something else altogether")
		runSteps(t, c, topic, 0,
			step{"the first batch", NewBatch(pid, epoch, 0, 2), ok, 0},
			step{"other records under the same numbers", other, ok, 0},
		)
		if rs := Read(t, c, topic, 0, true); len(rs) != 2 || string(rs[0].Value) == "something else altogether" {
			t.Fatalf("the log holds %d records, first value %s", len(rs), rs[0].Value)
		}
	})
}

func TestBroker_UnknownProducerStartsAnywhere(t *testing.T) {
	onKafka(t, func(t *testing.T, c Target) {
		for _, tc := range []struct {
			name   string
			before int
		}{{"empty log", 0}, {"log with records", 3}} {
			topic := Topic(t, c)
			Produce(t, c, topic, 0, Records(tc.before, 1), ProduceOptions{Plain: true})
			issued, epoch := initProducer(t, c, "")
			for i, pid := range []int64{issued, strangeID()} {
				at := int64(tc.before + 2*i)
				runSteps(t, c, topic, 0,
					step{tc.name + ": first sequence 1000", NewBatch(pid, epoch, 1000, 1), ok, at},
					step{tc.name + ": then 1002", NewBatch(pid, epoch, 1002, 1), outOfOrder, 0},
					step{tc.name + ": then 1001", NewBatch(pid, epoch, 1001, 1), ok, at + 1},
				)
			}
		}
	})
}

func TestBroker_NextEpochStartsAtZero(t *testing.T) {
	onEveryBroker(t, func(t *testing.T, c Target) {
		topic := Topic(t, c)
		txnID := txnIDFor(t) // kfake knows only epochs that it handed out
		pid, old := initProducer(t, c, txnID)
		runSteps(t, c, topic, 0, step{"first epoch", NewBatch(pid, old, 0, 3), ok, 0})
		_, next := initProducer(t, c, txnID)
		if next != old+1 {
			t.Fatalf("epoch %d follows %d", next, old)
		}
		runSteps(t, c, topic, 0,
			step{"next epoch, sequence 5", NewBatch(pid, next, 5, 1), outOfOrder, 0},
			step{"next epoch, sequence 3", NewBatch(pid, next, 3, 1), outOfOrder, 0},
			step{"next epoch, sequence 0", NewBatch(pid, next, 0, 1), ok, 3},
			step{"old epoch goes on", NewBatch(pid, old, 3, 1), fenced, 0},
			step{"old epoch again", NewBatch(pid, old, 0, 3), fenced, 0},
			step{"next epoch goes on", NewBatch(pid, next, 1, 1), ok, 4},
		)
	})
}

func TestBroker_TakesAnyHigherEpoch(t *testing.T) {
	onKafka(t, func(t *testing.T, c Target) {
		topic, pid := Topic(t, c), strangeID()
		runSteps(t, c, topic, 0,
			step{"epoch 3, not handed out", NewBatch(pid, 3, 0, 1), ok, 0},
			step{"epoch 900, not handed out", NewBatch(pid, 900, 0, 1), ok, 1},
			step{"epoch 899", NewBatch(pid, 899, 0, 1), fenced, 0},
		)
	})
}

func TestBroker_RefusesTwoBatchesForAPartition(t *testing.T) {
	onKafka(t, func(t *testing.T, c Target) {
		topic := Topic(t, c)
		for _, pid := range []int64{-1, strangeID()} {
			two := slices.Concat(NewBatch(pid, 0, 0, 1).Bytes(), NewBatch(pid, 0, 1, 1).Bytes())
			if got := ErrorName(ProduceRaw(t, c, topic, 0, two).ErrorCode); got != invalid {
				t.Errorf("two batches in one request: %s", got)
			}
		}
		if end := End(t, c, topic, 0); end != 0 {
			t.Errorf("end %d: something was written", end)
		}
	})
}

// wrongBatches are refused by the checks of contents, whatever the producer.
func wrongBatches(pid int64) map[string]Batch {
	hole := NewBatch(pid, 0, 0, 2)
	hole.LastOffsetDelta, hole.Records[1].OffsetDelta = 4, 4
	cut := NewBatch(pid, 0, 0, 2)
	cut.LastOffsetDelta = 4
	empty := NewBatch(pid, 0, 0, 1)
	empty.Count, empty.Records = 0, nil
	return map[string]Batch{"a hole between the records": hole, "a hole behind the records": cut, "no records": empty}
}

func TestBroker_RefusesHolesAndEmptyBatches(t *testing.T) {
	onKafka(t, func(t *testing.T, c Target) {
		topic := Topic(t, c)
		for _, pid := range []int64{-1, strangeID()} {
			for name, b := range wrongBatches(pid) {
				runSteps(t, c, topic, 0, step{name, b, invalid, 0})
			}
		}
	})
}

func TestBroker_ContentChecks(t *testing.T) {
	onEveryBroker(t, func(t *testing.T, c Target) {
		topic := Topic(t, c)
		control := NewBatch(strangeID(), 0, 0, 1)
		control.Attrs |= AttrControl
		runSteps(t, c, topic, 0, step{"the control bit", control, invalid, 0})
		broken := NewBatch(-1, 0, 0, 1).Bytes()
		broken[len(broken)-2] ^= 1
		if got := ErrorName(ProduceRaw(t, c, topic, 0, broken).ErrorCode); got != corrupt {
			t.Errorf("a flipped bit: %s", got)
		}
	})
}

func TestBroker_ContentChecksThatOnlyKafkaMakes(t *testing.T) {
	onKafka(t, func(t *testing.T, c Target) {
		based := NewBatch(-1, 0, 0, 1)
		based.BaseOffset = 7
		runSteps(t, c, Topic(t, c), 0, step{"base offset not 0", based, invalid, 0})
		noKey := NewBatch(-1, 0, 0, 1)
		noKey.Records[0].Key = nil
		runSteps(t, c, CompactedTopic(t, c, TopicOptions{}), 0, step{"no key on a compacted topic", noKey, invalid, 0})
		stamped := NewBatch(-1, 0, 0, 1)
		stamped.Attrs |= AttrLogAppend
		logAppend := Topic(t, c, TopicOptions{Configs: map[string]string{"message.timestamp.type": "LogAppendTime"}})
		runSteps(t, c, logAppend, 0, step{"marked log-append on a log-append topic", stamped, "INVALID_TIMESTAMP", 0})
		future := NewBatch(-1, 0, 0, 1).At(time.Now().Add(2 * time.Hour).UnixMilli())
		bounded := Topic(t, c, TopicOptions{Configs: map[string]string{"message.timestamp.after.max.ms": "3600000"}})
		runSteps(t, c, bounded, 0, step{"two hours in the future", future, "INVALID_TIMESTAMP", 0})
		small := Topic(t, c, TopicOptions{Configs: map[string]string{"max.message.bytes": "200"}})
		big := NewBatch(-1, 0, 0, 1)
		big.Records[0].Value = make([]byte, 300)
		runSteps(t, c, small, 0, step{"larger than max.message.bytes", big, "MESSAGE_TOO_LARGE", 0})
	})
}

// TestBroker_FutureLimitByDefault shows where the two versions differ: only 4.x refuses times over an hour ahead.
func TestBroker_FutureLimitByDefault(t *testing.T) {
	EachVersion(t, func(t *testing.T, c *Cluster) {
		want := map[string]string{Kafka4: "INVALID_TIMESTAMP", Kafka3: ok}[c.Version()]
		future := NewBatch(-1, 0, 0, 1).At(time.Now().Add(2 * time.Hour).UnixMilli())
		runSteps(t, c, Topic(t, c), 0, step{"two hours in the future", future, want, anyOffset})
	})
}

func TestBroker_DescribesProducers(t *testing.T) {
	onKafka(t, func(t *testing.T, c Target) {
		topic := Topic(t, c)
		pid, epoch := initProducer(t, c, "")
		when := time.Now().Add(-time.Hour).UnixMilli()
		runSteps(t, c, topic, 0, step{"a batch", NewBatch(pid, epoch, 0, 5).At(when), ok, 0})
		p := producer(t, c, topic, 0, pid)
		if p.ProducerEpoch != int32(epoch) || p.LastSequence != 4 || p.LastTimestamp != when || p.CurrentTxnStartOffset != -1 {
			t.Fatalf("got %+v, want epoch %d, last sequence 4, time %d, no transaction", p, epoch, when)
		}
	})
}

func TestBroker_SequenceWraps(t *testing.T) {
	onKafka(t, func(t *testing.T, c Target) {
		topic, pid := Topic(t, c), strangeID()
		last := int32(math.MaxInt32)
		across := NewBatch(pid, 0, last-1, 4) // last-1, last, 0, 1
		runSteps(t, c, topic, 0,
			step{"up to the last but one", NewBatch(pid, 0, last-3, 2), ok, 0},
			step{"across the wrap inside a batch", across, ok, 2},
			step{"the same batch again", across, ok, 2},
			step{"after the wrap", NewBatch(pid, 0, 2, 1), ok, 6},
		)
		pid++
		runSteps(t, c, topic, 0,
			step{"exactly the last sequence", NewBatch(pid, 0, last, 1), ok, 7},
			step{"sequence 1 after the last", NewBatch(pid, 0, 1, 1), outOfOrder, 0},
			step{"sequence 0 after the last", NewBatch(pid, 0, 0, 1), ok, 8},
		)
	})
}

// TestBroker_FirstBatchRefusedAndOvertaken shows why a lane sends one batch until the first answer: a partition that
// does not know the producer takes the second batch when the first was refused, and the first is lost for good.
func TestBroker_FirstBatchRefusedAndOvertaken(t *testing.T) {
	onKafka(t, func(t *testing.T, c Target) {
		topic := Topic(t, c, TopicOptions{Configs: map[string]string{"message.timestamp.after.max.ms": "1000"}})
		pid := strangeID()
		late := NewBatch(pid, 0, 0, 2).At(time.Now().Add(time.Hour).UnixMilli())
		runSteps(t, c, topic, 0,
			step{"the first batch is refused", late, "INVALID_TIMESTAMP", 0},
			step{"the second is taken at offset 0", NewBatch(pid, 0, 2, 2), ok, 0},
			step{"the first can never be written now", NewBatch(pid, 0, 0, 2), outOfOrder, 0},
		)
	})
}

// TestBroker_NewTopicTakesProduceOnceListOffsetsAnswers counts, on many new topics, refusals between metadata and
// ListOffsets, and allows none after it.
func TestBroker_NewTopicTakesProduceOnceListOffsetsAnswers(t *testing.T) {
	onKafka(t, func(t *testing.T, c Target) {
		early := 0
		for range 10 {
			topic := CreateTopic(t, c, TopicOptions{})
			refusedEarly := false
			done, state := poll(30*time.Second, time.Millisecond, func() (bool, string) {
				parts, err := rawMetadata(t.Context(), c, topic)
				if err != nil || parts[0].leader < 0 {
					return false, "no leader in metadata"
				}
				if _, err := listOffset(t.Context(), c, topic, parts[0], latest, false); err != nil {
					refusedEarly = true
					return false, err.Error()
				}
				return true, ""
			})
			if !done {
				t.Fatal(state)
			}
			if refusedEarly {
				early++
			}
			runSteps(t, c, topic, 0, step{"produce at once", NewBatch(strangeID(), 0, 0, 1), ok, 0})
		}
		t.Logf("%d of 10 leaders refused at first although metadata named them", early)
	})
}

func TestBroker_DeleteRecordsKeepsProducerState(t *testing.T) {
	onEveryBroker(t, func(t *testing.T, c Target) {
		topic := Topic(t, c)
		pid, epoch := initProducer(t, c, "")
		runSteps(t, c, topic, 0, step{"a batch", NewBatch(pid, epoch, 0, 5), ok, 0})
		if got := deleteToEnd(t, c, topic, 0); got != ok {
			t.Fatalf("delete records: %s", got)
		}
		if start := LogStart(t, c, topic, 0); start != 5 {
			t.Fatalf("log start %d, want 5", start)
		}
		runSteps(t, c, topic, 0,
			step{"a sequence that skips", NewBatch(pid, epoch, 9, 1), outOfOrder, 0},
			step{"the deleted batch again", NewBatch(pid, epoch, 0, 5), ok, 0},
			step{"the next sequence", NewBatch(pid, epoch, 5, 1), ok, 5},
		)
	})
}

// TestBroker_CompactionKeepsTheLastBatchOfAProducer shows that baseSequence + lastOffsetDelta + 1 is the next
// sequence, and the record count is not.
func TestBroker_CompactionKeepsTheLastBatchOfAProducer(t *testing.T) {
	onKafka(t, func(t *testing.T, c Target) {
		topic, pid := CompactedTopic(t, c, TopicOptions{}), strangeID()
		b := NewBatch(pid, 0, 0, 5).At(time.Now().Add(-time.Hour).UnixMilli()) // five times the same key
		runSteps(t, c, topic, 0, step{"five records of one key", b, ok, 0})
		Compact(t, c, topic, 0)
		h := Headers(t, c, topic, 0, 0)[0]
		if h.Count != 1 || h.LastOffsetDelta != 4 || h.BaseSeq != 0 || h.BaseOffset != 0 || h.PID != pid {
			t.Fatalf("after compaction: %+v", h)
		}
		runSteps(t, c, topic, 0, step{"sequence 5", NewBatch(pid, 0, 5, 1), ok, 6})
	})
}

func TestBroker_CompactOnlyTopicRefusesDeleteRecords(t *testing.T) {
	onKafka(t, func(t *testing.T, c Target) {
		topic := CompactedTopic(t, c, TopicOptions{})
		Produce(t, c, topic, 0, []*kgo.Record{{Key: []byte("k"), Value: []byte("v")}})
		if got := deleteToEnd(t, c, topic, 0); got != "POLICY_VIOLATION" {
			t.Fatalf("delete records: %s", got)
		}
	})
}
