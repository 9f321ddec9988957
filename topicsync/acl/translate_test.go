package acl

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"lockstep/config"
	"lockstep/topicsync/drift"
)

const (
	topicType, groupType, txnType = kmsg.ACLResourceTypeTopic, kmsg.ACLResourceTypeGroup, kmsg.ACLResourceTypeTransactionalId
	literal, prefixed             = kmsg.ACLResourcePatternTypeLiteral, kmsg.ACLResourcePatternTypePrefixed
	read, write, describe, all    = kmsg.ACLOperationRead, kmsg.ACLOperationWrite, kmsg.ACLOperationDescribe, kmsg.ACLOperationAll
)

func on(t kmsg.ACLResourceType, name string, p kmsg.ACLResourcePatternType, user string, op kmsg.ACLOperation) Binding {
	return Binding{Type: t, Name: name, Pattern: p, Principal: "User:" + user, Host: "*", Operation: op}
}

func deny(b Binding) Binding {
	b.Deny = true
	return b
}

// scope is a link that copies topics, with what else the target has.
func scope(link config.Link, topics []string, foreign ...string) drift.Scope {
	s := drift.Scope{Link: link, Foreign: foreign}
	for _, t := range topics {
		s.Topics = append(s.Topics, drift.Topic{Src: t, Dst: link.TargetTopic(t)})
	}
	return s
}

func link(include ...string) config.Link {
	return config.Link{Name: "dr", Topics: config.Topics{Include: include}, Groups: config.Groups{Include: []string{".*"}, Sync: true},
		ACLs: config.ACLs{Sync: true, Mode: "dr", Groups: true}}
}

