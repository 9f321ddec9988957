package config

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// maxMergeDepth bounds merges inside merges; an anchor can even contain itself.
const maxMergeDepth = 8

type pair struct {
	name       string
	key, value *yaml.Node
}

// pairs is the content of one mapping, and the line where each key stands.
type pairs struct {
	list []pair
	line map[string]int
}

func (p *pairs) add(name string, key, value *yaml.Node) {
	p.list = append(p.list, pair{name, key, value})
	p.line[name] = key.Line
}

// pairs returns the keys of a mapping with those that "<<" merges into it. A key of the mapping itself wins over a
// merged one, as an earlier merged one wins over a later one.
func (f *fileReader) pairs(at path, y *yaml.Node) []pair {
	var merges []*yaml.Node
	own := pairs{line: map[string]int{}}
	for i := 0; i+1 < len(y.Content); i += 2 {
		key, value := y.Content[i], y.Content[i+1]
		name, ok := f.keyName(at, key)
		if !ok {
			continue
		}
		if key.ShortTag() == "!!merge" {
			merges = append(merges, value)
			continue
		}
		if line, twice := own.line[name]; twice {
			f.fault(Fault{Place: f.place(key), What: fmt.Sprintf("is given twice, first in line %d", line)}, at.add(name))
			continue
		}
		own.add(name, key, value)
	}
	for _, m := range merges {
		f.merge(&own, at, m, 1)
	}
	return own.list
}

// keyName returns the text of a key.
func (f *fileReader) keyName(at path, key *yaml.Node) (string, bool) {
	key = target(key)
	if key.Kind != yaml.ScalarNode {
		f.faults = append(f.faults, Fault{Place: f.place(key), Key: at.String(), What: "has " + kind(key) + " as a key"})
		return "", false
	}
	return key.Value, true
}

// merge adds the keys of a mapping, or of a list of mappings, that are not there yet.
func (f *fileReader) merge(into *pairs, at path, from *yaml.Node, depth int) {
	from = target(from)
	if f.nodes++; f.nodes > maxNodes {
		return
	}
	switch {
	case depth > maxMergeDepth:
		f.fault(Fault{Place: f.place(from), What: fmt.Sprintf("merge keys (<<) are more than %d deep", maxMergeDepth)}, at)
	case from.Kind == yaml.SequenceNode:
		for _, item := range from.Content {
			f.merge(into, at, item, depth+1)
		}
	case from.Kind == yaml.MappingNode:
		f.mergeMapping(into, at, from, depth)
	default:
		f.fault(Fault{Place: f.place(from), What: "a merge key (<<) takes a section, or a list of sections"}, at)
	}
}

func (f *fileReader) mergeMapping(into *pairs, at path, from *yaml.Node, depth int) {
	for i := 0; i+1 < len(from.Content); i += 2 {
		key, value := from.Content[i], from.Content[i+1]
		if key.ShortTag() == "!!merge" {
			f.merge(into, at, value, depth+1)
			continue
		}
		f.nodes++
		name, ok := f.keyName(at, key)
		if _, there := into.line[name]; ok && !there {
			into.add(name, key, value)
		}
	}
}
