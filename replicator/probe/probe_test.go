package probe

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"

	"lockstep/config"
	"lockstep/internal/kafka"
	"lockstep/internal/kafkatest"
)

func dialAs(t *testing.T, c kafkatest.Target, user string) *kafka.Cluster {
	t.Helper()
	cfg := config.Cluster{Name: "backup", Brokers: c.Brokers()}
	if user != "" {
		cfg.SASL = &config.SASL{Mechanism: "plain", Username: user, Password: config.NewSecret(user)}
	}
	dst, err := kafka.Dial(cfg, kafka.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(dst.Close)
	return dst
}

// mustRun probes, shows what was found, and returns the results by fact and by promise.
func mustRun(t *testing.T, dst *kafka.Cluster) (facts, promises map[string]string, r Report) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	r, err := Run(ctx, dst, Options{})
	if err != nil {
		t.Fatalf("%v\n%+v", err, r)
	}
	facts, promises = map[string]string{}, map[string]string{}
	for _, f := range r.Facts {
		facts[f.Name] = f.Result
		t.Logf("%-9s %-48s %s", f.Result, f.Name, f.Detail)
	}
	for _, p := range r.Promises {
		promises[p.Name] = p.Holds + ": " + p.How
		t.Logf("%-9s %-48s %s", p.Holds, p.Name, p.How)
	}
	return facts, promises, r
}

// scratch lists the scratch topics of a cluster.
func scratch(t *testing.T, c kafkatest.Target) (out []string) {
	t.Helper()
	topics, err := kadm.NewClient(c.Admin()).ListTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(topics)) {
		if strings.HasPrefix(name, TopicPrefix) {
			out = append(out, name)
		}
	}
	return out
}

// gone waits until a topic is listed no more: a broker may list it for a moment after it was deleted.
func gone(t *testing.T, c kafkatest.Target, topic string) {
	t.Helper()
	kafkatest.Eventually(t, 20*time.Second, func() (bool, string) {
		left := scratch(t, c)
		return !slices.Contains(left, topic), "scratch topics: " + strings.Join(left, ", ")
	})
}

func TestRun_EveryFactHolds(t *testing.T) {
	kafkatest.EachVersion(t, func(t *testing.T, c *kafkatest.Cluster) {
		facts, promises, r := mustRun(t, dialAs(t, c, ""))
		for name, result := range facts {
			if result != OK {
				t.Errorf("%s: %s", name, result)
			}
		}
		if len(facts) != len((&prober{}).steps()) || len(r.Broken()) > 0 || promises[promiseSeal] != "yes: seal: direct" {
			t.Errorf("%d facts, promises %v", len(facts), promises)
		}
		gone(t, c, r.Topic)
	})
}

// kfake is no Kafka, and the probe says where it differs.
func TestRun_SaysWhereAFakeDiffers(t *testing.T) {
	t.Parallel()
	fake := kafkatest.NewFake(t)
	facts, promises, r := mustRun(t, dialAs(t, fake, ""))
	var differs []string
	for _, f := range r.Facts {
		if f.Result != OK {
			differs = append(differs, f.Name)
		}
	}
	if want := []string{factDescribe}; !cmp.Equal(want, differs) {
		t.Errorf("it differs in %q, want %q", differs, want)
	}
	if facts[factDescribe] != Warning || promises[promiseSeal] != "yes: seal: direct" {
		t.Errorf("facts %v, promises %v", facts, promises)
	}
	gone(t, fake, r.Topic)
}

func TestRun_RemovesLeftoversButNotRunningProbes(t *testing.T) {
	t.Parallel()
	fake := kafkatest.NewFake(t)
	old, running, other := TopicPrefix+newID(time.Now().Add(-time.Hour)), TopicPrefix+newID(time.Now().Add(-time.Minute)), TopicPrefix+"mine"
	for _, topic := range []string{old, running, other} {
		if _, err := kadm.NewClient(fake.Admin()).CreateTopic(t.Context(), 1, 1, nil, topic); err != nil {
			t.Fatal(err)
		}
	}
	_, _, r := mustRun(t, dialAs(t, fake, ""))
	if !cmp.Equal(r.Leftovers, []string{old}) || !cmp.Equal(r.Removed, []string{old}) {
		t.Errorf("leftovers %q, removed %q", r.Leftovers, r.Removed)
	}
	if left, want := scratch(t, fake), []string{other, running}; !cmp.Equal(left, want) {
		t.Errorf("left are %q, want %q", left, want)
	}
}

// Whenever it is interrupted, the scratch topic is deleted.
func TestRun_InterruptedDeletesItsTopic(t *testing.T) {
	t.Parallel()
	fake := kafkatest.NewFake(t)
	dst := dialAs(t, fake, "")
	for _, at := range []string{"making ", factFetched, factDirect, factInvisible} {
		ctx, cancel := context.WithCancelCause(t.Context())
		reason := errors.New("somebody pressed Ctrl-C")
		r, err := Run(ctx, dst, Options{Progress: func(what string) {
			if strings.HasPrefix(what, at) {
				cancel(reason)
			}
		}})
		cancel(nil)
		if err == nil || !strings.HasPrefix(r.Topic, TopicPrefix) {
			t.Errorf("at %q: topic %s, %v", at, r.Topic, err)
		}
		if left := scratch(t, fake); len(left) > 0 {
			t.Errorf("at %q: left are %q", at, left)
		}
	}
}

