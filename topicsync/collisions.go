package topicsync

import (
	"slices"

	"lockstep/config"
	"lockstep/internal/kafka"
)

// collisions finds out which source topics may not be copied, because another topic would get the same name on the
// target or a record would come round again. It asks again only when the source's topics changed.
type collisions struct {
	link   config.Link
	links  []config.Link // all of them, link included
	topics []string      // the names that found was made from, sorted
	found  map[string]string
}

// of returns the topics that may not be copied, each with why.
func (c *collisions) of(src map[string]kafka.TopicMeta) map[string]string {
	names := sorted(src)
	if c.found != nil && slices.Equal(names, c.topics) {
		return c.found
	}
	c.topics, c.found = names, make(map[string]string)
	for _, meet := range config.Collisions(c.links, map[string][]string{c.link.Source: names}) {
		for _, hop := range meet.Hops {
			if hop.Link == c.link.Name {
				c.found[hop.Topic] = meet.String()
			}
		}
	}
	return c.found
}
