package config

import (
	"fmt"
	"slices"
	"strings"
)

// checkLoops refuses links that are certain to collide: a topic name that the pattern of one link selects is enough
// to show it, whatever topics there are. What only the real topics decide is left to Collisions at run time.
func (l *loader) checkLoops() {
	links := l.wholeLinks()
	reported := map[string]bool{}
	for _, link := range links {
		for _, topic := range samples(link) {
			l.checkState(link, topic, links)
			w := newWays(links)
			w.start(spot{link.Source, topic})
			for _, c := range w.collisions() {
				l.collision(c, reported)
			}
		}
	}
}

// checkState refuses to copy a topic onto the state topic of a link that ends on the same cluster.
func (l *loader) checkState(link Link, topic string, links []Link) {
	for _, other := range links {
		if other.Target != link.Target || link.TargetTopic(topic) != "lockstep."+other.Name+".state" {
			continue
		}
		i := slices.IndexFunc(l.config.Links, link.Equal)
		at := path{"links", index(i), "topics", "include"}
		l.fault(Fault{Place: l.place(at, l.whole()), What: fmt.Sprintf("%s would be written over the state of link %s", quote(topic), other.Name), Allowed: "topics other than it"}, at)
	}
}

// checkHeartbeats refuses links that would copy a topic onto the heartbeats that they, or others, write themselves.
func (l *loader) checkHeartbeats() {
	links := l.wholeLinks()
	for i, link := range l.config.Links {
		at := path{"links", index(i), "mirrormaker", "topics"}
		if !link.MirrorMaker.Topics || !l.ok(at) {
			continue
		}
		for _, other := range links {
			if ok, _ := other.Selects(heartbeatsTopic); ok && other.Target == link.Target && other.TargetTopic(heartbeatsTopic) == heartbeatsTopic {
				l.fault(Fault{Place: l.place(at, l.whole()), What: fmt.Sprintf("link %s copies %s from %s, and both would write the topic of that name on %s", other.Name, heartbeatsTopic, other.Source, link.Target),
					Allowed: fmt.Sprintf("false, or topics.rename of that link such as %s.{topic}", other.Source)}, at)
			}
		}
	}
}

// wholeLinks returns the links whose ends and topics are right, with their patterns compiled.
func (l *loader) wholeLinks() []Link {
	var links []Link
	for i := range l.config.Links {
		link, at := &l.config.Links[i], path{"links", index(i)}
		parts := []path{{"name"}, {"source"}, {"target"}, {"topics", "include"}, {"topics", "exclude"}, {"topics", "rename"}}
		if slices.ContainsFunc(parts, func(p path) bool { return !l.ok(at.add(p...)) }) {
			continue
		}
		if s, err := newSelector(link.Topics); err == nil {
			link.selector = s
			links = append(links, *link)
		}
	}
	return links
}

// collision reports one for each set of links, at the patterns of the link that is last in the file.
func (l *loader) collision(c Collision, reported map[string]bool) {
	names := slices.Sorted(slices.Values(c.Links()))
	key := string(c.Kind) + " " + strings.Join(names, " ")
	if reported[key] {
		return
	}
	reported[key] = true
	last := 0
	for i, link := range l.config.Links {
		if slices.Contains(names, link.Name) {
			last = i
		}
	}
	at := path{"links", index(last), "topics", "include"}
	l.fault(Fault{Place: l.place(at, l.whole()), What: "for example, " + c.String()}, at)
}
