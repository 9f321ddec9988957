package e2e

import (
	"encoding/csv"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockstep/api"
	"lockstep/internal/kafkatest"
)

// Every command that shows something, in every form, against a running service.
func TestCommands_Output(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	topic := kafkatest.Topic(t, src, kafkatest.TopicOptions{Partitions: 2})
	kafkatest.Produce(t, src, topic, 0, kafkatest.Records(1234, 1))
	s := newService(t, linkBetween(src, dst, []string{topic})).start()
	s.equal(src, dst, topic)
	lane := s.link() + ":" + topic + "/0"

	s.command("status").want(t, 0).says(t, "LINK", s.link(), "primary", "backup", "copying", "2 copying")
	var status api.Status
	decode(t, s.command("status", "-o", "json").want(t, 0), &status)
	if l := status.Links[0]; status.Schema != 1 || l.State != "copying" || l.Lanes.Total != 2 || l.RPO.Records == nil || *l.RPO.Records != 0 || l.Owner == "" || l.Term == 0 {
		t.Errorf("status is %+v", status)
	}
	rows(t, s.command("status", "-o", "csv"), 1)

	s.command("lag").want(t, 0).says(t, "RECORDS", "SECONDS", topic)
	var lag api.LagAnswer
	decode(t, s.command("lag", "-o", "json", "--link", s.link()).want(t, 0), &lag)
	if len(lag.Lag) != 2 || lag.Lag[0].Records == nil || *lag.Lag[0].Records != 0 {
		t.Errorf("lag is %+v", lag)
	}
	rows(t, s.command("lag", "-o", "csv"), 2)

	s.command("lanes", "list").want(t, 0).says(t, lane, "1,234")
	var lanes api.Lanes
	decode(t, s.command("lanes", "list", "-o", "json", "--state", "copying", "--topic", topic).want(t, 0), &lanes)
	if len(lanes.Lanes) != 2 || lanes.Lanes[0].SourceOffset != 1234 || lanes.Lanes[0].TargetOffset != 1234 {
		t.Errorf("lanes are %+v", lanes)
	}
	rows(t, s.command("lanes", "list", "-o", "csv"), 2)
	rows(t, s.command("lanes", "list", "-o", "csv", "--state", "stopped"), 0)
	s.awaitLane(topic, 0, 5*time.Second, func(l laneDetail) bool { return l.Count == 1234 && l.Spans == 1 })
	s.command("lanes", "show", lane).want(t, 0).says(t, "next to read at the source", "1234", "source topic's id")
	var one api.LaneAnswer
	decode(t, s.command("lanes", "show", lane, "-o", "json").want(t, 0), &one)
	if one.Lane.Count != 1234 || one.Lane.Opening == 0 || len(one.Lane.SourceTopicID) != 32 || one.Lane.Gaps == nil {
		t.Errorf("the lane is %+v", one)
	}

	s.command("gaps").want(t, 0).says(t, "FROM")
	rows(t, s.command("gaps", "-o", "csv"), 0)
	s.command("gaps", "-o", "json").want(t, 0).says(t, `"gaps": []`)
	s.command("validate").want(t, 0).says(t, "cluster primary", "cluster backup", "has the right settings", "1 topic with 2 partitions")
	s.command("validate", "-o", "json").want(t, 0).says(t, `"schema": 1`, `"checks"`)
	rows(t, s.command("validate", "-o", "csv"), 7) // permissions of both clusters are among them
	s.refusals(t, lane)
	s.overHTTP(t)
	s.stop()
	s.command("status").want(t, 1).says(t, "lockstep run", "--server")
	s.command("lag").want(t, 1)
	s.command("lanes", "list").want(t, 1)
	s.command("gaps").want(t, 0).says(t, "no service answers")
}

// refusals are command lines that a person gets wrong.
func (s *service) refusals(t *testing.T, lane string) {
	t.Helper()
	for _, args := range [][]string{
		{"status", "-o", "xml"}, {"lanes", "show", lane, "-o", "csv"}, {"lanes", "show", "dr/orders/0"}, {"lanes", "show"},
		{"status", "--nonsense"}, {"lag", "surplus"}, {"translate"}, {"translate", "--link", s.link()},
		{"translate", "--link", s.link(), "--stdin", "--topic", "t"}, {"gaps", "--link", "no-such"}, {"lag", "--link", "no-such"},
		{"translate", "--link", s.link(), "--topic", "t", "--partition", "x", "--offset", "1"},
	} {
		if r := s.command(args...); r.code != 2 || r.stderr == "" || r.stdout != "" {
			t.Errorf("want exit code 2 and a reason, and no data: %s", r)
		}
	}
	lockstep(t, "no-such-command").want(t, 2)
	s.command("lanes", "show", s.link()+":no-such/0").want(t, 2).says(t, "no-such")
	lockstep(t, "run", "-c", "/no/such/file").want(t, 2).says(t, "/no/such/file")
	lockstep(t, "run").want(t, 2).says(t, "lockstep.yaml", "-c")
}

