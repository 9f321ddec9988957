package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kversion"

	"lockstep/internal/kafkatest"
	"lockstep/replicator/probe"
)

// configFor writes a configuration with one link from src to dst.
func configFor(t *testing.T, src, dst *kafkatest.Fake) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "lockstep.yaml")
	text := fmt.Sprintf(`clusters:
  primary: {brokers: [%q]}
  backup: {brokers: [%q]}
links:
  - {name: dr, source: primary, target: backup, topics: {include: [".*"]}}
node: {data_dir: %q}
api: {listen: "127.0.0.1:0"}
`, src.Brokers()[0], dst.Brokers()[0], filepath.Join(dir, "data"))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Brokers that are too old are found before anything is used of them, by validate and by run.
func TestPreflight_TooOldBroker(t *testing.T) {
	t.Parallel()
	old := kfake.MaxVersions(kversion.V1_0_0())
	for name, c := range map[string]struct {
		src, dst []kfake.Opt
		says     []string
	}{
		"source": {[]kfake.Opt{old}, nil, []string{"UNSUPPORTED_BROKER", "cluster primary", "Fetch up to version 6, not 10", "Kafka 2.1"}},
		"target": {nil, []kfake.Opt{old}, []string{"UNSUPPORTED_BROKER", "cluster backup", "Produce up to version 5, not 7"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src := kafkatest.NewFake(t, append(c.src, kfake.ClusterID("a"), kfake.SeedTopics(1, "orders"))...)
			dst := kafkatest.NewFake(t, append(c.dst, kfake.ClusterID("b"))...)
			file := configFor(t, src, dst)
			out, errs, code := lockstep(t, "validate", "-c", file)
			_, log, ran := lockstep(t, "run", "--once", "-c", file)
			if code != exitFailed || ran != exitRefused {
				t.Errorf("validate: exit code %d, run: %d\n%s%s", code, ran, errs, log)
			}
			for _, want := range c.says {
				if !strings.Contains(strings.Join(strings.Fields(out), " "), want) { // the table wraps
					t.Errorf("validate lacks %q:\n%s", want, out)
				}
				if !strings.Contains(log, want) {
					t.Errorf("run lacks %q:\n%s", want, log)
				}
			}
		})
	}
}

func TestValidate_ProbeOfATarget(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t, kfake.SeedTopics(1, "orders"))
	file := configFor(t, src, dst)
	out, errs, code := lockstep(t, "validate", "--probe", "-c", file)
	if code != exitOK {
		t.Fatalf("exit code %d: %s%s", code, errs, out)
	}
	for _, want := range []string{"probe of backup, on scratch topic lockstep.probe.", "seal: direct", "warning: DescribeProducers", "is not listed", "PROMISE"} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
	if !strings.Contains(errs, "probe of backup: deleting lockstep.probe.") || strings.Contains(out, "deleting") {
		t.Errorf("progress on stderr: %s", errs)
	}
	_, facts, _ := strings.Cut(out, "FACT")
	for _, line := range strings.Split(facts, "\n") {
		if len(line) > 120 {
			t.Errorf("line of %d characters: %s", len(line), line)
		}
	}
	out, _, code = lockstep(t, "validate", "--probe", "-o", "json", "-c", file)
	var got struct {
		Schema int
		Probes []probe.Report
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != exitOK || got.Schema != 1 || len(got.Probes) != 1 || len(got.Probes[0].Promises) == 0 {
		t.Errorf("exit code %d, %v: %s", code, err, out)
	}
	if _, errs, code := lockstep(t, "validate", "--probe", "-o", "csv", "-c", file); code != exitUsage {
		t.Errorf("as CSV: exit code %d: %s", code, errs)
	}
}

func TestBrokenPromises_NameThemselves(t *testing.T) {
	t.Parallel()
	err := brokenPromises([]probe.Report{{Cluster: "backup", Promises: []probe.Promise{{Name: "a", Holds: probe.Yes}, {Name: "b", Holds: probe.No, How: "no seal"}}}})
	if exitCode(err) != exitRefused || !strings.Contains(err.Error(), "b on backup (no seal)") || strings.Contains(err.Error(), "a on backup") {
		t.Error(err)
	}
}
