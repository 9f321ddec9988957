package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"lockstep/api"
	"lockstep/internal/kafkatest"
)

// settingsPatience bounds how long a pass over settings and permissions may be away: they are looked at every 30 s.
const settingsPatience = 50 * time.Second

// furnished is a link between two clusters with authorizers, where lockstep may do everything, with what belongs to its
// topics.
type furnished struct {
	*service
	src, dst *kafkatest.Cluster
	prefix   string
	topic    string // has settings, permissions and quotas on the source
}

func newFurnished(t *testing.T, more ...string) *furnished {
	src, dst := guardedPair(t, kafkatest.Kafka3, kafkatest.Kafka4)
	for _, c := range []*kafkatest.Cluster{src, dst} {
		grant(t, c, aclOf().Topics("*").Allow("User:lockstep").AllowHosts("*").Operations(kadm.OpAll))
		grant(t, c, aclOf().Clusters().Allow("User:lockstep").AllowHosts("*").Operations(kadm.OpAll))
		grant(t, c, aclOf().Groups("*").Allow("User:lockstep").AllowHosts("*").Operations(kadm.OpAll))
		grant(t, c, aclOf().TransactionalIDs("*").Allow("User:lockstep").AllowHosts("*").Operations(kadm.OpAll))
	}
	f := &furnished{src: src, dst: dst, prefix: kafkatest.TopicName(t) + "-"}
	f.topic = f.prefix + "orders"
	kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: f.topic, Partitions: 2, Configs: map[string]string{"retention.ms": "900000000", "segment.ms": "600000", "min.insync.replicas": "1"}})
	kafkatest.Produce(t, src, f.topic, 0, kafkatest.Records(50, 1))
	c := linkBetween(src, dst, nil, append(more, "acls: {sync: true}", "quotas: {sync: true}", fmt.Sprintf("groups: {include: ['%s']}", beginning(f.prefix)))...)
	c.links[0].include, c.primaryMore, c.backupUser = []string{beginning(f.prefix)}, sasl("lockstep"), "lockstep"
	f.service = newService(t, c)
	return f
}

