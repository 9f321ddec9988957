package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lockstep/api"
)

// lagBackend shows lanes and groups as a test wants them.
type lagBackend struct {
	cannedBackend
	link   api.Link
	lanes  []api.Lane
	groups []api.Group
	err    error
}

func (b lagBackend) Links(context.Context) ([]api.Link, error)         { return []api.Link{b.link}, b.err }
func (b lagBackend) Lanes(context.Context, string) ([]api.Lane, error) { return b.lanes, nil }

func (b lagBackend) Groups(context.Context, string) ([]api.Group, error) { return b.groups, nil }

func (b lagBackend) Group(_ context.Context, _, group string) (api.GroupDetail, error) {
	for _, g := range b.groups {
		if g.Group == group {
			return api.GroupDetail{Group: g, Positions: []api.GroupPosition{
				{Topic: "orders", State: "synced", LagRecords: ptr(int64(0)), LagSeconds: ptr(0.0)},
				{Topic: "orders", Partition: 1, State: "synced", LagRecords: g.LagRecords, LagSeconds: g.LagSeconds, LagAtLeast: g.LagAtLeast},
			}}, nil
		}
	}
	return api.GroupDetail{}, api.NotFound("lockstep groups list", "no such group")
}

func (b lagBackend) serve(t *testing.T) (url string) {
	t.Helper()
	s := httptest.NewServer(api.Handler(b, prometheus.NewRegistry(), nil))
	t.Cleanup(s.Close)
	return s.URL
}

func laneBehind(topic string, records int64, secs float64) api.Lane {
	return api.Lane{Link: "dr", Topic: topic, TargetTopic: topic, State: "copying", LagRecords: &records, LagSeconds: &secs}
}

func groupBehind(name string, records int64, secs float64) api.Group {
	return api.Group{Link: "dr", Group: name, State: "synced", LagRecords: &records, LagSeconds: &secs}
}

func deafLane() api.Lane {
	return api.Lane{Link: "dr", Topic: "deaf", State: "retrying", Reason: "not_authorized"}
}

