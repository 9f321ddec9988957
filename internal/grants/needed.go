package grants

import (
	"slices"

	"lockstep/config"
)

// Side is a link's source or target.
type Side int

// The sides.
const (
	Source Side = iota
	Target
)

// Own is what a link keeps for itself on one cluster, and what it knows there.
type Own struct {
	// Existing are topics of the cluster, by their names there, that the link copies from or to. Those that no pattern
	// stands for get grants of their own.
	Existing []string
	// State is the state topic and TransactionalID what terms are taken with; both "" on a source.
	State, TransactionalID string
	// Written are topics for readers of MirrorMaker 2 that are only written, Kept those that are read back too.
	Written, Kept []string
	// Scratch begins the names of what a probe makes; "" without one.
	Scratch string
	// Old brokers, before Kafka 2.8, want a permission of the cluster for producers that number what they write.
	Old bool
}

// Needed returns the least that a link needs on one of its clusters, sorted by resource and name. It asks nobody. What is
// optional is marked so.
func Needed(l config.Link, s Side, own Own) []Grant {
	var n list
	if s == Source {
		n.source(l)
	} else {
		n.target(l)
		n.state(own)
	}
	n.unnamed(own.Existing)
	n.boards(own)
	return least(n)
}

// list collects grants.
type list []Grant

// add notes that operations on resources are needed for something.
func (n *list) add(r Resource, names []Name, what string, ops ...Operation) {
	for _, name := range names {
		for _, op := range ops {
			*n = append(*n, Grant{Resource: r, Name: name, Operation: op, For: what})
		}
	}
}

// option notes an operation that lockstep can do without.
func (n *list) option(r Resource, names []Name, what string, op Operation) {
	for _, name := range names {
		*n = append(*n, Grant{Resource: r, Name: name, Operation: op, For: what, Optional: true})
	}
}

// cluster stands for the one resource that has no name.
var cluster = []Name{{}}

func (n *list) source(l config.Link) {
	topics := topicsOf(l)
	n.add(Topic, topics, "copying its records", Describe, Read)
	if l.Configs.Sync {
		n.add(Topic, topics, "copying its settings", DescribeConfigs)
	}
	n.add(Group, groupsOf(l), "reading its positions", Describe)
	n.option(Group, groupsOf(l), "lockstep offsets reset, import and undo with --side source", Read)
	n.option(Group, groupsOf(l), "lockstep offsets undo with --side source, where a position is to be taken away again", Delete)
	if l.ACLs.Sync {
		n.add(Cluster, cluster, "reading permissions and the names of users", Describe)
	}
	if l.Quotas.Sync {
		n.add(Cluster, cluster, "reading quotas", DescribeConfigs)
		n.add(Cluster, cluster, "reading the names of users that quotas are for", Describe)
	}
}

func (n *list) target(l config.Link) {
	topics := renamed(topicsOf(l), l.Topics.Rename, "{topic}")
	n.add(Topic, topics, "making the topic", Create)
	n.add(Topic, topics, "giving it further partitions", Alter)
	n.add(Topic, topics, "writing the copy", Write)
	n.add(Topic, topics, "finding out after a crash what was written, and setting positions of groups", Read, Describe)
	n.add(Topic, topics, "knowing what the topic takes", DescribeConfigs)
	if l.Configs.Sync {
		n.add(Topic, topics, "setting what the source's topic has", AlterConfigs)
	}
	if l.Configs.Sync && l.Configs.Retention == "open" {
		n.add(Topic, topics, "dropping what the source dropped (configs.retention: open)", Delete)
	}
	n.option(Topic, topics, "lockstep lanes rebuild, which empties a copy", Delete)
	n.add(Cluster, cluster, "reading producer.id.expiration.ms and offsets.retention.minutes", DescribeConfigs)
	n.option(Cluster, cluster, "seals by direct markers; without it lanes are sealed by transaction, which takes longer", Alter)
	n.targetGroups(l)
	if l.ACLs.Sync {
		n.add(Cluster, cluster, "writing permissions", Alter, Describe)
	}
	if l.Quotas.Sync {
		n.add(Cluster, cluster, "writing quotas", AlterConfigs)
		n.add(Cluster, cluster, "reading the names of users that quotas are for", Describe)
	}
}

