package reset

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/checkpoint"
)

var t0 = time.Date(2024, 3, 31, 1, 30, 0, 0, time.UTC)

func key(topic string, partition int32) checkpoint.Key {
	return checkpoint.Key{Topic: topic, Partition: partition}
}

// group is an idle classic group that stands in orders/0, orders/1, … at the given offsets.
func group(name string, offsets ...int64) checkpoint.Group {
	g := checkpoint.Group{Name: name, Type: checkpoint.TypeClassic, State: "Empty", Offsets: map[checkpoint.Key]checkpoint.Committed{}}
	for p, off := range offsets {
		g.Offsets[key("orders", int32(p))] = checkpoint.Committed{Offset: off, LeaderEpoch: -1, Metadata: fmt.Sprintf("m%d", off)}
	}
	return g
}

func picture(gs ...checkpoint.Group) checkpoint.Picture {
	p := checkpoint.Picture{Groups: map[string]checkpoint.Group{}, Failed: map[string]error{}}
	for _, g := range gs {
		p.Groups[g.Name] = g
	}
	return p
}

func TestMake_Forms(t *testing.T) {
	t.Parallel()
	log := Log{Start: 10, Stable: 90, End: 100, AtTime: 50}
	for _, c := range []struct {
		name string
		spec Spec
		old  int64 // -1: none
		log  Log
		want int64
		says string
	}{
		{"to the start", Spec{Kind: ToEarliest}, 55, log, 10, ""},
		{"to the end", Spec{Kind: ToLatest}, 55, log, 100, ""},
		{"where it is", Spec{Kind: ToCurrent}, 55, log, 55, ""},
		{"where it is, below the start", Spec{Kind: ToCurrent}, 5, log, 10, "5 is before the log's start"},
		{"where it is, behind the end", Spec{Kind: ToCurrent}, 101, log, 100, "101 is behind the log's end"},
		{"where it is, nowhere", Spec{Kind: ToCurrent}, -1, log, 100, "no position: the end"},
		{"to an offset", Spec{Kind: ToOffset, N: 10}, 55, log, 10, ""},
		{"to the end's offset", Spec{Kind: ToOffset, N: 100}, -1, log, 100, ""},
		{"to an offset below", Spec{Kind: ToOffset, N: 9}, 55, log, 10, "9 is before the log's start"},
		{"to an offset behind", Spec{Kind: ToOffset, N: 101}, 55, log, 100, "101 is behind the log's end"},
		{"on", Spec{Kind: ShiftBy, N: 5}, 55, log, 60, ""},
		{"back", Spec{Kind: ShiftBy, N: -5}, 55, log, 50, ""},
		{"too far back", Spec{Kind: ShiftBy, N: math.MinInt64}, 55, log, 10, "before the log's start"},
		{"too far on", Spec{Kind: ShiftBy, N: math.MaxInt64}, 55, log, 100, "behind the log's end"},
		{"to a time", Spec{Kind: ToTime, At: t0}, 55, log, 50, ""},
		{"to a time behind all records", Spec{Kind: ToTime, At: t0}, 55, Log{Start: 10, End: 100, AtTime: -1}, 100, "no record at or after 2024-03-31T01:30:00Z: the end"},
		{"away", Spec{Kind: Delete}, 55, log, -1, ""},
	} {
		g := group("g")
		if c.old >= 0 {
			g = group("g", c.old)
		}
		p := Make(Input{Cluster: "backup", Groups: picture(g), Logs: map[checkpoint.Key]Log{key("orders", 0): c.log},
			Targets: []Target{{Group: "g", Key: key("orders", 0), Spec: c.spec}}})
		m := p.Moves[0]
		if m.Refused != "" || m.Old != c.old || m.New != c.want || (c.says == "") != (m.Note == "") || !strings.Contains(m.Note, c.says) {
			t.Errorf("%s: %+v, want %d and %q", c.name, m, c.want, c.says)
		}
	}
}