// overHTTP looks at what scrapers and orchestrators look at.
func (s *service) overHTTP(t *testing.T) {
	t.Helper()
	base := "http://" + s.conf.listen
	for path, says := range map[string]string{"/healthz": "ok", "/readyz": "ready", "/api/v1/status": `"schema":1`} {
		if text := httpGet(t, base+path); !strings.Contains(text, says) {
			t.Errorf("%s answers %q", path, text)
		}
	}
	for name, want := range map[string]float64{
		"lockstep_copied_records_total": 1234, "lockstep_lane_lag_records": 0, "lockstep_lane_source_end_offset": 1234,
		"lockstep_lane_target_end_offset": 1234, "lockstep_build_info": 1,
	} {
		if got := s.metric(name, onlyFirst(name)...); got != want {
			t.Errorf("metric %s is %v, want %v", name, got, want)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/api/v1/status", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "evil.example"
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("a request for another host is answered %d", resp.StatusCode)
	}
}

// onlyFirst chooses partition 0 of a lane's metric.
func onlyFirst(name string) []string {
	if strings.Contains(name, "_lane_") {
		return []string{`partition="0"`}
	}
	return nil
}

func decode(t testing.TB, r result, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.stdout), into); err != nil {
		t.Fatalf("%v: %s", err, r)
	}
}

// rows checks that a command prints CSV with a header and n rows.
func rows(t *testing.T, r result, n int) {
	t.Helper()
	r.want(t, 0)
	got, err := csv.NewReader(strings.NewReader(r.stdout)).ReadAll()
	if err != nil || len(got) != n+1 {
		t.Errorf("want a header and %d rows, have %d, %v: %s", n, len(got), err, r)
	}
}

// A configuration with secrets: they come from a variable, a file, or stand there, and are shown nowhere.
func TestCommands_ConfigShow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "pw"), []byte("from-a-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "lockstep.yaml")
	text := `clusters:
  primary: {brokers: ["127.0.0.1:1"], tls: {}, sasl: {mechanism: plain, username: u, password: "file:` + filepath.Join(dir, "pw") + `"}}
  backup: {brokers: ["127.0.0.1:2"], tls: {}, sasl: {mechanism: scram-sha-512, username: u, password: it-stands-here}}
links:
  - {name: dr, source: primary, target: backup, topics: {include: [".*"]}}
api: {listen: "` + freeAddress(t) + `"}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"config", "show"}, {"validate"}, {"run", "--once"}} {
		r := lockstep(t, append(command, "-c", file)...)
		for _, secret := range []string{"from-a-file", "it-stands-here"} {
			if strings.Contains(r.stdout+r.stderr, secret) {
				t.Errorf("a secret is shown: %s", r)
			}
		}
	}
	shown := lockstep(t, "config", "show", "-c", file).want(t, 0).says(t, "[redacted]", "data_dir: ./data", "on_gap: continue", "isolation: read_committed")
	again := filepath.Join(dir, "again.yaml")
	if err := os.WriteFile(again, []byte(shown.stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	lockstep(t, "config", "show", "-c", again) // what is shown is a configuration, but for the secrets
	lockstep(t, "config", "reference").want(t, 0).says(t, "on_gap", "data_dir", "bytes_per_second")
	wrong := filepath.Join(dir, "wrong.yaml")
	if err := os.WriteFile(wrong, []byte(strings.Replace(text, "include", "inculde", 1)+"apii: {listen: x}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	lockstep(t, "config", "show", "-c", wrong).want(t, 2).says(t, "wrong.yaml:5", "include", "apii", "wrong.yaml:7")
}

// run --once copies what is there and ends; again, it finds nothing to do and moves nothing.
func TestCommands_RunOnce(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	some := sequel()
	topics := []string{
		kafkatest.Topic(t, src, kafkatest.TopicOptions{Partitions: 3}), kafkatest.Topic(t, src), kafkatest.Topic(t, src),
	}
	kafkatest.Produce(t, src, topics[0], 0, some(2000), kafkatest.ProduceOptions{BatchRecords: 100})
	kafkatest.Produce(t, src, topics[0], 1, some(100), kafkatest.ProduceOptions{Txn: kafkatest.Commit})
	kafkatest.Produce(t, src, topics[1], 0, some(100), kafkatest.ProduceOptions{Txn: kafkatest.Abort}) // topics[2] is empty
	s := newService(t, linkBetween(src, dst, topics))
	s.once(0)
	kafkatest.MustEqual(t, src, dst, same(topics...))
	was := logEnds(t, dst, topics...)
	s.once(0)
	was.unchanged(t, logEnds(t, dst, topics...))
	kafkatest.Produce(t, src, topics[2], 0, some(100))
	s.once(0)
	kafkatest.MustEqual(t, src, dst, same(topics...))
	atMostMarkers(t, dst, topics, 0)
}

// A cluster that is not there: the reason, the address, and an end.
func TestCommands_ClusterNotThere(t *testing.T) {
	t.Parallel()
	src, _ := pair(t)
	c := linkBetween(src, src, []string{"some-topic"})
	c.backup = []string{freeAddress(t)}
	s := newService(t, c)
	for _, args := range [][]string{{"validate"}, {"run", "--once"}, {"gaps"}, {"translate", "--link", s.link(), "--topic", "t", "--partition", "0", "--offset", "0"}} {
		r := s.command(args...)
		if r.code != 1 && r.code != 4 || !strings.Contains(r.stdout+r.stderr, "backup") || !strings.Contains(r.stdout+r.stderr, c.backup[0]) {
			t.Errorf("want exit code 1 or 4, the cluster and its address: %s", r)
		}
	}
}
