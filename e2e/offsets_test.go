package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"lockstep/api"
	"lockstep/internal/kafkatest"
)

// commitOffsets sets positions of a group that has no members, from partition 0 on.
func commitOffsets(t testing.TB, c *kafkatest.Cluster, group, topic string, offsets ...int64) {
	t.Helper()
	var os kadm.Offsets
	for p, off := range offsets {
		os.Add(kadm.Offset{Topic: topic, Partition: int32(p), At: off, LeaderEpoch: -1, Metadata: "mine"})
	}
	kafkatest.Eventually(t, time.Minute, func() (bool, string) {
		err := c.Kadm().CommitAllOffsets(t.Context(), group, os)
		return err == nil, fmt.Sprint(err)
	})
}

// committed are a group's positions in a topic, from partition 0 on.
func committedText(t testing.TB, c *kafkatest.Cluster, group, topic string) string {
	t.Helper()
	os, err := c.Kadm().FetchOffsets(t.Context(), group)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, o := range os.Sorted() {
		if o.Topic == topic {
			out = append(out, fmt.Sprintf("%d=%d", o.Partition, o.At))
		}
	}
	return strings.Join(out, " ")
}

func writeFile(t testing.TB, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// What we export, Kafka's own tool reads and executes; what that tool prints, we read and import.
func TestOffsets_WithKafkasTool(t *testing.T) {
	kafkatest.Long(t)
	src, _ := pair(t)
	for _, version := range kafkatest.Versions() {
		t.Run(version, func(t *testing.T) {
			c := kafkatest.Start(t, kafkatest.Options{Version: version})
			topic := kafkatest.Topic(t, c, kafkatest.TopicOptions{Partitions: 3})
			for p := range int32(3) {
				kafkatest.Produce(t, c, topic, p, kafkatest.Records(100, uint64(p)))
			}
			s := newService(t, linkBetween(src, c, []string{topic}))
			offsets := func(code int, args ...string) string {
				t.Helper()
				return s.command(append([]string{"offsets"}, append(args, "--link", s.link())...)...).want(t, code).stdout
			}
			groups := []string{"billing", "g,2", `g"3`, "my group"}
			var named []string
			right := func() (out []string) {
				for i, g := range groups {
					commitOffsets(t, c, g, topic, int64(10+i), int64(20+i), int64(30+i))
					out = append(out, committedText(t, c, g, topic))
				}
				return out
			}
			want := right()
			wrong := func() {
				for _, g := range groups {
					commitOffsets(t, c, g, topic, 1, 1, 1)
				}
			}
			check := func(what string) {
				t.Helper()
				for i, g := range groups {
					if got := committedText(t, c, g, topic); got != want[i] {
						t.Errorf("%s: group %s stands at %s, want %s", what, g, got, want[i])
					}
				}
			}
			for _, g := range groups {
				named = append(named, "--group", g)
			}
			ours := writeFile(t, "ours.csv", offsets(0, "export", "--all-groups", "-o", "csv"))
			one := writeFile(t, "one.csv", offsets(0, "export", "--group", "billing", "-o", "csv"))
			described, _ := c.RunTool(t, kafkatest.GroupsTool, "--describe", "--all-groups")
			verbose, _ := c.RunTool(t, kafkatest.GroupsTool, "--describe", "--all-groups", "--verbose")
			exported, _ := c.RunTool(t, kafkatest.GroupsTool, append([]string{"--reset-offsets", "--to-current", "--all-topics", "--export"}, named...)...)
			state, _ := c.RunTool(t, kafkatest.GroupsTool, "--describe", "--state", "--all-groups")

			wrong()
			plan, errs := c.RunTool(t, kafkatest.GroupsTool, append([]string{"--reset-offsets", "--from-file", ours, "--dry-run"}, named...)...)
			if n := strings.Count(plan, topic); n != 12 {
				t.Errorf("the tool planned %d of 12 positions: %s%s", n, plan, errs)
			}
			_, errs = c.RunTool(t, kafkatest.GroupsTool, append([]string{"--reset-offsets", "--from-file", ours, "--execute"}, named...)...)
			check("our CSV in the tool (" + errs + ")")
			wrong()
			c.RunTool(t, kafkatest.GroupsTool, "--reset-offsets", "--from-file", one, "--execute", "--group", "billing")
			if got := committedText(t, c, "billing", topic); got != want[0] {
				t.Errorf("our CSV of one group in the tool: %s, want %s", got, want[0])
			}
			for what, text := range map[string]string{"describe": described, "verbose": verbose, "export": exported} {
				wrong()
				if out := offsets(0, "import", writeFile(t, what, text), "--yes"); !strings.Contains(out, "written 12, verified 12") {
					t.Errorf("%s: %s\n%s", what, out, text)
				}
				check(what)
			}
			s.command("offsets", "import", writeFile(t, "state", state), "--yes", "--link", s.link()).want(t, 2).says(t, "--describe --state")
			check("state")
		})
	}
}

// member keeps a client in a group until the test ends, and returns when the group is stable.
func liveMember(ctx context.Context, t *testing.T, c *kafkatest.Cluster, group string, opts ...kgo.Opt) {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.Brokers()...), kgo.WithContext(ctx), kgo.DisableClientMetrics()}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			cl.PollFetches(ctx)
		}
	}()
	t.Cleanup(func() { cancel(); <-done; cl.Close() })
	kafkatest.Eventually(t, time.Minute, func() (bool, string) {
		groups, err := c.Kadm().ListGroups(t.Context())
		if err != nil {
			return false, err.Error()
		}
		return groups[group].State == "Stable", groups[group].State
	})
}

