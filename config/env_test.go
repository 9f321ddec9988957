package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

const twoClusters = `clusters:
  Eu.west-1: {brokers: ["a:1"]}
  backup: {brokers: ["b:1"]}
links:
  - {name: dr.a, source: Eu.west-1, target: backup, topics: {include: [a]}}
  - {name: other, source: Eu.west-1, target: backup, topics: {include: [b]}}
`

func TestEnv_ClustersAndLinksByName(t *testing.T) {
	t.Parallel()
	c, err := Load(Source{File: "f", Text: []byte(twoClusters), Env: []string{
		"LOCKSTEP_CLUSTERS__EU_WEST_1__BROKERS=c:1, d:2",
		"LOCKSTEP_CLUSTERS__BACKUP__TLS={}",
		"LOCKSTEP_LINKS__DR_A__START=latest",
		"LOCKSTEP_LINKS__1__TOPICS__INCLUDE=[\"x{1,2}\",\"y\"]",
		"LOCKSTEP_LINKS__OTHER__TOPICS__EXCLUDE=",
		"UNRELATED__A=1",
	}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"c:1", "d:2"}, c.Clusters["Eu.west-1"].Brokers); diff != "" {
		t.Error(diff)
	}
	if c.Clusters["backup"].TLS == nil || c.Clusters["Eu.west-1"].TLS != nil {
		t.Error("tls is not on for backup alone")
	}
	if c.Links[0].Start != "latest" || c.Links[1].Start != "earliest" {
		t.Errorf("start = %q, %q", c.Links[0].Start, c.Links[1].Start)
	}
	if diff := cmp.Diff([]string{"x{1,2}", "y"}, c.Links[1].Topics.Include); diff != "" {
		t.Error(diff)
	}
}

func TestEnv_WholeConfiguration(t *testing.T) {
	t.Parallel()
	c, err := Load(Source{Env: []string{
		"LOCKSTEP_CLUSTERS__PRIMARY__BROKERS=a:1",
		"LOCKSTEP_CLUSTERS__BACKUP__BROKERS=b:1",
		"LOCKSTEP_CLUSTERS__BACKUP__TLS__CA_FILE=testdata/files/ca.pem",
		"LOCKSTEP_LINKS__0__NAME=dr",
		"LOCKSTEP_LINKS__0__SOURCE=primary",
		"LOCKSTEP_LINKS__0__TARGET=backup",
		"LOCKSTEP_LINKS__0__TOPICS__INCLUDE=.*",
	}})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Links) != 1 || c.Links[0].Target != "backup" || c.Clusters["backup"].TLS.CAFile == "" || c.Clusters["primary"].ClientID != "lockstep" {
		t.Errorf("configuration = %+v", c)
	}
}

// Kubernetes gives every container variables for each service near by. A service called lockstep must not stop us.
func TestEnv_KubernetesServiceVariables(t *testing.T) {
	t.Parallel()
	_, err := Load(Source{File: "f", Text: []byte(twoClusters), Env: []string{
		"LOCKSTEP_SERVICE_HOST=10.0.0.1", "LOCKSTEP_SERVICE_PORT=7480", "LOCKSTEP_SERVICE_PORT_HTTP=7480",
		"LOCKSTEP_PORT=tcp://10.0.0.1:7480", "LOCKSTEP_PORT_7480_TCP=tcp://10.0.0.1:7480", "LOCKSTEP_PORT_7480_TCP_PROTO=tcp",
		"LOCKSTEP_API_SERVICE_HOST=10.0.0.1", "LOCKSTEP_METRICS_PORT_9090_TCP_ADDR=10.0.0.1", "LOCKSTEP_=", "=x", "noise",
	}})
	if err != nil {
		t.Error(err)
	}
}

