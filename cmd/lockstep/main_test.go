package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lockstep/api"
	"lockstep/internal/model"
)

// TestMain lets this test binary be the lockstep program too: the demonstration starts its own executable as a service,
// and time zones need a process of their own.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "run" || os.Args[1] == "offsets") {
		os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// lockstep runs one command line and returns its output and exit code.
func lockstep(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(args, &out, &errs)
	return out.String(), errs.String(), code
}

func TestDemo_OnceHoldsEveryCheck(t *testing.T) {
	t.Parallel()
	out, errs, code := lockstep(t, "demo", "--once")
	if code != exitOK || !strings.Contains(out, "none missing, none twice") || !strings.Contains(out, "every check held") {
		t.Fatalf("exit code %d\n%s\n%s", code, out, errs)
	}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.yaml")
	if err := os.WriteFile(bad, []byte("clusters: {a: {brokerz: [x]}}\nlinks: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"unknown command":            {[]string{"nonsense"}, exitUsage, "nonsense"},
		"unknown command of lanes":   {[]string{"lanes", "nonsense"}, exitUsage, "nonsense"},
		"unknown flag":               {[]string{"status", "--nonsense"}, exitUsage, "nonsense"},
		"unknown output":             {[]string{"status", "-o", "xml"}, exitUsage, "table, json, csv"},
		"no configuration":           {[]string{"run"}, exitUsage, "lockstep.yaml"},
		"faults of the file":         {[]string{"run", "-c", bad}, exitUsage, "bad.yaml:1"},
		"file that is not there":     {[]string{"validate", "-c", filepath.Join(dir, "none.yaml")}, exitUsage, "none.yaml"},
		"translate without offset":   {[]string{"translate", "--link", "dr", "--topic", "t"}, exitUsage, "--offset"},
		"translate two ways":         {[]string{"translate", "--link", "dr", "--topic", "t", "--stdin"}, exitUsage, "exclude each other"},
		"translate groups two ways":  {[]string{"translate", "--link", "dr", "--group", "g", "--all-groups"}, exitUsage, "exclude each other"},
		"translate a nameless group": {[]string{"translate", "--link", "dr", "--group", ""}, exitUsage, "--group"},
		"two groups for one job":     {[]string{"translate", "--link", "dr", "--group", "a", "--group", "b", "-o", "flink"}, exitUsage, "one --group"},
		"all groups for one job":     {[]string{"translate", "--link", "dr", "--all-groups", "-o", "spark"}, exitUsage, "one --group"},
		"translate before 0":         {[]string{"translate", "--link", "dr", "--topic", "t", "--partition", "0", "--offset", "-1"}, exitUsage, "begin at 0"},
		"lag of one and of all":      {[]string{"lag", "--groups", "--group", "g"}, exitUsage, "exclude each other"},
		"lag with a word too much":   {[]string{"lag", "30s"}, exitUsage, "30s"},
		"lag with a wrong flag":      {[]string{"lag", "--nonsense"}, exitUsage, "nonsense"},
		"server misspelt":            {[]string{"status", "--server", "junk"}, exitUsage, "http://host:port"},
		"lane misspelt":              {[]string{"lanes", "show", "dr.orders.3"}, exitUsage, "LINK:TOPIC/PARTITION"},
		"lane to retry misspelt":     {[]string{"lanes", "retry", "dr.orders.3", "--yes"}, exitUsage, "LINK:TOPIC/PARTITION"},
		"retry of nothing":           {[]string{"lanes", "retry", "--yes"}, exitUsage, "--all"},
		"retry all of no link":       {[]string{"lanes", "retry", "--all", "--yes"}, exitUsage, "--link"},
		"retry some and all":         {[]string{"lanes", "retry", "dr:orders/3", "--link", "dr", "--all", "--yes"}, exitUsage, "not both"},
		"retry of a link":            {[]string{"lanes", "rebuild", "--link", "dr", "--yes"}, exitUsage, "--all"},
		"skip to nowhere":            {[]string{"lanes", "skip", "dr:orders/3", "--yes"}, exitUsage, "--to"},
		"skip of two":                {[]string{"lanes", "skip", "dr:orders/3", "dr:orders/4", "--to", "1"}, exitUsage, "arg"},
		"topic misspelt":             {[]string{"topics", "accept", "orders", "--yes"}, exitUsage, "LINK:TOPIC"},
		"adopt from the middle":      {[]string{"topics", "adopt", "dr:orders", "--from", "middle"}, exitUsage, "earliest or latest"},
		"change as CSV":              {[]string{"links", "pause", "dr", "-o", "csv"}, exitUsage, "table, json"},
		"change without time":        {[]string{"links", "pause", "dr", "--yes", "--timeout", "0s"}, exitUsage, "--timeout"},
		"remove without target":      {[]string{"links", "remove", "dr", "--yes"}, exitUsage, "--target"},
		"nobody to ask":              {[]string{"links", "pause", "dr", "--server", "http://127.0.0.1:1"}, exitUsage, "--yes"},
		"nobody takes the order":     {[]string{"links", "pause", "dr", "--yes", "--server", "http://127.0.0.1:1"}, exitFailed, "127.0.0.1:1"},
		"nobody listens":             {[]string{"status", "--server", "http://127.0.0.1:1"}, exitFailed, "no service answers at http://127.0.0.1:1 (connect"},
		"nobody to translate":        {[]string{"translate", "--link", "dr", "--topic", "t", "--partition", "0", "--offset", "1", "--server", "http://127.0.0.1:1"}, exitFailed, "-c FILE"},
		"version":                    {[]string{"version"}, exitOK, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, errs, code := lockstep(t, c.args...)
			if code != c.code || !strings.Contains(errs, c.says) {
				t.Fatalf("exit code %d, want %d; said %q, want %q in it", code, c.code, errs, c.says)
			}
		})
	}
}

