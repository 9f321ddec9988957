package reset

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lockstep/checkpoint"
)

// Move is what happens to one position of one group. A move that is refused says why, and nothing happens to it.
type Move struct {
	Group string
	checkpoint.Key
	Old, New    int64 // offsets; -1: no position
	OldMetadata string
	Metadata    string
	Note        string // how New differs from what was asked for, and why
	Refused     string
	Line        int // of the file that asks for it

	Done  bool   // written, and read back as it was written
	Error string // writing it failed
}

// Plan is what is going to happen, by group, topic and partition.
type Plan struct {
	Moves    []Move
	Warnings []string
	// Missing says of moves that a file asks for, line by line, which partitions the cluster does not have.
	Missing []error
}

// Input is what a plan follows from.
type Input struct {
	Cluster string                 // its name, for sentences
	Groups  checkpoint.Picture     // of the targets' groups, and perhaps others, which are left out
	Logs    map[checkpoint.Key]Log // of the targets' partitions; what is not there does not exist
	Targets []Target
}

// Make plans. It is pure.
func Make(in Input) Plan {
	var p Plan
	wanted := make(map[string]map[checkpoint.Key]bool)
	for _, t := range in.Targets {
		if wanted[t.Group] == nil {
			wanted[t.Group] = make(map[checkpoint.Key]bool)
		}
		wanted[t.Group][t.Key] = true
		m := in.move(t)
		if _, ok := in.Logs[t.Key]; !ok && t.Line > 0 && t.Kind != Delete {
			p.Missing = append(p.Missing, at(t.Line, "%s", m.Refused))
		}
		p.Moves = append(p.Moves, m)
	}
	slices.SortFunc(p.Moves, func(a, b Move) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), a.Key.Compare(b.Key))
	})
	for _, name := range slices.Sorted(maps.Keys(in.Groups.Groups)) {
		if g := in.Groups.Groups[name]; wanted[name] == nil && !g.Supported() {
			p.Warnings = append(p.Warnings, fmt.Sprintf("%s is a %s and is left out", name, typeName(g.Type)))
		}
	}
	if text := in.fresh(slices.Sorted(maps.Keys(wanted))); text != "" {
		p.Warnings = append(p.Warnings, text)
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		p.Warnings = append(p.Warnings, partly(in.Groups.Groups[name], name, wanted[name])...)
	}
	return p
}

func (in Input) move(t Target) Move {
	g := in.Groups.Groups[t.Group]
	m := Move{Group: t.Group, Key: t.Key, Old: -1, New: -1, Line: t.Line}
	if c, ok := g.Offsets[t.Key]; ok {
		m.Old, m.OldMetadata = c.Offset, c.Metadata
	}
	if m.Refused = in.refusal(t.Group); m.Refused != "" {
		return m
	}
	if err := g.Unstable[t.Key]; err != nil {
		m.Refused = fmt.Sprintf("its position is about to change: %v", err)
		return m
	}
	l, ok := in.Logs[t.Key]
	switch {
	case t.Kind == Delete:
	case !ok:
		m.Refused = fmt.Sprintf("cluster %s has no partition %s", in.Cluster, t.Key)
		return m
	case l.Err != nil:
		m.Refused = fmt.Sprintf("the ends of its log cannot be read: %v", l.Err)
		return m
	}
	var err error
	if m.New, m.Note, err = t.place(m.Old, l); err != nil {
		m.New, m.Refused = -1, err.Error()
		return m
	}
	m.Note = joinNotes(t.Note, m.Note)
	switch {
	case t.Metadata != nil:
		m.Metadata = *t.Metadata
	case m.New == m.Old:
		m.Metadata = m.OldMetadata
	}
	return m
}

func joinNotes(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

// refusal says why a group's positions must not be moved now. Only who certainly has no members may be moved: members
// would go on from their own memory, and commit over what was written.
func (in Input) refusal(group string) string {
	if err := in.Groups.Failed[group]; err != nil {
		return fmt.Sprintf("the group cannot be read: %v", err)
	}
	g, ok := in.Groups.Groups[group]
	switch {
	case !ok && in.Groups.Partial != nil:
		return fmt.Sprintf("it is not known whether the group has members: %v", in.Groups.Partial)
	case !ok:
		return "" // a new group
	case !g.Supported():
		return fmt.Sprintf("it is a %s on cluster %s; only classic and consumer groups can be moved", typeName(g.Type), in.Cluster)
	case g.State == "":
		return "it is not known whether the group has members; that counts as active"
	case !g.Idle():
		return fmt.Sprintf("the group is active (%s): stop its members first", activity(g))
	}
	return ""
}

func activity(g checkpoint.Group) string {
	out := "state " + g.State + ", " + string(g.Type) + " protocol"
	if g.Protocol != "" && g.Protocol != "consumer" {
		out += " of type " + g.Protocol
	}
	return out
}

// fresh warns of groups that are not there yet: a name may be misspelt.
func (in Input) fresh(names []string) string {
	const most = 5
	names = slices.DeleteFunc(names, func(name string) bool {
		_, there := in.Groups.Groups[name]
		return there || in.refusal(name) != ""
	})
	if len(names) == 0 {
		return ""
	}
	more := ""
	if n := len(names) - most; n > 0 {
		names, more = names[:most], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("not there yet on cluster %s, and made by this: %q%s", in.Cluster, names, more)
}

// partly warns of topics in which only some of the group's positions move: mostly a partition was forgotten.
func partly(g checkpoint.Group, name string, moving map[checkpoint.Key]bool) []string {
	stay := make(map[string][]int32)
	for k := range g.Offsets {
		if !moving[k] {
			stay[k.Topic] = append(stay[k.Topic], k.Partition)
		}
	}
	topics := make(map[string]bool)
	for k := range moving {
		topics[k.Topic] = true
	}
	var out []string
	for _, t := range slices.Sorted(maps.Keys(topics)) {
		if ps := stay[t]; len(ps) > 0 {
			slices.Sort(ps)
			out = append(out, fmt.Sprintf("only some partitions of %s move: group %s has positions in %s that stay", t, name, partitionList(ps)))
		}
	}
	return out
}

// partitionList names partitions, as 1, 2, 5 and 12 more.
func partitionList(ps []int32) string {
	const most = 10
	var b strings.Builder
	for i, p := range ps[:min(len(ps), most)] {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%d", p)
	}
	if more := len(ps) - most; more > 0 {
		fmt.Fprintf(&b, " and %d more", more)
	}
	return b.String()
}

func typeName(t checkpoint.GroupType) string {
	if t == "" {
		return "group of unknown type"
	}
	return string(t) + " group"
}