// Whoever has members is not moved: also groups of the new protocol, which older requests show as dead.
func TestOffsets_ActiveGroupsAreRefused(t *testing.T) {
	kafkatest.Long(t)
	src, dst := pair(t)
	topic := kafkatest.Topic(t, dst, kafkatest.TopicOptions{Partitions: 2})
	kafkatest.Produce(t, dst, topic, 0, kafkatest.Records(100, 1))
	s := newService(t, linkBetween(src, dst, []string{topic}))
	id := linkName()
	classic, consumer, share, idle := id+"-classic", id+"-848", id+"-share", id+"-idle"
	commitOffsets(t, dst, classic, topic, 5, 0)
	commitOffsets(t, dst, consumer, topic, 6, 0)
	commitOffsets(t, dst, idle, topic, 7, 0)
	liveMember(t.Context(), t, dst, classic, kgo.ConsumerGroup(classic), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit())
	liveMember(context.WithValue(t.Context(), "opt_in_kafka_next_gen_balancer_beta", true), t, dst, consumer, //nolint:revive,staticcheck // the library's own key
		kgo.ConsumerGroup(consumer), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit())
	liveMember(t.Context(), t, dst, share, kgo.ShareGroup(share), kgo.ConsumeTopics(topic))

	reset := func(code int, args ...string) result {
		t.Helper()
		return s.command(append([]string{"offsets", "reset", "--link", s.link(), "--topic", topic, "--to-earliest", "--yes"}, args...)...).want(t, code)
	}
	reset(3, "--group", classic).says(t, "active (state Stable, classic protocol)")
	reset(3, "--group", consumer).says(t, "active (state Stable, consumer protocol)")
	reset(3, "--group", share).says(t, "it is a share group on cluster backup")
	reset(5, "--group", classic, "--group", idle).says(t, "written 2, verified 2", "2 of 4 steps are done")
	for group, want := range map[string]string{classic: "0=5 1=0", consumer: "0=6 1=0", idle: "0=0 1=0"} {
		if got := committedText(t, dst, group, topic); got != want {
			t.Errorf("group %s stands at %s, want %s", group, got, want)
		}
	}
	var answer struct {
		Moves []struct{ Group, Refused string }
	}
	out := reset(3, "--group", share, "-o", "json")
	if err := json.Unmarshal([]byte(out.stdout), &answer); err != nil || len(answer.Moves) != 2 || !strings.Contains(answer.Moves[0].Refused, "share group") {
		t.Errorf("%v, %s", err, out)
	}
}

