package main

import (
	"bytes"
	"encoding/csv"
	"strings"
	"testing"

	"lockstep/api"
	"lockstep/checkpoint"
)

func TestGroups_ListFits80Columns(t *testing.T) {
	t.Parallel()
	url := service(t)
	out, errs, code := lockstep(t, "groups", "list", "--server", url)
	if code != exitOK {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	for line := range strings.Lines(out) {
		if len(line) > 81 {
			t.Errorf("line of %d characters: %s", len(line), line)
		}
	}
	for _, want := range []string{"GROUP", "LAG-TIME", "AGAIN", "billing", "1234567", ">1h2m5s", "moved_on_target", "a-service-wit"} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "console-consumer") {
		t.Errorf("a group that is left out is shown unasked:\n%s", out)
	}
}

func TestGroups_ListChoosesAndSorts(t *testing.T) {
	t.Parallel()
	url := service(t)
	for args, want := range map[string]string{
		"--all":                                 "a-service-with-a-long-name.and-a-suffix billing console-consumer-1",
		"--sort state":                          "a-service-with-a-long-name.and-a-suffix billing",
		"--sort lag":                            "billing a-service-with-a-long-name.and-a-suffix",
		"--sort age":                            "billing a-service-with-a-long-name.and-a-suffix",
		"--state excluded":                      "console-consumer-1",
		"--state synced --state excluded":       "billing console-consumer-1",
		"--link dr":                             "a-service-with-a-long-name.and-a-suffix billing",
		"--all --sort state --state not_copied": "",
	} {
		out, errs, code := lockstep(t, append([]string{"groups", "list", "-o", "csv", "--server", url}, strings.Fields(args)...)...)
		if want == "" {
			if code != exitUsage || !strings.Contains(errs, "not_yet_copied") {
				t.Errorf("%s: exit code %d, %s", args, code, errs)
			}
			continue
		}
		rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
		if code != exitOK || err != nil {
			t.Fatalf("%s: exit code %d, %v: %s", args, code, err, errs)
		}
		var names []string
		for _, r := range rows[1:] {
			names = append(names, r[1])
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s lists %s; want %s", args, got, want)
		}
	}
	for _, bad := range []string{"--sort size", "--state nope", "--link other"} {
		if _, errs, code := lockstep(t, append([]string{"groups", "list", "--server", url}, strings.Fields(bad)...)...); code != exitUsage || errs == "" {
			t.Errorf("%s: exit code %d, %q", bad, code, errs)
		}
	}
}

func TestGroups_NoneIsExplained(t *testing.T) {
	t.Parallel()
	out, errs, code := lockstep(t, "groups", "list", "--state", "lane_held", "--server", service(t))
	if code != exitOK || strings.Count(out, "\n") != 1 || !strings.Contains(errs, "1 excluded, 1 moved_on_target, 1 synced") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
}

func TestGroups_ShowAndHistory(t *testing.T) {
	t.Parallel()
	url := service(t)
	out, errs, code := lockstep(t, "groups", "show", "billing", "--server", url)
	for _, want := range []string{"dr:billing", "synced", "12345", "12339", "orders"} {
		if code != exitOK || !strings.Contains(out, want) {
			t.Errorf("exit code %d, lacks %q: %s%s", code, want, out, errs)
		}
	}
	out, errs, code = lockstep(t, "groups", "history", "billing", "--server", url)
	if code != exitOK || !strings.Contains(out, "2023-11-14T22:13:20Z") || !strings.Contains(out, "12345") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	for _, command := range []string{"show", "history"} {
		if _, errs, code := lockstep(t, "groups", command, "nobody", "--server", url); code != exitUsage || !strings.Contains(errs, "groups list --all") {
			t.Errorf("%s of no group: exit code %d, %s", command, code, errs)
		}
	}
	if _, errs, code := lockstep(t, "groups", "accept", "billing", "--yes", "--server", url); code != exitUsage || !strings.Contains(errs, "--link") {
		t.Errorf("accept without a link: exit code %d, %s", code, errs)
	}
}

// What was seen at several positions is told once, and what is said of the group is not told again.
func TestGroups_ShowTellsOnce(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	a := &app{stdout: &out, output: "table"}
	same, other := api.GroupPosition{Topic: "orders", State: "lane_held", Detail: "the topic was made again", Remedy: "look"}, api.GroupPosition{Topic: "orders", State: "pending", Detail: strings.Repeat("words ", 30), Remedy: "by itself"}
	g := api.GroupDetail{Group: api.Group{Link: "dr", Group: "esc\x1b[31m", State: same.State, Detail: same.Detail, Remedy: same.Remedy, LagRecords: ptr(int64(7)), LagSeconds: ptr(30.0), LagAtLeast: true}}
	for i := range 5 {
		p := []api.GroupPosition{same, other}[i%2]
		p.Partition = int32(i)
		g.Positions = append(g.Positions, p)
	}
	if err := a.printGroups("esc", []api.GroupDetail{g}); err != nil {
		t.Fatal(err)
	}
	if strings.Count(out.String(), same.Detail) != 1 || !strings.Contains(out.String(), "orders/1, orders/3: pending") {
		t.Errorf("not told once:\n%s", out.String())
	}
	if !strings.Contains(out.String(), "7 records, >30s") || strings.Contains(out.String(), "\x1b") {
		t.Errorf("not at least so many seconds, or an escape character:\n%s", out.String())
	}
	for line := range strings.Lines(out.String()) {
		if len(line) > 81 {
			t.Errorf("line of %d characters: %s", len(line), line)
		}
	}
}

// Names of groups are chosen by anybody who may commit: none reaches the terminal as a command to it, nor breaks a table.
func TestTables_NamesCannotSteerTheTerminal(t *testing.T) {
	t.Parallel()
	const name = "a\tb\nc\x1b[2J\u009b31m"
	var out bytes.Buffer
	tab := &table{head: []string{"GROUP", "LAG"}}
	tab.add(name, "1")
	if err := tab.write(&out); err != nil {
		t.Fatal(err)
	}
	if want := "GROUP                      LAG\n\"a\\tb\\nc\\x1b[2J\\u009b31m\"  1\n"; out.String() != want {
		t.Errorf("table %q; want %q", out.String(), want)
	}
	_, errs, _ := lockstep(t, "lag", "--group", name, "--server", service(t))
	for _, text := range []string{errs, harmless(name), checkpoint.Remedy(checkpoint.StateMovedOnTarget, "dr", name)} {
		if strings.ContainsAny(text, "\x1b\u009b") {
			t.Errorf("%q holds what a terminal acts upon", text)
		}
	}
}

// Without a service a position that was not followed is shown as that, and not as the last good one.
func TestOffline_ShowsWhatIsNotBelieved(t *testing.T) {
	t.Parallel()
	row := checkpoint.Row{Source: 14000, Translated: 13999, State: checkpoint.StateSynced}
	doubt(&row, &checkpoint.Suspicion{Source: 0, Why: "it went back"})
	if row.State != checkpoint.StateSuspectSource || row.Source != 0 || row.Detail != "it went back" || row.Translated != 13999 {
		t.Errorf("%+v", row)
	}
	moved := checkpoint.Row{Source: 14000, State: checkpoint.StateMovedOnTarget}
	if doubt(&moved, &checkpoint.Suspicion{}); moved.State != checkpoint.StateMovedOnTarget {
		t.Errorf("a worse state was hidden: %+v", moved)
	}
}