func world(t interface{ Fatal(...any) }, s drift.Scope, groups, targetGroups []string) World {
	w, err := newWorld(s, groups, targetGroups)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func texts(bs []Binding) (out []string) {
	for _, b := range bs {
		out = append(out, b.String())
	}
	return out
}

func TestTranslate(t *testing.T) {
	t.Parallel()
	six := []Binding{
		on(topicType, "orders", literal, "a", read), on(topicType, "ord", prefixed, "b", all), on(topicType, "orders", literal, "c", write),
		deny(on(topicType, "orders", literal, "d", read)), on(topicType, "orders", literal, "*", describe), on(groupType, "billing", literal, "a", read)}
	renamed := link(".*")
	renamed.Topics.Rename, renamed.Groups.Rename = "staging.{topic}", "staging.{group}"
	suffixed := link(".*")
	suffixed.Topics.Rename = "{topic}.copy"
	noGroups := link(".*")
	noGroups.ACLs.Groups = false
	for name, tc := range map[string]struct {
		source      []Binding
		scope       drift.Scope
		groups      []string
		mode        string
		now, staged []string
	}{
		"a standby": {source: six, scope: scope(link(".*"), []string{"orders"}), groups: []string{"billing"}, mode: "dr",
			now: []string{"allow User:b READ topic ord (prefixed) from *", "allow User:* DESCRIBE topic orders (literal) from *", "allow User:a READ topic orders (literal) from *",
				"deny User:d READ topic orders (literal) from *", "allow User:a READ group billing (literal) from *"},
			staged: []string{"allow User:b ALL topic ord (prefixed) from *", "allow User:c WRITE topic orders (literal) from *"}},
		"a migration": {source: six, scope: scope(link(".*"), []string{"orders"}), groups: []string{"billing"}, mode: "migrate",
			now: []string{"allow User:b ALL topic ord (prefixed) from *", "allow User:* DESCRIBE topic orders (literal) from *", "allow User:a READ topic orders (literal) from *",
				"allow User:c WRITE topic orders (literal) from *", "deny User:d READ topic orders (literal) from *", "allow User:a READ group billing (literal) from *"}},
		"renamed": {source: six, scope: scope(renamed, []string{"orders"}), groups: []string{"billing"}, mode: "migrate",
			now: []string{"allow User:b ALL topic staging.ord (prefixed) from *", "allow User:* DESCRIBE topic staging.orders (literal) from *", "allow User:a READ topic staging.orders (literal) from *",
				"allow User:c WRITE topic staging.orders (literal) from *", "deny User:d READ topic staging.orders (literal) from *", "allow User:a READ group staging.billing (literal) from *"}},
		"without groups": {source: six[5:], scope: scope(noGroups, []string{"orders"}), groups: []string{"billing"}, mode: "dr"},
		"a prefix that would cover another's topic": {source: six[1:2], scope: scope(link("orders", "orders-eu"), []string{"orders", "orders-eu"}, "ordinary"), mode: "dr",
			now:    []string{"allow User:b READ topic orders (literal) from *", "allow User:b READ topic orders-eu (literal) from *"},
			staged: []string{"allow User:b ALL topic orders (literal) from *", "allow User:b ALL topic orders-eu (literal) from *"}},
		"everything, on a target that has other things": {source: []Binding{on(topicType, "*", literal, "a", read)}, scope: scope(renamed, []string{"orders"}, "theirs"), mode: "dr",
			now: []string{"allow User:a READ topic staging.orders (literal) from *"}},
		"everything": {source: []Binding{on(topicType, "*", literal, "a", read)}, scope: scope(link(".*"), []string{"orders"}), mode: "dr",
			now: []string{"allow User:a READ topic * (literal) from *"}},
		"names that differ behind their beginning": {source: six[1:2], scope: scope(suffixed, []string{"orders", "payments"}), mode: "migrate",
			now: []string{"allow User:b ALL topic ord (prefixed) from *"}},
		"a topic that is not copied":   {source: []Binding{on(topicType, "secret", literal, "a", read)}, scope: scope(link("orders"), []string{"orders"}), mode: "dr"},
		"another's topic of that name": {source: []Binding{on(topicType, "later", literal, "a", read)}, scope: scope(link(".*"), []string{"orders"}, "later"), mode: "dr"},
		"what is denied for copies alone is allowed for copies alone": {
			source: []Binding{on(topicType, "orders-", prefixed, "a", read), deny(on(topicType, "ord", prefixed, "a", read))},
			scope:  scope(link("orders-.*"), []string{"orders-eu"}, "ordinary"), mode: "dr",
			now: []string{"allow User:a READ topic orders-eu (literal) from *", "deny User:a READ topic orders-eu (literal) from *"}},
		"transactional ids of those who have to do with copies": {
			source: []Binding{on(topicType, "orders", literal, "a", write), on(txnType, "billing", literal, "a", write), on(txnType, "b", prefixed, "a", describe), on(txnType, "x", literal, "z", write)},
			scope:  scope(link(".*"), []string{"orders"}), mode: "dr",
			now:    []string{"allow User:a DESCRIBE transactional_id b (prefixed) from *"},
			staged: []string{"allow User:a WRITE topic orders (literal) from *", "allow User:a WRITE transactional_id billing (literal) from *"}},
		"the cluster's own are not carried over": {source: []Binding{on(kmsg.ACLResourceTypeCluster, "kafka-cluster", literal, "a", all)}, scope: scope(link(".*"), []string{"orders"}), mode: "migrate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now, staged := Translate(tc.source, world(t, tc.scope, tc.groups, nil), tc.mode)
			if diff := cmp.Diff(tc.now, texts(now)); diff != "" {
				t.Errorf("now: -want +got:\n%s", diff)
			}
			if diff := cmp.Diff(tc.staged, texts(staged)); diff != "" {
				t.Errorf("staged: -want +got:\n%s", diff)
			}
		})
	}
}

// may is Kafka's authorizer, written from its documentation: a denial wins, ALL is every operation, and READ, WRITE, DELETE and
// ALTER let describe.
func may(bs []Binding, user string, op kmsg.ACLOperation, t kmsg.ACLResourceType, name string) bool {
	matches := func(b Binding, ops ...kmsg.ACLOperation) bool {
		covers := b.Pattern == prefixed && strings.HasPrefix(name, b.Name) || b.Pattern == literal && (b.Name == name || b.Name == "*")
		return b.Type == t && (b.Principal == "User:"+user || b.Principal == "User:*") && slices.Contains(ops, b.Operation) && covers
	}
	implying := []kmsg.ACLOperation{op, all}
	if op == describe {
		implying = append(implying, read, write, kmsg.ACLOperationDelete, kmsg.ACLOperationAlter)
	}
	for _, b := range bs {
		if b.Deny && matches(b, op, all) {
			return false
		}
	}
	return slices.ContainsFunc(bs, func(b Binding) bool { return !b.Deny && matches(b, implying...) })
}

