package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockstep/api"
	"lockstep/internal/kafkatest"
)

// What translate writes as CSV about groups is what Kafka's own tool takes: for one group and for several, as a plan and
// carried out, on the target and, with --reverse, on the source.
func TestTranslate_ForKafkasTool(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	src, dst := pair(t)
	some := sequel()
	prefix := kafkatest.TopicName(t) + "-"
	topics := []string{kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: prefix + "orders", Partitions: 2}), kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: prefix + "payments"})}
	for _, topic := range topics {
		kafkatest.Produce(t, src, topic, 0, some(10), kafkatest.ProduceOptions{Txn: kafkatest.Commit})
		kafkatest.Produce(t, src, topic, 0, some(10))
	}
	a, b := prefix+"a, \"quoted\"", prefix+"b"
	stand(t, src, a, stands{laneKey(topics[0], 0): 15, laneKey(topics[0], 1): 0, laneKey(topics[1], 0): 21})
	stand(t, src, b, at(topics[1], 0, 4))
	c := groupsBetween(src, dst, prefix, topics, "sync: false", "rename: 'dr.{group}'")
	c.links[0].rename = "copy.{topic}"
	s := newService(t, c).start()
	s.copied(src, topics...)
	s.groupIs(a, "sync_off")
	s.groupIs(b, "sync_off")
	onTarget := map[string]stands{
		"dr." + a: {laneKey("copy."+topics[0], 0): 14, laneKey("copy."+topics[0], 1): 0, laneKey("copy."+topics[1], 0): 20},
		"dr." + b: at("copy."+topics[1], 0, 4),
	}
	both := s.resetCSV("--group", a, "--group", b)
	s.resetWith(dst, s.resetCSV("--group", b), onTarget, "dr."+b)
	s.resetWith(dst, both, onTarget, "dr."+a, "dr."+b)

	stand(t, dst, "dr."+b, at("copy."+topics[1], 0, 13)) // it worked there, and goes back
	s.resetWith(src, s.resetCSV("--reverse", "--group", b), map[string]stands{b: at(topics[1], 0, 14)}, b)
	s.stop()
}

// resetCSV is what translate prints.
func (s *service) resetCSV(args ...string) string {
	s.t.Helper()
	return s.command(append([]string{"translate", "--link", s.link(), "-o", "csv"}, args...)...).want(s.t, 0).says(s.t, "positions of").stdout
}

// resetWith gives a file to kafka-consumer-groups.sh, and checks that it means the positions.
func (s *service) resetWith(c *kafkatest.Cluster, text string, want map[string]stands, groups ...string) {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "reset.csv")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	args := []string{"--reset-offsets", "--from-file", file}
	for _, g := range groups {
		args = append(args, "--group", g)
	}
	before := make(map[string]stands)
	for _, g := range groups {
		before[g] = standing(s.t, c, g)
	}
	plan, errs := c.RunTool(s.t, kafkatest.GroupsTool, append(args, "--dry-run")...)
	for _, g := range groups {
		for lane, next := range want[g] {
			topic, p := splitLane(s.t, lane)
			if !plans(plan, topic, p, next) {
				s.t.Errorf("the tool does not plan %s at %d for %s; it reads:\n%s\nand says:\n%s%s", lane, next, g, text, plan, errs)
			}
		}
		stillStands(s.t, c, g, before[g])
	}
	out, errs := c.RunTool(s.t, kafkatest.GroupsTool, append(args, "--execute")...)
	for _, g := range groups {
		if got := standing(s.t, c, g); fmt.Sprint(got) != fmt.Sprint(want[g]) {
			s.t.Errorf("after the tool's work group %s stands at %v, want %v; it said:\n%s%s", g, got, want[g], out, errs)
		}
	}
}

// plans reports whether the tool's table has a line for the partition with the offset last. Names of groups may hold blanks.
func plans(text, topic string, partition int32, next int64) bool {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if n := len(f); n >= 4 && f[n-3] == topic && f[n-2] == fmt.Sprint(partition) && f[n-1] == fmt.Sprint(next) {
			return true
		}
	}
	return false
}

