package grants

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep/config"
)

// everything is a link with all that can be switched on.
func everything(include ...string) config.Link {
	return config.Link{
		Name: "dr", Source: "primary", Target: "backup",
		Topics:  config.Topics{Include: include},
		Configs: config.Configs{Sync: true, Retention: "open"}, ACLs: config.ACLs{Sync: true}, Quotas: config.Quotas{Sync: true},
		Groups:      config.Groups{Sync: true, Include: []string{".*"}},
		MirrorMaker: config.MirrorMaker{Topics: true, OffsetSyncs: "source"},
	}
}

func onTarget() Own {
	return Own{State: "lockstep.dr.state", TransactionalID: "lockstep.dr", Written: []string{"heartbeats"}, Kept: []string{"primary.checkpoints.internal"}}
}

func texts(gs []Grant) (out []string) {
	for _, g := range gs {
		text := g.String()
		if g.Optional {
			text = "optional: " + text
		}
		out = append(out, text)
	}
	return out
}

func TestNeeded(t *testing.T) {
	t.Parallel()
	plain := config.Link{Name: "dr", Topics: config.Topics{Include: []string{"orders"}, Rename: "copy.{topic}"}}
	renamed := everything(`shop\..*`, "orders")
	renamed.Topics.Rename, renamed.Groups.Rename = "copy.{topic}", "dr.{group}"
	for name, tc := range map[string]struct {
		link config.Link
		side Side
		own  Own
		want []string
	}{
		"one topic, nothing else, source": {plain, Source, Own{Existing: []string{"orders"}}, []string{"READ on topic orders"}},
		"one topic, nothing else, target": {plain, Target, Own{State: "lockstep.dr.state", TransactionalID: "lockstep.dr", Old: true}, []string{
			"ALTER on topic copy.orders", "CREATE on topic copy.orders", "optional: DELETE on topic copy.orders", "DESCRIBE_CONFIGS on topic copy.orders",
			"READ on topic copy.orders", "WRITE on topic copy.orders",
			"ALTER_CONFIGS on topic lockstep.dr.state", "CREATE on topic lockstep.dr.state", "optional: DELETE on topic lockstep.dr.state",
			"READ on topic lockstep.dr.state", "WRITE on topic lockstep.dr.state",
			"WRITE on transactional-id lockstep.dr",
			"optional: ALTER on the cluster", "DESCRIBE_CONFIGS on the cluster", "IDEMPOTENT_WRITE on the cluster",
		}},
		"everything, source": {everything(".*"), Source, Own{Existing: []string{"orders"}, Kept: []string{"mm2-offset-syncs.backup.internal"}}, []string{
			"DESCRIBE_CONFIGS on all topics", "READ on all topics",
			"CREATE on topic mm2-offset-syncs.backup.internal", "WRITE on topic mm2-offset-syncs.backup.internal",
			"optional: DELETE on all groups", "DESCRIBE on all groups", "optional: READ on all groups",
			"DESCRIBE on the cluster", "DESCRIBE_CONFIGS on the cluster",
		}},
		"all topics cover those of the link itself": {everything(".*"), Target, onTarget(), []string{
			"ALTER on all topics", "ALTER_CONFIGS on all topics", "CREATE on all topics", "DELETE on all topics", "READ on all topics", "WRITE on all topics",
			"optional: DELETE on all groups", "READ on all groups",
			"WRITE on transactional-id lockstep.dr",
			"ALTER on the cluster", "ALTER_CONFIGS on the cluster",
		}},
		"renamed, with what a probe makes": {renamed, Target, Own{State: "copy.shop.state", TransactionalID: "lockstep.dr", Scratch: "lockstep.probe.", Existing: []string{"copy.orders", "copy.odd"}}, []string{
			"ALTER on topic copy.odd", "ALTER_CONFIGS on topic copy.odd", "CREATE on topic copy.odd", "DELETE on topic copy.odd", "READ on topic copy.odd", "WRITE on topic copy.odd",
			"ALTER on topic copy.orders", "ALTER_CONFIGS on topic copy.orders", "CREATE on topic copy.orders", "DELETE on topic copy.orders", "READ on topic copy.orders", "WRITE on topic copy.orders",
			"ALTER on topics that begin with copy.shop.", "ALTER_CONFIGS on topics that begin with copy.shop.", "CREATE on topics that begin with copy.shop.",
			"DELETE on topics that begin with copy.shop.", "READ on topics that begin with copy.shop.", "WRITE on topics that begin with copy.shop.",
			"CREATE on topics that begin with lockstep.probe.", "DELETE on topics that begin with lockstep.probe.",
			"DESCRIBE_CONFIGS on topics that begin with lockstep.probe.", "READ on topics that begin with lockstep.probe.", "WRITE on topics that begin with lockstep.probe.",
			"optional: DELETE on groups that begin with dr.", "READ on groups that begin with dr.",
			"WRITE on transactional-id lockstep.dr", "WRITE on transactional-ids that begin with lockstep.probe.",
			"ALTER on the cluster", "ALTER_CONFIGS on the cluster",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, texts(Needed(tc.link, tc.side, tc.own))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// No grant that is needed is covered by another one, whatever the settings, and every grant says what it is for.
func TestNeeded_IsMinimal(t *testing.T) {
	t.Parallel()
	includes := []string{".*", "orders", `shop\..*`, "a|b", "shop.orders"}
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		l := everything(includes[r.IntN(len(includes))], includes[r.IntN(len(includes))])
		l.Topics.Rename = []string{"", "{topic}", "copy.{topic}"}[r.IntN(3)]
		l.Configs.Sync, l.ACLs.Sync, l.Quotas.Sync, l.Groups.Sync = r.IntN(2) == 0, r.IntN(2) == 0, r.IntN(2) == 0, r.IntN(2) == 0
		l.Configs.Retention = []string{"open", "source"}[r.IntN(2)]
		for _, side := range []Side{Source, Target} {
			gs := Needed(l, side, onTarget())
			for i, g := range gs {
				if g.For == "" {
					t.Errorf("seed %d: %s is for nothing", seed, g)
				}
				for j, o := range gs {
					if i != j && o.covers(g) && (g.Optional || !o.Optional) {
						t.Errorf("seed %d: %s is covered by %s", seed, g, o)
					}
				}
			}
		}
	}
}

func TestNamesOf(t *testing.T) {
	t.Parallel()
	many := make([]string, 600)
	for i := range many {
		many[i] = fmt.Sprintf("t%d", i)
	}
	for pattern, want := range map[string]string{
		".*": "*", "orders": "orders", "orders.v1": "orders.v1", `orders\.v1`: "orders.v1", "orders.*": "orders…", `shop\.[a-z]+`: "shop.…",
		"a|b": "a b", "(orders|payments)\\..*": "orders.… payments.…", "orders(-dlq)?": "orders-dlq orders", "orders[12]": "orders1 orders2",
		"orders|orders.*": "orders…", "(?i)orders": "*", "x(?i:y)z": "x…", `\d+`: "*", "[a-z]rest": "*", "a+b": "a…", "^top$": "top",
		strings.Join(many, "|"): "t…",
	} {
		var got []string
		for _, n := range namesOf(pattern) {
			text := n.Text
			if n.Prefixed {
				text += "…"
			}
			got = append(got, text)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%.40s: %q, want %q", pattern, strings.Join(got, " "), want)
		}
	}
}

// Whatever a pattern matches is among the names that it gets.
func FuzzNamesOf(f *testing.F) {
	for _, p := range []string{".*", "a|b", "(x|y)z?", "or[de]+rs", "(?i)a"} {
		f.Add(p, "orders")
	}
	f.Fuzz(func(t *testing.T, pattern, topic string) {
		l := config.Link{Topics: config.Topics{Include: []string{pattern}}}
		if ok, _ := l.Selects(topic); !ok || plain(pattern) || !plain(topic) {
			return
		}
		if names := namesOf(pattern); !slices.ContainsFunc(names, func(n Name) bool { return n.covers(Name{Text: topic}) }) {
			t.Errorf("%q matches %q, which is not among %v", pattern, topic, names)
		}
	})
}

func TestLines(t *testing.T) {
	t.Parallel()
	a := Admin{Bootstrap: "10.0.0.1:9092,10.0.0.2:9092", Principal: "User:CN=it's me,O=Shop"}
	gs := []Grant{
		{Resource: Topic, Name: Name{Text: "a"}, Operation: Read}, {Resource: Topic, Name: Name{Text: "a"}, Operation: DescribeConfigs},
		{Resource: Topic, Name: Name{Text: "b"}, Operation: Read}, {Resource: Topic, Name: Name{Text: "b"}, Operation: DescribeConfigs},
		{Resource: Topic, Name: Name{Text: "shop.", Prefixed: true}, Operation: Read}, {Resource: Group, Name: all, Operation: Read},
		{Resource: Cluster, Operation: IdempotentWrite},
	}
	const begin = `kafka-acls.sh --bootstrap-server 10.0.0.1:9092,10.0.0.2:9092 --command-config admin.properties --add --allow-principal 'User:CN=it'\''s me,O=Shop' `
	want := []string{
		begin + `--operation Read --operation DescribeConfigs --topic a --topic b`,
		begin + `--operation Read --topic shop. --resource-pattern-type prefixed`,
		begin + `--operation Read --group '*'`,
		begin + `--operation IdempotentWrite --cluster`,
	}
	var got []string
	for _, l := range Lines(a, gs) {
		got = append(got, l.Command)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestLines_SayWhatFor(t *testing.T) {
	t.Parallel()
	topic := func(name string, op Operation, use string) Grant {
		return Grant{Resource: Topic, Name: Name{Text: name}, Operation: op, For: use}
	}
	got := Lines(Admin{}, []Grant{topic("a", Read, "x"), topic("a", Write, "y"), topic("a", Alter, "x"), topic("b", Read, "z"), topic("c", Read, "z")})
	if len(got) != 2 || got[0].For != "x; y" || got[1].For != "z" || !strings.HasSuffix(got[1].Command, "--topic b --topic c") {
		t.Errorf("%+v", got)
	}
}

func TestLines_ManyNames(t *testing.T) {
	t.Parallel()
	var gs []Grant
	for i := range 45 {
		gs = append(gs, Grant{Resource: Topic, Name: Name{Text: fmt.Sprint("t", i)}, Operation: Read})
	}
	if got := Lines(Admin{}, gs); len(got) != 3 || strings.Count(got[2].Command, "--topic ") != 5 {
		t.Errorf("%d lines: %v", len(got), got)
	}
}

func TestHint(t *testing.T) {
	t.Parallel()
	const begin = "kafka-acls.sh --bootstrap-server HOST:PORT --command-config admin.properties --add --allow-principal User:NAME "
	for got, want := range map[string]string{
		Hint("Write", Named(TransactionalID, Name{Text: "lockstep.my link"})):    "--operation Write --transactional-id 'lockstep.my link'",
		Hint("All", Named(Topic, Name{Text: "lockstep.probe.", Prefixed: true})): "--operation All --topic lockstep.probe. --resource-pattern-type prefixed",
		Hint("Alter", Named(Cluster, Name{})):                                    "--operation Alter --cluster",
	} {
		if got != begin+want {
			t.Error(got)
		}
	}
}
