package reset

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"lockstep/internal/kafkatest"
)

// toolOutputs are command lines of kafka-consumer-groups.sh whose outputs are fixtures.
var toolOutputs = map[string][]string{
	"describe":         {"--describe", "--all-groups"},
	"describe-verbose": {"--describe", "--all-groups", "--verbose"},
	"describe-state":   {"--describe", "--state", "--all-groups"},
	"describe-members": {"--describe", "--members", "--all-groups"},
	"export-one":       {"--reset-offsets", "--export", "--to-current", "--all-topics", "--group", "billing"},
	"export-several": {"--reset-offsets", "--export", "--to-current", "--all-topics", "--group", "billing", "--group", "g,2", "--group", `g"3`,
		"--group", "my group"},
}

// toolWorld fills a cluster with topics and groups, one of which has a member.
func toolWorld(t *testing.T, c *kafkatest.Cluster) {
	t.Helper()
	kafkatest.Topic(t, c, kafkatest.TopicOptions{Name: "orders", Partitions: 3})
	kafkatest.Topic(t, c, kafkatest.TopicOptions{Name: "payments.v2"})
	for p := range int32(3) {
		kafkatest.Produce(t, c, "orders", p, kafkatest.Records(100, uint64(p)))
	}
	kafkatest.Produce(t, c, "payments.v2", 0, kafkatest.Records(10, 9))
	for i, group := range []string{"billing", "g,2", `g"3`, "my group"} {
		var os kadm.Offsets
		os.Add(kadm.Offset{Topic: "orders", Partition: 0, At: int64(10 + i), LeaderEpoch: -1, Metadata: "note, \"quoted\""})
		os.Add(kadm.Offset{Topic: "orders", Partition: 2, At: int64(20 + i), LeaderEpoch: -1})
		os.Add(kadm.Offset{Topic: "payments.v2", Partition: 0, At: int64(i), LeaderEpoch: 0})
		if err := c.Kadm().CommitAllOffsets(t.Context(), group, os); err != nil {
			t.Fatal(err)
		}
	}
	joinGroup(t, c, "live", "orders")
}

// joinGroup keeps a member in a group until the test ends. It returns when the group has committed.
func joinGroup(t *testing.T, c kafkatest.Target, group, topic string) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.Brokers()...), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.ClientID("shop"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	fs := cl.PollFetches(t.Context())
	if err := fs.Err(); err != nil {
		t.Fatal(err)
	}
	if err := cl.CommitRecords(t.Context(), fs.Records()[0]); err != nil {
		t.Fatal(err)
	}
	kafkatest.Eventually(t, 30*time.Second, func() (bool, string) {
		d, err := kadm.NewClient(c.Admin()).DescribeGroups(t.Context(), group)
		if err != nil {
			return false, err.Error()
		}
		return d[group].State == "Stable", d[group].State
	})
}

// The fixtures are what the tools print, in the same lines and columns: offsets of logs, client ids and widths differ from
// run to run. UPDATE_GOLDEN=1 writes them anew.
func TestTool_Fixtures(t *testing.T) {
	kafkatest.Long(t)
	for _, version := range kafkatest.Versions() {
		c := kafkatest.Start(t, kafkatest.Options{Version: version})
		toolWorld(t, c)
		for name, args := range toolOutputs {
			out, errs := c.RunTool(t, kafkatest.GroupsTool, args...)
			if out == "" {
				t.Errorf("%s %s printed nothing; its errors: %s", version, name, errs)
			}
			file := filepath.Join("testdata", name+"-"+version+".txt")
			if os.Getenv("UPDATE_GOLDEN") != "" {
				if err := os.WriteFile(file, []byte(out), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			old, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if was, is := widths(string(old)), widths(out); was != is {
				t.Errorf("%s %s printed lines of %s columns, the fixture has %s:\n%s", version, name, is, was, out)
			}
		}
	}
}

// widths tells, for the kinds of lines that there are, how many columns each has.
func widths(text string) string {
	seen := map[int]bool{}
	for line := range strings.Lines(text) {
		seen[len(strings.Fields(line))] = true
	}
	return fmt.Sprint(slices.Sorted(maps.Keys(seen)))
}
