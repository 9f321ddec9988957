package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/checkpoint/mm2"
	"lockstep/internal/kafkatest"
)

const mirrorTopics = "mirrormaker: {topics: true}"

// A consumer of the Java client, of either protocol, that reads on the source and moves to the target goes on there with
// the very next record: behind commit markers, aborted records and what compaction removed. It has no policy for what to do
// without a position, so it would fail if it had none.
func TestMirrorMaker_JavaConsumersGoOn(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	src, dst := pair(t)
	txns, compacted := kafkatest.Topic(t, src), kafkatest.CompactedTopic(t, src, kafkatest.TopicOptions{})
	some := sequel()
	for range 20 {
		kafkatest.Produce(t, src, txns, 0, some(7), kafkatest.ProduceOptions{Txn: kafkatest.Commit})
		kafkatest.Produce(t, src, txns, 0, some(3), kafkatest.ProduceOptions{Txn: kafkatest.Abort})
	}
	kafkatest.Produce(t, src, compacted, 0, kafkatest.KeyedRecords(500, 60, 1))
	kafkatest.Compact(t, src, compacted, 0)
	topics := []string{txns, compacted}
	s := newService(t, linkBetween(src, dst, topics, mirrorTopics)).start()
	s.equal(src, dst, topics...)
	for _, protocol := range []string{"classic", "consumer"} {
		for _, topic := range topics {
			group := groupName(protocol)
			commitAt(t, src, group, topic, 0, 0)
			reader := kafkatest.JavaConsumer{Group: group, Topics: []string{topic}, Protocol: protocol, Records: 23, Commit: true}
			kafkatest.JavaConsume(t, src, reader)
			at := committedAt(t, src, group, topic, 0)
			awaitCommitted(t, dst, group, topic, 0, s.translateOne(topic, 0, at), 30*time.Second)
			reader.Records, reader.Commit = 9, false
			want, got := kafkatest.JavaConsume(t, src, reader), kafkatest.JavaConsume(t, dst, reader)
			for i := range want {
				want[i].Offset = s.translateOne(topic, 0, want[i].Offset)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s protocol, %s, from %d on: -source +target\n%s", protocol, topic, at, diff)
			}
		}
	}
	s.stop()
}

// MirrorMaker 2's own scenarios that concern offsets, with Java's RemoteClusterUtils as the judge.
func TestMirrorMaker_CheckpointsFollowTheGroups(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	src, dst := pair(t)
	topic := kafkatest.Topic(t, src, kafkatest.TopicOptions{Partitions: 2}) // the second partition stays empty
	elsewhere := kafkatest.Topic(t, src)
	some := sequel()
	for range 100 {
		kafkatest.Produce(t, src, topic, 0, some(10), kafkatest.ProduceOptions{Txn: kafkatest.Commit})
	}
	kafkatest.Produce(t, src, elsewhere, 0, some(10))
	group := groupName("app")
	moves := func(at int64) {
		t.Helper()
		commitAll(t, src, group, map[string]map[int32]int64{topic: {0: at, 1: 0}, elsewhere: {0: 5}})
	}
	java := kafkatest.NewJava(t, "../checkpoint/mm2/testdata/Readers.java")
	moves(990)
	s := newService(t, linkBetween(src, dst, []string{topic}, mirrorTopics)).start()
	s.equal(src, dst, topic)

	stands := func(at int64) {
		t.Helper()
		want := s.translateOne(topic, 0, at)
		awaitCheckpoint(t, dst, group, topic, at, want)
		answers := java.Run(t, fmt.Sprintf("hops primary\nupstream\ntranslate primary %s\nregex primary %s-?\n", group, group), "org.apache.kafka.connect.mirror.Readers",
			strings.Join(dst.Brokers(), ","), "org.apache.kafka.connect.mirror.IdentityReplicationPolicy", ".", "primary")
		for _, line := range []string{
			"hops 1", fmt.Sprintf("translate %s %s/0 %d =kept", group, topic, want), fmt.Sprintf("translate %s %s/1 0 =kept", group, topic),
			fmt.Sprintf("regex %s %s/0 %d =kept", group, topic, want),
		} {
			if !slices.Contains(answers, line) {
				t.Errorf("Java does not say %q but\n%s", line, strings.Join(answers, "\n"))
			}
		}
		if strings.Contains(strings.Join(answers, "\n"), elsewhere) {
			t.Errorf("Java knows a position in a topic that is not copied:\n%s", strings.Join(answers, "\n"))
		}
		awaitCommitted(t, dst, group, topic, 0, want, 30*time.Second)
	}
	stands(990)
	moves(110) // a real rewind
	stands(110)
	before := checkpointsOf(t, dst, group)

	s.stop()
	s.start()
	for range 100 {
		kafkatest.Produce(t, src, topic, 0, some(10), kafkatest.ProduceOptions{Txn: kafkatest.Commit})
	}
	s.equal(src, dst, topic)
	end := stableEnds(t, src, topic)[topic][0]
	moves(end)
	stands(end)
	after := checkpointsOf(t, dst, group)
	if diff := cmp.Diff(before, after[:len(before)]); diff != "" {
		t.Fatal(diff)
	}
	if len(after) != len(before)+1 {
		t.Errorf("the restart and one move of the group led to %d checkpoints: %+v", len(after)-len(before), after[len(before):])
	}
	for _, c := range []*kafkatest.Cluster{src} {
		names, err := c.Kadm().ListTopics(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names.Names() {
			if strings.HasPrefix(name, "mm2-") || strings.HasSuffix(name, "heartbeats") || strings.HasSuffix(name, ".internal") {
				t.Errorf("topic %s stands on the source", name)
			}
		}
	}
	s.stop()
}

// checkpointsOf returns a group's checkpoints in the order of the log.
func checkpointsOf(t testing.TB, dst *kafkatest.Cluster, group string) (out []mm2.Checkpoint) {
	t.Helper()
	topics, err := dst.Kadm().ListTopics(t.Context(), "primary.checkpoints.internal")
	if err != nil || topics.Error() != nil {
		return nil
	}
	for _, r := range kafkatest.Read(t, dst, "primary.checkpoints.internal", 0, false) {
		c, err := mm2.DecodeCheckpoint(r.Key, r.Value)
		if err != nil {
			t.Fatal(err)
		}
		if c.Group == group {
			out = append(out, c)
		}
	}
	return out
}

// awaitCheckpoint waits until the last checkpoint of a group in partition 0 of a topic is this one.
func awaitCheckpoint(t testing.TB, dst *kafkatest.Cluster, group, topic string, up, down int64) {
	t.Helper()
	kafkatest.Eventually(t, 30*time.Second, func() (bool, string) {
		all := checkpointsOf(t, dst, group)
		var last mm2.Checkpoint
		for _, c := range all {
			if c.Topic == topic && c.Partition == 0 {
				last = c
			}
		}
		return last.Upstream == up && last.Downstream == down, fmt.Sprintf("want %d -> %d, have %+v", up, down, all)
	})
}
