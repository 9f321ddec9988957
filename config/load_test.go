package config

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

func TestLoad_SmallestFile(t *testing.T) {
	t.Parallel()
	got, err := Load(Source{File: "testdata/smallest.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{
		Node:    Node{ID: "n1", DataDir: "./data"},
		API:     API{Listen: "127.0.0.1:7480"},
		Metrics: Metrics{PerLane: true},
		Log:     Log{Level: "info", Format: "text"},
		Limits:  Limits{BufferBytes: 256 << 20},
		Clusters: map[string]Cluster{
			"primary": {Name: "primary", Brokers: []string{"10.0.0.1:9092"}, ClientID: "lockstep"},
			"backup":  {Name: "backup", Brokers: []string{"10.1.0.1:9092"}, ClientID: "lockstep"},
		},
		Links: []Link{{
			Name: "dr", Source: "primary", Target: "backup",
			Topics: Topics{Include: []string{".*"}, Exclude: []string{}, Rename: "{topic}"},
			Start:  "earliest", Isolation: "read_committed", OnGap: "continue",
			Configs: Configs{Sync: true, Exclude: []string{}, Retention: "open"}, ACLs: ACLs{Mode: "dr", Groups: true},
			Groups: Groups{Include: []string{".*"}, Exclude: []string{"console-consumer-.*", "connect-.*", "__.*"}, Rename: "{group}",
				Interval: Duration(2 * time.Second), Sync: true, MaxRewind: 10_000, RewindHold: Duration(5 * time.Minute)},
			MirrorMaker: MirrorMaker{OffsetSyncs: "target", Separator: "."},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
}

func TestLoad_EveryKey(t *testing.T) {
	t.Parallel()
	got, err := Load(Source{File: "testdata/everything.yaml", Env: []string{"PW=s3"}})
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{
		Node:    Node{ID: "n2", DataDir: "/data"},
		API:     API{Listen: "localhost:1"},
		Metrics: Metrics{Listen: "0.0.0.0:2"},
		Log:     Log{Level: "debug", Format: "json"},
		Limits:  Limits{BufferBytes: 16 << 20},
		Clusters: map[string]Cluster{
			"a.b": {
				Name: "a.b", Brokers: []string{"h:1", "h:2"}, ClientID: "c", Rack: "r",
				TLS: &TLS{
					CAFile: "testdata/files/ca.pem", CertFile: "testdata/files/cert.pem", KeyFile: "testdata/files/key.pem",
					ServerName: "s", InsecureSkipVerify: true,
				},
				SASL: &SASL{Mechanism: "scram-sha-256", Username: "u", Password: NewSecret("env:PW")},
			},
			"c": {Name: "c", Brokers: []string{"h:3"}, ClientID: "lockstep", TLS: &TLS{}},
		},
		Links: []Link{{
			Name: "l", Source: "a.b", Target: "c",
			Topics: Topics{Include: []string{"a", "b{1,2}"}, Exclude: []string{"c"}, Rename: "x-{topic}"},
			Start:  "2026-01-31T08:00:00Z", Isolation: "read_uncommitted", OnGap: "pause", ReplicationFactor: 3,
			Configs: Configs{Exclude: []string{"d"}, Force: true, Strict: true, Retention: "source"},
			ACLs:    ACLs{Sync: true, Mode: "migrate"}, Quotas: Quotas{Sync: true}, Limits: LinkLimits{BytesPerSecond: 5_000_000},
			Groups: Groups{Include: []string{"e"}, Exclude: []string{"f"}, Rename: "y-{group}", Interval: Duration(10 * time.Second),
				MaxRewind: 5, RewindHold: Duration(90 * time.Minute)},
			MirrorMaker: MirrorMaker{Topics: true, OffsetSyncs: "source", Separator: "__"},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
	if pw, err := got.Clusters["a.b"].SASL.Password.Reveal(); pw != "s3" || err != nil {
		t.Errorf("password = %q, %v", pw, err)
	}
}

func flags(t *testing.T, args ...string) *pflag.FlagSet {
	t.Helper()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	AddFlags(fs)
	fs.String("config", "", "a flag of the command, not a key")
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return fs
}

// Every layer sets one key more than the one above it; each key is won by the latest layer that has it.
func TestLoad_Precedence(t *testing.T) {
	t.Parallel()
	smallest, err := os.ReadFile("testdata/smallest.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c, err := Load(Source{
		File:  "lockstep.yaml",
		Text:  append(smallest, "node: {data_dir: from-file}\nlog: {level: warn}\nlimits: {buffer_bytes: 32MiB}\n"...),
		Env:   []string{"LOCKSTEP_LOG__LEVEL=error", "LOCKSTEP_LIMITS__BUFFER_BYTES=33554433"},
		Flags: flags(t, "--limits.buffer_bytes=64MiB", "--config=x"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if c.Node.ID != "n1" {
		t.Errorf("node.id = %q, want the default", c.Node.ID)
	}
	if c.Node.DataDir != "from-file" {
		t.Errorf("node.data_dir = %q, want the file's", c.Node.DataDir)
	}
	if c.Log.Level != "error" {
		t.Errorf("log.level = %q, want the variable's", c.Log.Level)
	}
	if c.Limits.BufferBytes != 64<<20 {
		t.Errorf("limits.buffer_bytes = %d, want the flag's", c.Limits.BufferBytes)
	}
}

// A flag that was not given must not put its default over what the file says.
func TestLoad_FlagDefaultDoesNotWin(t *testing.T) {
	t.Parallel()
	c, err := Load(Source{File: "testdata/everything.yaml", Env: []string{"PW=s3"}, Flags: flags(t)})
	if err != nil {
		t.Fatal(err)
	}
	if c.Log.Level != "debug" || c.API.Listen != "localhost:1" {
		t.Errorf("a flag's default won: %+v", c)
	}
}

// Nor is it the place of a fault that the file makes.
func TestLoad_FlagDefaultIsNoPlace(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/bad/metrics_beside_api.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, err = Load(Source{File: "f", Text: text, Flags: flags(t)})
	if err == nil || !strings.HasPrefix(err.Error(), "f:6: metrics.listen: ") {
		t.Errorf("error = %v", err)
	}
}

func TestLoad_BoolFlagWithoutValue(t *testing.T) {
	t.Parallel()
	c, err := Load(Source{File: "testdata/everything.yaml", Env: []string{"PW=s3"}, Flags: flags(t, "--metrics.per_lane")})
	if err != nil {
		t.Fatal(err)
	}
	if !c.Metrics.PerLane {
		t.Error("--metrics.per_lane did not turn it on")
	}
}

func TestLoad_FlagFaultNamesTheFlag(t *testing.T) {
	t.Parallel()
	_, err := Load(Source{File: "testdata/smallest.yaml", Flags: flags(t, "--log.level=inf")})
	want := `--log.level: log.level: "inf" is not known; allowed: debug, info, warn, error; did you mean "info"?`
	if err == nil || err.Error() != want {
		t.Errorf("error = %v\nwant    %s", err, want)
	}
}

func TestLoad_MissingFile(t *testing.T) {
	t.Parallel()
	_, err := Load(Source{File: "testdata/none.yaml", Env: []string{"LOCKSTEP_LOG__LEVEL=x"}})
	want := "testdata/none.yaml: cannot be read: no such file or directory\n" +
		`LOCKSTEP_LOG__LEVEL: log.level: "x" is not known; allowed: debug, info, warn, error`
	if err == nil || err.Error() != want {
		t.Errorf("error = %v\nwant    %s", err, want)
	}
}

func TestLoad_NoSource(t *testing.T) {
	t.Parallel()
	_, err := Load(Source{})
	want := "configuration: clusters: is missing; allowed: a name for each Kafka cluster\n" +
		"configuration: links: is missing; allowed: at least one link"
	if err == nil || err.Error() != want {
		t.Errorf("error = %v\nwant    %s", err, want)
	}
}

// Callers find the faults with errors.As, also behind their own wrapping.
func TestLoad_ErrorIsErrors(t *testing.T) {
	t.Parallel()
	_, err := Load(Source{})
	var faults *Errors
	if !errors.As(errors.Join(err), &faults) || len(faults.Faults) != 2 {
		t.Errorf("error is %T: %v", err, err)
	}
}

// A file that is overridden is still a wrong file: whoever takes the variable away would not start.
func TestLoad_OverriddenValueIsChecked(t *testing.T) {
	t.Parallel()
	smallest, err := os.ReadFile("testdata/smallest.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, err = Load(Source{File: "f", Text: append(smallest, "log: {level: loud}\n"...), Env: []string{"LOCKSTEP_LOG__LEVEL=info"}})
	if err == nil || !strings.HasPrefix(err.Error(), "f:7: log.level: ") {
		t.Errorf("error = %v", err)
	}
}

// Aliases and merge keys must not multiply a small file into endless work.
func TestLoad_AliasBomb(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("links:\n  - &l0 {name: a}\n")
	for i := range 7 {
		item := "*l" + string(rune('0'+i))
		b.WriteString("  - &l" + string(rune('1'+i)) + " {<<: [" + strings.Repeat(item+",", 30) + item + "]}\n")
	}
	_, err := Load(Source{File: "bomb.yaml", Text: []byte(b.String())})
	if err == nil || !strings.Contains(err.Error(), "bomb.yaml:1: aliases make more than") {
		t.Errorf("error does not name the aliases: %.200v", err)
	}
}

func TestLoad_LinePointsToTheEntry(t *testing.T) {
	t.Parallel()
	text := "clusters:\n  a:\n    brokers:\n    - a:1\n    - b:x\n  b: {brokers: [\"b:1\"]}\nlinks:\n- {name: l, source: a, target: b, topics: {include: [x]}}\n"
	_, err := Load(Source{File: "f", Text: []byte(text)})
	faults := asErrors(t, err).Faults
	if len(faults) != 1 || faults[0].Place != (Place{File: "f", Line: 5}) || faults[0].Key != "clusters.a.brokers[1]" {
		t.Errorf("faults = %+v", faults)
	}
}

// What `config show` prints is a configuration again, with the same meaning.
func TestWriteYAML_LoadsAgain(t *testing.T) {
	t.Parallel()
	for file, text := range fixtures(t, "good") {
		c, err := Load(Source{File: file, Text: text})
		if err != nil {
			t.Fatal(err)
		}
		var shown bytes.Buffer
		if err := c.WriteYAML(&shown); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(shown.String(), Redacted) {
			continue // a secret does not come back, by intent
		}
		again, err := Load(Source{File: filepath.Base(file), Text: shown.Bytes()})
		if err != nil {
			t.Errorf("%s: %v\n%s", file, err, shown.String())
			continue
		}
		if diff := cmp.Diff(c, again); diff != "" {
			t.Errorf("%s (-before +after):\n%s", file, diff)
		}
	}
}

func TestWriteYAML_Golden(t *testing.T) {
	t.Parallel()
	c, err := Load(Source{File: "testdata/everything.yaml", Env: []string{"PW=s3"}})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := c.WriteYAML(&b); err != nil {
		t.Fatal(err)
	}
	compareGolden(t, "testdata/show.yaml", b.String())
}
