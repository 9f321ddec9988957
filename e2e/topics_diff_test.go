package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/api"
	"lockstep/internal/kafkatest"
)

// followPatience bounds how long a setting or a permission may need: a pass comes every 30 s.
const followPatience = 60 * time.Second

// item returns what differs of a topic under a name, from a comparison that the running service makes now.
func (s *service) item(kind, topic, name string) (api.Difference, bool) {
	s.t.Helper()
	d := s.diff(topic)
	for _, i := range d.Differences {
		if i.Kind == kind && i.Name == name {
			return i, true
		}
	}
	return api.Difference{}, false
}

func (s *service) diff(topic string) api.Diff {
	s.t.Helper()
	var d api.Diff
	r := s.command("topics", "diff", s.link()+":"+topic, "-o", "json")
	if r.code != 0 && r.code != 1 {
		s.t.Fatalf("diff: %s", r)
	}
	decode(s.t, r, &d)
	return d
}

// dropSetting takes a setting back to the brokers' default.
func dropSetting(t testing.TB, c kafkatest.Target, topic, key string) {
	t.Helper()
	got, err := kadm.NewClient(c.Admin()).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.DeleteConfig, Name: key}}, topic)
	if err == nil && len(got) > 0 {
		err = got[0].Err
	}
	if err != nil {
		t.Fatalf("drop setting %s of %s: %v", key, topic, err)
	}
}

// ownSetting returns a setting that was set on the topic itself, "" for none.
func ownSetting(t testing.TB, c kafkatest.Target, topic, key string) string {
	t.Helper()
	rs, err := kadm.NewClient(c.Admin()).DescribeTopicConfigs(t.Context(), topic)
	if err != nil || len(rs) != 1 || rs[0].Err != nil {
		return fmt.Sprint("error: ", err, rs)
	}
	for _, k := range rs[0].Configs {
		if k.Key == key && k.Source == kmsg.ConfigSourceDynamicTopicConfig {
			return k.MaybeValue()
		}
	}
	return ""
}

func awaitSetting(t testing.TB, c kafkatest.Target, topic, key, want string) {
	t.Helper()
	kafkatest.Eventually(t, followPatience, func() (bool, string) {
		is := ownSetting(t, c, topic, key)
		return is == want, fmt.Sprintf("%s of %s is %q, want %q", key, topic, is, want)
	})
}

// What an operator does when settings drift: list, diff, sync.
func TestTopics_ListDiffSync(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	src, dst := pair(t)
	topic := kafkatest.Topic(t, src, kafkatest.TopicOptions{Partitions: 2})
	setTopic(t, src, topic, map[string]string{"max.message.bytes": "2000000"})
	s := newService(t, linkBetween(src, dst, []string{topic})).start()
	awaitSetting(t, dst, topic, "max.message.bytes", "2000000")

	name := s.link() + ":" + topic
	s.command("topics", "list", s.link()).want(t, 0).says(t, topic, "copied")
	rows(t, s.command("topics", "list", name, "-o", "csv"), 1)
	s.command("topics", "list", s.link()+":nope").want(t, 2).says(t, "nope", "--all")

	setTopic(t, src, topic, map[string]string{"max.message.bytes": "3000000", "segment.ms": "7200000"})
	awaitSetting(t, dst, topic, "max.message.bytes", "3000000")
	awaitSetting(t, dst, topic, "segment.ms", "7200000")
	dropSetting(t, src, topic, "segment.ms")
	awaitSetting(t, dst, topic, "segment.ms", "")
	s.command("topics", "diff", name).want(t, 0)

	// Somebody changes it on the target: it stays, and is named until an operator takes it over.
	setTopic(t, dst, topic, map[string]string{"max.message.bytes": "1500000"})
	s.command("topics", "diff", name).want(t, 1).says(t, "max.message.bytes", "kept", "3000000", "1500000")
	if i, ok := s.item("configs", topic, "max.message.bytes"); !ok || i.State != "kept" || i.Remedy == "" {
		t.Errorf("the item is %+v, %v", i, ok)
	}
	kafkatest.Eventually(t, followPatience, func() (bool, string) {
		r := s.command("topics", "list", name)
		return strings.Contains(r.stdout, "1 kept"), r.String()
	})
	awaitSetting(t, dst, topic, "max.message.bytes", "1500000")
	s.command("topics", "sync", name, "--dry-run").want(t, 0).says(t, "max.message.bytes")
	awaitSetting(t, dst, topic, "max.message.bytes", "1500000")
	s.command("topics", "sync", name, "--kinds", "records", "--yes").want(t, 2)
	s.command("topics", "sync", name, "--yes").want(t, 0)
	awaitSetting(t, dst, topic, "max.message.bytes", "3000000")
	s.command("topics", "diff", name).want(t, 0)

	s.kill()
	setTopic(t, src, topic, map[string]string{"max.message.bytes": "4000000"})
	s.command("topics", "diff", name, "-c", s.file).want(t, 0).says(t, "no service answers", "max.message.bytes", "pending")
	s.command("topics", "sync", name, "--yes").want(t, 1)
	s.start()
	awaitSetting(t, dst, topic, "max.message.bytes", "4000000")
}