// service starts the HTTP interface over a made-up backend.
func service(t *testing.T) string {
	t.Helper()
	srv := httptest.NewServer(api.Handler(cannedBackend{}, prometheus.NewRegistry(), nil))
	t.Cleanup(srv.Close)
	return srv.URL
}

// cannedBackend is a link with one lane that copies and one that stopped.
type cannedBackend struct{}

func ptr[T any](v T) *T { return &v }

func (cannedBackend) Links(ctx context.Context) ([]api.Link, error) {
	lanes, err := cannedBackend{}.Lanes(ctx, "dr")
	l := api.Link{Name: "dr", Source: "primary", Target: "backup", Owner: "me", Term: 7, Seal: "direct", SafeToFailOver: api.SafetyUnknown()}
	l.State, l.Lanes, l.RPO = api.Summarize(lanes)
	l.Groups = api.Counts{Total: 2, ByState: map[string]int{"synced": 1, "moved_on_target": 1}}
	return []api.Link{l}, err
}

func (cannedBackend) Lanes(context.Context, string) ([]api.Lane, error) {
	return []api.Lane{
		{Link: "dr", Topic: "orders", TargetTopic: "orders", State: "copying", SourceOffset: 1_234_567, TargetOffset: 1_234_000,
			LagRecords: ptr(int64(12)), LagSeconds: ptr(0.4), Term: 7, CopiedRecords: 1_234_000},
		{Link: "dr", Topic: "orders", Partition: 1, TargetTopic: "orders", State: "stopped", Reason: "too_large", Detail: "record at source offset 9",
			Remedy: "raise max.message.bytes", Since: time.Unix(1_700_000_000, 0).UTC(), SourceOffset: 9, TargetOffset: 9, Term: 7},
	}, nil
}

func (cannedBackend) Lane(context.Context, string, string, int32) (api.LaneDetail, error) {
	return api.LaneDetail{}, api.NotFound("lockstep lanes list shows the lanes", "no such lane")
}

