package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"lockstep/api"
	"lockstep/internal/kafkatest"
)

// The coordinator of a group is away for as long as it takes for people to notice, and its successor goes on: no restart
// is needed, and meanwhile the age of what is shown grows.
func TestGroups_CoordinatorAway(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	_, dst := pair(t)
	src := kafkatest.Start(t, kafkatest.Options{Nodes: 3, HeapMB: 384})
	prefix := kafkatest.TopicName(t) + "-"
	topic := kafkatest.Topic(t, src, kafkatest.TopicOptions{Replicas: 3})
	kafkatest.Produce(t, src, topic, 0, kafkatest.Records(500, 1))
	group := prefix + "billing"
	stand(t, src, group, at(topic, 0, 100))
	s := newService(t, groupsBetween(src, dst, prefix, []string{topic}))
	s.repeats = 10
	s.start()
	s.awaitStands(dst, group, at(topic, 0, 100))

	away := coordinator(t, src, group)
	src.Freeze(t, away)                                                                                                         // others do not know yet that it is gone
	old := s.awaitGroup(group, groupPatience, func(g api.GroupDetail) bool { return g.AgeSeconds != nil && *g.AgeSeconds > 2 }) // its broker counts as dead after 4 s
	if old.State == "moved_on_target" || old.State == "suspect_source" {
		t.Errorf("a group whose coordinator is away is %s: %s", old.State, old.Detail)
	}
	src.Kill(t, away)
	stand(t, src, group, at(topic, 0, 200)) // the next coordinator takes it
	s.awaitStands(dst, group, at(topic, 0, 200))
	s.awaitGroup(group, groupPatience, func(g api.GroupDetail) bool { return g.State == "synced" && g.AgeSeconds != nil && *g.AgeSeconds < 5 })
	src.Restart(t, away)
	stand(t, src, group, at(topic, 0, 300))
	s.awaitStands(dst, group, at(topic, 0, 300))
	s.groupIs(group, "synced")
	s.stop()
}

// coordinator returns the node that keeps a group.
func coordinator(t testing.TB, c *kafkatest.Cluster, group string) int32 {
	t.Helper()
	got := c.Kadm().FindGroupCoordinators(t.Context(), group)
	if err := got[group].Err; err != nil {
		t.Fatalf("find the coordinator of %s: %v", group, err)
	}
	return got[group].NodeID
}

