package config

import (
	"strings"
	"testing"
)

func link(name, source, target string, include ...string) Link {
	return Link{Name: name, Source: source, Target: target, Topics: Topics{Include: include, Rename: "{topic}"}}
}

func TestLink_Selects(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name             string
		include, exclude []string
		topic, why       string // why is part of the reason; "" is selected
	}{
		{"all", []string{".*"}, nil, "orders", ""},
		{"none", nil, nil, "orders", "no pattern"},
		{"whole names only", []string{"order"}, nil, "orders", "no pattern"},
		{"whole names only, at the start", []string{"rders"}, nil, "orders", "no pattern"},
		{"alternation stays inside", []string{"a|orders"}, nil, "orders", ""},
		{"alternation does not leak", []string{"a|b"}, nil, "ab", "no pattern"},
		{"second pattern", []string{"x", "or.*"}, nil, "orders", ""},
		{"flags of one pattern stay there", []string{"(?i)X", "orders"}, nil, "ORDERS", "no pattern"},
		{"exclude wins", []string{"orders"}, []string{"ord.*"}, "orders", `topics.exclude "ord.*" matches`},
		{"exclude is for whole names", []string{"orders"}, []string{"ord"}, "orders", ""},
		{"internal", []string{".*"}, nil, "__team", `(__.*); to copy it, name it literally`},
		{"internal by a narrow pattern", []string{"__team.*"}, nil, "__team", `(__.*)`},
		{"internal by name", []string{"__team"}, nil, "__team", ""},
		{"internal by quoted name", []string{`__team\.x`}, nil, "__team.x", ""},
		{"internal by unquoted name", []string{`__team.x`}, nil, "__team.x", ""},
		{"unquoted name names only itself", []string{`__team.x`}, nil, "__team-x", `(__.*)`},
		{"any case is no name", []string{`(?i)__team`}, nil, "__team", `(__.*)`},
		{"internal by name, excluded", []string{"__team"}, []string{"__.*"}, "__team", "topics.exclude"},
		{"own state", []string{".*"}, nil, "lockstep.dr.state", `(lockstep\..*)`},
		{"near own state", []string{".*"}, nil, "lockstepper", ""},
		{"mm2", []string{".*"}, nil, "mm2-offset-syncs.b.internal", `(mm2-.*)`},
		{"mm2 of another separator", []string{".*"}, nil, "mm2-offset-syncs-b-internal", `(mm2-.*)`},
		{"checkpoints", []string{".*"}, nil, "a.checkpoints.internal", `(.*[-.]internal)`},
		{"connect", []string{".*"}, nil, "connect-internal", `(.*[-.]internal)`},
		{"internal inside a name", []string{".*"}, nil, "internal.orders", ""},
		{"heartbeats", []string{".*"}, nil, "heartbeats", `(heartbeats)`},
		{"heartbeats by name", []string{"heartbeats"}, nil, "heartbeats", ""},
		{"other heartbeats", []string{".*"}, nil, "sensors.heartbeats", ""},
		{"broker's", []string{".*"}, nil, "__consumer_offsets", "belongs to the brokers"},
		{"broker's by name", []string{"__transaction_state"}, nil, "__transaction_state", "belongs to the brokers"},
		{"bad pattern", []string{"("}, nil, "orders", "not valid"},
		{"bad exclude", []string{".*"}, []string{"("}, "orders", "not valid"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := Link{Topics: Topics{Include: c.include, Exclude: c.exclude}}
			ok, why := l.Selects(c.topic)
			if ok != (c.why == "") || !strings.Contains(why, c.why) || ok != (why == "") {
				t.Errorf("Selects(%q) = %v, %q; want the reason %q", c.topic, ok, why, c.why)
			}
		})
	}
}

