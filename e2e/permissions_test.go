package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/internal/kafkatest"
)

// A user without any permission gets those that validate prints, by Kafka's own tool and the lines as they are; with them
// the product does everything that its settings ask, and with the options what single commands take beyond it.
func TestPermissions_WhatValidatePrintsIsEnough(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	for _, tc := range []struct {
		name     string
		src, dst string // versions
		seal     string
		settings []string
		include  func(prefix string) []string
	}{
		{"everything that can be switched on", kafkatest.Kafka3, kafkatest.Kafka4, "direct",
			[]string{"acls: {sync: true}", "quotas: {sync: true}", mirrorOnSource},
			func(prefix string) []string { return []string{beginning(prefix)} }},
		{"names spelt out, little else", kafkatest.Kafka4, kafkatest.Kafka3, "transaction", []string{"configs: {retention: source}"},
			func(prefix string) []string {
				return []string{exactly(prefix + "orders"), exactly(prefix + "payments")}
			}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			src, dst := guardedPair(t, tc.src, tc.dst)
			p := newPermitted(t, src, dst, tc.settings, tc.include)
			p.isTold(t)
			p.given(t, func(c permissionCheck) []string { return c.Commands })
			p.works(t, tc.seal)
			if slices.Contains(tc.settings, mirrorOnSource) {
				p.tellsMirrorMaker(t)
			}
			p.nothingRefused(t)
			p.given(t, func(c permissionCheck) []string {
				var out []string
				for _, o := range c.Options {
					out = append(out, o.Command)
				}
				return out
			})
			p.worksWithOptions(t, tc.seal)
		})
	}
}

// guardedPair starts two clusters on which the user "lockstep" may do nothing and "admin" everything.
func guardedPair(t *testing.T, srcVersion, dstVersion string) (src, dst *kafkatest.Cluster) {
	options := func(version string) kafkatest.Options {
		return kafkatest.Options{Version: version, Authorizer: true, HeapMB: 400,
			Security:   kafkatest.Security{SASL: "PLAIN", Users: map[string]string{"lockstep": "lockstep", "admin": "admin"}},
			Properties: map[string]string{"super.users": "User:ANONYMOUS;User:admin"}}
	}
	cs := kafkatest.StartAll(t, options(srcVersion), options(dstVersion))
	return cs[0], cs[1]
}

// permitted is a service whose user has no more than was given to it.
type permitted struct {
	*service
	src, dst *kafkatest.Cluster
	topics   []string
	group    string
}

func newPermitted(t *testing.T, src, dst *kafkatest.Cluster, settings []string, include func(prefix string) []string) *permitted {
	prefix := kafkatest.TopicName(t) + "."
	p := &permitted{src: src, dst: dst, topics: []string{prefix + "orders", prefix + "payments"}, group: prefix + "billing"}
	c := linkBetween(src, dst, nil, append(settings, fmt.Sprintf("groups: {include: ['%s']}", beginning(prefix)))...)
	c.links[0].include, c.primaryMore, c.backupUser = include(prefix), sasl("lockstep"), "lockstep"
	for _, topic := range p.topics {
		kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: topic, Configs: map[string]string{"retention.ms": "600000000"}})
		kafkatest.Produce(t, src, topic, 0, sequel()(100))
	}
	commitAt(t, src, p.group, p.topics[0], 0, 40)
	p.service = newService(t, c)
	return p
}

// permissionCheck is a finding of validate.
type permissionCheck struct {
	What, Result, Detail string
	Commands             []string
	Options              []struct{ For, Command string }
}

// permissions are the findings about permissions; args are further ones of validate.
func (p *permitted) permissions(t *testing.T, args ...string) (out []permissionCheck) {
	t.Helper()
	var all struct{ Checks []permissionCheck }
	decode(t, p.command(append([]string{"validate", "-o", "json"}, args...)...), &all)
	for _, c := range all.Checks {
		if strings.HasPrefix(c.What, "permissions on cluster ") {
			out = append(out, c)
		}
	}
	if len(out) != 2 {
		t.Fatalf("permissions of %d clusters: %+v", len(out), all.Checks)
	}
	return out
}

// isTold checks that the lines are shown whole, each alone, and that validate fails.
func (p *permitted) isTold(t *testing.T) {
	t.Helper()
	r := p.command("validate").want(t, 1)
	shown := strings.Split(r.stdout, "\n")
	if ran := p.command("run", "--once"); ran.code == 0 || !refusals.MatchString(ran.stderr) {
		t.Errorf("without any permission nothing is refused: %s", ran)
	}
	for _, c := range p.permissions(t) {
		if c.Result != "failed" || len(c.Commands) == 0 {
			t.Errorf("nothing is missing: %+v", c)
		}
		for _, line := range c.Commands {
			if !slices.Contains(shown, line) {
				t.Errorf("not shown: %s\n%s", line, r)
			}
		}
	}
}

