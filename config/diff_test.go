package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const diffBase = `
clusters:
  primary: {brokers: ["a:1"], sasl: {mechanism: plain, username: u, password: env:PW}}
  backup:  {brokers: ["b:1"]}
  spare:   {brokers: ["c:1"]}
links:
  - {name: dr, source: primary, target: backup, topics: {include: ["orders.*"]}}
  - {name: copy, source: primary, target: spare, topics: {include: ["users"]}}
`

// loadText reads a configuration whose texts may name the secrets PW and PW2.
func loadText(t *testing.T, text string) *Config {
	t.Helper()
	c, err := Load(Source{File: "lockstep.yaml", Text: []byte(text), Env: []string{"PW=hunter2", "PW2=hunter3"}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestDiff(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		replace, by string
		want        []Change
	}{
		"nothing":               {"", "", nil},
		"a default spelled out": {"source: primary, target: backup", "source: primary, target: backup, on_gap: continue", nil},
		"links in another order": {diffBase[strings.Index(diffBase, "  - {name: dr"):], `
  - {name: copy, source: primary, target: spare, topics: {include: ["users"]}}
  - {name: dr, source: primary, target: backup, topics: {include: ["orders.*"]}}
`, nil},
		"include": {`["orders.*"]`, `["orders.*", "<x>"]`, []Change{
			{Key: "links[dr].topics.include", Old: `["orders.*"]`, New: `["orders.*","<x>"]`, Link: "dr", Reload: ReloadLive}}},
		"on_gap and limits": {"name: dr,", "name: dr, on_gap: pause, limits: {bytes_per_second: 1kB},", []Change{
			{Key: "links[dr].on_gap", Old: "continue", New: "pause", Link: "dr", Reload: ReloadLive},
			{Key: "links[dr].limits.bytes_per_second", Old: "0", New: "1000", Link: "dr", Reload: ReloadLive}}},
		"isolation": {"name: dr,", "name: dr, isolation: read_uncommitted,", []Change{
			{Key: "links[dr].isolation", Old: "read_committed", New: "read_uncommitted", Link: "dr", Reload: ReloadLink}}},
		"brokers": {`["b:1"]`, `["b:1", "b:2"]`, []Change{
			{Key: "clusters.backup.brokers", Old: `["b:1"]`, New: `["b:1","b:2"]`, Cluster: "backup", Reload: ReloadLink}}},
		"tls switched on": {`["b:1"]`, `["b:1"], tls: {}`, []Change{
			{Key: "clusters.backup.tls", New: `{"ca_file":"","cert_file":"","key_file":"","server_name":"","insecure_skip_verify":false}`,
				Cluster: "backup", Reload: ReloadLink}}},
		"another secret": {"env:PW", "env:PW2", []Change{
			{Key: "clusters.primary.sasl.password", Old: `"[redacted]"`, New: `"[redacted]"`, Cluster: "primary", Reload: ReloadLink}}},
		"a secret from then on literal": {"env:PW", "hunter2", []Change{
			{Key: "clusters.primary.sasl.password", Old: `"[redacted]"`, New: `"[redacted]"`, Cluster: "primary", Reload: ReloadLink}}},
		"link renamed": {"name: dr", "name: dr2", []Change{
			{Key: "links[dr2]", New: "primary → backup", Link: "dr2", Reload: ReloadLink},
			{Key: "links[dr]", Old: "primary → backup", Link: "dr", Reload: ReloadLink}}},
		"another target": {"target: spare", "target: backup", []Change{
			{Key: "links[copy].target", Old: "spare", New: "backup", Link: "copy", Reload: ReloadLink}}},
		"a cluster more": {"clusters:\n", "clusters:\n  new: {brokers: [\"d:1\"]}\n", []Change{
			{Key: "clusters.new", New: `["d:1"]`, Cluster: "new", Reload: ReloadLive}}},
		"the process": {"clusters:", "node: {id: n2}\nmetrics: {listen: ':9'}\nlog: {level: debug, format: json}\nlimits: {buffer_bytes: 64MiB}\nclusters:", []Change{
			{Key: "node.id", Old: "n1", New: "n2", Reload: ReloadRestart},
			{Key: "metrics.listen", New: ":9", Reload: ReloadRestart},
			{Key: "log.level", Old: "info", New: "debug", Reload: ReloadLive},
			{Key: "log.format", Old: "text", New: "json", Reload: ReloadRestart},
			{Key: "limits.buffer_bytes", Old: "268435456", New: "67108864", Reload: ReloadLive}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(diffBase, c.replace, c.by, 1)
			got := Diff(loadText(t, diffBase), loadText(t, text))
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("changes (-want +got):\n%s", d)
			}
			for _, change := range got {
				if strings.Contains(change.String(), "hunter") {
					t.Errorf("a change shows the password: %s", change)
				}
			}
			if back := Diff(loadText(t, text), loadText(t, diffBase)); len(back) != len(c.want) {
				t.Errorf("the way back has %d changes, want %d", len(back), len(c.want))
			}
		})
	}
}

func TestDiff_LinkThatCame(t *testing.T) {
	t.Parallel()
	more := diffBase + `  - {name: third, source: backup, target: spare, topics: {include: ["x"]}}` + "\n"
	want := []Change{{Key: "links[third]", New: "backup → spare", Link: "third", Reload: ReloadLink}}
	if d := cmp.Diff(want, Diff(loadText(t, diffBase), loadText(t, more))); d != "" {
		t.Errorf("changes (-want +got):\n%s", d)
	}
}

func TestChange_Concerns(t *testing.T) {
	t.Parallel()
	dr := Link{Name: "dr", Source: "primary", Target: "backup"}
	for _, c := range []struct {
		change Change
		want   bool
	}{
		{Change{Link: "dr"}, true}, {Change{Link: "copy"}, false}, {Change{Cluster: "primary"}, true}, {Change{Cluster: "backup"}, true},
		{Change{Cluster: "spare"}, false}, {Change{Key: "log.level"}, false},
	} {
		if got := c.change.Concerns(dr); got != c.want {
			t.Errorf("%+v concerns the link: %v, want %v", c.change, got, c.want)
		}
	}
}

func TestInForce_KeepsWhatNeedsARestart(t *testing.T) {
	t.Parallel()
	old := loadText(t, diffBase)
	changed := strings.Replace(diffBase, "[\"users\"]", "[\"x\"]", 1) +
		"node: {data_dir: /elsewhere}\nlog: {level: debug, format: json}\napi: {listen: '127.0.0.1:1'}\nmetrics: {per_lane: false}\n"
	loaded := loadText(t, changed)
	var waits, over []string
	got := InForce(old, loaded)
	for _, c := range Diff(old, got) {
		over = append(over, c.Key)
	}
	for _, c := range Diff(got, loaded) {
		waits = append(waits, c.Key)
		if c.Reload != ReloadRestart {
			t.Errorf("%s waits for a restart and need not", c.Key)
		}
	}
	if d := cmp.Diff([]string{"log.level", "links[copy].topics.include"}, over); d != "" {
		t.Errorf("taken over (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"node.data_dir", "api.listen", "metrics.per_lane", "log.format"}, waits); d != "" {
		t.Errorf("waits (-want +got):\n%s", d)
	}
	if old.Node.DataDir != "./data" || loaded.Node.DataDir != "/elsewhere" {
		t.Error("an argument was changed")
	}
}

// A key that does not say how it is taken over would be taken over in no way.
func TestKeys_EachSaysHowItIsReloaded(t *testing.T) {
	t.Parallel()
	newSchema(Keys()).walk(func(n *node) {
		if n.leaf() && n.Reload.Words() == "" {
			t.Errorf("%s does not say how a change is taken over", n.Path)
		}
		if n.Reload == ReloadRestart && strings.ContainsAny(n.Path, "*[") {
			t.Errorf("%s needs a restart: InForce keeps old values of single sections only", n.Path)
		}
	})
}

func TestCluster_Equal(t *testing.T) {
	t.Parallel()
	base := loadText(t, diffBase)
	again := loadText(t, diffBase)
	other := loadText(t, strings.Replace(diffBase, "env:PW", "env:PW2", 1))
	if !base.Clusters["primary"].Equal(again.Clusters["primary"]) {
		t.Error("the same cluster differs from itself")
	}
	if base.Clusters["primary"].Equal(other.Clusters["primary"]) || base.Clusters["primary"].Equal(base.Clusters["backup"]) {
		t.Error("different clusters are equal")
	}
}
