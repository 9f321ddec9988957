package grants

import (
	"cmp"
	"slices"
	"strings"
)

// Resource is a kind of thing that permissions are about, as kafka-acls.sh names it.
type Resource string

// The resources.
const (
	Topic           Resource = "topic"
	Group           Resource = "group"
	Cluster         Resource = "cluster"
	TransactionalID Resource = "transactional-id"
)

// Operation is what a permission allows, in Kafka's words.
type Operation string

// The operations.
const (
	Read            Operation = "READ"
	Write           Operation = "WRITE"
	Create          Operation = "CREATE"
	Delete          Operation = "DELETE"
	Alter           Operation = "ALTER"
	Describe        Operation = "DESCRIBE"
	DescribeConfigs Operation = "DESCRIBE_CONFIGS"
	AlterConfigs    Operation = "ALTER_CONFIGS"
	IdempotentWrite Operation = "IDEMPOTENT_WRITE"
)

// allows reports whether Kafka takes permission for o as permission for p too.
func (o Operation) allows(p Operation) bool {
	switch p {
	case o:
		return true
	case Describe:
		return o == Read || o == Write || o == Delete || o == Alter
	case DescribeConfigs:
		return o == AlterConfigs
	}
	return false
}

// Name stands for one resource, for all whose names begin so, or for all of a kind.
type Name struct {
	Text     string // "*" with Prefixed false is all of them
	Prefixed bool
}

// all is every resource of a kind.
var all = Name{Text: "*"}

// covers reports whether everything that m stands for is in n.
func (n Name) covers(m Name) bool {
	switch {
	case n == m, n == all:
		return true
	case n.Prefixed:
		return m != all && strings.HasPrefix(m.Text, n.Text)
	}
	return false
}

// sample returns a name that n stands for and that nobody uses, or n's own where it stands for one.
func (n Name) sample() string {
	const unused = "lockstep-permission-check"
	switch {
	case n == all:
		return unused
	case n.Prefixed:
		return n.Text[:min(len(n.Text), maxName-len(unused))] + unused
	}
	return n.Text
}

// maxName is the longest name of a topic.
const maxName = 249

// Grant is one permission.
type Grant struct {
	Resource Resource
	Name     Name // zero for the cluster
	Operation
	For      string // what lockstep does with it
	Optional bool   // lockstep can do without it; For says what it is then not able to do
}

// String names the grant, such as "READ on topics orders.*".
func (g Grant) String() string {
	name := string(g.Resource)
	switch {
	case g.Resource == Cluster:
		name = "the cluster"
	case g.Name == all:
		name = "all " + name + "s"
	case g.Name.Prefixed:
		name += "s that begin with " + g.Name.Text
	default:
		name += " " + g.Name.Text
	}
	return string(g.Operation) + " on " + name
}

// covers reports whether who has g needs no h.
func (g Grant) covers(h Grant) bool {
	return g.Resource == h.Resource && g.Operation.allows(h.Operation) && g.Name.covers(h.Name)
}

// least leaves out every grant that another one covers, and sorts the rest. What is optional never stands in for what is
// needed.
func least(grants []Grant) []Grant {
	grants = once(grants)
	// Only what is for several names, or for the same one, can cover another grant: links may spell out thousands of topics.
	var wide []Grant
	same := make(map[Name][]Grant)
	for _, g := range grants {
		if g.Name.Prefixed || g.Name == all {
			wide = append(wide, g)
		}
		same[g.Name] = append(same[g.Name], g)
	}
	return slices.DeleteFunc(slices.Clone(grants), func(g Grant) bool {
		instead := func(o Grant) bool { return compare(o, g) != 0 && o.covers(g) && (g.Optional || !o.Optional) }
		return slices.ContainsFunc(wide, instead) || slices.ContainsFunc(same[g.Name], instead)
	})
}

// once sorts grants and keeps one of each, the needed one.
func once(grants []Grant) []Grant {
	out := slices.Clone(grants)
	slices.SortStableFunc(out, func(a, b Grant) int {
		return cmp.Or(compare(a, b), cmp.Compare(rank(a), rank(b)))
	})
	return slices.CompactFunc(out, func(a, b Grant) bool { return compare(a, b) == 0 })
}

// compare orders grants by what they are about; 0 is the same permission.
func compare(a, b Grant) int {
	return cmp.Or(cmp.Compare(place(a.Resource), place(b.Resource)), cmp.Compare(a.Name.Text, b.Name.Text),
		cmp.Compare(kind(a.Name), kind(b.Name)), cmp.Compare(a.Operation, b.Operation))
}

// place is where a resource stands in a list.
func place(r Resource) int {
	return slices.Index([]Resource{Topic, Group, TransactionalID, Cluster}, r)
}

func kind(n Name) int {
	if n.Prefixed {
		return 1
	}
	return 0
}

func rank(g Grant) int {
	if g.Optional {
		return 1
	}
	return 0
}