func drawBinding(t *rapid.T) Binding {
	b := on(rapid.SampledFrom([]kmsg.ACLResourceType{topicType, groupType}).Draw(t, "type"), rapid.SampledFrom([]string{"*", "a", "ab", "abc", "b", "c"}).Draw(t, "name"), literal,
		rapid.SampledFrom([]string{"u", "v", "*"}).Draw(t, "user"), rapid.SampledFrom([]kmsg.ACLOperation{read, write, describe, all}).Draw(t, "operation"))
	if b.Name != "*" && rapid.Bool().Draw(t, "prefixed") {
		b.Pattern = prefixed
	}
	b.Deny = rapid.IntRange(0, 3).Draw(t, "deny") == 0
	return b
}

// Whatever is on both sides: nobody may do more with a copy than with what it is a copy of, with what is foreign nobody
// may do anything, a copy that is still to come is no exception, and after the promotion the permissions of copies are
// just the source's.
func TestTranslate_NobodyMayMore(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		source := rapid.SliceOfN(rapid.Custom(drawBinding), 0, 8).Draw(t, "source")
		l := link(rapid.SampledFrom([]string{".*", "a.*", "ab|b"}).Draw(t, "include"))
		l.Topics.Rename = rapid.SampledFrom([]string{"", "x.{topic}", "{topic}.x", "a{topic}"}).Draw(t, "rename")
		l.Groups.Rename = rapid.SampledFrom([]string{"", "x.{group}"}).Draw(t, "rename groups")
		mode := rapid.SampledFrom([]string{"dr", "migrate"}).Draw(t, "mode")
		var copied, groups []string
		for _, n := range []string{"a", "ab", "abc", "b", "c"} {
			if ok, _ := l.Selects(n); ok && rapid.Bool().Draw(t, "exists") {
				copied = append(copied, n)
			}
			if rapid.Bool().Draw(t, "group exists") {
				groups = append(groups, n)
			}
		}
		targets := map[string]bool{}
		for _, n := range copied {
			targets[l.TargetTopic(n)] = true
		}
		var foreign []string
		for _, n := range []string{"a", "ab", "abd", "b", "x.a", "zz"} {
			if !targets[n] && rapid.IntRange(0, 3).Draw(t, "foreign") == 0 {
				foreign = append(foreign, n)
			}
		}
		now, staged := Translate(source, world(t, scope(l, copied, foreign...), groups, nil), mode)
		for _, user := range []string{"u", "v", "w"} {
			for _, op := range []kmsg.ACLOperation{read, write, describe} {
				for _, n := range []string{"a", "ab", "abc", "abcd", "b", "c"} { // some exist, some may come later
					ok, _ := l.Selects(n)
					dst := l.TargetTopic(n)
					if !ok || slices.Contains(foreign, dst) {
						continue
					}
					if may(now, user, op, topicType, dst) && !may(source, user, op, topicType, n) {
						t.Fatalf("%s may %s %s on the target, and not %s on the source\nsource %v\nnow %v", user, op, dst, n, texts(source), texts(now))
					}
					if slices.Contains(copied, n) && may(slices.Concat(now, staged), user, op, topicType, dst) != may(source, user, op, topicType, n) {
						t.Fatalf("after the promotion %s may %s %s: %v, on the source: %v\nsource %v\nnow %v\nstaged %v", user, op, dst, !may(source, user, op, topicType, n),
							may(source, user, op, topicType, n), texts(source), texts(now), texts(staged))
					}
				}
				for _, n := range foreign {
					if may(slices.Concat(now, staged), user, op, topicType, n) {
						t.Fatalf("%s may %s %s, which is no copy\nsource %v\nnow %v\nstaged %v", user, op, n, texts(source), texts(now), texts(staged))
					}
				}
				for _, n := range groups {
					if may(slices.Concat(now, staged), user, op, groupType, world(t, scope(l, copied), groups, nil).Groups[n]) != may(source, user, op, groupType, n) {
						t.Fatalf("after the promotion %s may not do with group %s what it may on the source\nsource %v\nnow %v\nstaged %v", user, n, texts(source), texts(now), texts(staged))
					}
				}
			}
		}
	})
}

func TestBinding_String(t *testing.T) {
	t.Parallel()
	b := deny(on(groupType, "a b", prefixed, "x,CN=y", kmsg.ACLOperationDescribeConfigs))
	if got, want := b.String(), "deny User:x,CN=y DESCRIBE_CONFIGS group a b (prefixed) from *"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	_ = fmt.Sprint(b)
}
