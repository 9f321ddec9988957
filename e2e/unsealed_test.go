package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"lockstep/internal/kafkatest"
)

// both makes a topic on both sides; o is for the target.
func both(t *testing.T, src, dst kafkatest.Target, o kafkatest.TopicOptions) string {
	t.Helper()
	o.Name = kafkatest.Topic(t, dst, o)
	if o.Name == "" {
		t.Fatal("no topic")
	}
	return kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: o.Name, Partitions: o.Partitions})
}

// writerOf returns who wrote the last data batch of a partition.
func writerOf(t *testing.T, c kafkatest.Target, topic string, p int32) (w rawBatch) {
	t.Helper()
	for _, b := range rawBatches(t, c, topic, p) {
		if !b.control {
			w = b
		}
	}
	return w
}

// refusesOld checks that a partition takes nothing more of an ended term.
func refusesOld(t *testing.T, c kafkatest.Target, topic string, p int32, old rawBatch) {
	t.Helper()
	b := kafkatest.NewBatch(old.producer, old.epoch, old.sequence+old.count, 1).Bytes()
	if got := kafkatest.ErrorName(kafkatest.ProduceRaw(t, c, topic, p, b).ErrorCode); got != "INVALID_PRODUCER_EPOCH" {
		t.Errorf("%s/%d took a batch of epoch %d: %s", topic, p, old.epoch, got)
	}
}

// A partition that cannot be sealed, for want of a leader, of a leader that answers, or of replicas, waits alone and says
// so; nothing new is written to it before it is sealed.
func TestUnsealed_OnlyThatLane(t *testing.T) {
	kafkatest.Long(t)
	src, _ := pair(t)
	dst := kafkatest.Start(t, threeNodes())
	some := sequel()
	single := both(t, src, dst, kafkatest.TopicOptions{Partitions: 3, Replicas: 1, Configs: map[string]string{"min.insync.replicas": "1"}})
	strict := both(t, src, dst, kafkatest.TopicOptions{Replicas: 3, Configs: map[string]string{"min.insync.replicas": "3"}})
	easy := both(t, src, dst, kafkatest.TopicOptions{Partitions: 3, Replicas: 3})
	topics := []string{single, strict, easy}
	write := func() {
		for _, topic := range topics {
			for p := range partitions(t, src, topic) {
				kafkatest.Produce(t, src, topic, p, some(20))
			}
		}
	}
	write()
	s := newService(t, linkBetween(src, dst, topics, "replication_factor: 3"))
	s.repeats = 60
	s.start()
	s.equal(src, dst, topics...)

	// waits lets the service start while lanes cannot be sealed, checks them and that all others copy, and mends.
	waits := func(mend func(), lanes ...string) {
		t.Helper()
		write()
		s.launch()
		for _, lane := range lanes {
			topic, p := splitLane(t, lane)
			l := s.awaitLane(topic, p, 2*time.Minute, func(l laneDetail) bool { return l.State == "retrying" && l.Reason == "unsealed" })
			if !strings.Contains(l.Detail, laneKey(topic, p)) || !strings.Contains(l.Detail, "since") {
				t.Errorf("the detail %q names neither partition nor time", l.Detail)
			}
		}
		want := stableEnds(t, src, topics...)
		for _, lane := range lanes {
			topic, p := splitLane(t, lane)
			want[topic][p] = 0
		}
		s.reached(want)
		if n := s.metric("lockstep_lanes_unsealed", s.link()); int(n) != len(lanes) {
			t.Errorf("lockstep_lanes_unsealed is %v, want %d", n, len(lanes))
		}
		mend()
		s.equal(src, dst, topics...)
		kafkatest.Eventually(t, 10*time.Second, func() (bool, string) {
			n := s.metric("lockstep_lanes_unsealed", s.link())
			return n == 0, fmt.Sprint(n, " lanes are unsealed")
		})
	}

	old := []rawBatch{writerOf(t, dst, single, 0), writerOf(t, dst, strict, 0)}
	s.kill()
	down := dst.Leader(t, single, 0)
	dst.Kill(t, down)
	waits(func() { dst.Restart(t, down) }, laneKey(single, 0), laneKey(strict, 0))
	refusesOld(t, dst, single, 0, old[0])
	refusesOld(t, dst, strict, 0, old[1])

	old[0] = writerOf(t, dst, single, 1)
	s.kill()
	frozen := dst.Leader(t, single, 1)
	dst.Freeze(t, frozen)
	waits(func() { dst.Thaw(t, frozen) }, laneKey(single, 1), laneKey(strict, 0))
	refusesOld(t, dst, single, 1, old[0])
	s.stop()
	nothingStale(t, dst, topics...)
}

func splitLane(t testing.TB, lane string) (topic string, p int32) {
	t.Helper()
	at := strings.LastIndexByte(lane, '/')
	if _, err := fmt.Sscan(lane[at+1:], &p); err != nil {
		t.Fatal(err)
	}
	return lane[:at], p
}