// The target forgets positions of groups without members. Those of a group that does not move on the source are written
// again in time; those of one that is gone there are not.
func TestGroups_RetentionOnTheTarget(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	src, _ := pair(t)
	dst := kafkatest.Start(t, kafkatest.Options{HeapMB: 384, Properties: map[string]string{
		"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "1000"}})
	prefix := kafkatest.TopicName(t) + "-"
	topic := kafkatest.Topic(t, src)
	kafkatest.Produce(t, src, topic, 0, kafkatest.Records(1000, 1))
	kept, gone, foreign := prefix+"billing", prefix+"deleted", prefix+"foreign"
	stand(t, src, kept, at(topic, 0, 500))
	stand(t, src, gone, at(topic, 0, 400))
	m := join(t, src, kept, topic, false) // alive there, and idle
	readsOn(t, []*kgo.Client{m})
	s := newService(t, groupsBetween(src, dst, prefix, []string{topic})).start()
	s.awaitStands(dst, kept, at(topic, 0, 500))
	s.awaitStands(dst, gone, at(topic, 0, 400))
	deleteGroup(t, src, gone)
	stand(t, dst, foreign, at(topic, 0, 1)) // nobody writes this one again: when it is gone, so would the others be
	for range 2 {
		kafkatest.Eventually(t, 3*time.Minute, func() (bool, string) {
			if got := standing(t, dst, kept)[laneKey(topic, 0)]; got != 500 {
				t.Fatalf("the target has forgotten group %s: %d; the service says %s", kept, got, s.groupText(kept))
			}
			return len(standing(t, dst, foreign)) == 0, "the target has not forgotten anything yet"
		})
		stand(t, dst, foreign, at(topic, 0, 1))
	}
	if got := standing(t, dst, gone); len(got) > 0 {
		t.Errorf("the position of a group that was deleted on the source was kept alive: %v", got)
	}
	s.stop()
}

// Of thousands of groups three are in scope; one that is deleted meanwhile is no error.
func TestGroups_ThreeOfFiveThousand(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	_, dst := pair(t)
	src := kafkatest.Start(t, kafkatest.Options{})
	topic, other := kafkatest.Topic(t, src), kafkatest.Topic(t, src)
	kafkatest.Produce(t, src, topic, 0, kafkatest.Records(100, 1))
	for i := range 5000 {
		stand(t, src, fmt.Sprintf("other-%04d", i), at(other, 0, 0))
	}
	mine := []string{"three-a-" + linkName(), "three-b-" + linkName(), "three-c-" + linkName()}
	for i, group := range mine {
		stand(t, src, group, at(topic, 0, int64(10*i)))
	}
	s := newService(t, linkBetween(src, dst, []string{topic}, "groups: {interval: 500ms}")).start()
	for i, group := range mine {
		s.awaitStands(dst, group, at(topic, 0, int64(10*i)))
	}
	deleteGroup(t, src, "other-0000")
	stand(t, src, mine[0], at(topic, 0, 5))
	s.awaitStands(dst, mine[0], at(topic, 0, 5))
	groups, err := s.client.Groups(t.Context(), s.link())
	if err != nil {
		t.Fatal(err)
	}
	by := make(map[string]int)
	for _, g := range groups {
		by[g.State]++
	}
	if by["synced"] != 3 || by["no_mirrored_topics"] != 4999 || len(groups) != 5002 {
		t.Errorf("%d groups are %v, want 3 synced and 4999 without a topic of the link", len(groups), by)
	}
	if log := s.now().log(); strings.Contains(log, "other-0000") || strings.Contains(log, "level=ERROR") {
		t.Errorf("a deleted group is an error:\n%s", tail(log, 20))
	}
	s.stop()
}

// Old positions mean the same for ever: after a restart, a death, in another owner's hands, and when the source is gone
// with every service.
func TestTranslate_OldPositionsStay(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	_, dst := pair(t)
	src := kafkatest.Start(t, kafkatest.Options{})
	prefix := kafkatest.TopicName(t) + "-"
	topics := []string{kafkatest.Topic(t, src), kafkatest.Topic(t, src)}
	some := sequel()
	more := func() { // with a marker, or what was aborted, in front of every few records
		for range 10 {
			kafkatest.Produce(t, src, topics[0], 0, some(7))
			kafkatest.Produce(t, src, topics[0], 0, some(3), kafkatest.ProduceOptions{Txn: kafkatest.Abort})
			kafkatest.Produce(t, src, topics[1], 0, some(12), kafkatest.ProduceOptions{Txn: kafkatest.Commit, BatchRecords: 5})
		}
	}
	more()
	s := newService(t, groupsBetween(src, dst, prefix, topics)).start()
	s.copied(src, topics...)
	group := prefix + "billing"
	stand(t, src, group, stands{laneKey(topics[0], 0): 61, laneKey(topics[1], 0): 66})
	kafkatest.Eventually(t, groupPatience, func() (bool, string) { return len(standing(t, dst, group)) == 2, s.groupText(group) })

	upTo := ends{topics[0]: {80}, topics[1]: {120}} // 200 positions
	told := s.table(upTo, group)
	again := func(when string, s *service) {
		more()
		s.copied(src, topics...)
		s.tellsTheSame(when, told, upTo, group)
	}
	s.stop()
	again("after a restart", s.start())
	s.kill()
	again("after a death", s.start())
	other := newService(t, secondInstance(s, t))
	other.flags = []string{"--take-over"}
	other.start()
	s.exits(3, 40*time.Second)
	again("in another owner's hands", other)
	src.Kill(t, 1)
	other.tellsTheSame("without the source", told, upTo, group)
	other.kill()
	other.tellsTheSame("from the target alone", told, upTo, group)
}

// table is what translate says of each position, and of a group's.
func (s *service) table(upTo ends, group string) map[string]string {
	s.t.Helper()
	out := make(map[string]string)
	for lane, os := range s.translateAll(false, upTo) {
		for _, o := range os {
			out[fmt.Sprintf("%s@%d", lane, *o.SourceOffset)] = shortly(o)
		}
	}
	for _, o := range s.translateGroups("--group", group) {
		out[fmt.Sprintf("%s in %s", group, laneKey(o.Topic, o.Partition))] = offset(o.SourceOffset) + " " + shortly(o)
	}
	return out
}

// translateGroups asks the command line where groups stand.
func (s *service) translateGroups(args ...string) []api.Offset {
	s.t.Helper()
	args = append([]string{"translate", "--link", s.link(), "-o", "json"}, args...)
	return decodeOffsets(s.t, s.command(args...).want(s.t, 0).stdout)
}

func (s *service) tellsTheSame(when string, told map[string]string, upTo ends, group string) {
	s.t.Helper()
	now, wrong := s.table(upTo, group), 0
	for what, was := range told {
		if now[what] == was {
			continue
		}
		if wrong++; wrong <= 5 {
			s.t.Errorf("%s: %s was %q and is %q", when, what, was, now[what])
		}
	}
	if wrong > 0 || len(now) != len(told) {
		s.t.Errorf("%s: %d of %d positions are others, %d in all", when, wrong, len(told), len(now))
	}
}
