package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"lockstep/internal/kafkatest"
)

// newTopicIn is how soon the records of a new topic stand on the target.
const newTopicIn = 5 * time.Second

func TestCopy_NewTopicWithinFiveSeconds(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	prefix := kafkatest.TopicName(t) + "-"
	c := linkBetween(src, dst, nil)
	c.links[0].include = []string{beginning(prefix)}
	s := newService(t, c).start()
	var took []time.Duration
	for i := range 4 {
		topic := fmt.Sprint(prefix, i)
		kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: topic, Partitions: 3})
		for p := range int32(3) {
			kafkatest.Produce(t, src, topic, p, kafkatest.Records(10, uint64(i)))
		}
		began := time.Now()
		kafkatest.Eventually(t, time.Minute, func() (bool, string) { return s.hasReached(ends{topic: {10, 10, 10}}) })
		took = append(took, time.Since(began))
		kafkatest.MustEqual(t, src, dst, same(topic))
	}
	// A busy machine makes brokers slow; what lockstep itself waits for would show in every one of them.
	if t.Logf("topics were copied %v after they had their records", took); slices.Min(took) > newTopicIn {
		t.Errorf("no topic was copied within %v", newTopicIn)
	}
	s.stop()
}

func TestCopy_PartitionsGrow(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	topic := kafkatest.Topic(t, src, kafkatest.TopicOptions{Partitions: 3})
	some := sequel()
	for p := range int32(3) {
		kafkatest.Produce(t, src, topic, p, some(100))
	}
	s := newService(t, linkBetween(src, dst, []string{topic})).start()
	s.equal(src, dst, topic)
	addPartitions(t, src, topic, 6)
	for p := range int32(6) {
		kafkatest.Produce(t, src, topic, p, some(10))
	}
	s.equal(src, dst, topic)
	if n := partitions(t, dst, topic); n != 6 {
		t.Errorf("the target has %d partitions, the source 6", n)
	}
	s.stop()
	// Growth that nobody sees, and records in what is new.
	addPartitions(t, src, topic, 8)
	for p := range int32(8) {
		kafkatest.Produce(t, src, topic, p, some(10))
	}
	s.start()
	s.equal(src, dst, topic)
	s.stop()
}

// "latest" is for what exists when the link begins; what appears later is copied from its first record.
func TestCopy_StartLatest(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	prefix := kafkatest.TopicName(t) + "-"
	old := kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: prefix + "old"})
	some := sequel()
	kafkatest.Produce(t, src, old, 0, some(1000))
	c := linkBetween(src, dst, nil, "start: latest")
	c.links[0].include = []string{beginning(prefix)}
	s := newService(t, c).start()
	s.awaitLane(old, 0, copyPatience, func(l laneDetail) bool { return l.State == "copying" && l.SourceOffset == 1000 })
	kafkatest.Produce(t, src, old, 0, some(50))
	s.copied(src, old)
	only := kafkatest.CompareOptions{SrcFrom: map[int32]int64{0: 1000}}
	kafkatest.MustEqual(t, src, dst, same(old), only)
	got := s.translate(false, old, 0, 400, 1000, 1020, 1050, 1060)
	want := []string{"0 before_start 600", "0 exact", "20 exact", "50 exact", "50 ahead 10"}
	for i, o := range got {
		if text := shortly(o); text != want[i] {
			t.Errorf("source offset %d is %q, want %q", *o.SourceOffset, text, want[i])
		}
	}

	born := kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: prefix + "born"})
	kafkatest.Produce(t, src, born, 0, some(100))
	addPartitions(t, src, old, 2)
	kafkatest.Produce(t, src, old, 1, some(100))
	s.equal(src, dst, born)
	s.copied(src, old)
	kafkatest.MustEqual(t, src, dst, same(old), only)
	s.stop()
	unseen := kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: prefix + "unseen"})
	kafkatest.Produce(t, src, unseen, 0, some(100))
	s.start()
	s.equal(src, dst, unseen, born)
	s.stop()
}

func TestCopy_StartAtATime(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	topic := kafkatest.Topic(t, src, kafkatest.TopicOptions{Partitions: 3})
	begin := time.Now().Add(-time.Hour).UTC().Truncate(time.Second)
	var rs []*kgo.Record
	for i := range 100 {
		rs = append(rs, &kgo.Record{Value: fmt.Append(nil, i), Timestamp: begin.Add(time.Duration(i) * time.Second)})
	}
	kafkatest.Produce(t, src, topic, 0, rs, kafkatest.ProduceOptions{BatchRecords: 30})
	kafkatest.Produce(t, src, topic, 1, rs[:10]) // all of it is too old; partition 2 is empty
	at := begin.Add(42 * time.Second)
	s := newService(t, linkBetween(src, dst, []string{topic}, "start: "+at.Format(time.RFC3339))).start()
	s.copied(src, topic)
	only := kafkatest.CompareOptions{SrcFrom: map[int32]int64{0: 42, 1: 10}}
	kafkatest.MustEqual(t, src, dst, same(topic), only)
	for p := range int32(3) {
		kafkatest.Produce(t, src, topic, p, rs[:5]) // older than the start, but written behind it
	}
	s.copied(src, topic)
	kafkatest.MustEqual(t, src, dst, same(topic), only)
	s.stop()
}

func TestCopy_ManyTopics(t *testing.T) {
	kafkatest.Long(t)
	src, dst := pair(t)
	prefix := kafkatest.TopicName(t) + "-"
	cl := ownClient(t, src)
	var topics []string
	hundred := func(from int) {
		for i := from; i < from+100; i++ {
			topics = append(topics, kafkatest.CreateTopic(t, src, kafkatest.TopicOptions{Name: fmt.Sprint(prefix, i), Partitions: 2}))
		}
		for _, topic := range topics[from:] {
			kafkatest.AwaitLeaders(t, src, topic)
			for p := range int32(2) {
				put(t, cl, topic, p, kafkatest.Records(5, uint64(from)))
			}
		}
	}
	hundred(0)
	c := linkBetween(src, dst, nil)
	c.links[0].include = []string{beginning(prefix)}
	s := newService(t, c).start()
	hundred(100) // while it runs
	s.equal(src, dst, topics...)
	s.stop()
	was := logEnds(t, dst, topics...)
	s.start()
	for _, topic := range topics {
		put(t, cl, topic, 1, kafkatest.Records(5, 7))
	}
	s.equal(src, dst, topics...)
	for topic, es := range logEnds(t, dst, topics...) {
		if es[0] != was[topic][0] || es[1] != was[topic][1]+5 {
			t.Errorf("ends of %s went from %v to %v over a clean restart and 5 records in partition 1", topic, was[topic], es)
		}
	}
	s.stop()
}
