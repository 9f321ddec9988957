package main

import (
	"encoding/csv"
	"strings"
	"testing"
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
