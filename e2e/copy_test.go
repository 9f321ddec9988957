package e2e

import (
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"lockstep/internal/kafkatest"
)

func TestCopy_AllCodecs(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	topic := kafkatest.Topic(t, src, kafkatest.TopicOptions{Partitions: 2})
	for p := range int32(2) {
		for i, codec := range []string{"", "gzip", "snappy", "lz4", "zstd"} {
			records := kafkatest.Records(400, uint64(i)+10*uint64(p))
			kafkatest.Produce(t, src, topic, p, records, kafkatest.ProduceOptions{Codec: codec, BatchRecords: 90})
		}
	}
	s := newService(t, linkBetween(src, dst, []string{topic})).start()
	s.equal(src, dst, topic)
	for i, codec := range []string{"zstd", "lz4", "snappy", "gzip", ""} {
		kafkatest.Produce(t, src, topic, 1, kafkatest.Records(50, uint64(100+i)), kafkatest.ProduceOptions{Codec: codec})
	}
	s.equal(src, dst, topic)
	s.stop()
	for p := range int32(2) {
		if got, want := batchCodecs(t, dst, topic, p), batchCodecs(t, src, topic, p); !slices.Equal(got, want) {
			t.Errorf("partition %d: codecs of the copy's batches are %v, the source's %v", p, got, want)
		}
	}
}

// Several producers share one partition: two with transactions, one idempotent, one plain.
func TestCopy_TransactionsInterleaved(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	topic := kafkatest.Topic(t, src, kafkatest.TopicOptions{Partitions: 2})
	some := sequel()
	idempotent, plain := ownClient(t, src), ownClient(t, src, kgo.DisableIdempotentWrite())
	interleave := func() {
		a, b := beginTxn(t, src), beginTxn(t, src)
		a.put(topic, 0, some(3))
		put(t, idempotent, topic, 0, some(2))
		b.put(topic, 0, some(3))
		put(t, plain, topic, 0, some(1))
		a.put(topic, 0, some(2))
		a.end(true)
		b.put(topic, 0, some(1))
		b.end(false)
		put(t, idempotent, topic, 0, some(1))
		empty := beginTxn(t, src)
		empty.put(topic, 0, some(4))
		empty.end(false)
	}
	interleave()
	interleave()
	s := newService(t, linkBetween(src, dst, []string{topic})).start()
	s.equal(src, dst, topic)
	interleave()
	s.equal(src, dst, topic)
	if got := kafkatest.Read(t, dst, topic, 0, false); len(got) != 3*(3+2+1+2+1) {
		t.Errorf("the target holds %d records, want the 27 that were committed", len(got))
	}

	open := beginTxn(t, src)
	first := open.put(topic, 0, some(3))
	put(t, idempotent, topic, 0, some(5))
	nothingPasses(t, s, src, dst, topic, first)
	open.end(true)
	s.equal(src, dst, topic)
	s.stop()
}

// nothingPasses checks that the copy of partition 0 stands still at the open transaction that begins at first, while
// partition 1 goes on.
func nothingPasses(t *testing.T, s *service, src, dst kafkatest.Target, topic string, first int64) {
	t.Helper()
	was := kafkatest.End(t, dst, topic, 0)
	end := kafkatest.End(t, src, topic, 0)
	l := s.awaitLane(topic, 0, copyPatience, func(l laneDetail) bool { return l.SourceEndOffset != nil && *l.SourceEndOffset >= end })
	if l.SourceStableOffset == nil || *l.SourceStableOffset != first {
		t.Errorf("stable offset of the lane is %s, the open transaction begins at %d", offset(l.SourceStableOffset), first)
	}
	if l.LagRecords == nil || *l.LagRecords != 0 {
		t.Errorf("the lane is %s records behind, want 0: nothing that it may read is missing", offset(l.LagRecords))
	}
	for i := range 5 {
		kafkatest.Produce(t, src, topic, 1, kafkatest.Records(10, uint64(1000+i)))
		s.reached(ends{topic: {first, kafkatest.End(t, src, topic, 1)}})
	}
	if now := kafkatest.End(t, dst, topic, 0); now != was {
		t.Errorf("the target grew from %d to %d while a transaction was open on the source", was, now)
	}
}

func TestCopy_ReadUncommitted(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	topic := kafkatest.Topic(t, src)
	some := sequel()
	aborted, committed, open := beginTxn(t, src), beginTxn(t, src), beginTxn(t, src)
	aborted.put(topic, 0, some(10))
	committed.put(topic, 0, some(10))
	aborted.put(topic, 0, some(10))
	aborted.end(false)
	committed.end(true)
	open.put(topic, 0, some(10))
	kafkatest.Produce(t, src, topic, 0, some(10))

	s := newService(t, linkBetween(src, dst, []string{topic}, "isolation: read_uncommitted")).start()
	all := kafkatest.CompareOptions{SrcUncommitted: true}
	s.reached(logEnds(t, src, topic))
	kafkatest.MustEqual(t, src, dst, same(topic), all)
	if got := kafkatest.Read(t, dst, topic, 0, true); len(got) != 50 {
		t.Errorf("the target holds %d records, want all 50", len(got))
	}
	open.end(false)
	kafkatest.Produce(t, src, topic, 0, some(10))
	s.reached(logEnds(t, src, topic))
	kafkatest.MustEqual(t, src, dst, same(topic), all)
	s.stop()
}