func TestMake_Metadata(t *testing.T) {
	t.Parallel()
	mine := "mine"
	for _, c := range []struct {
		to   int64
		with *string
		want string
	}{{5, nil, "m5"}, {6, nil, ""}, {5, &mine, "mine"}, {6, &mine, "mine"}} {
		p := Make(Input{Groups: picture(group("g", 5)), Logs: map[checkpoint.Key]Log{key("orders", 0): {End: 10}},
			Targets: []Target{{Group: "g", Key: key("orders", 0), Spec: Spec{Kind: ToOffset, N: c.to}, Metadata: c.with}}})
		if m := p.Moves[0]; m.Metadata != c.want || m.OldMetadata != "m5" {
			t.Errorf("to %d: %+v, want metadata %q", c.to, m, c.want)
		}
	}
}

func TestMake_RefusesWhoMayHaveMembers(t *testing.T) {
	t.Parallel()
	with := func(change func(*checkpoint.Group)) checkpoint.Picture {
		g := group("g", 5)
		change(&g)
		return picture(g)
	}
	failed, partial := picture(), picture()
	failed.Failed["g"], partial.Partial = errors.New("no coordinator"), errors.New("broker 2 did not answer")
	for name, c := range map[string]struct {
		groups checkpoint.Picture
		says   string
	}{
		"idle":        {picture(group("g", 5)), ""},
		"dead":        {with(func(g *checkpoint.Group) { g.State = "Dead" }), ""},
		"not there":   {picture(), ""},
		"848, idle":   {with(func(g *checkpoint.Group) { g.Type = checkpoint.TypeConsumer }), ""},
		"classic":     {with(func(g *checkpoint.Group) { g.State, g.Protocol = "Stable", "consumer" }), "active (state Stable, classic protocol)"},
		"848, active": {with(func(g *checkpoint.Group) { g.State, g.Type = "Stable", checkpoint.TypeConsumer }), "active (state Stable, consumer protocol)"},
		"rebalancing": {with(func(g *checkpoint.Group) { g.State = "PreparingRebalance" }), "active"},
		"connect":     {with(func(g *checkpoint.Group) { g.State, g.Protocol = "Stable", "connect" }), "of type connect"},
		"unknown":     {with(func(g *checkpoint.Group) { g.State = "" }), "not known whether"},
		"share":       {with(func(g *checkpoint.Group) { g.Type = checkpoint.TypeShare }), "it is a share group on cluster backup"},
		"streams":     {with(func(g *checkpoint.Group) { g.Type = checkpoint.TypeStreams }), "it is a streams group"},
		"strange":     {with(func(g *checkpoint.Group) { g.Type = "new" }), "it is a new group"},
		"unreadable":  {failed, "no coordinator"},
		"perhaps":     {partial, "broker 2 did not answer"},
		"transaction": {with(func(g *checkpoint.Group) {
			g.Unstable = map[checkpoint.Key]error{key("orders", 0): errors.New("unstable offset commit")}
		}), "unstable offset commit"},
	} {
		p := Make(Input{Cluster: "backup", Groups: c.groups, Logs: map[checkpoint.Key]Log{key("orders", 0): {End: 10}},
			Targets: []Target{{Group: "g", Key: key("orders", 0), Spec: Spec{Kind: ToEarliest}}}})
		if got := p.Moves[0].Refused; (got == "") != (c.says == "") || !strings.Contains(got, c.says) {
			t.Errorf("%s: refused %q, want %q", name, got, c.says)
		}
	}
}

