package repotest

import (
	"go/parser"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// rule forbids imports to some packages. Folders and import paths cover what lies below them.
type rule struct {
	name   string
	of     []string // folders the rule is for; empty: all
	except []string // folders that it is not for
	deny   []string // forbidden import paths
	allow  []string // exceptions from deny
	tests  bool     // the rule holds in test files too
}

const self = "lockstep"

// rules are the product's layers. docs/architecture.md tells why.
var rules = []rule{
	{
		name: "internal/model is standard library only", of: []string{"internal/model"},
		deny: []string{self, "*."},
	},
	{
		name: "config reads settings and knows nothing of Kafka", of: []string{"config"},
		deny: []string{self, "github.com/twmb"}, allow: []string{self + "/internal/when"},
	},
	{
		name: "only config imports koanf", except: []string{"config"}, tests: true,
		deny: []string{"github.com/knadh/koanf"},
	},
	{
		name: "only internal/kafka knows TLS and SASL", except: []string{"internal/kafka", "internal/kafkatest"},
		deny: []string{"crypto/tls", "github.com/twmb/franz-go/pkg/sasl"},
	},
	{
		name: "the copy plane meets Raft through its own interfaces", tests: true,
		of:   []string{"replicator", "offsetsync", "checkpoint", "topicsync"},
		deny: []string{"github.com/hashicorp/raft", "github.com/hashicorp/raft-boltdb", "go.etcd.io/bbolt", self + "/cluster"},
	},
	{
		name: "cluster knows no Kafka", of: []string{"cluster"},
		deny: []string{"github.com/twmb", self + "/internal/kafka", self + "/internal/statelog", self + "/replicator", self + "/offsetsync", self + "/topicsync", self + "/checkpoint"},
	},
	{
		name: "replicator/batch does no I/O", of: []string{"replicator/batch"},
		deny: []string{self + "/internal/kafka", self + "/internal/statelog", self + "/offsetsync", self + "/config", "net", "net/http", "os"},
	},
	{
		name: "offsetsync is below the copy plane", of: []string{"offsetsync"},
		deny: []string{self}, allow: []string{self + "/internal/model", self + "/internal/statelog", self + "/replicator/batch"},
	},
	{
		name: "api shows values and asks nobody", of: []string{"api"}, tests: true,
		deny: []string{self, "github.com/twmb"}, allow: []string{self + "/internal/model"},
	},
	{
		name: "internal packages and the copy plane do not know who joins them", tests: true,
		of:   []string{"internal", "config", "replicator", "offsetsync", "checkpoint", "topicsync"},
		deny: []string{self + "/cmd", self + "/api", self + "/bench", self + "/e2e"},
	},
	{
		name: "kafkatest cannot inherit a fault of the product", of: []string{"internal/kafkatest"},
		deny: []string{self},
	},
	{
		name:   "test brokers stay in tests, the demo and the benchmark",
		except: []string{"internal/kafkatest", "cmd/lockstep", "bench", "e2e"},
		deny:   []string{self + "/internal/kafkatest", "github.com/twmb/franz-go/pkg/kfake", "testing"},
	},
	{
		name: "the bare loop of the benchmark is independent of the product", of: []string{"bench"},
		deny: []string{self}, allow: []string{self + "/internal/kafkatest", self + "/replicator/batch"},
	},
}

// applies reports whether the rule is for this file.
func (r rule) applies(s source) bool {
	if s.Test && !r.tests {
		return false
	}
	in := len(r.of) == 0
	for _, d := range r.of {
		in = in || below(s.Dir, d)
	}
	for _, d := range r.except {
		in = in && !below(s.Dir, d)
	}
	return in
}

// forbids reports whether the rule forbids this import. The pattern "*." stands for every module that is not the
// standard library: their first path element has a dot.
func (r rule) forbids(imported string) bool {
	for _, p := range r.allow {
		if below(imported, p) {
			return false
		}
	}
	for _, p := range r.deny {
		first, _, _ := strings.Cut(imported, "/")
		if below(imported, p) || p == "*." && strings.Contains(first, ".") {
			return true
		}
	}
	return false
}

func below(name, prefix string) bool {
	return name == prefix || strings.HasPrefix(name, prefix+"/")
}

// violations lists "file imports package: rule" for every forbidden import.
func violations(t *testing.T, repo fs.FS) []string {
	t.Helper()
	var out []string
	for _, s := range sources(t, repo, parser.ImportsOnly) {
		for _, r := range rules {
			for _, imported := range s.imports() {
				if r.applies(s) && r.forbids(imported) && !inside(s, imported) {
					out = append(out, s.File+" imports "+imported+": "+r.name)
				}
			}
		}
	}
	return out
}

// inside: a package's external tests import the package itself, and commands' folders may have sub-packages.
func inside(s source, imported string) bool {
	return below(imported, self+"/"+s.Dir)
}

func TestImports_RulesHold(t *testing.T) {
	t.Parallel()
	for _, v := range violations(t, repository(t)) {
		t.Error(v)
	}
}

// A rule that never bites proves nothing: each must see a violation that is planted for it.
func TestImports_EveryRuleBites(t *testing.T) {
	t.Parallel()
	planted := map[string][2]string{
		"internal/model is standard library only":                         {"internal/model/x.go", "github.com/google/uuid"},
		"config reads settings and knows nothing of Kafka":                {"config/x.go", "lockstep/internal/kafka"},
		"only config imports koanf":                                       {"cmd/lockstep/x.go", "github.com/knadh/koanf/v2"},
		"only internal/kafka knows TLS and SASL":                          {"internal/statelog/x.go", "crypto/tls"},
		"the copy plane meets Raft through its own interfaces":            {"replicator/term/x.go", "github.com/hashicorp/raft"},
		"cluster knows no Kafka":                                          {"cluster/assign/x.go", "github.com/twmb/franz-go/pkg/kgo"},
		"replicator/batch does no I/O":                                    {"replicator/batch/x.go", "os"},
		"offsetsync is below the copy plane":                              {"offsetsync/x.go", "lockstep/replicator"},
		"api shows values and asks nobody":                                {"api/x.go", "lockstep/internal/kafka"},
		"internal packages and the copy plane do not know who joins them": {"replicator/x.go", "lockstep/api"},
		"kafkatest cannot inherit a fault of the product":                 {"internal/kafkatest/x.go", "lockstep/replicator/batch"},
		"test brokers stay in tests, the demo and the benchmark":          {"topicsync/x.go", "github.com/twmb/franz-go/pkg/kfake"},
		"the bare loop of the benchmark is independent of the product":    {"bench/x.go", "lockstep/internal/kafka"},
	}
	for _, r := range rules {
		p, ok := planted[r.name]
		if !ok {
			t.Errorf("no violation is planted for %q", r.name)
			continue
		}
		repo := fstest.MapFS{p[0]: {Data: []byte("package x\n\nimport _ \"" + p[1] + "\"\n")}}
		want := p[0] + " imports " + p[1] + ": " + r.name
		if got := violations(t, repo); !slices.Contains(got, want) {
			t.Errorf("%q is not seen; seen: %q", want, got)
		}
	}
}