func TestLink_SelectsNoTooLongTarget(t *testing.T) {
	t.Parallel()
	l := link("l", "a", "b", ".*")
	l.Topics.Rename = "x.{topic}"
	if ok, why := l.Selects(strings.Repeat("t", MaxTopicName-2)); !ok {
		t.Errorf("a target name of %d characters is refused: %s", MaxTopicName, why)
	}
	if ok, why := l.Selects(strings.Repeat("t", MaxTopicName-1)); ok || !strings.Contains(why, "250 characters") {
		t.Errorf("a target name of 250 characters: %v, %q", ok, why)
	}
}

// A copy of a loaded link whose patterns are changed must not go on with the old ones.
func TestLink_SelectsByItsPresentPatterns(t *testing.T) {
	t.Parallel()
	c, err := Load(Source{File: "testdata/smallest.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	l := c.Links[0]
	if l.selector == nil {
		t.Fatal("Load did not compile the patterns")
	}
	l.Topics.Include = []string{"a"}
	if ok, _ := l.Selects("orders"); ok {
		t.Error("the old include is in force")
	}
	l = c.Links[0]
	l.Topics.Exclude = []string{"orders"}
	if ok, _ := l.Selects("orders"); ok {
		t.Error("the old exclude is in force")
	}
}

func TestLink_TargetTopic(t *testing.T) {
	t.Parallel()
	for rename, want := range map[string]string{"": "orders", "{topic}": "orders", "staging.{topic}": "staging.orders", "{topic}-copy": "orders-copy"} {
		if got := (Link{Topics: Topics{Rename: rename}}).TargetTopic("orders"); got != want {
			t.Errorf("rename %q gives %q, want %q", rename, got, want)
		}
	}
}

func TestLink_Equal(t *testing.T) {
	t.Parallel()
	c, err := Load(Source{File: "testdata/everything.yaml", Env: []string{"PW=x"}})
	if err != nil {
		t.Fatal(err)
	}
	a, b := c.Links[0], c.Links[0]
	b.selector = nil
	if !a.Equal(b) {
		t.Error("links differ by what Load compiled")
	}
	b.Topics.Include = []string{"other"}
	if a.Equal(b) {
		t.Error("links with other topics are equal")
	}
}

func TestConfigs_Filter(t *testing.T) {
	t.Parallel()
	follows, err := Configs{Sync: true, Exclude: []string{`retention\..*`, "cleanup"}}.Filter()
	if err != nil {
		t.Fatal(err)
	}
	for setting, want := range map[string]bool{"retention.ms": false, "local.retention.ms": true, "cleanup.policy": true, "cleanup": false} {
		if follows(setting) != want {
			t.Errorf("%s follows = %v", setting, !want)
		}
	}
	if off, err := (Configs{}).Filter(); err != nil || off("retention.ms") {
		t.Errorf("a setting follows although sync is off (%v)", err)
	}
	if _, err := (Configs{Exclude: []string{"("}}).Filter(); err == nil {
		t.Error("a bad pattern gives no error")
	}
}

// What a link in the other direction writes for MirrorMaker 2's readers does not come back.
func TestLink_SelectsNothingOfTheOtherDirection(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		separator, topic string
		selects          bool
	}{
		{".", "primary.heartbeats", false},
		{"", "primary.heartbeats", false},
		{"_", "primary_heartbeats", false},
		{"_", "primary_checkpoints_internal", false},
		{"_", "primary.heartbeats", true},
		{".", "orders.heartbeats", true},
		{".", "backup.heartbeats", true},
	} {
		l := link("back", "backup", "primary", ".*")
		l.MirrorMaker.Separator = c.separator
		if ok, why := l.Selects(c.topic); ok != c.selects {
			t.Errorf("separator %q: selects %s: %t (%s), want %t", c.separator, c.topic, ok, why, c.selects)
		}
		l.Topics.Include = append(l.Topics.Include, c.topic)
		if ok, why := l.Selects(c.topic); !ok {
			t.Errorf("separator %q: %s is not selected by its name: %s", c.separator, c.topic, why)
		}
	}
}
