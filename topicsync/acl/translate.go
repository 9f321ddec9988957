package acl

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/topicsync/drift"
)

// World says which names a link copies, and what else there is on the target.
type World struct {
	// Topics are copied topics and Groups kept groups, source name → name on the target.
	Topics, Groups map[string]string
	// ForeignTopics and ForeignGroups are on the target and are no copies.
	ForeignTopics, ForeignGroups []string
	// Topic and Group give any name of the source the name that it has, or would have, on the target; false where the link
	// does not copy it.
	Topic, Group func(string) (string, bool)
	// TopicPrefix and GroupPrefix give a prefix of names on the source the prefix that they have on the target; false where
	// renamed names have none in common.
	TopicPrefix, GroupPrefix func(string) (string, bool)
	WithGroups               bool // permissions of groups are carried over

	// named are names that permissions of the source are on, by themselves, whether they are there or not: what is given
	// or denied for each copy alone is so for them too.
	named map[kmsg.ACLResourceType]map[string]string
}

// Translate returns the permissions that the target is to have for the source's, in order: now are those that it gets at
// once, staged those that wait for the promotion. In a migration (mode migrate) nothing waits.
//
// None of them allows somebody more on a copied topic or a kept group than the source does. A permission on a prefix or on
// everything that would also cover names which are no copies is given for each copy alone instead.
func Translate(source []Binding, w World, mode string) (now, staged []Binding) {
	users := make(map[string]bool) // principals that may do something with a copied topic
	w.named = w.namesOf(source)
	split := w.split(source)
	for _, b := range source {
		for _, t := range w.rename(b, split) {
			if b.Type == kmsg.ACLResourceTypeTopic && !b.Deny {
				users[b.Principal] = true
			}
			at, later := stage(t, mode)
			now, staged = append(now, at...), append(staged, later...)
		}
	}
	for _, b := range source {
		if b.Type == kmsg.ACLResourceTypeTransactionalId && (users[b.Principal] || users["User:*"]) {
			at, later := stage(b, mode)
			now, staged = append(now, at...), append(staged, later...)
		}
	}
	return unique(now), unique(staged)
}

// stage splits a permission into what the target gets at once and what waits. Denials never wait: without them, what is
// allowed would allow too much.
func stage(b Binding, mode string) (now, later []Binding) {
	if mode == "migrate" || b.Deny {
		return []Binding{b}, nil
	}
	switch b.Operation {
	case kmsg.ACLOperationRead, kmsg.ACLOperationDescribe, kmsg.ACLOperationDescribeConfigs:
		return []Binding{b}, nil
	case kmsg.ACLOperationAll:
		if b.Type == kmsg.ACLResourceTypeTransactionalId {
			return nil, []Binding{b}
		}
		read := b
		read.Operation = kmsg.ACLOperationRead
		return []Binding{read}, []Binding{b}
	}
	return nil, []Binding{b}
}

// names returns what concerns a type of resource; false where the link does not carry its permissions over.
func (w World) names(t kmsg.ACLResourceType) (names, bool) {
	switch {
	case t == kmsg.ACLResourceTypeTopic:
		return names{w.Topics, w.named[t], w.ForeignTopics, w.Topic, w.TopicPrefix}, true
	case t == kmsg.ACLResourceTypeGroup && w.WithGroups:
		return names{w.Groups, w.named[t], w.ForeignGroups, w.Group, w.GroupPrefix}, true
	}
	return names{}, false
}

// namesOf returns the names that permissions are on by themselves, with those of the target.
func (w World) namesOf(source []Binding) map[kmsg.ACLResourceType]map[string]string {
	named := make(map[kmsg.ACLResourceType]map[string]string)
	for _, b := range source {
		n, ok := w.names(b.Type)
		if !ok || b.resource().wide() {
			continue
		}
		for _, t := range n.one(b) {
			if named[b.Type] == nil {
				named[b.Type] = make(map[string]string)
			}
			named[b.Type][b.Name] = t.Name
		}
	}
	return named
}

// split returns the wide resources that the target gets for each copy alone, because of a denial: what is denied for each
// copy alone must not be allowed as a whole, or a new copy would be allowed until the next pass.
func (w World) split(source []Binding) map[resource]bool {
	var narrow []resource
	for _, b := range source {
		n, ok := w.names(b.Type)
		if !ok || !b.Deny || !b.resource().wide() {
			continue
		}
		if _, whole := n.wide(b); !whole {
			narrow = append(narrow, b.resource())
		}
	}
	split := make(map[resource]bool)
	for _, b := range source {
		r := b.resource()
		if !b.Deny && r.wide() && slices.ContainsFunc(narrow, r.overlaps) {
			split[r] = true
		}
	}
	return split
}