func TestMake_PartitionsThatAreMissing(t *testing.T) {
	t.Parallel()
	targets := []Target{
		{Group: "g", Key: key("orders", 0), Spec: Spec{Kind: ToOffset, N: 1}, Line: 1},
		{Group: "g", Key: key("orders", 9), Spec: Spec{Kind: ToOffset, N: 1}, Line: 2},
		{Group: "g", Key: key("orders", 8), Spec: Spec{Kind: ToOffset, N: 1}},
		{Group: "g", Key: key("orders", 7), Spec: Spec{Kind: Delete}},
		{Group: "g", Key: key("orders", 1), Spec: Spec{Kind: ToEarliest}},
	}
	p := Make(Input{Cluster: "backup", Groups: picture(group("g", 5)), Targets: targets,
		Logs: map[checkpoint.Key]Log{key("orders", 0): {End: 10}, key("orders", 1): {Err: errors.New("no leader")}}})
	if len(p.Missing) != 1 || p.Missing[0].Error() != "line 2: cluster backup has no partition orders/9" {
		t.Errorf("missing: %v", p.Missing)
	}
	var got []string
	for _, m := range p.Moves {
		got = append(got, fmt.Sprintf("%d %s", m.Partition, m.Refused))
	}
	want := []string{"0 ", "1 the ends of its log cannot be read: no leader", "7 ", "8 cluster backup has no partition orders/8", "9 cluster backup has no partition orders/9"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestMake_WarnsOfPartitionsThatStay(t *testing.T) {
	t.Parallel()
	logs := map[checkpoint.Key]Log{}
	for p := range int32(4) {
		logs[key("orders", p)] = Log{End: 10}
	}
	in := Input{Groups: picture(group("g", 1, 2, 3), group("h", 1)), Logs: logs}
	for _, c := range []struct {
		partitions []int32
		want       []string
	}{
		{[]int32{0, 1, 2}, nil},
		{[]int32{0, 1, 2, 3}, nil},
		{[]int32{1}, []string{"only some partitions of orders move: group g has positions in 0, 2 that stay", "only some partitions of orders move: group h has positions in 0 that stay"}},
		{[]int32{0}, []string{"only some partitions of orders move: group g has positions in 1, 2 that stay"}},
	} {
		in.Targets = nil
		for _, g := range []string{"h", "g"} {
			for _, p := range c.partitions {
				in.Targets = append(in.Targets, Target{Group: g, Key: key("orders", p), Spec: Spec{Kind: ToEarliest}})
			}
		}
		if d := cmp.Diff(c.want, Make(in).Warnings); d != "" {
			t.Errorf("%v: %s", c.partitions, d)
		}
	}
}

// "All groups" does not silently mean all but some.
func TestMake_SaysWhichGroupsAreLeftOut(t *testing.T) {
	t.Parallel()
	share, streams := group("s"), group("t")
	share.Type, streams.Type = checkpoint.TypeShare, checkpoint.TypeStreams
	p := Make(Input{Groups: picture(share, streams, group("none"), group("g", 1)), Logs: map[checkpoint.Key]Log{key("orders", 0): {End: 10}},
		Targets: []Target{{Group: "g", Key: key("orders", 0), Spec: Spec{Kind: ToEarliest}}}})
	if d := cmp.Diff([]string{"s is a share group and is left out", "t is a streams group and is left out"}, p.Warnings); d != "" {
		t.Error(d)
	}
}

func TestMake_SaysWhichGroupsItMakes(t *testing.T) {
	t.Parallel()
	in := Input{Cluster: "backup", Groups: picture(group("g", 1)), Logs: map[checkpoint.Key]Log{key("orders", 0): {End: 10}}}
	for _, name := range []string{"g", "biling", "n1", "n2", "n3", "n4", "n5"} {
		in.Targets = append(in.Targets, Target{Group: name, Key: key("orders", 0), Spec: Spec{Kind: ToEarliest}})
	}
	want := []string{`not there yet on cluster backup, and made by this: ["biling" "n1" "n2" "n3" "n4"] and 1 more`}
	if d := cmp.Diff(want, Make(in).Warnings); d != "" {
		t.Error(d)
	}
}

func TestParseTopics(t *testing.T) {
	t.Parallel()
	got, err := ParseTopics([]string{"orders:2,0", "payments", "orders:1,2", "payments:3", "audit:1,0,1"})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]Topic{{"orders", []int32{0, 1, 2}}, {"payments", nil}, {"audit", []int32{0, 1}}}, got); d != "" {
		t.Error(d)
	}
	for _, text := range []string{"", ":1", "orders:", "orders:a", "orders:-1", "orders:1,,2", "or ders", "orders:1:2"} {
		if got, err := ParseTopics([]string{text}); err == nil {
			t.Errorf("%q was read as %+v", text, got)
		}
	}
}