func grant(t *testing.T, c *kafkatest.Cluster, user string, b *kadm.ACLBuilder) {
	t.Helper()
	got, err := c.Kadm().CreateACLs(t.Context(), b.Allow("User:"+user).AllowHosts("*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range got {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
}

// What a probe says to users who may not do everything.
func TestRun_WithoutPermissions(t *testing.T) {
	kafkatest.Long(t)
	for _, version := range kafkatest.Versions() {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			users := map[string]string{"nobody": "nobody", "writer": "writer", "idless": "idless", "reader": "reader", "sealer": "sealer"}
			c := kafkatest.Start(t, kafkatest.Options{Version: version, Authorizer: true, Security: kafkatest.Security{SASL: "PLAIN", Users: users}})
			all := func() *kadm.ACLBuilder { return kadm.NewACLs().ResourcePatternType(kadm.ACLPatternPrefixed) }
			topics := all().Topics(TopicPrefix).Operations(kadm.OpCreate, kadm.OpWrite, kadm.OpRead, kadm.OpDescribe, kadm.OpDelete, kadm.OpDescribeConfigs)
			grant(t, c, "writer", topics)
			grant(t, c, "writer", all().TransactionalIDs("lockstep.").Operations(kadm.OpWrite, kadm.OpDescribe))
			grant(t, c, "idless", topics)
			grant(t, c, "sealer", topics)
			grant(t, c, "sealer", kadm.NewACLs().ResourcePatternType(kadm.ACLPatternLiteral).Clusters().Operations(kadm.OpAlter))
			grant(t, c, "reader", all().Topics(TopicPrefix).Operations(kadm.OpCreate, kadm.OpRead, kadm.OpDescribe, kadm.OpDelete, kadm.OpDescribeConfigs))

			r, err := Run(t.Context(), dialAs(t, c, "nobody"), Options{})
			if err == nil || !strings.Contains(err.Error(), "--topic lockstep.probe. --resource-pattern-type prefixed") || strings.Contains(err.Error(), "delete") || len(r.Facts) > 0 {
				t.Errorf("nobody: %v, facts %v", err, r.Facts)
			}
			facts, promises, _ := mustRun(t, dialAs(t, c, "writer"))
			if facts[factDirect] != Warning || facts[factTxn] != OK || !strings.HasPrefix(promises[promiseSeal], "yes: seal: by transaction") {
				t.Errorf("without ALTER: facts %v, promises %v", facts, promises)
			}
			facts, promises, _ = mustRun(t, dialAs(t, c, "idless"))
			if facts[factEpoch] != OK || facts[factTxn] != Warning || !strings.HasPrefix(promises[promiseSeal], "no: no seal: a stale writer") || !strings.HasPrefix(promises[promiseCopy], "yes") {
				t.Errorf("without transactional ids: facts %v, promises %v", facts, promises)
			}
			_, promises, _ = mustRun(t, dialAs(t, c, "sealer"))
			if promises[promiseSeal] != "yes: seal: direct" {
				t.Errorf("with ALTER and without transactional ids: promises %v", promises)
			}
			facts, promises, r = mustRun(t, dialAs(t, c, "reader"))
			if facts[factProducer] == OK && facts[factFetched] != Failed || !strings.HasPrefix(promises[promiseCopy], "no") || len(r.Broken()) < 2 {
				t.Errorf("without WRITE: facts %v, promises %v", facts, promises)
			}
			if left := scratch(t, c); len(left) > 0 {
				t.Errorf("left are %q", left)
			}
		})
	}
}

func TestPromises_JudgedByTheirFacts(t *testing.T) {
	t.Parallel()
	every := func(change map[string]string) map[string]string {
		out := map[string]string{}
		for _, s := range (&prober{}).steps() {
			out[s.name] = OK
		}
		maps.Copy(out, change)
		return out
	}
	for name, c := range map[string]struct {
		change map[string]string
		want   map[string]string // promise to how it holds; the others hold
	}{
		"everything":         {nil, nil},
		"no direct seal":     {map[string]string{factDirect: Warning}, nil},
		"no seal":            {map[string]string{factDirect: Warning, factTxn: Warning}, map[string]string{promiseSeal: No}},
		"no epochs":          {map[string]string{factEpoch: Failed, factDirect: NotTried}, map[string]string{promiseSeal: No}},
		"nothing is written": {map[string]string{factFetched: Failed, factHeaders: NotTried, factRepeat: NotTried, factEpoch: NotTried}, map[string]string{promiseCopy: No, promiseTranslate: Unknown, promiseSeal: Unknown}},
		"no compacted topic": {map[string]string{factCompacted: Failed}, map[string]string{promiseTranslate: No, promiseLedger: No}},
		"append time":        {map[string]string{factTimes: Failed}, map[string]string{promiseCopy: No}},
		"only good to know":  {map[string]string{factStranger: Warning, factDelete: Warning, factSize: Warning, factForgets: Warning}, nil},
	} {
		r := Report{Promises: promises(every(c.change))}
		got := map[string]string{}
		for _, p := range r.Broken() {
			got[p.Name] = p.Holds
		}
		if d := cmp.Diff(c.want, got); d != "" && len(c.want)+len(got) > 0 {
			t.Errorf("%s: -want +got\n%s", name, d)
		}
	}
}

func TestMadeAt_KnowsItsOwnNames(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_790_000_000, 0)
	if at, ok := madeAt(TopicPrefix + newID(now)); !ok || !at.Equal(now) {
		t.Errorf("%v, %v", at, ok)
	}
	for _, name := range []string{"orders", "lockstep.probe.", "lockstep.probe.x", "lockstep.probe.!.a", "lockstep.dr.state"} {
		if _, ok := madeAt(name); ok {
			t.Errorf("%q is taken for a scratch topic", name)
		}
	}
}
