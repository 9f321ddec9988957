package reset

import (
	"fmt"
	"slices"
	"strings"
)

// Topic is one --topic: all partitions, or those that are named.
type Topic struct {
	Name       string
	Partitions []int32 // nil: all
}

// ParseTopics reads T and T:0,1 as kafka-consumer-groups.sh does. A topic that is named twice has all that is named.
func ParseTopics(texts []string) ([]Topic, error) {
	var out []Topic
	for _, text := range texts {
		name, list, some := strings.Cut(text, ":")
		name, err := parseTopic(name)
		if err != nil {
			return nil, fmt.Errorf("topic %q: want TOPIC, or TOPIC:0,1 for some of its partitions", text)
		}
		t := Topic{Name: name}
		if some {
			for field := range strings.SplitSeq(list, ",") {
				p, err := parsePartition(field)
				if err != nil {
					return nil, fmt.Errorf("topic %q: %w", text, err)
				}
				t.Partitions = append(t.Partitions, p)
			}
		}
		slices.Sort(t.Partitions)
		t.Partitions = slices.Compact(t.Partitions)
		out = addTopic(out, t)
	}
	return out, nil
}

func addTopic(ts []Topic, t Topic) []Topic {
	i := slices.IndexFunc(ts, func(o Topic) bool { return o.Name == t.Name })
	switch {
	case i < 0:
		return append(ts, t)
	case ts[i].Partitions == nil || t.Partitions == nil:
		ts[i].Partitions = nil
	default:
		ts[i].Partitions = append(ts[i].Partitions, t.Partitions...)
		slices.Sort(ts[i].Partitions)
		ts[i].Partitions = slices.Compact(ts[i].Partitions)
	}
	return ts
}