func (n *list) targetGroups(l config.Link) {
	groups := renamed(groupsOf(l), l.Groups.Rename, "{group}")
	n.add(Group, groups, "reading its positions", Describe)
	if l.Groups.Sync {
		n.add(Group, groups, "writing its positions", Read)
	}
	n.option(Group, groups, "lockstep offsets reset, import and undo", Read)
	n.option(Group, groups, "lockstep offsets undo and import, where a position is to be taken away again", Delete)
}

// state is what the link remembers on its target, and how it takes the right to write.
func (n *list) state(own Own) {
	topic := []Name{{Text: own.State}}
	n.add(Topic, topic, "making the state topic", Create)
	n.add(Topic, topic, "the link's state", Read, Write, Describe)
	n.add(Topic, topic, "keeping the settings of the state topic right", AlterConfigs, DescribeConfigs)
	n.option(Topic, topic, "lockstep links remove, which deletes the link's state", Delete)
	n.add(TransactionalID, []Name{{Text: own.TransactionalID}}, "taking the right to write, and seals by transaction", Write, Describe)
	if own.Old {
		n.add(Cluster, cluster, "numbering what is written, on brokers before Kafka 2.8", IdempotentWrite)
	}
	if own.Scratch != "" {
		scratch := []Name{{own.Scratch, true}}
		n.add(Topic, scratch, "validate --probe", Create, Read, Write, Describe, Delete, DescribeConfigs)
		n.add(TransactionalID, scratch, "validate --probe", Write, Describe)
	}
}

// unnamed adds to all that is needed of topics what it takes for those that no pattern stands for.
func (n *list) unnamed(existing []string) {
	named := slices.Clone(*n)
	for _, topic := range existing {
		name := Name{Text: topic}
		if slices.ContainsFunc(named, func(g Grant) bool { return g.Resource == Topic && g.Name.covers(name) }) {
			continue
		}
		for _, g := range firstTopic(named) {
			g.Name = name
			*n = append(*n, g)
		}
	}
}

// firstTopic returns the grants on the first of the link's topics.
func firstTopic(grants []Grant) (out []Grant) {
	for _, g := range grants {
		if g.Resource == Topic && (len(out) == 0 || g.Name == out[0].Name) {
			out = append(out, g)
		}
	}
	return out
}

// boards are the topics for readers of MirrorMaker 2.
func (n *list) boards(own Own) {
	written, kept := literals(own.Written), literals(own.Kept)
	n.add(Topic, slices.Concat(written, kept), "writing for readers of MirrorMaker 2 (mirrormaker.topics)", Create, Write, Describe)
	n.add(Topic, kept, "reading back what stands there for readers of MirrorMaker 2", Read)
	n.option(Topic, slices.Concat(written, kept), "a warning when a topic for readers of MirrorMaker 2 is not compacted", DescribeConfigs)
}

func literals(texts []string) []Name {
	out := make([]Name, len(texts))
	for i, t := range texts {
		out[i] = Name{Text: t}
	}
	return out
}

// topicsOf returns what topics.include stands for on the source.
func topicsOf(l config.Link) []Name { return included(l.Topics.Include, l.Topics.Exclude) }

func groupsOf(l config.Link) []Name { return included(l.Groups.Include, l.Groups.Exclude) }

// included returns what include stands for without the single names that exclude spells out.
func included(include, exclude []string) []Name {
	var out, not []Name
	for _, p := range exclude {
		not = append(not, namesOf(p)...)
	}
	for _, p := range include {
		out = append(out, namesOf(p)...)
	}
	return slices.DeleteFunc(widest(out), func(n Name) bool { return !n.Prefixed && n != all && slices.Contains(not, n) })
}
