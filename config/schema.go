package config

import (
	"cmp"
	"strings"
)

// node is a place in the tree that the table's paths make.
type node struct {
	Key
	segment  string
	parent   *node
	children []*node // in the table's order
}

// newSchema builds the tree. Its root stands for the whole file.
func newSchema(keys []Key) *node {
	root := &node{Key: Key{Type: TypeSection}}
	for _, k := range keys {
		at := root
		segments := splitPattern(k.Path)
		for _, s := range segments[:len(segments)-1] {
			at = at.child(s)
		}
		k.Reload = cmp.Or(k.Reload, at.Reload)
		at.children = append(at.children, &node{Key: k, segment: segments[len(segments)-1], parent: at})
	}
	return root
}

// splitPattern turns "links[].name" into links, [], name.
func splitPattern(pattern string) path {
	return strings.Split(strings.ReplaceAll(pattern, "[]", ".[]"), ".")
}

// child returns the child of that segment, or nil.
func (n *node) child(segment string) *node {
	for _, c := range n.children {
		if c.segment == segment {
			return c
		}
	}
	return nil
}

// step returns where a segment leads: a name below a map and an entry of a list lead to the same place for all.
func (n *node) step(segment string) *node {
	switch n.Type {
	case TypeMap:
		return n.child("*")
	case TypeSeq:
		return n.child("[]")
	default:
		return n.child(segment)
	}
}

func (n *node) leaf() bool { return !n.container() }

func (n *node) container() bool {
	return n.Type == TypeSection || n.Type == TypeMap || n.Type == TypeSeq
}

// names returns the keys that may stand in a section.
func (n *node) names() []string {
	names := make([]string, 0, len(n.children))
	for _, c := range n.children {
		names = append(names, c.segment)
	}
	return names
}

// walk visits the node and everything below it, in the table's order.
func (n *node) walk(visit func(*node)) {
	visit(n)
	for _, c := range n.children {
		c.walk(visit)
	}
}

// path returns the pattern of the node as segments.
func (n *node) path() path {
	if n.parent == nil {
		return nil
	}
	return n.parent.path().add(n.segment)
}
