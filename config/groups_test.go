package config

import (
	"strings"
	"testing"
)

func TestGroups_Excludes(t *testing.T) {
	t.Parallel()
	defaults := []string{"console-consumer-.*", "connect-.*", "__.*"}
	for _, c := range []struct {
		name             string
		include, exclude []string
		group, why       string // why is part of the reason; "" is kept
	}{
		{"all", []string{".*"}, defaults, "billing", ""},
		{"console consumer", []string{".*"}, defaults, "console-consumer-1", `groups.exclude "console-consumer-.*" matches`},
		{"connect", []string{".*"}, defaults, "connect-sink", `"connect-.*"`},
		{"internal", []string{".*"}, defaults, "__x", `"__.*"`},
		{"own, whatever is included", []string{".*", `lockstep\.dr`}, nil, "lockstep.dr", "lockstep's own"},
		{"near own", []string{".*"}, nil, "lockstep-reader", ""},
		{"nothing included", nil, nil, "billing", "no pattern of groups.include"},
		{"whole names only", []string{"bill"}, nil, "billing", "no pattern"},
		{"exclude is for whole names", []string{".*"}, []string{"bill"}, "billing", ""},
		{"alternation stays inside", []string{"a|billing"}, nil, "billing", ""},
		{"any character", []string{".*"}, nil, "a b/ü", ""},
		{"line break", []string{"(?s).*"}, nil, "a\nb", ""},
		{"line break, by the default", []string{".*"}, defaults, "a\nb", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f, err := Groups{Include: c.include, Exclude: c.exclude}.Filter()
			if err != nil {
				t.Fatal(err)
			}
			why := f.Excludes(c.group)
			if (why == "") != (c.why == "") || !strings.Contains(why, c.why) {
				t.Errorf("Excludes(%q) = %q; want %q", c.group, why, c.why)
			}
		})
	}
}

func TestGroups_FilterNamesABadPattern(t *testing.T) {
	t.Parallel()
	for _, g := range []Groups{{Include: []string{"("}}, {Exclude: []string{"x", "("}}} {
		if _, err := g.Filter(); err == nil || !strings.Contains(err.Error(), `"("`) {
			t.Errorf("error is %v", err)
		}
	}
}

func TestGroups_Target(t *testing.T) {
	t.Parallel()
	for rename, want := range map[string]string{"": "billing", "{group}": "billing", "dr-{group}.x": "dr-billing.x"} {
		f, err := Groups{Rename: rename}.Filter()
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Target("billing"); got != want {
			t.Errorf("rename %q: %q, want %q", rename, got, want)
		}
	}
	f, _ := Groups{Rename: "dr-{group}"}.Filter()
	if got := f.Target("{group}"); got != "dr-{group}" {
		t.Errorf("a group called like the variable became %q", got)
	}
}
