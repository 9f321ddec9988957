package topicsync

import (
	"slices"

	"lockstep/config"
	"lockstep/internal/kafka"
)

// collisions finds out which source topics may not be copied, because another topic would get the same name on the
// target or a record would come round again. It asks again only when the source's topics or the links changed.
type collisions struct {
	links  []config.Link // all of them
	topics []string      // the names that found was made from, sorted
	found  map[string]string
}

// of returns the topics of a link's source that may not be copied, each with why.
func (c *collisions) of(link config.Link, links []config.Link, src map[string]kafka.TopicMeta) map[string]string {
	names := sorted(src)
	if c.found != nil && slices.Equal(names, c.topics) && slices.EqualFunc(links, c.links, config.Link.Equal) {
		return c.found
	}
	c.links, c.topics, c.found = links, names, make(map[string]string)
	for _, meet := range config.Collisions(links, map[string][]string{link.Source: names}) {
		for _, hop := range meet.Hops {
			if hop.Link == link.Name {
				c.found[hop.Topic] = meet.String()
			}
		}
	}
	return c.found
}