// rename returns a permission of the source on a topic or a group as the target is to have it, none where it does not
// concern what the link copies. split are wide resources that are to be given for each copy alone.
func (w World) rename(b Binding, split map[resource]bool) []Binding {
	n, ok := w.names(b.Type)
	if !ok {
		return nil
	}
	if !b.resource().wide() {
		return n.one(b)
	}
	if wide, ok := n.wide(b); ok && (b.Deny || !split[b.resource()]) {
		return []Binding{wide}
	}
	return n.each(b)
}

// names are those of one type of resource; see World.
type names struct {
	copies  map[string]string
	named   map[string]string
	foreign []string
	of      func(string) (string, bool)
	prefix  func(string) (string, bool)
}

// one returns a permission on a single name. A name that stands for something else on the target gets none.
func (n names) one(b Binding) []Binding {
	name, ok := n.of(b.Name)
	if !ok || slices.Contains(n.foreign, name) {
		return nil
	}
	b.Name = name
	return []Binding{b}
}

// wide returns a permission on a prefix or on everything with the target's names, if it covers the same there as on the source: no
// name that is no copy, and every copy of a name that it covers.
func (n names) wide(b Binding) (Binding, bool) {
	t := b
	if b.Name != wildcard || b.Pattern == kmsg.ACLResourcePatternTypePrefixed {
		name, ok := n.prefix(b.Name)
		if !ok || name == "" {
			return t, false
		}
		t.Name = name
	}
	from, to := b.resource(), t.resource()
	if slices.ContainsFunc(n.foreign, to.covers) {
		return t, false
	}
	some := false
	for src, dst := range n.copies {
		if from.covers(src) != to.covers(dst) {
			return t, false
		}
		some = some || from.covers(src)
	}
	return t, some
}

// each returns a permission for every copy that it covers, and every name that others are on.
func (n names) each(b Binding) (out []Binding) {
	from := b.resource()
	for _, of := range []map[string]string{n.copies, n.named} {
		for src, dst := range of {
			if from.covers(src) {
				one := b
				one.Name, one.Pattern = dst, kmsg.ACLResourcePatternTypeLiteral
				out = append(out, one)
			}
		}
	}
	return out
}

// newWorld says what a link copies. The groups are all of each side's.
func newWorld(s drift.Scope, source, target []string) (World, error) {
	link := s.Link
	groups, err := link.Groups.Filter()
	if err != nil {
		return World{}, err
	}
	topics := make(map[string]string, len(s.Topics))
	for _, t := range s.Topics {
		topics[t.Src] = t.Dst
	}
	w := World{Topics: topics, ForeignTopics: foreign(s), Groups: make(map[string]string), WithGroups: link.ACLs.Groups && link.Groups.Sync,
		Topic: func(name string) (string, bool) {
			ok, _ := link.Selects(name)
			return link.TargetTopic(name), ok
		},
		Group:       func(name string) (string, bool) { return groups.Target(name), groups.Excludes(name) == "" },
		TopicPrefix: func(p string) (string, bool) { return renamePrefix(link.Topics.Rename, "{topic}", p) },
		GroupPrefix: func(p string) (string, bool) { return renamePrefix(link.Groups.Rename, "{group}", p) },
	}
	copies := make(map[string]bool)
	for _, g := range source {
		if groups.Excludes(g) == "" {
			w.Groups[g] = groups.Target(g)
			copies[w.Groups[g]] = true
		}
	}
	w.ForeignGroups = slices.DeleteFunc(slices.Clone(target), func(g string) bool { return copies[g] })
	return w, nil
}

// foreign returns the topics that a permission on many names must not reach. On a standby lockstep's own and the brokers'
// are among them; a migration carries everything over as it is.
func foreign(s drift.Scope) []string {
	if s.Link.ACLs.Mode == "migrate" {
		return s.Foreign
	}
	return slices.Concat(s.Foreign, s.Own)
}

// renamePrefix returns the beginning that renamed names have in common when their names on the source begin with p.
func renamePrefix(template, variable, p string) (string, bool) {
	if template == "" {
		return p, true
	}
	before, _, ok := strings.Cut(template, variable)
	return before + p, ok
}

func unique(bs []Binding) []Binding {
	slices.SortFunc(bs, Binding.compare)
	return slices.Compact(bs)
}
