package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// CollisionKind says in which way topics meet.
type CollisionKind string

// The kinds.
const (
	CollisionLinks  CollisionKind = "two_links"  // two links write one target topic
	CollisionTopics CollisionKind = "two_topics" // one link gives two source topics one target topic
	CollisionCycle  CollisionKind = "cycle"      // a record would pass the same links again and again
)

// Hop is one topic that one link copies.
type Hop struct {
	Link    string `json:"link"`
	Cluster string `json:"cluster"` // the link's source
	Topic   string `json:"topic"`   // the name there
	Target  string `json:"target"`  // the name on the link's target
}

// Collision is a set of copies that must not run together.
type Collision struct {
	Kind    CollisionKind `json:"kind"`
	Cluster string        `json:"cluster"` // where they meet
	Topic   string        `json:"topic"`   // the topic that they would write there
	Hops    []Hop         `json:"hops"`    // for a cycle in the order of the way, else by link and topic
	Remedy  string        `json:"remedy"`  // what to change
}

// Links returns the names of the links that take part, each once.
func (c Collision) Links() []string {
	var links []string
	for _, h := range c.Hops {
		if !slices.Contains(links, h.Link) {
			links = append(links, h.Link)
		}
	}
	return links
}

// Involves reports whether the copy of that source topic by that link takes part.
func (c Collision) Involves(link, topic string) bool {
	return slices.ContainsFunc(c.Hops, func(h Hop) bool { return h.Link == link && h.Topic == topic })
}

// String returns one sentence: what meets where, and what to change.
func (c Collision) String() string {
	hops := make([]string, 0, len(c.Hops))
	for _, h := range c.Hops {
		hops = append(hops, fmt.Sprintf("%s (%s:%s → %s)", h.Link, h.Cluster, h.Topic, h.Target))
	}
	switch c.Kind {
	case CollisionCycle:
		return fmt.Sprintf("topic %q would be copied in a circle: %s; %s", c.Hops[0].Topic, strings.Join(hops, ", then "), c.Remedy)
	case CollisionTopics:
		return fmt.Sprintf("two topics of link %s would become one, %q on %s: %s; %s", c.Hops[0].Link, c.Topic, c.Cluster, strings.Join(hops, ", "), c.Remedy)
	default:
		return fmt.Sprintf("two links would write topic %q on %s: %s; %s", c.Topic, c.Cluster, strings.Join(hops, ", "), c.Remedy)
	}
}

// Collisions follows every topic through the links and returns what would collide: two links that write one target
// topic, two topics of one link that get one name, and cycles. topicsBySourceCluster holds the names of all topics
// on each source cluster, by the cluster's name; topics that only come to be by copying need not be there. The
// result is sorted and does not depend on the order of links and topics. It reads nothing but its arguments.
func Collisions(links []Link, topicsBySourceCluster map[string][]string) []Collision {
	w := newWays(links)
	for _, cluster := range slices.Sorted(maps.Keys(topicsBySourceCluster)) {
		for _, topic := range slices.Sorted(slices.Values(topicsBySourceCluster[cluster])) {
			w.start(spot{cluster, topic})
		}
	}
	return w.collisions()
}

// spot is a topic on a cluster.
type spot struct{ cluster, topic string }

// ways follows topics through links.
type ways struct {
	from    map[string][]Link // by source cluster
	seen    map[spot]bool     // false while the way that is followed now leads through it
	writers map[spot][]Hop
	cycles  []Collision
	circles map[Hop]bool // last hops of the cycles that were found

	visited int  // spots from the present start
	over    bool // a name that grows for ever was found; nothing more is asked of the present start
}

// maxSpots bounds what one topic may become by ways that take a link twice: names that grow in two ways at once
// double with every round.
const maxSpots = 1000

// start follows one topic of a source cluster.
func (w *ways) start(at spot) {
	w.visited, w.over = 0, false
	w.follow(at, nil)
}

// step is the last hop of a way and what came before it.
type step struct {
	Hop
	before *step
}

func newWays(links []Link) *ways {
	w := &ways{from: map[string][]Link{}, seen: map[spot]bool{}, writers: map[spot][]Hop{}, circles: map[Hop]bool{}}
	byName := func(a, b Link) int { return cmp.Compare(a.Name, b.Name) }
	for _, l := range slices.SortedFunc(slices.Values(links), byName) {
		w.from[l.Source] = append(w.from[l.Source], l)
	}
	return w
}