func (cannedBackend) Groups(context.Context, string) ([]api.Group, error) {
	return []api.Group{
		{Link: "dr", Group: "billing", TargetGroup: "billing", Type: "classic", State: "synced", Partitions: api.Counts{Total: 12}, LagRecords: ptr(int64(1_234_567)),
			LagSeconds: ptr(3725.0), LagAtLeast: true, RecordsAgain: ptr(int64(0)), AgeSeconds: ptr(1.3)},
		{Link: "dr", Group: "a-service-with-a-long-name.and-a-suffix", TargetGroup: "x", Type: "consumer", State: "moved_on_target",
			Detail: "lockstep wrote 5, somebody else 9", Remedy: "lockstep groups accept x --link dr puts it where it stands on the source", Partitions: api.Counts{Total: 1}},
		{Link: "dr", Group: "console-consumer-1", State: "excluded"},
	}, nil
}

func (b cannedBackend) Topics(context.Context, string) ([]api.Topic, error) { return nil, nil }

func (b cannedBackend) Diff(context.Context, string, []string) (api.Diff, error) {
	return api.Diff{}, nil
}

func (b cannedBackend) Group(ctx context.Context, link, group string) (api.GroupDetail, error) {
	groups, _ := b.Groups(ctx, link)
	for _, g := range groups {
		if g.Group == group {
			return api.GroupDetail{Group: g, Positions: []api.GroupPosition{{Topic: "orders", TargetTopic: "orders", SourceOffset: ptr(int64(12345)),
				TranslatedOffset: ptr(int64(12339)), TargetOffset: ptr(int64(12339)), Translation: "exact", State: g.State, Detail: g.Detail, Remedy: g.Remedy}}}, nil
		}
	}
	return api.GroupDetail{}, api.NotFound("", "no group %q", group)
}

func (b cannedBackend) GroupHistory(ctx context.Context, link, group string) ([]api.GroupMoment, error) {
	g, err := b.Group(ctx, link, group)
	return []api.GroupMoment{{Link: link, Group: group, At: time.Unix(1_700_000_000, 0).UTC(), Positions: g.Positions}}, err
}

func (cannedBackend) Gaps(context.Context, string) ([]api.Gap, error) {
	return []api.Gap{{Link: "dr", Topic: "orders", From: 500, To: 800, Offsets: 300, Reason: "retention", At: time.Unix(1_700_000_000, 0).UTC()}}, nil
}

func (cannedBackend) Translate(_ context.Context, link string, req api.TranslateRequest) (out []api.Offset, err error) {
	for _, p := range req.Offsets {
		o := api.Offset{Link: link, Topic: p.Topic, Partition: p.Partition, SourceOffset: &p.Offset, State: api.OffsetUnknown}
		if p.Topic == "orders" {
			o.TargetTopic, o.TargetOffset, o.State = "orders", ptr(p.Offset-6), api.OffsetExact
		}
		out = append(out, o)
	}
	return out, nil
}

func (cannedBackend) Order(context.Context, string, model.Order) ([]model.OrderStep, error) {
	return nil, api.Refused("use another backend", "no orders here")
}

func (cannedBackend) Ready(context.Context) error { return nil }

func TestTables_FitATerminalAndNameWhatToDo(t *testing.T) {
	t.Parallel()
	url := service(t)
	for _, args := range [][]string{{"status"}, {"lag"}, {"gaps"}, {"lanes", "list"}, {"links", "list"}, {"links", "show", "dr"}} {
		out, errs, code := lockstep(t, append(args, "--server", url)...)
		if code != exitOK {
			t.Fatalf("%v: exit code %d: %s", args, code, errs)
		}
		for _, line := range strings.Split(out, "\n") {
			if len(line) > 120 {
				t.Errorf("%v: line of %d characters: %s", args, len(line), line)
			}
		}
		if strings.Contains(out, "\033") {
			t.Errorf("%v: colours although the output is no terminal", args)
		}
	}
	out, _, _ := lockstep(t, "status", "--server", url)
	for _, want := range []string{"too_large", "raise max.message.bytes", "record at source offset 9", "1 copying, 1 too_large"} {
		if !strings.Contains(out, want) {
			t.Errorf("status lacks %q:\n%s", want, out)
		}
	}
}

