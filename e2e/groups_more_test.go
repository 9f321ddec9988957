package e2e

import (
	"strings"
	"testing"
	"time"

	"lockstep/api"
	"lockstep/internal/kafkatest"
)

// The source is away for a while: groups keep their positions on the target and say how old they are. It comes by itself
// that they follow again.
func TestGroups_SourceDownAndBack(t *testing.T) {
	kafkatest.Long(t)
	_, dst := pair(t)
	src := kafkatest.Start(t, kafkatest.Options{})
	topic, group := kafkatest.Topic(t, src), groupName("billing")
	kafkatest.Produce(t, src, topic, 0, kafkatest.Records(1000, 1))
	commitAt(t, src, group, topic, 0, 400)
	s := newService(t, linkBetween(src, dst, []string{topic})).start()
	s.equal(src, dst, topic)
	awaitCommitted(t, dst, group, topic, 0, 400, 15*time.Second)
	src.Stop(t, 1)
	s.awaitGroup(group, time.Minute, func(g api.GroupDetail) bool {
		return g.State == "source_unreadable" && g.AgeSeconds != nil && *g.AgeSeconds > 15 && *g.Positions[0].SourceOffset == 400
	})
	if age := s.metric("lockstep_group_checkpoint_age_seconds", `group="`+group+`"`); age < 15 {
		t.Errorf("the metric says that positions are %v s old", age)
	}
	s.command("groups", "list", "--state", "source_unreadable").want(t, 0).says(t, group)
	src.Restart(t, 1)
	kafkatest.AwaitLeaders(t, src, topic)
	commitAt(t, src, group, topic, 0, 450)
	awaitCommitted(t, dst, group, topic, 0, 450, time.Minute)
	s.awaitGroup(group, 15*time.Second, func(g api.GroupDetail) bool { return g.State == "synced" && *g.AgeSeconds < 5 })
	if n := strings.Count(s.now().log(), "groups cannot be kept in step"); n != 1 {
		t.Errorf("that the source is away was logged %d times", n)
	}
	s.stop()
}

// run --once ends with every group where it stands on the source. Without a service and a source, the commands read the
// target.
func TestGroups_OnceThenOffline(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	topic := kafkatest.Topic(t, src, kafkatest.TopicOptions{Partitions: 2})
	some := sequel()
	for range 10 {
		kafkatest.Produce(t, src, topic, 1, some(20), kafkatest.ProduceOptions{Txn: kafkatest.Commit})
	}
	group, other := groupName("billing"), groupName("audit")
	commitAt(t, src, group, topic, 1, 100)
	commitAt(t, src, other, topic, 1, 50)
	c := linkBetween(src, dst, []string{topic}, "groups: {rename: 'dr-{group}'}")
	s := newService(t, c)
	s.once(0)
	at := committedAt(t, dst, "dr-"+group, topic, 1)
	if at != 96 { // four commit markers stand below source offset 100
		t.Errorf("after run --once the group stands at %d, want 96", at)
	}
	commitAt(t, src, group, topic, 1, 105)
	s.once(0)
	if at := committedAt(t, dst, "dr-"+group, topic, 1); at != 100 {
		t.Errorf("after the second run --once the group stands at %d, want 100", at)
	}
	commitAt(t, dst, "dr-"+other, topic, 1, 7)
	s.command("groups", "list", "--link", s.link()).want(t, 0).says(t, "no service answers", "synced", "moved_on_target")
	s.command("groups", "show", group).want(t, 0).says(t, topic, "105", "100", "dr-"+group)
	s.command("groups", "show", other, "-o", "json").want(t, 0).says(t, `"source_offset": 50`, `"target_offset": 7`, `"state": "moved_on_target"`)
	s.command("groups", "history", group).want(t, 0).says(t, topic, "100", "96")
	s.command("groups", "show", "nobody").want(t, 2)
	s.command("groups", "accept", other, "--link", s.link(), "--yes").want(t, 1)
}

// A group that is set to the start by mistake keeps its good position on the target until an operator has looked, and the
// history shows both. A paused link writes nothing. What a changed configuration leaves out is left alone.
func TestGroups_RewindPauseReload(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	topic, group, other := kafkatest.Topic(t, src), groupName("billing"), groupName("audit")
	kafkatest.Produce(t, src, topic, 0, kafkatest.Records(1000, 1))
	commitAt(t, src, group, topic, 0, 900)
	commitAt(t, src, other, topic, 0, 100)
	s := newService(t, linkBetween(src, dst, []string{topic}, "groups: {max_rewind: 100, exclude: ['audit-.*']}")).start()
	s.equal(src, dst, topic)
	awaitCommitted(t, dst, group, topic, 0, 900, 15*time.Second)
	commitAt(t, src, group, topic, 0, 0)
	s.awaitGroupState(group, "suspect_source", 10*time.Second)
	s.command("groups", "history", group).want(t, 0).says(t, "900", "suspect_source")
	if at := committedAt(t, dst, group, topic, 0); at != 900 {
		t.Errorf("the group stands at %d on the target", at)
	}
	s.command("groups", "accept", group, "--link", s.link(), "--yes").want(t, 0).says(t, "900 -> 0")
	awaitCommitted(t, dst, group, topic, 0, 0, 10*time.Second)

	s.command("links", "pause", s.link(), "--yes", "--reason", "window").want(t, 0)
	commitAt(t, src, group, topic, 0, 20)
	g := s.awaitGroupState(group, "sync_off", 10*time.Second)
	if !strings.Contains(g.Remedy, "links resume") || *g.Positions[0].TranslatedOffset != 20 || committedAt(t, dst, group, topic, 0) != 0 {
		t.Errorf("while the link is paused the group is %+v", g)
	}
	s.command("links", "resume", s.link(), "--yes").want(t, 0)
	awaitCommitted(t, dst, group, topic, 0, 20, 15*time.Second)

	s.command("groups", "show", other).want(t, 0).says(t, "excluded", "audit-.*")
	s.reconfigure(func(c *conf) { c.links[0].more = []string{"groups: {include: ['audit-.*']}"} })
	awaitCommitted(t, dst, other, topic, 0, 100, 20*time.Second)
	s.command("groups", "show", group).want(t, 0).says(t, "excluded", "groups.include")
	commitAt(t, src, group, topic, 0, 30)
	commitAt(t, src, other, topic, 0, 110)
	awaitCommitted(t, dst, other, topic, 0, 110, 10*time.Second)
	if at := committedAt(t, dst, group, topic, 0); at != 20 {
		t.Errorf("a group that is left out since the reload stands at %d", at)
	}
	s.stop()
}
