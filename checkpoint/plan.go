package checkpoint

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Rules are what a plan goes by. They come from the configuration and, Retention, from the target.
type Rules struct {
	Link string
	// Sync false: nothing is to be written; what would be is shown.
	Sync bool
	// MaxRewind is by how many offsets a position may move back on the source and be followed at once, RewindHold for how
	// long one that moved back further is not followed.
	MaxRewind  int64
	RewindHold time.Duration
	// Retention is for how long the target keeps offsets of groups without members; 0 when it is not known.
	Retention time.Duration
	// DstGroup gives the name on the target; nil: the same.
	DstGroup func(string) string
}

// Input is all that a plan depends on. Nothing of it is changed.
type Input struct {
	Now time.Time
	// Source and Target are what the two clusters showed, Target under the names and topics of the target.
	Source, Target Picture
	// Lanes are by the source's topic and partition, as they are after Source was read.
	Lanes map[Key]Lane
	// Bases are what was stored of the groups to be planned. Known is how many groups have bases in all, if that is more.
	Bases map[string]map[Key]Base
	Known int
	Rules Rules
	// Accept names groups of the source whose objections are settled: they are written over what others moved, a suspect
	// position is followed, what is known of one that vanished is forgotten.
	Accept map[string]bool
}

// Plan decides for every position of every group in the input what is to be written, and says why. Rows come by group,
// topic and partition. A group without any position in a lane's topic, or of a type that keeps none, has one row with an
// empty Key. It is pure: the same input gives the same rows.
func Plan(in Input) []Row {
	p := &planner{Input: in}
	names := p.names()
	p.rows = make([]Row, 0, p.positions(names))
	for _, name := range names {
		p.group(name)
	}
	p.many()
	return p.rows
}

// planner is one plan in the making.
type planner struct {
	Input
	rows []Row
	// fresh are the rows that became suspect in this plan in a way that lasts, freshGroups of how many groups.
	fresh       []int
	freshGroups int
	keys        []Key // of the present group; reused
	now         place // the present position; reused
}

// names returns all groups of the source, and those that are known and not there.
func (p *planner) names() []string {
	all := make(map[string]struct{}, len(p.Source.Groups))
	for name := range p.Source.Groups {
		all[name] = struct{}{}
	}
	for name := range p.Source.Failed {
		all[name] = struct{}{}
	}
	for name := range p.Bases {
		all[name] = struct{}{}
	}
	return slices.Sorted(maps.Keys(all))
}

// positions returns about how many rows there will be.
func (p *planner) positions(names []string) int {
	n := 0
	for _, name := range names {
		n += max(1, len(p.Source.Groups[name].Offsets), len(p.Bases[name]))
	}
	return n
}

// subject is the group that is being planned.
type subject struct {
	name, dst string
	src       Group // without positions if it is not there
	target    Group
	bases     map[Key]Base
	accept    bool
	// unreadable says why the source's positions are not known; whoever is missing then has not vanished.
	unreadable error
	// blocked is why nothing may be written into the group on the target, and what was seen.
	blocked State
	detail  string
}

// group plans one group.
func (p *planner) group(name string) {
	s := p.subject(name)
	if s.src.Name != "" && !s.src.Supported() {
		p.only(s, StateUnsupportedType, "a "+string(s.src.Type)+" group")
		return
	}
	before := len(p.rows)
	for _, key := range p.keysOf(s) {
		p.position(s, key)
	}
	if n := len(p.fresh); n > 0 && p.fresh[n-1] >= before {
		p.freshGroups++
	}
	switch {
	case len(p.rows) > before:
	case s.unreadable != nil:
		p.only(s, StateSourceUnreadable, s.unreadable.Error())
	case s.src.Name != "":
		p.only(s, StateNoMirroredTopics, "")
	}
}

func (p *planner) subject(name string) *subject {
	s := &subject{name: name, dst: name, bases: p.Bases[name], accept: p.Accept[name]}
	if p.Rules.DstGroup != nil {
		s.dst = p.Rules.DstGroup(name)
	}
	src, there := p.Source.Groups[name]
	if s.src = src; there {
		s.src.Name = name
	}
	if s.unreadable = p.Source.Failed[name]; s.unreadable == nil && !there {
		s.unreadable = p.Source.Partial
	}
	s.target, s.blocked, s.detail = p.target(s.dst)
	return s
}

// only adds the one row of a group that has no positions.
func (p *planner) only(s *subject, state State, detail string) {
	p.rows = append(p.rows, Row{Group: s.name, DstGroup: s.dst, Source: -1, Translated: -1, Target: -1, State: state, Detail: detail})
}

// keysOf returns, in order, where the group has or had positions in lanes.
func (p *planner) keysOf(s *subject) []Key {
	keys := p.keys[:0]
	for k := range s.src.Offsets {
		keys = append(keys, k)
	}
	for k := range s.src.Unstable {
		if _, twice := s.src.Offsets[k]; !twice {
			keys = append(keys, k)
		}
	}
	for k := range s.bases {
		_, twice := s.src.Offsets[k]
		_, thrice := s.src.Unstable[k]
		if !twice && !thrice {
			keys = append(keys, k)
		}
	}
	p.keys = keys
	keys = slices.DeleteFunc(keys, func(k Key) bool { _, ok := p.Lanes[k]; return !ok })
	slices.SortFunc(keys, Key.Compare)
	return keys
}

// position plans one position of a group, in a topic that has a lane.
func (p *planner) position(s *subject, key Key) {
	lane := p.Lanes[key]
	base, known := s.bases[key]
	p.rows = append(p.rows, Row{Group: s.name, DstGroup: s.dst, Key: key, DstTopic: lane.DstTopic, Source: -1, Translated: -1, Target: -1, Base: base})
	r := &p.rows[len(p.rows)-1]
	if c, ok := s.src.Offsets[key]; ok {
		r.Source, r.Metadata = c.Offset, c.Metadata
	}
	p.now = place{p: p, s: s, r: r, lane: lane, base: base, known: known,
		mine: known && cmp.Or(base.DstGroup, s.name) == s.dst}
	p.now.plan()
	if p.now.fresh {
		p.fresh = append(p.fresh, len(p.rows)-1)
	}
}