func TestCopy_CompactedWithHoles(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	topic := compactedTopic(t, src)
	s := newService(t, linkBetween(src, dst, []string{topic})).start()
	s.equal(src, dst, topic)
	kafkatest.Produce(t, src, topic, 0, keyed(200, 9), kafkatest.ProduceOptions{Codec: "lz4", BatchRecords: 20})
	s.equal(src, dst, topic)
	s.stop()
	if policy := setting(t, dst, topic, "cleanup.policy"); policy != "compact" {
		t.Errorf("cleanup.policy of the copy is %q", policy)
	}
}

// A source whose time stamps are those of appending: what its consumers see is what the copy's consumers must see.
func TestCopy_LogAppendTime(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	topic := kafkatest.Topic(t, src, kafkatest.TopicOptions{Configs: map[string]string{"message.timestamp.type": "LogAppendTime"}})
	for i, codec := range []string{"", "lz4", "zstd"} {
		kafkatest.Produce(t, src, topic, 0, kafkatest.Records(200, uint64(i)), kafkatest.ProduceOptions{Codec: codec, BatchRecords: 30})
	}
	s := newService(t, linkBetween(src, dst, []string{topic})).start()
	s.equal(src, dst, topic)
	s.stop()
	if kind := setting(t, dst, topic, "message.timestamp.type"); kind != "CreateTime" {
		t.Errorf("message.timestamp.type of the copy is %q: its brokers would set other times", kind)
	}
	for _, b := range rawBatches(t, dst, topic, 0) {
		if b.logAppend {
			t.Errorf("the batch at target offset %d claims to have the time of appending", b.base)
		}
	}
}

func TestCopy_FiveMiBRecords(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	topic := kafkatest.Topic(t, src, kafkatest.TopicOptions{Partitions: 2, Configs: map[string]string{"max.message.bytes": "6291456"}})
	large := ownClient(t, src, kgo.ProducerBatchMaxBytes(6<<20), kgo.MaxBufferedBytes(64<<20), kgo.ProducerBatchCompression(kgo.NoCompression()))
	for i := range 4 {
		for p := range int32(2) {
			put(t, large, topic, p, []*kgo.Record{{Value: noise(5<<20, uint64(2*i)+uint64(p))}})
			put(t, large, topic, p, kafkatest.Records(20, uint64(i)))
		}
	}
	c := linkBetween(src, dst, []string{topic})
	c.more = "limits: {buffer_bytes: 16MiB}"
	s := newService(t, c).start()
	s.equal(src, dst, topic)
	s.stop()
}

func TestCopy_SplitsBatchesLargerThanTargetLimit(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	topic := kafkatest.Topic(t, src)
	limit := func(bytes string) map[string]string { return map[string]string{"max.message.bytes": bytes} }
	kafkatest.Topic(t, dst, kafkatest.TopicOptions{Name: topic, Configs: limit("60000")})
	batches := func(seed uint64) {
		for i, codec := range []string{"", "lz4", "gzip", "zstd", "snappy"} {
			kafkatest.Produce(t, src, topic, 0, noisy(300, 2000, seed+uint64(i)), kafkatest.ProduceOptions{Codec: codec})
		}
	}
	batches(1)
	s := newService(t, linkBetween(src, dst, []string{topic})).start()
	s.repeats = 6 // a refusal does not tell the limit: the lane comes down to it in steps, each a new term
	s.equal(src, dst, topic)
	largest := 0
	for _, b := range rawBatches(t, dst, topic, 0) {
		largest = max(largest, b.size)
	}
	if largest > 60000 {
		t.Errorf("a batch of %d bytes stands where 60000 are allowed", largest)
	}
	// The limit sinks while the service runs: the broker's refusal tells.
	setTopic(t, dst, topic, limit("20000"))
	batches(10)
	s.equal(src, dst, topic)
	s.stop()
}

// Time stamps from the beginning of time, none at all, and from the future.
func TestCopy_TimestampsOddOnes(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	topic := kafkatest.Topic(t, src, kafkatest.TopicOptions{Configs: map[string]string{
		"retention.ms": "-1", "message.timestamp.after.max.ms": "9223372036854775807", "message.timestamp.before.max.ms": "9223372036854775807",
	}})
	odd := []time.Time{time.UnixMilli(0), time.UnixMilli(1), time.UnixMilli(1000), time.UnixMilli(-1), time.Now().Add(2 * time.Hour), time.Now()}
	cl := ownClient(t, src)
	some := sequel()
	for i := range 4 * len(odd) {
		rs := some(7)
		for j := range rs {
			rs[j].Timestamp = odd[i%len(odd)]
			if i >= 2*len(odd) { // mixed in one batch
				rs[j].Timestamp = odd[(i+j)%len(odd)]
			}
		}
		put(t, cl, topic, 0, rs)
	}
	s := newService(t, linkBetween(src, dst, []string{topic})).start()
	s.equal(src, dst, topic)
	put(t, cl, topic, 0, some(3))
	s.equal(src, dst, topic)
	s.stop()
	if keep := setting(t, dst, topic, "retention.ms"); keep != "-1" {
		t.Errorf("retention.ms of the copy is %q, the source's is -1", keep)
	}
}