// follow visits everything that a topic becomes; way is how it came here. It ends, because a name that grows with each
// round becomes too long for Kafka.
func (w *ways) follow(at spot, way *step) {
	if _, before := w.seen[at]; before {
		return
	}
	w.seen[at] = false
	w.visited++
	for _, l := range w.from[at.cluster] {
		if w.over || l.refuses(at.topic) != "" {
			continue
		}
		hop := Hop{Link: l.Name, Cluster: at.cluster, Topic: at.topic, Target: l.TargetTopic(at.topic)}
		w.take(hop, spot{l.Target, hop.Target}, way)
	}
	w.seen[at] = true
}

// take follows one hop. A circle is closed when it leads to a topic that the way came through, or when a name has
// grown too long by passing one link again and again.
func (w *ways) take(hop Hop, next spot, way *step) {
	longer := &step{hop, way}
	tooLong := len(next.topic) > MaxTopicName
	if tooLong || w.visited > maxSpots {
		if round := firstRound(longer); len(round) > 0 {
			w.cycle(round)
			w.over = true
		}
	}
	if tooLong || w.over {
		return
	}
	w.writers[next] = append(w.writers[next], hop)
	if finished, before := w.seen[next]; before && !finished {
		w.cycle(since(longer, next))
		return
	}
	w.follow(next, longer)
}

// since returns the hops of the way from a topic on.
func since(way *step, from spot) []Hop {
	var hops []Hop
	for s := way; s != nil; s = s.before {
		hops = append(hops, s.Hop)
		if (spot{s.Cluster, s.Topic}) == from {
			break
		}
	}
	slices.Reverse(hops)
	return hops
}

// firstRound returns the hops from the first link that is taken twice until it is taken again; none when no link is.
func firstRound(way *step) []Hop {
	hops := since(way, spot{})
	first := map[string]int{}
	for i, h := range hops {
		if j, again := first[h.Link]; again {
			return hops[j : i+1]
		}
		first[h.Link] = i
	}
	return nil
}

// cycle keeps a circle that was not found before.
func (w *ways) cycle(hops []Hop) {
	if last := hops[len(hops)-1]; !w.circles[last] {
		w.circles[last] = true
		w.cycles = append(w.cycles, newCycle(hops))
	}
}

func newCycle(way []Hop) Collision {
	last, cuts, cluster := way[len(way)-1], way, way[0].Cluster
	if way[0].Link == last.Link && len(way) > 1 {
		cuts = way[1:] // leaving out the first would be not to copy the topic at all
		cluster = cuts[0].Cluster
	}
	ways := make([]string, 0, len(cuts))
	for _, h := range cuts {
		ways = append(ways, fmt.Sprintf("%q from link %s", h.Topic, h.Link))
	}
	return Collision{
		Kind: CollisionCycle, Cluster: cluster, Topic: last.Target, Hops: way,
		Remedy: "exclude " + strings.Join(ways, ", or "),
	}
}

func (w *ways) collisions() []Collision {
	all := slices.Clone(w.cycles)
	for at, hops := range w.writers {
		if len(hops) > 1 {
			all = append(all, newMeeting(at, hops))
		}
	}
	slices.SortFunc(all, func(a, b Collision) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.String(), b.String()))
	})
	return all
}

func newMeeting(at spot, hops []Hop) Collision {
	slices.SortFunc(hops, func(a, b Hop) int { return cmp.Or(cmp.Compare(a.Link, b.Link), cmp.Compare(a.Topic, b.Topic)) })
	c := Collision{Kind: CollisionLinks, Cluster: at.cluster, Topic: at.topic, Hops: hops}
	links := c.Links()
	if len(links) == 1 {
		c.Kind = CollisionTopics
		c.Remedy = fmt.Sprintf("give topics.rename of link %s a {topic}, or exclude all but one of them", links[0])
		return c
	}
	c.Remedy = fmt.Sprintf("exclude %q from all but one of the links %s, or give one of them another topics.rename", hops[0].Topic, strings.Join(links, ", "))
	return c
}