// settingOf returns a topic's own setting, "" where it has none.
func settingOf(t testing.TB, c *kafkatest.Cluster, topic, key string) string {
	t.Helper()
	rs, err := c.Kadm().DescribeTopicConfigs(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rs {
		for _, s := range r.Configs {
			if s.Key == key && s.Source.String() == "DYNAMIC_TOPIC_CONFIG" && s.Value != nil {
				return *s.Value
			}
		}
	}
	return ""
}

func set(t testing.TB, c *kafkatest.Cluster, topic, key, value string) {
	t.Helper()
	a := kadm.AlterConfig{Op: kadm.SetConfig, Name: key, Value: &value}
	if value == "" {
		a = kadm.AlterConfig{Op: kadm.DeleteConfig, Name: key}
	}
	rs, err := c.Kadm().AlterTopicConfigs(t.Context(), []kadm.AlterConfig{a}, topic)
	if err != nil || rs[0].Err != nil {
		t.Fatalf("set %s of %s: %v, %+v", key, topic, err, rs)
	}
}

func (f *furnished) awaitSetting(key, want string) {
	f.t.Helper()
	kafkatest.Eventually(f.t, settingsPatience, func() (bool, string) {
		got := settingOf(f.t, f.dst, f.topic, key)
		return got == want, fmt.Sprintf("%s of %s is %q on the target, want %q", key, f.topic, got, want)
	})
}

// permissions of a user on a cluster, one text each.
func permissionsOf(t testing.TB, c *kafkatest.Cluster, user string) (out []string) {
	t.Helper()
	b := kadm.NewACLs().AnyResource().Allow("User:" + user).AllowHosts().Deny("User:" + user).DenyHosts().Operations().ResourcePatternType(kadm.ACLPatternAny)
	rs, err := c.Kadm().DescribeACLs(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rs {
		for _, a := range r.Described {
			out = append(out, fmt.Sprintf("%s %s %s %s", strings.ToLower(a.Permission.String()), a.Operation, a.Name, strings.ToLower(a.Pattern.String())))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (f *furnished) awaitPermissions(user string, want ...string) {
	f.t.Helper()
	slices.Sort(want)
	kafkatest.Eventually(f.t, settingsPatience, func() (bool, string) {
		got := permissionsOf(f.t, f.dst, user)
		return slices.Equal(got, want), fmt.Sprintf("%s has %q on the target, want %q", user, got, want)
	})
}

func quotaOf(t testing.TB, c *kafkatest.Cluster, user, key string) float64 {
	t.Helper()
	qs, err := c.Kadm().DescribeClientQuotas(t.Context(), false, []kadm.DescribeClientQuotaComponent{{Type: "user", MatchName: &user}})
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range qs {
		for _, v := range q.Values {
			if v.Key == key {
				return v.Value
			}
		}
	}
	return -1
}

func setQuota(t testing.TB, c *kafkatest.Cluster, user, key string, value float64) {
	t.Helper()
	e := kadm.AlterClientQuotaEntry{Entity: kadm.ClientQuotaEntity{{Type: "user", Name: &user}}, Ops: []kadm.AlterClientQuotaOp{{Key: key, Value: value, Remove: value < 0}}}
	rs, err := c.Kadm().AlterClientQuotas(t.Context(), []kadm.AlterClientQuotaEntry{e})
	if err != nil || rs[0].Err != nil {
		t.Fatalf("quota of %s: %v, %+v", user, err, rs)
	}
}

func (f *furnished) awaitQuota(user string, want float64) {
	f.t.Helper()
	kafkatest.Eventually(f.t, settingsPatience, func() (bool, string) {
		got := quotaOf(f.t, f.dst, user, "producer_byte_rate")
		return got == want, fmt.Sprintf("quota of %s is %v on the target, want %v", user, got, want)
	})
}

func (f *furnished) diff(args ...string) api.Diff {
	f.t.Helper()
	var d api.Diff
	decode(f.t, f.command(append([]string{"topics", "diff", "-o", "json"}, args...)...), &d)
	return d
}

// differs returns a difference's state, "" where there is none.
func differs(d api.Diff, name string) string {
	for _, x := range d.Differences {
		if strings.HasPrefix(x.Name, name) {
			return x.State
		}
	}
	return ""
}

// An application that moves finds its topics with the same settings and its permissions, and what somebody else did on the
// target is still there.
func TestSettings_FollowTheSource(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	f := newFurnished(t)
	app := func(b *kadm.ACLBuilder) *kadm.ACLBuilder { return b.Allow("User:app").AllowHosts("*") }
	grant(t, f.src, app(aclOf().Topics(f.topic)).Operations(kadm.OpRead, kadm.OpWrite))
	grant(t, f.src, kadm.NewACLs().ResourcePatternType(kadm.ACLPatternPrefixed).Topics(f.prefix).Allow("User:owner").AllowHosts("*").Operations(kadm.OpAll))
	grant(t, f.src, aclOf().Topics(f.topic).Deny("User:intruder").DenyHosts("*").Operations(kadm.OpRead))
	grant(t, f.dst, aclOf().Topics("foreign").Allow("User:stranger").AllowHosts("*").Operations(kadm.OpAll))
	setQuota(t, f.src, "app", "producer_byte_rate", 100_000)
	setQuota(t, f.dst, "stranger", "producer_byte_rate", 7)
	f.start()
	f.equal(f.src, f.dst, f.topic)

	// All of it follows: what may be read at once, retention opened.
	f.awaitSetting("segment.ms", "600000")
	f.awaitSetting("retention.ms", "-1")
	f.awaitPermissions("app", "allow READ "+f.topic+" literal")
	f.awaitPermissions("owner", "allow READ "+f.prefix+" prefixed")
	f.awaitPermissions("intruder", "deny READ "+f.topic+" literal")
	f.awaitQuota("app", 100_000)
	d := f.diff(f.link() + ":" + f.topic)
	if s := differs(d, "retention.ms"); s != "opened" {
		t.Errorf("retention.ms is %q in %+v", s, d)
	}
	if s := differs(f.diff("--link", f.link()), "allow User:app WRITE"); s != "staged" {
		t.Errorf("the permission to write is %q", s)
	}
	f.command("topics", "list").want(t, 0).says(t, f.topic, "copied")

	// The source changes: altered, dropped, revoked.
	set(t, f.src, f.topic, "segment.ms", "700000")
	set(t, f.src, f.topic, "min.insync.replicas", "")
	if _, err := f.src.Kadm().DeleteACLs(t.Context(), app(aclOf().Topics(f.topic)).Operations(kadm.OpRead)); err != nil {
		t.Fatal(err)
	}
	setQuota(t, f.src, "app", "producer_byte_rate", 200_000)
	f.awaitSetting("segment.ms", "700000")
	f.awaitSetting("min.insync.replicas", "")
	f.awaitPermissions("app")
	f.awaitQuota("app", 200_000)

	// Somebody changes the target: it stays, is named, and is taken over when an operator says so.
	set(t, f.dst, f.topic, "segment.ms", "123456")
	f.command("topics", "diff", f.link()+":"+f.topic).want(t, 1).says(t, "segment.ms", "123456", "700000", "kept", "lockstep topics sync")
	f.kill() // and the one who remembers what was written is another process
	f.start()
	set(t, f.src, f.topic, "segment.ms", "800000")
	kafkatest.Eventually(t, settingsPatience, func() (bool, string) {
		var l api.Topics
		decode(t, f.command("topics", "list", "-o", "json"), &l)
		return len(l.Topics) == 1 && l.Topics[0].Differs.ByState["kept"] == 1, fmt.Sprintf("%+v", l)
	})
	if got := settingOf(t, f.dst, f.topic, "segment.ms"); got != "123456" {
		t.Errorf("what somebody set on the target was overwritten: %s", got)
	}
	f.command("topics", "sync", f.link()+":"+f.topic, "--kinds", "configs").want(t, 2) // nobody agreed
	f.command("topics", "sync", f.link()+":"+f.topic, "--dry-run").want(t, 0).says(t, "segment.ms to 800000")
	f.command("topics", "sync", f.link()+":"+f.topic, "--yes").want(t, 0)
	f.awaitSetting("segment.ms", "800000")
	f.command("topics", "diff", f.link()+":"+f.topic).want(t, 0)

	// Foreign things are what they were.
	if got := permissionsOf(t, f.dst, "stranger"); !slices.Equal(got, []string{"allow ALL foreign literal"}) {
		t.Errorf("a stranger's permissions are %q", got)
	}
	if got := quotaOf(t, f.dst, "stranger", "producer_byte_rate"); got != 7 {
		t.Errorf("a stranger's quota is %v", got)
	}
	// A new topic has it all from the beginning, and the same comparison is made without a service.
	second := f.prefix + "payments"
	kafkatest.Topic(t, f.src, kafkatest.TopicOptions{Name: second, Configs: map[string]string{"cleanup.policy": "compact"}})
	f.equal(f.src, f.dst, f.topic)
	kafkatest.Eventually(t, settingsPatience, func() (bool, string) {
		r := f.command("topics", "list", f.link()+":"+second)
		return r.code == 0 && strings.Contains(r.stdout, "copied"), r.String()
	})
	if got := settingOf(t, f.dst, second, "cleanup.policy"); got != "compact" {
		t.Errorf("cleanup.policy of a new topic is %q", got)
	}
	f.stop()
	r := lockstep(t, "topics", "diff", "-c", f.conf.write(t), f.link()+":"+f.topic).want(t, 0)
	r.says(t, "retention.ms", "opened")
}