func TestEnv_Faults(t *testing.T) {
	t.Parallel()
	alike := "clusters:\n  a.b: {brokers: [\"a:1\"]}\n  a-b: {brokers: [\"b:1\"]}\nlinks:\n  - {name: x.y, source: a.b, target: a-b, topics: {include: [a]}}\n  - {name: x-y, source: a.b, target: a-b, topics: {include: [b]}}\n"
	for _, c := range []struct{ name, text, env, want string }{
		{"unknown key", twoClusters, "LOCKSTEP_API__LISTN=x",
			`LOCKSTEP_API__LISTN: api.listn: unknown key; allowed: listen; did you mean "LOCKSTEP_API__LISTEN"?`},
		{"unknown section", twoClusters, "LOCKSTEP_APIS__LISTEN=x",
			`LOCKSTEP_APIS__LISTEN: apis: unknown key; allowed: node, api, metrics, log, limits, clusters, links; did you mean "LOCKSTEP_API__LISTEN"?`},
		{"other section", twoClusters, "LOCKSTEP_LINKS__DR_A__INCLUDE=x",
			`LOCKSTEP_LINKS__DR_A__INCLUDE: links[0].include: unknown key; allowed: name, source, target, topics, start, isolation, on_gap, replication_factor, configs, acls, quotas, groups, mirrormaker, limits; did you mean "LOCKSTEP_LINKS__0__TOPICS__INCLUDE"?`},
		{"too deep", twoClusters, "LOCKSTEP_API__LISTEN__PORT=1",
			`LOCKSTEP_API__LISTEN__PORT: api.listen: has nothing below it`},
		{"a section", twoClusters, "LOCKSTEP_CLUSTERS__BACKUP__TLS=true",
			`LOCKSTEP_CLUSTERS__BACKUP__TLS: clusters.backup.tls: is a section; allowed: {}, or one of the keys in it: ca_file, cert_file, key_file, server_name, insecure_skip_verify`},
		{"a section that is not optional", twoClusters, "LOCKSTEP_LINKS__DR_A__TOPICS={}",
			`LOCKSTEP_LINKS__DR_A__TOPICS: links[0].topics: is a section; allowed: one of the keys in it: include, exclude, rename`},
		{"bad value", twoClusters, "LOCKSTEP_API__LISTEN=:7480",
			`LOCKSTEP_API__LISTEN: api.listen: ":7480" can be reached from other machines, and TLS and tokens for it are not available yet; allowed: host:port with a loopback host (127.0.0.1, [::1], localhost); port 0 takes a free one`},
		{"bad entry", twoClusters, "LOCKSTEP_CLUSTERS__BACKUP__BROKERS=a:1,b",
			`LOCKSTEP_CLUSTERS__BACKUP__BROKERS: clusters.backup.brokers[1]: "b" is not host:port (missing port in address); allowed: a list of host:port`},
		{"bad list", twoClusters, `LOCKSTEP_CLUSTERS__BACKUP__BROKERS=["a:1"`,
			`LOCKSTEP_CLUSTERS__BACKUP__BROKERS: clusters.backup.brokers: "[\"a:1\"" is not a JSON list of texts; allowed: a list of host:port`},
		{"bad cluster name", twoClusters, "LOCKSTEP_CLUSTERS__A/B__BROKERS=a:1",
			`LOCKSTEP_CLUSTERS__A/B__BROKERS: clusters."a/b": "a/b" has characters that a name cannot have; allowed: letters, digits, dots, underscores and hyphens, at most 100 characters`},
		{"no such link", twoClusters, "LOCKSTEP_LINKS__OTER__START=latest",
			`LOCKSTEP_LINKS__OTER__START: links.oter: there is no link "oter" in the file; allowed: a link's number from 0, or its name in the file; did you mean "other"?`},
		{"hole in links", twoClusters, "LOCKSTEP_LINKS__3__START=latest",
			`LOCKSTEP_LINKS__3__START: links[3]: is too high a number; allowed: 0 to 1, or 2 for one link more`},
		{"cluster not clear", alike, "LOCKSTEP_CLUSTERS__A_B__RACK=r",
			`LOCKSTEP_CLUSTERS__A_B__RACK: clusters.a_b: "a_b" could be the cluster a-b or a.b`},
		{"one underscore", twoClusters, "LOCKSTEP_NODE_DATA_DIR=/data",
			`LOCKSTEP_NODE_DATA_DIR: node.data_dir: two underscores stand between the levels of a key; did you mean "LOCKSTEP_NODE__DATA_DIR"?`},
		{"one underscore with a name", twoClusters, "LOCKSTEP_CLUSTERS_BACKUP_BROKERS=a:1",
			`LOCKSTEP_CLUSTERS_BACKUP_BROKERS: clusters.*.brokers: two underscores stand between the levels of a key; did you mean "LOCKSTEP_CLUSTERS__<NAME>__BROKERS"?`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := Load(Source{File: "f", Text: []byte(c.text), Env: []string{c.env}})
			var got []string
			for _, f := range asErrors(t, err).Faults {
				if f.Place.Name != "" {
					got = append(got, f.String())
				}
			}
			if diff := cmp.Diff([]string{c.want}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestEnv_SameKeyTwice(t *testing.T) {
	t.Parallel()
	_, err := Load(Source{File: "f", Text: []byte(twoClusters), Env: []string{"LOCKSTEP_LINKS__0__START=latest", "LOCKSTEP_LINKS__DR_A__START=earliest"}})
	want := "LOCKSTEP_LINKS__DR_A__START: links[0].start: gives the same key as LOCKSTEP_LINKS__0__START"
	if err == nil || err.Error() != want {
		t.Errorf("error = %v\nwant    %s", err, want)
	}
}

// A secret's text never shows in a fault, wherever it was given.
func TestEnv_SecretNotShown(t *testing.T) {
	t.Parallel()
	_, err := Load(Source{File: "f", Text: []byte(twoClusters), Env: []string{"LOCKSTEP_CLUSTERS__BACKUP__SASL__PASSWORD=env:" + planted + " x"}})
	if err == nil || leaks(err.Error()) {
		t.Errorf("error = %v", err)
	}
}