// A Java consumer that comes with the group's id reads the very next record, by the classic protocol and by KIP-848.
func TestGroups_JavaResumes(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	src, dst := pair(t)
	prefix := kafkatest.TopicName(t) + "-"
	topic := kafkatest.Topic(t, src)
	records := kafkatest.Records(60, 1)
	for i, r := range records {
		r.Value = fmt.Appendf(nil, "record number %d", i)
	}
	kafkatest.Produce(t, src, topic, 0, records[:30], kafkatest.ProduceOptions{Txn: kafkatest.Commit}) // 0–29, marker 30
	kafkatest.Produce(t, src, topic, 0, records[30:])                                                  // 31–60
	s := newService(t, groupsBetween(src, dst, prefix, []string{topic})).start()
	for _, protocol := range []string{"classic", "consumer"} {
		group := prefix + protocol
		stand(t, src, group, at(topic, 0, 41))
		s.awaitStands(dst, group, at(topic, 0, 40))
		out, errs := dst.RunTool(t, "org.apache.kafka.tools.consumer.ConsoleConsumer", "--topic", topic, "--group", group, "--max-messages", "1",
			"--timeout-ms", "30000", "--command-property", "group.protocol="+protocol, "--command-property", "auto.offset.reset=none")
		if strings.TrimSpace(out) != "record number 40" {
			t.Errorf("%s protocol: a Java consumer reads %q, want record number 40\n%s", protocol, out, errs)
		}
	}
	s.stop()
}

// A group's positions with a service, from the state topic when source and service are gone, and back from the target: each
// answer says who told it.
func TestTranslate_Groups(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	_, dst := pair(t)
	src := kafkatest.Start(t, kafkatest.Options{})
	some := sequel()
	prefix := kafkatest.TopicName(t) + "-"
	topic := kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: prefix + "orders"})
	other := kafkatest.Topic(t, src)
	kafkatest.Produce(t, src, topic, 0, some(10), kafkatest.ProduceOptions{Txn: kafkatest.Commit})
	kafkatest.Produce(t, src, topic, 0, some(10))
	group := prefix + "billing"
	stand(t, src, group, stands{laneKey(topic, 0): 15, laneKey(other, 0): 0})
	s := newService(t, groupsBetween(src, dst, prefix, []string{topic})).start()
	s.awaitStands(dst, group, at(topic, 0, 14))

	s.tells(group, "service", 15, 14, "not_copied")
	s.command("translate", "--link", s.link(), "--group", group, "-o", "spark").want(t, 0).says(t, `{"`+topic+`":{"0":14}}`, "not copied by the link, left out: group "+group)
	s.command("translate", "--link", s.link(), "--group", prefix+"nobody").want(t, 2).says(t, "nobody")
	s.tells(group, "cluster", 15, 14, "", "--reverse")
	s.stop()
	s.tells(group, "cluster", 15, 14, "not_copied")
	src.Kill(t, 1)
	s.tells(group, "state_topic", 15, 14, "")
	s.tells(group, "cluster", 15, 14, "", "--reverse")
	if all := s.translateGroups("--all-groups"); len(all) != 1 || all[0].Group != group {
		t.Errorf("all groups are %+v", all)
	}
}

// tells checks what translate says of the group's position, who told it, and what it says of the topic that is not copied.
func (s *service) tells(group, from string, src, dst int64, elsewhere string, args ...string) {
	s.t.Helper()
	found := ""
	for _, o := range s.translateGroups(append([]string{"--group", group}, args...)...) {
		if o.State == api.OffsetNotCopied {
			found = o.State
			continue
		}
		if o.SourceOffset == nil || o.TargetOffset == nil || *o.SourceOffset != src || *o.TargetOffset != dst || o.PositionFrom != from || o.AsOf == nil || o.TargetGroup != group {
			s.t.Errorf("group %s: %+v, want %d → %d from %s", group, o, src, dst, from)
		}
	}
	if found != elsewhere {
		s.t.Errorf("group %s, as told by %s: the other topic is %q, want %q", group, from, found, elsewhere)
	}
}
