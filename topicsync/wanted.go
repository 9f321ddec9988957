package topicsync

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"lockstep/config"
	"lockstep/internal/kafka"
)

// Wanted is a source topic that a link copies, with both sides as they were last seen.
type Wanted struct {
	Src    kafka.TopicMeta
	Dst    kafka.TopicMeta // only its Name is set when Exists is false
	Exists bool            // on the target
}

// Skipped is a source topic that a link does not copy, and why.
type Skipped struct {
	Topic string
	Why   string
	Fault bool // the link's patterns ask for it, and it cannot be
}

// Select pairs the source's topics with the target's by the link's filters and names, in the order of source names.
// collisions are source topics whose target name another topic has too: none of those is copied.
func Select(link config.Link, src, dst map[string]kafka.TopicMeta, collisions map[string]string) ([]Wanted, []Skipped) {
	var wanted []Wanted
	var skipped []Skipped
	for _, name := range slices.Sorted(maps.Keys(src)) {
		if why, fault := leftOut(link, src[name], collisions); why != "" {
			skipped = append(skipped, Skipped{name, why, fault})
			continue
		}
		w := Wanted{Src: src[name], Dst: kafka.TopicMeta{Name: link.TargetTopic(name)}}
		if t, ok := dst[w.Dst.Name]; ok && !errors.Is(t.Err, kerr.UnknownTopicOrPartition) {
			w.Dst, w.Exists = t, true
		}
		wanted = append(wanted, w)
	}
	return wanted, skipped
}

// leftOut says why a topic is not copied, "" when it is. It is a fault when the link asks for the topic all the same: its
// name on the target would be too long, or another topic's.
func leftOut(link config.Link, t kafka.TopicMeta, collisions map[string]string) (why string, fault bool) {
	if t.Internal {
		return "it belongs to the brokers and is never copied", false
	}
	if ok, why := link.Selects(t.Name); !ok {
		return why, len(link.TargetTopic(t.Name)) > config.MaxTopicName
	}
	return collisions[t.Name], collisions[t.Name] != ""
}

// replicas returns the number of replicas of a topic's partitions, the largest if they differ, 0 if not known.
func replicas(t kafka.TopicMeta) int {
	if len(t.Parts) == 0 {
		return 0
	}
	most := slices.MaxFunc(t.Parts, func(a, b kafka.PartMeta) int { return cmp.Compare(len(a.Replicas), len(b.Replicas)) })
	return len(most.Replicas)
}
