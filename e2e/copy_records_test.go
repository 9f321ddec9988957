package e2e

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"lockstep/internal/kafkatest"
)

// All nine combinations of null, empty and filled keys and values, headers of every kind, into a topic of another name.
func TestCopy_NullEmptyHeaders(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	topic := kafkatest.Topic(t, src)
	cl := ownClient(t, src, kgo.ProducerBatchCompression(kgo.NoCompression()))
	combinations := nineCombinations()
	put(t, cl, topic, 0, combinations)
	for _, r := range combinations {
		put(t, cl, topic, 0, []*kgo.Record{r})
	}
	for _, hs := range headerSets() {
		put(t, cl, topic, 0, []*kgo.Record{{Key: []byte("k"), Value: []byte("v"), Headers: hs}})
	}
	c := linkBetween(src, dst, []string{topic})
	c.links[0].rename = "copy.{topic}"
	s := newService(t, c).start()
	s.copied(src, topic)
	kafkatest.MustEqual(t, src, dst, []kafkatest.Pair{{Src: topic, Dst: "copy." + topic}})
	sameRecordBytes(t, src, topic, dst, "copy."+topic)
	s.stop()
	if topicExists(t, dst, topic) {
		t.Errorf("the target has a topic %s, which is called copy.%s there", topic, topic)
	}
}

func nineCombinations() []*kgo.Record {
	var rs []*kgo.Record
	for _, k := range [][]byte{nil, {}, []byte("k")} {
		for _, v := range [][]byte{nil, {}, []byte("x")} {
			rs = append(rs, &kgo.Record{Key: k, Value: v})
		}
	}
	return rs
}

func headerSets() [][]kgo.RecordHeader {
	var fifty []kgo.RecordHeader
	for i := range 50 {
		fifty = append(fifty, kgo.RecordHeader{Key: fmt.Sprintf("h%d", i%20), Value: fmt.Append(nil, i)})
	}
	return [][]kgo.RecordHeader{
		nil, {{Key: "one", Value: []byte("1")}}, fifty,
		{{Key: "large", Value: noise(300_000, 1)}},
		{{Key: "a", Value: []byte("1")}, {Key: "a", Value: []byte("2")}, {Key: "a", Value: []byte("1")}},
		{{Key: "null", Value: nil}, {Key: "empty", Value: []byte{}}, {Key: "", Value: nil}, {Key: "", Value: []byte{}}},
	}
}

// sameRecordBytes compares what stands behind the batch headers, so that a length of -1 is not taken for one of 0 by any
// decoder. The batches are not compressed and need no rebuilding.
func sameRecordBytes(t *testing.T, src kafkatest.Target, srcTopic string, dst kafkatest.Target, dstTopic string) {
	t.Helper()
	want, got := recordBytes(t, src, srcTopic), recordBytes(t, dst, dstTopic)
	if len(want) != len(got) {
		t.Fatalf("%d batches became %d", len(want), len(got))
	}
	for i := range want {
		if !bytes.Equal(want[i], got[i]) {
			t.Errorf("batch %d: records %x became %x", i, want[i], got[i])
		}
	}
}

func recordBytes(t *testing.T, c kafkatest.Target, topic string) (out [][]byte) {
	t.Helper()
	eachRaw(t, c, topic, 0, func(_ rawBatch, b []byte) { out = append(out, bytes.Clone(b[61:])) })
	return out
}

// One record that the target does not take: what stands before it is there once, other lanes go on, and restarts add
// nothing.
func TestCopy_TooLargeRecordStopsOnlyItsLane(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	topic := kafkatest.Topic(t, src, kafkatest.TopicOptions{Partitions: 2})
	kafkatest.Topic(t, dst, kafkatest.TopicOptions{Name: topic, Partitions: 2, Configs: map[string]string{"max.message.bytes": "100000"}})
	some := sequel()
	good := func(n int) []*kgo.Record { return some(n) }
	kafkatest.Produce(t, src, topic, 0, good(40))
	kafkatest.Produce(t, src, topic, 0, append(append(good(32), &kgo.Record{Key: []byte("large"), Value: noise(200_000, 1)}), good(5)...))
	kafkatest.Produce(t, src, topic, 0, good(20))
	kafkatest.Produce(t, src, topic, 1, good(50))

	s := newService(t, linkBetween(src, dst, []string{topic})).start()
	stuck := func() {
		t.Helper()
		l := s.stopsAs(topic, 0, "too_large")
		if l.SourceOffset != 72 {
			t.Errorf("the lane stands at source offset %d, the large record at 72", l.SourceOffset)
		}
		if got := kafkatest.Read(t, dst, topic, 0, true); len(got) != 72 {
			t.Errorf("the target holds %d records of partition 0, want the 72 before the large one", len(got))
		}
		kafkatest.Produce(t, src, topic, 1, good(30))
		s.reached(ends{topic: {0, kafkatest.End(t, src, topic, 1)}})
	}
	stuck()
	kafkatest.MustEqual(t, src, dst, same(topic), kafkatest.CompareOptions{SrcTo: map[int32]int64{0: 72}})
	shownAsTooLarge(t, s, topic)

	was := kafkatest.End(t, dst, topic, 0)
	for range 3 {
		s.stop()
		s.start()
		stuck()
	}
	if now := kafkatest.End(t, dst, topic, 0); now != was {
		t.Errorf("the target's end moved from %d to %d over clean restarts", was, now)
	}
	s.kill()
	s.start()
	stuck()

	// The way out: a larger limit.
	s.stop()
	setTopic(t, dst, topic, map[string]string{"max.message.bytes": "1000000"})
	s.start()
	s.equal(src, dst, topic)
	s.stop()
}

func shownAsTooLarge(t *testing.T, s *service, topic string) {
	t.Helper()
	links, err := s.client.Links(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if l := links[0]; l.State != "degraded" || l.Lanes.ByState["too_large"] != 1 || l.Lanes.ByState["copying"] != 1 {
		t.Errorf("status shows %+v", l)
	}
	s.command("lanes", "list").want(t, 0).says(t, topic+"/0", "too_large")
	shown := s.command("status").want(t, 0).says(t, "degraded", "1 too_large", "source offset 72", "what to do:")
	checkRemedy(t, s.lane(topic, 0).Remedy)
	s.command("lag", "-o", "csv").want(t, 0).says(t, topic+",0,too_large,")
	if n := s.metric("lockstep_lane_state", `reason="too_large"`, `state="stopped"`); n != 1 {
		t.Errorf("lockstep_lane_state counts %v lanes as too_large\n%s", n, shown)
	}
}