func TestJSON_CarriesItsSchema(t *testing.T) {
	t.Parallel()
	url := service(t)
	for _, args := range [][]string{{"status"}, {"lag"}, {"gaps"}, {"lanes", "list"}, {"links", "list"}, {"links", "show", "dr"}, {"version"},
		{"translate", "--link", "dr", "--topic", "orders", "--partition", "0", "--offset", "12345"}} {
		out, errs, code := lockstep(t, append(args, "-o", "json", "--server", url)...)
		var v struct{ Schema int }
		if err := json.Unmarshal([]byte(out), &v); err != nil || v.Schema != 1 || code != exitOK {
			t.Errorf("%v: exit code %d, %v, schema %d\n%s%s", args, code, err, v.Schema, out, errs)
		}
	}
}

func TestCSV_HasAHeadAndOneLineEach(t *testing.T) {
	t.Parallel()
	out, _, code := lockstep(t, "translate", "--link", "dr", "--topic", "orders", "--partition", "0", "--offset", "12345", "-o", "csv", "--server", service(t))
	want := "link,topic,partition,source_offset,target_topic,target_offset,state\ndr,orders,0,12345,orders,12339,exact\n"
	if code != exitOK || out != want {
		t.Fatalf("exit code %d, %q", code, out)
	}
}

func TestTranslate_WithoutAnswerIsSeen(t *testing.T) {
	t.Parallel()
	_, errs, code := lockstep(t, "translate", "--link", "dr", "--topic", "none", "--partition", "0", "--offset", "1", "--server", service(t))
	if code != exitFailed || !strings.Contains(errs, "no answer") {
		t.Fatalf("exit code %d, %q", code, errs)
	}
}

func TestMeter_RateAndTimeLeft(t *testing.T) {
	t.Parallel()
	var m meter
	t0 := time.Unix(1000, 0)
	m.line(totals{lanes: 4, behind: 100_000}, t0)
	var line string
	for i := int64(1); i <= 40; i++ {
		line = m.line(totals{lanes: 4, records: 1000 * i, bytes: 1 << 20 * i, behind: 100_000 - 1000*i}, t0.Add(time.Duration(i)*time.Second))
	}
	for _, want := range []string{"4 lanes", "40,000 copied (40 %)", "1024.0 KiB/s", "1m0s left"} {
		if !strings.Contains(line, want) {
			t.Errorf("%q lacks %q", line, want)
		}
	}
	if line := m.line(totals{lanes: 4, records: 100_000}, t0.Add(time.Minute)); line != "" {
		t.Errorf("caught up, and still shows %q", line)
	}
}

func TestStatus_TellsAConfigurationThatIsNotInForce(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		config *api.ConfigStatus
		want   string
	}{
		"no service of ours": {nil, ""},
		"in force":           {&api.ConfigStatus{Hash: "9f86"}, ""},
		"one fault": {&api.ConfigStatus{Failed: &api.ConfigFailure{At: at, Faults: []string{"f.yaml:3: x: unknown key"}}},
			"\nthe changed configuration is not in force, since 2026-11-30 12:00:00Z: f.yaml:3: x: unknown key\n"},
		"three faults": {&api.ConfigStatus{Failed: &api.ConfigFailure{At: at, Faults: []string{"one", "two", "three"}}},
			"\nthe changed configuration is not in force, since 2026-11-30 12:00:00Z: one (and 2 more; the log and -o json have all)\n"},
		"waits": {&api.ConfigStatus{Pending: []api.ConfigChange{{Key: "node.id"}, {Key: "log.format"}}},
			"\nin force after the next start: node.id, log.format\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			(&app{stdout: &out}).configTroubles(c.config)
			if out.String() != c.want {
				t.Errorf("said %q, want %q", out.String(), c.want)
			}
		})
	}
}