// given runs lines for both clusters and waits until validate has nothing to say about them.
func (p *permitted) given(t *testing.T, lines func(permissionCheck) []string) {
	t.Helper()
	for _, c := range p.permissions(t) {
		on := p.src
		if strings.Contains(c.What, " backup ") {
			on = p.dst
		}
		runLines(t, on, lines(c))
	}
	kafkatest.Eventually(t, 30*time.Second, func() (bool, string) {
		left := 0
		checks := p.permissions(t)
		for _, c := range checks {
			left += len(lines(c))
			if c.Result != "ok" {
				left++
			}
		}
		return left == 0, fmt.Sprintf("%+v", checks)
	})
	p.command("validate").want(t, 0)
}

// runLines gives lines to a shell, in a folder with the administrator's settings.
func runLines(t *testing.T, c *kafkatest.Cluster, lines []string) {
	t.Helper()
	dir := t.TempDir()
	admin := "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n" +
		"sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username=\"admin\" password=\"admin\";\n"
	if err := os.WriteFile(filepath.Join(dir, "admin.properties"), []byte(admin), 0o600); err != nil {
		t.Fatal(err)
	}
	path := c.ACLsTool(t) + string(os.PathListSeparator) + os.Getenv("PATH")
	for _, line := range lines {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+path)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "Adding ACLs") || strings.Contains(string(out), "Error") {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
}

// probes runs validate --probe, first to be told what it needs beyond what there is.
func (p *permitted) probes(t *testing.T) {
	t.Helper()
	p.command("validate", "--probe").want(t, 1)
	for _, c := range p.permissions(t, "--probe") {
		if strings.Contains(c.What, " backup ") {
			runLines(t, p.dst, c.Commands)
		}
	}
	kafkatest.Eventually(t, 60*time.Second, func() (bool, string) {
		r := p.command("validate", "--probe")
		return r.code == 0, r.String()
	})
}

// works runs the service with all that its settings ask for: copying, growing, settings, groups, a crash and the seal after it.
func (p *permitted) works(t *testing.T, seal string) {
	t.Helper()
	p.start()
	p.equal(p.src, p.dst, p.topics...)
	awaitCommitted(t, p.dst, p.group, p.topics[0], 0, 40, 30*time.Second)
	p.kill()
	for _, topic := range p.topics {
		kafkatest.Produce(t, p.src, topic, 0, sequel()(50), kafkatest.ProduceOptions{Txn: kafkatest.Commit})
	}
	p.start()
	p.equal(p.src, p.dst, p.topics...)
	p.sealsBy(seal)
	if _, err := p.src.Kadm().CreatePartitions(t.Context(), 1, p.topics[1]); err != nil {
		t.Fatal(err)
	}
	kafkatest.Eventually(t, 30*time.Second, func() (bool, string) {
		n := partitions(t, p.dst, p.topics[1])
		return n == 2, fmt.Sprint(n, " partitions")
	})
}

const mirrorOnSource = "mirrormaker: {topics: true, offset_syncs: source}"

// tellsMirrorMaker waits until there are records in all the topics for readers of MirrorMaker 2.
func (p *permitted) tellsMirrorMaker(t *testing.T) {
	t.Helper()
	for topic, c := range map[string]*kafkatest.Cluster{"heartbeats": p.dst, "primary.heartbeats": p.dst, "primary.checkpoints.internal": p.dst,
		"mm2-offset-syncs.backup.internal": p.src} {
		kafkatest.Eventually(t, 30*time.Second, func() (bool, string) {
			ends, err := c.Kadm().ListEndOffsets(t.Context(), topic)
			o, ok := ends.Lookup(topic, 0)
			return err == nil && ok && o.Offset > 0, fmt.Sprintf("end of %s: %+v, %v", topic, o, err)
		})
	}
}

// worksWithOptions runs the commands that take more than the service does.
func (p *permitted) worksWithOptions(t *testing.T, seal string) {
	t.Helper()
	if seal == "direct" {
		p.probes(t)
	}
	lost := p.topics[0]
	p.stop()
	deleteTopic(t, p.dst, lost)
	kafkatest.Topic(t, p.dst, kafkatest.TopicOptions{Name: lost})
	kafkatest.Produce(t, p.dst, lost, 0, sequel()(9))
	p.start()
	p.stopsAs(lost, 0, "target_lost")
	p.command("lanes", "rebuild", p.laneName(lost, 0), "--yes", "--reason", "because of a test").want(t, 0)
	p.equal(p.src, p.dst, lost)
	p.nothingRefused(t)
	p.stop()
	without := p.conf
	without.links = []linkConf{{name: linkName(), include: p.conf.links[0].include}}
	lockstep(t, "links", "remove", p.link(), "--target", "backup", "--yes", "-c", without.write(t)).want(t, 0)
}

var refusals = regexp.MustCompile(`(?i)[a-z_]*(authorization_failed|not_authorized|not authorized|is missing on)[^\n]*`)

// nothingRefused looks for refusals wherever they would show.
func (p *permitted) nothingRefused(t *testing.T) {
	t.Helper()
	places := []string{p.command("status").want(t, 0).stdout, p.command("groups", "list").want(t, 0).stdout}
	for _, run := range p.runs {
		places = append(places, run.log())
	}
	for _, text := range places {
		for _, r := range refusals.FindAllString(text, -1) {
			t.Errorf("refused: %s", r)
		}
	}
}
