package config

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func renamed(l Link, rename string) Link {
	l.Topics.Rename = rename
	return l
}

func without(l Link, exclude ...string) Link {
	l.Topics.Exclude = exclude
	return l
}

func TestCollisions(t *testing.T) {
	t.Parallel()
	all := ".*"
	for _, c := range []struct {
		name   string
		links  []Link
		topics map[string][]string
		want   []string
	}{
		{"nothing", nil, map[string][]string{"a": {"t"}}, nil},
		{"one link", []Link{link("l", "a", "b", all)}, map[string][]string{"a": {"t", "u"}}, nil},
		{"two links, two targets", []Link{link("l", "a", "b", all), link("m", "a", "c", all)}, map[string][]string{"a": {"t"}}, nil},
		{"two sources, other topics", []Link{link("l", "a", "c", all), link("m", "b", "c", all)}, map[string][]string{"a": {"t"}, "b": {"u"}}, nil},
		{"two sources, same topic", []Link{link("l", "a", "c", all), link("m", "b", "c", all)}, map[string][]string{"a": {"t"}, "b": {"t", "u"}},
			[]string{`two links would write topic "t" on c: l (a:t → t), m (b:t → t); exclude "t" from all but one of the links l, m, or give one of them another topics.rename`}},
		{"renamed apart", []Link{renamed(link("l", "a", "c", all), "a.{topic}"), renamed(link("m", "b", "c", all), "b.{topic}")}, map[string][]string{"a": {"t"}, "b": {"t"}}, nil},
		{"renamed together", []Link{renamed(link("l", "a", "c", all), "x.{topic}"), link("m", "b", "c", all)}, map[string][]string{"a": {"t"}, "b": {"x.t"}},
			[]string{`two links would write topic "x.t" on c: l (a:t → x.t), m (b:x.t → x.t); exclude "t" from all but one of the links l, m, or give one of them another topics.rename`}},
		{"two topics, one name", []Link{renamed(link("l", "a", "b", all), "one")}, map[string][]string{"a": {"t", "u"}},
			[]string{`two topics of link l would become one, "one" on b: l (a:t → one), l (a:u → one); give topics.rename of link l a {topic}, or exclude all but one of them`}},
		{"cycle", []Link{link("l", "a", "b", all), link("m", "b", "a", all)}, map[string][]string{"a": {"t"}, "b": {"t"}},
			[]string{`topic "t" would be copied in a circle: l (a:t → t), then m (b:t → t); exclude "t" from link l, or "t" from link m`}},
		{"cycle that copying begins", []Link{link("l", "a", "b", all), link("m", "b", "a", all)}, map[string][]string{"a": {"t"}},
			[]string{`topic "t" would be copied in a circle: l (a:t → t), then m (b:t → t); exclude "t" from link l, or "t" from link m`}},
		{"both ways, other topics", []Link{link("l", "a", "b", "t"), link("m", "b", "a", "u")}, map[string][]string{"a": {"t", "u"}, "b": {"t", "u"}}, nil},
		{"both ways as MirrorMaker 2 does", []Link{without(renamed(link("l", "a", "b", all), "a.{topic}"), `b\..*`), without(renamed(link("m", "b", "a", all), "b.{topic}"), `a\..*`)},
			map[string][]string{"a": {"t", "b.u"}, "b": {"u", "a.t"}}, nil},
		{"growing names", []Link{renamed(link("l", "a", "b", all), "a.{topic}"), renamed(link("m", "b", "a", all), "b.{topic}")}, map[string][]string{"a": {"t"}},
			[]string{`topic "t" would be copied in a circle: l (a:t → a.t), then m (b:a.t → b.a.t), then l (a:b.a.t → a.b.a.t); exclude "a.t" from link m, or "b.a.t" from link l`}},
		{"cycle of three", []Link{link("l", "a", "b", all), link("m", "b", "c", all), link("n", "c", "a", all)}, map[string][]string{"b": {"t"}},
			[]string{`topic "t" would be copied in a circle: m (b:t → t), then n (c:t → t), then l (a:t → t); exclude "t" from link m, or "t" from link n, or "t" from link l`}},
		{"two ways to one target", []Link{link("l", "a", "b", all), link("m", "b", "c", all), link("n", "a", "c", all)}, map[string][]string{"a": {"t"}},
			[]string{`two links would write topic "t" on c: m (b:t → t), n (a:t → t); exclude "t" from all but one of the links m, n, or give one of them another topics.rename`}},
		{"a chain", []Link{link("l", "a", "b", all), link("m", "b", "c", all)}, map[string][]string{"a": {"t"}, "b": {"t", "u"}}, nil},
		{"internal topics do not count", []Link{link("l", "a", "b", all), link("m", "b", "a", "__x")}, map[string][]string{"a": {"__x"}, "b": {"lockstep.l.state"}}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, x := range Collisions(c.links, c.topics) {
				got = append(got, x.String())
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("collisions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCollision_LinksAndInvolves(t *testing.T) {
	t.Parallel()
	got := Collisions([]Link{link("l", "a", "b", ".*"), link("m", "b", "a", ".*")}, map[string][]string{"a": {"t", "u"}})
	if len(got) != 2 || got[0].Kind != CollisionCycle {
		t.Fatalf("collisions = %v", got)
	}
	if diff := cmp.Diff([]string{"l", "m"}, got[0].Links()); diff != "" {
		t.Error(diff)
	}
	if c := got[0]; !c.Involves("l", "t") || !c.Involves("m", "t") || c.Involves("l", "u") || c.Involves("x", "t") {
		t.Errorf("Involves is wrong for %v", c)
	}
}

// drawWorld makes a few links over a few clusters and topics.
func drawWorld(t *rapid.T) ([]Link, map[string][]string) {
	clusters := []string{"a", "b", "c"}
	names := rapid.SampledFrom([]string{"t", "u", "a.t", "b.t"})
	var links []Link
	for i := range rapid.IntRange(1, 4).Draw(t, "links") {
		ends := rapid.Permutation(clusters).Draw(t, "ends")
		l := link(fmt.Sprintf("l%d", i), ends[0], ends[1], rapid.SampledFrom([]string{".*", "t", "u", "[ab]\\..*"}).Draw(t, "include"))
		l.Topics.Rename = rapid.SampledFrom([]string{"{topic}", "a.{topic}", "b.{topic}"}).Draw(t, "rename")
		links = append(links, l)
	}
	topics := map[string][]string{}
	for _, c := range clusters {
		topics[c] = rapid.SliceOfNDistinct(names, 0, 3, rapid.ID[string]).Draw(t, "topics of "+c)
	}
	return links, topics
}

// Copying really happens here: every topic goes where the links take it, round after round. There is no collision if
// and only if the rounds end and no target topic has two origins.
func TestCollisions_AgreesWithCopying(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		links, topics := drawWorld(t)
		found := Collisions(links, topics)
		copies, grows := simulate(links, topics)
		if good := !grows && acyclic(copies) && oneWriterEach(copies); good != (len(found) == 0) {
			t.Fatalf("found %v, but names grow = %v, acyclic = %v, one writer each = %v", found, grows, acyclic(copies), oneWriterEach(copies))
		}
	})
}

type edge struct {
	from, to spot
	link     string
}

// simulate copies until nothing new comes to be, or a name has become longer than any way without a circle makes it.
func simulate(links []Link, topics map[string][]string) (copies map[edge]bool, grows bool) {
	const longer = 60
	copies = map[edge]bool{}
	var work []spot
	for c, ts := range topics {
		for _, t := range ts {
			work = append(work, spot{c, t})
		}
	}
	for len(work) > 0 {
		at := work[len(work)-1] // the newest first, so that a name that grows is soon too long
		work = work[:len(work)-1]
		for _, l := range links {
			if ok, _ := l.Selects(at.topic); !ok || l.Source != at.cluster {
				continue
			}
			e := edge{at, spot{l.Target, l.TargetTopic(at.topic)}, l.Name}
			if len(e.to.topic) > longer {
				return copies, true
			}
			if !copies[e] {
				copies[e] = true
				work = append(work, e.to)
			}
		}
	}
	return copies, false
}

// acyclic takes away what has no copies of its own until nothing can be taken away any more.
func acyclic(copies map[edge]bool) bool {
	left := maps.Clone(copies)
	for {
		from := map[spot]bool{}
		for e := range left {
			from[e.from] = true
		}
		before := len(left)
		maps.DeleteFunc(left, func(e edge, _ bool) bool { return !from[e.to] })
		if len(left) == before {
			return before == 0
		}
	}
}

func oneWriterEach(copies map[edge]bool) bool {
	writers := map[spot]int{}
	for e := range copies {
		writers[e.to]++
	}
	return !slices.ContainsFunc(slices.Collect(maps.Values(writers)), func(n int) bool { return n > 1 })
}

func TestCollisions_OrderDoesNotMatter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		links, topics := drawWorld(t)
		want := Collisions(links, topics)
		links = rapid.Permutation(links).Draw(t, "links in another order")
		for c := range topics {
			topics[c] = slices.Clone(topics[c])
			rand.Shuffle(len(topics[c]), func(i, j int) { topics[c][i], topics[c][j] = topics[c][j], topics[c][i] })
		}
		if diff := cmp.Diff(want, Collisions(links, topics)); diff != "" {
			t.Fatal(diff)
		}
	})
}

