package e2e

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"lockstep/api"
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
	java := kafkatest.NewJavaConsumer(t)
	for _, protocol := range []string{"classic", "consumer"} {
		group := groupName(protocol)
		commitAll(t, src, group, map[string]map[int32]int64{txns: {0: 0}, compacted: {0: 0}})
		reader := kafkatest.JavaConsumer{Group: group, Topics: topics, Protocol: protocol, Records: 123, Commit: true}
		java.Consume(t, src, reader)
		reader.Records, reader.Commit = 0, false
		for _, topic := range topics {
			at := committedAt(t, src, group, topic, 0)
			awaitCommitted(t, dst, group, topic, 0, s.translateOne(topic, 0, at), 30*time.Second)
			for _, r := range kafkatest.Read(t, src, topic, 0, true) {
				if r.Offset >= at {
					reader.Records++
				}
			}
		}
		want, got := java.Consume(t, src, reader), java.Consume(t, dst, reader)
		for i := range want {
			want[i].Offset = s.translateOne(want[i].Topic, 0, want[i].Offset)
		}
		byOffset := cmpopts.SortSlices(func(a, b kafkatest.Consumed) int {
			return cmp.Or(strings.Compare(a.Topic, b.Topic), int(a.Offset-b.Offset))
		})
		if diff := gocmp.Diff(want, got, byOffset); diff != "" || len(got) == 0 {
			t.Errorf("%s protocol, %d records are left: -source +target\n%s", protocol, reader.Records, diff)
		}
	}
	s.stop()
}

// MirrorMaker 2's own scenarios that concern offsets, under its default policy of names, with Java's RemoteClusterUtils and
// the store of its checkpoint task as the judges.
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
	conf := linkBetween(src, dst, []string{topic}, mirrorTopics)
	conf.links[0].rename = "primary.{topic}"
	s := newService(t, conf).start()
	there := "primary." + topic
	same := []kafkatest.Pair{{Src: topic, Dst: there}}
	s.copied(src, topic)
	kafkatest.MustEqual(t, src, dst, same)

	ask := func(questions string) []string {
		t.Helper()
		return java.Run(t, questions, "org.apache.kafka.connect.mirror.Readers", strings.Join(dst.Brokers(), ","),
			"org.apache.kafka.connect.mirror.DefaultReplicationPolicy", ".", "primary")
	}
	stands := func(at int64) {
		t.Helper()
		want := s.translateOne(topic, 0, at)
		awaitCheckpoint(t, dst, group, there, at, want)
		answers := ask(fmt.Sprintf("hops primary\nupstream\ntranslate primary %s\nregex primary %s-?\n", group, group))
		for _, line := range []string{
			"hops 1", fmt.Sprintf("translate %s %s/0 %d =kept", group, there, want), fmt.Sprintf("translate %s %s/1 0 =kept", group, there),
			fmt.Sprintf("regex %s %s/0 %d =kept", group, there, want),
		} {
			if !slices.Contains(answers, line) {
				t.Errorf("Java does not say %q but\n%s", line, strings.Join(answers, "\n"))
			}
		}
		if strings.Contains(strings.Join(answers, "\n"), elsewhere) {
			t.Errorf("Java knows a position in a topic that is not copied:\n%s", strings.Join(answers, "\n"))
		}
		awaitCommitted(t, dst, group, there, 0, want, 30*time.Second)
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
	s.copied(src, topic)
	kafkatest.MustEqual(t, src, dst, same)
	end := stableEnds(t, src, topic)[topic][0]
	moves(end)
	stands(end)
	after := checkpointsOf(t, dst, group)
	if diff := gocmp.Diff(before, after[:len(before)]); diff != "" {
		t.Fatal(diff)
	}
	if len(after) != len(before)+1 {
		t.Errorf("the restart and one move of the group led to %d checkpoints: %+v", len(after)-len(before), after[len(before):])
	}
	s.judgeOffsetSyncs(topic, end, ask)
	names, err := src.Kadm().ListTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names.Names() {
		if strings.HasPrefix(name, "mm2-") || strings.HasSuffix(name, "heartbeats") || strings.HasSuffix(name, ".internal") {
			t.Errorf("topic %s stands on the source", name)
		}
	}
	s.stop()
}

// judgeOffsetSyncs lets MirrorMaker's own store translate offsets all over a partition: never behind ours.
func (s *service) judgeOffsetSyncs(topic string, end int64, ask func(questions string) []string) {
	s.t.Helper()
	var at []api.Position
	questions := "store mm2-offset-syncs.primary.internal\n"
	for src := int64(0); src < end; src += max(1, end/400) {
		at = append(at, api.Position{Topic: topic, Offset: src})
		questions += fmt.Sprintf("sync %s 0 %d\n", topic, src)
	}
	ours, err := s.client.Translate(s.t.Context(), s.link(), api.TranslateRequest{Offsets: at})
	if err != nil {
		s.t.Fatal(err)
	}
	theirs := make(map[int64]int64)
	for _, line := range ask(questions) {
		var src, dst int64
		if _, err := fmt.Sscanf(line, "sync %d %d", &src, &dst); err == nil {
			theirs[src] = dst
		}
	}
	for _, o := range ours {
		if dst, ok := theirs[*o.SourceOffset]; ok && dst > *o.TargetOffset {
			s.t.Errorf("MirrorMaker translates %d to %d, behind ours, %d", *o.SourceOffset, dst, *o.TargetOffset)
		}
	}
	if len(theirs) < len(at)/2 {
		s.t.Errorf("MirrorMaker translated %d of %d offsets", len(theirs), len(at))
	}
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