// Positions of the source, imported on the target with --translate, read the same records there; the target's log has
// other offsets, since the source's has markers of transactions and a deleted beginning.
func TestOffsets_ImportTranslated(t *testing.T) {
	kafkatest.Long(t)
	src, dst := pair(t)
	topic := kafkatest.Topic(t, src, kafkatest.TopicOptions{Partitions: 2})
	for p := range int32(2) {
		for i := range 20 {
			kafkatest.Produce(t, src, topic, p, kafkatest.Records(10, uint64(100*int(p)+i)), kafkatest.ProduceOptions{Txn: kafkatest.Commit})
		}
	}
	s := newService(t, linkBetween(src, dst, []string{topic}, "groups: {rename: 'dr-{group}'}")).start()
	s.reached(stableEnds(t, src, topic))
	s.equal(src, dst, topic)
	s.stop()
	group := linkName()
	source := []int64{97, 180}
	commitOffsets(t, src, group, topic, source...)
	file := writeFile(t, "positions.json", s.command("offsets", "export", "--link", s.link(), "--side", "source", "--group", group, "-o", "json").want(t, 0).stdout)
	s.command("offsets", "import", file, "--link", s.link(), "--translate", "--yes").want(t, 0).says(t, "written 2, verified 2")
	ahead := writeFile(t, "ahead", fmt.Sprintf("%s,1,250\n", topic))
	s.command("offsets", "import", ahead, "--group", group, "--link", s.link(), "--translate", "--dry-run").want(t, 0).
		says(t, "it is 30 source offsets ahead of what was copied: where the copy ends")
	s.command("offsets", "import", writeFile(t, "gone", "absent,0,1\n"), "--group", group, "--link", s.link(), "--translate", "--yes").want(t, 3).
		says(t, "line 1: link "+s.link()+" has copied nothing of absent/0")
	os, err := dst.Kadm().FetchOffsets(t.Context(), "dr-"+group)
	if err != nil {
		t.Fatal(err)
	}
	for p, from := range source {
		at, ok := os.Lookup(topic, int32(p))
		if !ok || at.At == from || at.Metadata != "mine" || at.LeaderEpoch != -1 {
			t.Errorf("partition %d: %+v", p, at)
		}
		want, got := nextRecord(t, src, topic, int32(p), from), nextRecord(t, dst, topic, int32(p), at.At)
		if identityOf(want) != identityOf(got) {
			t.Errorf("partition %d: at source offset %d comes %s, at target offset %d %s", p, from, identityOf(want), at.At, identityOf(got))
		}
	}
	s.command("offsets", "list", "--link", s.link(), "--group", "dr-"+group).want(t, 0).says(t, "source", "target", "mine")
}

// nextRecord is what a consumer reads first from an offset.
func nextRecord(t testing.TB, c kafkatest.Target, topic string, partition int32, from int64) *kgo.Record {
	t.Helper()
	for _, r := range kafkatest.Read(t, c, topic, partition, true) {
		if r.Offset >= from {
			return r
		}
	}
	t.Fatalf("no record of %s/%d from %d on", topic, partition, from)
	return nil
}

// A link that keeps groups in step takes a reset on the target for what it is: somebody's decision. It does not undo it,
// and says so; undo brings the position back, and the link goes on with it.
func TestOffsets_OnALinkThatSyncs(t *testing.T) {
	kafkatest.Long(t)
	src, dst := pair(t)
	topic := kafkatest.Topic(t, src)
	kafkatest.Produce(t, src, topic, 0, kafkatest.Records(1000, 1))
	group := groupName("reset")
	commitAt(t, src, group, topic, 0, 100)
	s := newService(t, linkBetween(src, dst, []string{topic}, "groups: {interval: 500ms}")).start()
	s.equal(src, dst, topic)
	awaitCommitted(t, dst, group, topic, 0, 100, 15*time.Second)
	out := s.command("offsets", "reset", "--link", s.link(), "--group", group, "--all-topics", "--to-offset", "7", "--yes").want(t, 0)
	s.awaitGroupState(group, "moved_on_target", time.Minute)
	commitAt(t, src, group, topic, 0, 120)
	s.awaitGroup(group, time.Minute, func(g api.GroupDetail) bool { // it has seen the new position
		return len(g.Positions) == 1 && g.Positions[0].SourceOffset != nil && *g.Positions[0].SourceOffset == 120
	})
	if at := committedAt(t, dst, group, topic, 0); at != 7 {
		t.Errorf("the group stands at %d", at)
	}
	_, line, _ := strings.Cut(out.stdout, "offsets undo")
	words := strings.Fields(line)
	s.command("offsets", "undo", words[len(words)-1], "--link", s.link(), "--yes").want(t, 0).says(t, "written 1, verified 1")
	awaitCommitted(t, dst, group, topic, 0, 120, time.Minute)
	s.awaitGroupState(group, "synced", 15*time.Second)
	s.stop()
}