// uncleanTopic is a topic of two replicas, which an election may give to one that lacks records.
func uncleanTopic(t *testing.T, src, dst *kafkatest.Cluster) (topic string, leader, other int32) {
	t.Helper()
	topic = both(t, src, dst, kafkatest.TopicOptions{Replicas: 2, Configs: map[string]string{
		"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}})
	leader = dst.Leader(t, topic, 0)
	ds, err := dst.Kadm().ListTopics(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range ds[topic].Partitions[0].Replicas {
		if r != leader {
			other = r
		}
	}
	return topic, leader, other
}

// alone kills the other replica and waits until only the leader is in sync.
func alone(t *testing.T, dst *kafkatest.Cluster, topic string, leader, other int32) {
	t.Helper()
	dst.Kill(t, other)
	kafkatest.Eventually(t, time.Minute, func() (bool, string) {
		p := partitionNow(t, dst, topic)
		return slices.Equal(p.ISR, []int32{leader}), fmt.Sprint(p)
	})
}

func partitionNow(t *testing.T, c *kafkatest.Cluster, topic string) kadm.PartitionDetail {
	t.Helper()
	ds, err := c.Kadm().ListTopics(t.Context(), topic)
	if err != nil {
		return kadm.PartitionDetail{}
	}
	return ds[topic].Partitions[0]
}

// usurped lets the replica that lacks the log's end lead.
func usurped(t *testing.T, dst *kafkatest.Cluster, topic string, leader, other int32) {
	t.Helper()
	dst.Kill(t, leader)
	dst.Restart(t, other)
	kafkatest.Eventually(t, time.Minute, func() (bool, string) {
		p := partitionNow(t, dst, topic)
		return p.Leader == other, fmt.Sprint(p)
	})
}

// An unclean election takes away the marker that began a term, before any record had landed behind it: the lane is
// sealed again, and what was sealed once stays so.
func TestUnclean_LostMarkerIsWrittenAgain(t *testing.T) {
	kafkatest.Long(t)
	src, _ := pair(t)
	dst := kafkatest.Start(t, threeNodes())
	topic, leader, other := uncleanTopic(t, src, dst)
	some := sequel()
	kafkatest.Produce(t, src, topic, 0, some(50))
	s := newService(t, linkBetween(src, dst, []string{topic}, "replication_factor: 3")).start()
	s.repeats = 60
	s.equal(src, dst, topic)
	old := writerOf(t, dst, topic, 0)
	s.kill()
	alone(t, dst, topic, leader, other)
	s.launch()
	opened := s.awaitLane(topic, 0, time.Minute, func(l laneDetail) bool { return l.State == "copying" })
	if n := markers(t, dst, topic, 0); n != 1 {
		t.Fatalf("%d markers, want the one that is going to be lost", n)
	}
	usurped(t, dst, topic, leader, other)
	s.awaitLane(topic, 0, 2*time.Minute, func(l laneDetail) bool { return l.State == "copying" && l.Term > opened.Term })
	refusesOld(t, dst, topic, 0, old)
	if n := markers(t, dst, topic, 0); n != 1 {
		t.Errorf("%d markers on the new leader, want 1", n)
	}
	dst.Restart(t, leader)
	kafkatest.Produce(t, src, topic, 0, some(50))
	s.equal(src, dst, topic)
	s.stop()
}

// An unclean election takes away records that were acknowledged, and others write in their place: the lane stops with
// both positions, and appends nothing over the hole.
func TestUnclean_LostRecordsStopTheLane(t *testing.T) {
	kafkatest.Long(t)
	src, _ := pair(t)
	dst := kafkatest.Start(t, threeNodes())
	topic, leader, other := uncleanTopic(t, src, dst)
	some := sequel()
	kafkatest.Produce(t, src, topic, 0, some(50))
	s := newService(t, linkBetween(src, dst, []string{topic}, "replication_factor: 3")).start()
	s.repeats = 60
	s.equal(src, dst, topic)
	alone(t, dst, topic, leader, other)
	kafkatest.Produce(t, src, topic, 0, some(30))
	s.copied(src, topic)
	ours := writerOf(t, dst, topic, 0).producer
	saved := s.metric("lockstep_state_saved_timestamp_seconds", s.link())
	kafkatest.Eventually(t, 20*time.Second, func() (bool, string) {
		now := s.metric("lockstep_state_saved_timestamp_seconds", s.link())
		return now >= saved && s.lane(topic, 0).Spans > 0, fmt.Sprint("stored at ", now)
	})
	s.now().freeze(t) // strangers are faster than the lane's next look
	usurped(t, dst, topic, leader, other)
	if end := kafkatest.End(t, dst, topic, 0); end != 50 {
		t.Fatalf("the new leader's log ends at %d, want 50: nothing was lost", end)
	}
	kafkatest.Produce(t, dst, topic, 0, some(60))
	kafkatest.Produce(t, src, topic, 0, some(10))
	s.now().thaw(t)
	l := s.stopsAs(topic, 0, "diverged")
	if !strings.Contains(l.Detail, "79") && !strings.Contains(l.Detail, "80") {
		t.Errorf("the detail %q lacks a position", l.Detail)
	}
	checkRemedy(t, l.Remedy)
	for _, b := range rawBatches(t, dst, topic, 0) {
		if b.base >= 50 && b.producer == ours && !b.control {
			t.Errorf("lockstep wrote at offset %d, behind a hole", b.base)
		}
	}
	dst.Restart(t, leader)
	s.stop()
}