// Names that grow in two ways at once would be 2 to the power of 100 topics.
func TestCollisions_EndsWhereNamesDouble(t *testing.T) {
	t.Parallel()
	links := []Link{
		renamed(link("l", "a", "b", ".*"), "x{topic}"), renamed(link("m", "a", "b", ".*"), "y{topic}"),
		renamed(link("n", "b", "a", ".*"), "{topic}"), link("o", "a", "b", "[xy]{0,40}"),
	}
	if got := Collisions(links, map[string][]string{"a": {"t", "u"}}); len(got) == 0 {
		t.Error("no collision found")
	}
}

// Every sample is a name that the link selects: a refusal at start names a real case.
func TestSamples_AreSelected(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string][]string{
		".*":                     {"orders", "t"},
		".+":                     {"orders", "t", "x"},
		`prod\..*`:               {"prod.", "prod.orders", "prod.t"},
		"orders":                 {"orders"},
		"a|bc|d":                 {"a", "bc", "d"},
		"[f-h]{2}x?":             {"ff", "ffx"},
		"(eu|us)-[0-9]+":         {"eu-0", "us-0"},
		"^a$":                    {"a"},
		"[^a-z]b":                {"Ab"},
		"[ /]":                   nil,
		`\bword\b`:               nil,
		"(a{30}){30}":            nil,
		"__.*":                   nil,
		strings.Repeat("a", 300): nil,
	} {
		got := samples(link("l", "a", "b", pattern))
		if diff := cmp.Diff(want, got, cmp.Transformer("nil", func(s []string) string { return strings.Join(s, " ") })); diff != "" {
			t.Errorf("samples of %q (-want +got):\n%s", pattern, diff)
		}
	}
}

func BenchmarkCollisions(b *testing.B) {
	links := []Link{link("l", "a", "b", ".*"), without(link("m", "b", "a", "x.*"), "x1"), link("n", "c", "b", "y.*")}
	for i := range links {
		links[i].selector, _ = newSelector(links[i].Topics)
	}
	topics := map[string][]string{}
	for i := range 10_000 {
		topics["a"] = append(topics["a"], fmt.Sprintf("orders-%d", i))
	}
	for b.Loop() {
		Collisions(links, topics)
	}
}