func TestLag_WorstFirstAndUnknownBeforeIt(t *testing.T) {
	t.Parallel()
	alarmed := groupBehind("billing", 20_000, 75)
	alarmed.LagAtLeast = true
	alarmed.Alarms = []api.Alarm{{Kind: "lag", Severity: "critical"}, {Kind: "skew", Severity: "warning"}}
	url := lagBackend{link: api.Link{Name: "dr"},
		lanes: []api.Lane{laneBehind("orders", 3, 0.25), laneBehind("payments", 900, 12), deafLane()},
		groups: []api.Group{groupBehind("audit", 7, 1), alarmed, {Link: "dr", Group: "console", State: "excluded"},
			{Link: "dr", Group: "shared", State: "unsupported_type"}, {Link: "dr", Group: "new", State: "source_unreadable"}},
	}.serve(t)
	for _, c := range []struct{ args, want string }{
		{"lag", `LINK  TOPIC     PARTITION  STATE     RECORDS  SECONDS
dr    deaf      0          retrying  -        -
dr    payments  0          copying   900      12s
dr    orders    0          copying   3        0.2s
`},
		{"lag --top 2 -o csv", `link,topic,partition,state,records,seconds
dr,deaf,0,retrying,-,-
dr,payments,0,copying,900,12s
`},
		{"lag --groups", `LINK  GROUP    STATE              RECORDS  SECONDS  ALARMS
dr    new      source_unreadable  -        -
dr    billing  synced             20000    >1m15s   lag critical, skew warning
dr    audit    synced             7        1.0s
`},
		{"lag --group billing", `LINK  GROUP    TOPIC   PARTITION  STATE   RECORDS  SECONDS
dr    billing  orders  1          synced  20000    >1m15s
dr    billing  orders  0          synced  0        0.0s
`},
	} {
		out, errs, code := lockstep(t, append(strings.Fields(c.args), "--server", url)...)
		if code != exitOK || out != c.want {
			t.Errorf("%s: exit code %d: %s\n%s\nwant\n%s", c.args, code, errs, out, c.want)
		}
	}
	out, _, _ := lockstep(t, "lag", "--groups", "-o", "json", "--server", url)
	var answer api.LagAnswer
	if err := json.Unmarshal([]byte(out), &answer); err != nil || len(answer.Groups) != 3 || answer.Groups[0].Records != nil ||
		!answer.Groups[1].AtLeast || answer.Groups[1].Alarms[0].Kind != "lag" || answer.Schema != api.Schema {
		t.Errorf("%v: %s", err, out)
	}
	if _, errs, code := lockstep(t, "lag", "--group", "nobody", "--server", url); code != exitUsage || !strings.Contains(errs, `no group "nobody"`) {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

// What a monitoring system sees: one line first, and its exit code.
func TestLagCheck_LineAndExitCode(t *testing.T) {
	t.Parallel()
	dr := api.Link{Name: "dr", State: "copying"}
	more := groupBehind("billing", 10, 40)
	more.LagAtLeast = true
	moved := groupBehind("moved", 1_000_000, 9000)
	moved.State = "active_on_target"
	closed := deafLane()
	closed.State, closed.Reason = "closed", "source_deleted"
	lanes := []api.Lane{laneBehind("orders", 3, 0.25), closed}
	groups := []api.Group{groupBehind("audit", 120, 2), moved, {Link: "dr", Group: "shared", State: "unsupported_type"}}
	for name, c := range map[string]struct {
		b    lagBackend
		args string
		code int
		want string
	}{
		"records, ok": {lagBackend{link: dr, lanes: lanes, groups: groups}, "--warn 1000 --crit 10000", 0,
			"LAG OK - 1 lane at most 3 records behind, 0.2s; 1 group at most 120 records behind, 2.0s (warning above 1000 records, critical above 10000 records)" +
				" | lanes_records=3;1000;10000;0 lanes_seconds=0.25s;;;0 groups_records=120;1000;10000;0 groups_seconds=2s;;;0\n"},
		"seconds, ok": {lagBackend{link: dr, lanes: lanes, groups: groups}, "--warn 30000ms --crit 5m", 0,
			"LAG OK - 1 lane at most 3 records behind, 0.2s; 1 group at most 120 records behind, 2.0s (warning above 30s, critical above 5m)" +
				" | lanes_records=3;;;0 lanes_seconds=0.25s;30;300;0 groups_records=120;;;0 groups_seconds=2s;30;300;0\n"},
		"at the bound is no more than it": {lagBackend{link: dr, lanes: []api.Lane{laneBehind("orders", 10, 5)}}, "--warn 10 --crit 5s", 0,
			"LAG OK - 1 lane at most 10 records behind, 5.0s (warning above 10 records, critical above 5s) | lanes_records=10;10;;0 lanes_seconds=5s;;5;0\n"},
		"warning": {lagBackend{link: dr, lanes: lanes, groups: groups}, "--warn 100", 1,
			"LAG WARNING - group dr:audit: 120 records behind, for 2.0s, warning above 100 records" +
				" | lanes_records=3;100;;0 lanes_seconds=0.25s;;;0 groups_records=120;100;;0 groups_seconds=2s;;;0\n"},
		"critical first": {lagBackend{link: dr, lanes: lanes, groups: groups}, "--warn 100ms --crit 1s", 2,
			"LAG CRITICAL - group dr:audit: 120 records behind, for 2.0s, critical above 1s (and 1 more)" +
				" | lanes_records=3;;;0 lanes_seconds=0.25s;0.1;1;0 groups_records=120;;;0 groups_seconds=2s;0.1;1;0\n" +
				"STATUS    SUBJECT           DETAIL\n" +
				"CRITICAL  group dr:audit    120 records behind, for 2.0s, critical above 1s\n" +
				"WARNING   lane dr:orders/0  3 records behind, for 0.2s, warning above 100ms\n"},
		"only groups": {lagBackend{link: dr, lanes: []api.Lane{deafLane()}, groups: groups}, "--groups --crit 1000", 0,
			"LAG OK - 1 group at most 120 records behind, 2.0s (critical above 1000 records) | groups_records=120;;1000;0 groups_seconds=2s;;;0\n"},
		"worst first": {lagBackend{link: dr, groups: []api.Group{groupBehind("a", 20, 9), groupBehind("b", 30, 3)}}, "--groups --warn 10", 1,
			"LAG WARNING - group dr:b: 30 records behind, for 3.0s, warning above 10 records (and 1 more) | groups_records=30;10;;0 groups_seconds=9s;;;0\n" +
				"STATUS   SUBJECT     DETAIL\n" +
				"WARNING  group dr:b  30 records behind, for 3.0s, warning above 10 records\n" +
				"WARNING  group dr:a  20 records behind, for 9.0s, warning above 10 records\n"},
		"longest first": {lagBackend{link: dr, groups: []api.Group{groupBehind("b", 30, 3), groupBehind("a", 20, 9)}}, "--groups --crit 2s", 2, ""},
		"unknown lane is not ok": {lagBackend{link: dr, lanes: append([]api.Lane{deafLane()}, lanes...)}, "--crit 5m", 3,
			"LAG UNKNOWN - lane dr:deaf/0: lag is not known: not_authorized | lanes_records=U;;;0 lanes_seconds=U;;300;0\n"},
		"unknown group is not ok": {lagBackend{link: dr, lanes: lanes, groups: []api.Group{{Link: "dr", Group: "audit", State: "not_authorized"}}}, "--warn 1000", 3,
			"LAG UNKNOWN - group dr:audit: lag is not known: not_authorized" +
				" | lanes_records=3;1000;;0 lanes_seconds=0.25s;;;0 groups_records=U;1000;;0 groups_seconds=U;;;0\n"},
		"unknown hides no warning": {lagBackend{link: dr, lanes: []api.Lane{deafLane(), laneBehind("orders", 30, 1)}}, "--warn 10", 1,
			"LAG WARNING - lane dr:orders/0: 30 records behind, for 1.0s, warning above 10 records (and 1 more) | lanes_records=U;10;;0 lanes_seconds=U;;;0\n" +
				"STATUS   SUBJECT           DETAIL\n" +
				"WARNING  lane dr:orders/0  30 records behind, for 1.0s, warning above 10 records\n" +
				"UNKNOWN  lane dr:deaf/0    lag is not known: not_authorized\n"},
		"at least so long is not ok": {lagBackend{link: dr, lanes: lanes, groups: []api.Group{more}}, "--groups --crit 5m", 3,
			"LAG UNKNOWN - group dr:billing: 10 records behind, for at least 40s | groups_records=10;;;0 groups_seconds=40s;;300;0\n"},
		"at least too long": {lagBackend{link: dr, groups: []api.Group{more}}, "--groups --crit 30s", 2,
			"LAG CRITICAL - group dr:billing: 10 records behind, for at least 40s, critical above 30s | groups_records=10;;;0 groups_seconds=40s;;30;0\n"},
		"one group": {lagBackend{link: dr, groups: []api.Group{groupBehind("audit", 120, 2), groupBehind("late", 5000, 90)}}, "--group audit --warn 1000", 0,
			"LAG OK - 1 group at most 120 records behind, 2.0s (warning above 1000 records) | groups_records=120;1000;;0 groups_seconds=2s;;;0\n"},
		"no such group": {lagBackend{link: dr}, "--group nobody --warn 1000", 3, "LAG UNKNOWN - no group \"nobody\" that has lag: lockstep groups list --all shows the groups\n"},
		"no lanes":      {lagBackend{link: api.Link{Name: "dr", State: "not_owned"}}, "--warn 1000", 3, "LAG UNKNOWN - link dr: it has no lanes: not_owned\n"},
		"topic without lanes": {lagBackend{link: api.Link{Name: "dr", Problems: []api.TopicProblem{{Topic: "payments", Detail: "no CREATE"}}}, lanes: lanes}, "--warn 1000", 3,
			"LAG UNKNOWN - topic dr:payments: it is not copied: no CREATE | lanes_records=3;1000;;0 lanes_seconds=0.25s;;;0\n"},
		"groups not read": {lagBackend{link: api.Link{Name: "dr", GroupsUnread: "no DESCRIBE"}, lanes: lanes}, "--warn 1000", 3,
			"LAG UNKNOWN - groups of link dr: they are not known: no DESCRIBE | lanes_records=3;1000;;0 lanes_seconds=0.25s;;;0\n"},
		"no threshold":     {lagBackend{link: dr}, "--warn=", 3, "LAG UNKNOWN - --warn \"\": a number of records, such as 10000, or a duration with its unit, such as 30s or 5m\n"},
		"two choices":      {lagBackend{link: dr}, "--groups --group a --warn 1", 3, "LAG UNKNOWN - --groups and --group exclude each other\n"},
		"a word too much":  {lagBackend{link: dr}, "30s --warn 1", 3, "LAG UNKNOWN - \"30s\" is no flag (see lockstep lag --help)\n"},
		"no such flag":     {lagBackend{link: dr}, "--critical 1 --warn 1", 3, "LAG UNKNOWN - unknown flag: --critical\n"},
		"no such link":     {lagBackend{link: dr}, "--link nothing --warn 1", 3, "LAG UNKNOWN - no link \"nothing\": lockstep status lists the links\n"},
		"no unit":          {lagBackend{link: dr}, "--warn 10k", 3, "LAG UNKNOWN - --warn 10k: a number of records, such as 10000, or a duration with its unit, such as 30s or 5m\n"},
		"negative":         {lagBackend{link: dr}, "--crit -5", 3, "LAG UNKNOWN - --crit -5: a number of records, such as 10000, or a duration with its unit, such as 30s or 5m\n"},
		"upside down":      {lagBackend{link: dr}, "--warn 5m --crit 30s", 3, "LAG UNKNOWN - --warn 5m is above --crit 30s\n"},
		"service in ruins": {lagBackend{link: dr, err: errors.New("out of | order\nreally")}, "--warn 1", 3, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append(append([]string{"lag"}, strings.Fields(c.args)...), "--server", c.b.serve(t))
			out, errs, code := lockstep(t, args...)
			if code != c.code || c.want != "" && out != c.want {
				t.Errorf("exit code %d, want %d: %s\n%q\nwant\n%q", code, c.code, errs, out, c.want)
			}
			if line, _, _ := strings.Cut(out, "\n"); !strings.HasPrefix(line, "LAG "+pluginWord(c.code)+" - ") || strings.Count(line, "|") > 1 {
				t.Errorf("first line %q", line)
			}
		})
	}
}

func TestLagCheck_NobodyAnswers(t *testing.T) {
	t.Parallel()
	out, errs, code := lockstep(t, "lag", "--warn", "10", "--server", "http://127.0.0.1:1")
	if code != pluginUnknown || !strings.HasPrefix(out, "LAG UNKNOWN - no service answers") {
		t.Errorf("exit code %d: %q, %s", code, out, errs)
	}
}

func TestLagCheck_AsJSONAndCSV(t *testing.T) {
	t.Parallel()
	url := lagBackend{link: api.Link{Name: "dr"}, lanes: []api.Lane{laneBehind("orders", 3, 0.25)}, groups: []api.Group{groupBehind("audit", 120, 2)}}.serve(t)
	out, _, code := lockstep(t, "lag", "--warn", "10", "--crit", "1m", "-o", "json", "--server", url)
	var answer api.LagAnswer
	if err := json.Unmarshal([]byte(out), &answer); err != nil || code != pluginWarning || answer.Check == nil {
		t.Fatalf("exit code %d, %v: %s", code, err, out)
	}
	if c := answer.Check; c.Status != "WARNING" || c.Code != code || c.Warn != "10 records" || c.Crit != "1m" || len(c.Findings) != 1 || c.Findings[0].Subject != "group dr:audit" {
		t.Errorf("check %+v", *c)
	}
	out, _, code = lockstep(t, "lag", "--warn", "10", "-o", "csv", "--server", url)
	if want := "status,subject,detail\nWARNING,group dr:audit,\"120 records behind, for 2.0s, warning above 10 records\"\n"; out != want || code != pluginWarning {
		t.Errorf("exit code %d: %q", code, out)
	}
}

func TestStatus_ShowsTheWorstAlarms(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	var groups []api.Group
	for i, severity := range []string{"warning", "critical", "warning", "warning", "critical"} {
		g := groupBehind("group-"+string(rune('a'+i)), 1, 1)
		g.Alarms = []api.Alarm{{Kind: "stalled", Severity: severity, Detail: "stands still", Since: at.Add(-time.Duration(i) * time.Minute)}}
		groups = append(groups, g)
	}
	out, errs, code := lockstep(t, "status", "--server", lagBackend{link: api.Link{Name: "dr"}, groups: groups}.serve(t))
	want := `
dr: group group-e: stalled critical, since 2026-11-30 11:56:00Z
  stands still

dr: group group-b: stalled critical, since 2026-11-30 11:59:00Z
  stands still

dr: group group-d: stalled warning, since 2026-11-30 11:57:00Z
  stands still

dr: 2 more alarms of groups
  lockstep lag --groups --link dr
`
	if code != exitOK || !strings.HasSuffix(out, want) {
		t.Errorf("exit code %d: %s\n%s", code, errs, out)
	}
}
