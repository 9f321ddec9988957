package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxNodes bounds the places that aliases and merge keys may multiply a small file into.
const maxNodes = 200_000

// fileReader walks the nodes of a YAML file along the schema.
type fileReader struct {
	*reader
	name  string
	layer layer
	nodes int // visited so far
}

// readFile takes a YAML file's bytes. ok is false when they are not YAML at all, so that nothing can be said about
// what is missing.
func (r *reader) readFile(name string, text []byte) (l layer, ok bool) {
	f := &fileReader{reader: r, name: name, layer: layer{}}
	var doc, second yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(text))
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return f.layer, true
	}
	if err == nil {
		err = dec.Decode(&second)
		if err == nil {
			r.faults = append(r.faults, Fault{Place: f.place(&second), What: "a second YAML document begins here; one file is one configuration"})
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		r.faults = append(r.faults, f.syntax(err, text))
		return f.layer, false
	}
	f.container(r.schema, nil, doc.Content[0])
	if f.nodes > maxNodes {
		r.faults = append(r.faults, Fault{Place: Place{File: name, Line: 1}, What: fmt.Sprintf("aliases make more than %d entries of the file", maxNodes)})
	}
	return f.layer, true
}

func (f *fileReader) place(y *yaml.Node) Place { return Place{File: f.name, Line: y.Line} }

// syntax turns an error of the YAML library into a fault. Its message may quote a name with an asterisk, which could
// be an unquoted password; the fault does not.
func (f *fileReader) syntax(err error, text []byte) Fault {
	what, line := strings.TrimPrefix(err.Error(), "yaml: "), 1
	if m := regexp.MustCompile(`^(?s)line ([0-9]+): (.*)$`).FindStringSubmatch(what); m != nil {
		line, _ = strconv.Atoi(m[1])
		what = m[2]
	}
	if m := regexp.MustCompile(`(?s)anchor '(.*)' `).FindStringSubmatch(what); m != nil {
		what = "a value that begins with * must be quoted, or name an anchor (&) above it"
		if at := bytes.Index(text, []byte("*"+m[1])); at >= 0 {
			line = 1 + bytes.Count(text[:at], []byte("\n"))
		}
	}
	return Fault{Place: Place{File: f.name, Line: line}, What: "not valid YAML: " + what}
}

// container reads a section, a map of names or a list of sections.
func (f *fileReader) container(n *node, at path, y *yaml.Node) {
	y = target(y)
	if f.nodes++; f.nodes > maxNodes {
		return
	}
	switch {
	case isNull(y):
		if n.Optional {
			f.fault(Fault{Place: f.places[at.key()], What: "has nothing in it", Allowed: "{} to turn it on as it is, or leave the key out"}, at)
		}
	case n.Type == TypeSeq && y.Kind == yaml.SequenceNode:
		for i, item := range y.Content {
			entry := at.add(index(i))
			f.note(entry, f.place(item))
			f.container(n.step(""), entry, item)
		}
	case n.Type != TypeSeq && y.Kind == yaml.MappingNode:
		f.mapping(n, at, y)
	default:
		f.wrongKind(n, at, y)
	}
}

func (f *fileReader) mapping(n *node, at path, y *yaml.Node) {
	for _, p := range f.pairs(at, y) {
		if f.nodes++; f.nodes > maxNodes {
			return
		}
		here, place := at.add(p.name), f.place(p.key)
		child := n.step(p.name)
		if child == nil {
			f.unknown(n, here, place, path.String)
			continue
		}
		if n.Type == TypeMap && !f.nameOK(child, here, place) {
			continue
		}
		f.note(here, place)
		if child.container() {
			f.container(child, here, p.value)
		} else {
			f.leafValue(child, here, p.value)
		}
	}
}

// nameOK checks a name that the operator chose as a key.
func (f *fileReader) nameOK(child *node, here path, place Place) bool {
	wrong := child.judgeEntry(here[len(here)-1])
	if wrong != "" {
		f.fault(Fault{Place: place, What: wrong, Allowed: child.Allowed}, here)
	}
	return wrong == ""
}

func (f *fileReader) leafValue(n *node, at path, y *yaml.Node) {
	y = target(y)
	place := f.place(y)
	switch {
	case isNull(y):
		f.fault(Fault{Place: place, What: "has no value", Allowed: n.allowed()}, at)
	case n.Type == TypeList && y.Kind == yaml.SequenceNode:
		f.list(n, at, y)
	case n.Type != TypeList && plainScalar(y):
		if v, ok := f.value(n, at, y.Value, place); ok {
			f.layer[at.key()] = v
		}
	default:
		f.wrongKind(n, at, y)
	}
}

func (f *fileReader) list(n *node, at path, y *yaml.Node) {
	f.note(at, f.place(y))
	texts, ok := []string{}, true
	for i, item := range y.Content {
		item = target(item)
		if f.nodes++; f.nodes > maxNodes {
			return
		}
		if !plainScalar(item) {
			f.entryFault(n, at, i, "is "+kind(item)+", not a text", f.place(item))
			ok = false
			continue
		}
		ok = f.entry(n, at, i, item.Value, f.place(item)) && ok
		texts = append(texts, item.Value)
	}
	if ok {
		f.layer[at.key()] = texts
	}
}

func (f *fileReader) wrongKind(n *node, at path, y *yaml.Node) {
	want := map[Type]string{TypeSection: "a section", TypeMap: "a section", TypeSeq: "a list", TypeList: "a list"}[n.Type]
	if want == "" {
		want = "a single value"
	}
	allowed := n.allowed()
	if n.Type == TypeSection {
		allowed = strings.Join(n.names(), ", ")
	}
	if n.Optional {
		allowed = "{}, or a section of " + allowed
	}
	f.fault(Fault{Place: f.place(y), What: "is " + kind(y) + ", not " + want, Allowed: allowed}, at)
}

// kind names the form of a node. It never shows its content.
func kind(y *yaml.Node) string {
	switch {
	case y.Kind == yaml.SequenceNode:
		return "a list"
	case y.Kind == yaml.MappingNode:
		return "a section"
	case isNull(y):
		return "nothing"
	case !plainScalar(y):
		return "a value with a YAML tag"
	default:
		return "a single value"
	}
}

// target follows aliases to the node that they stand for.
func target(y *yaml.Node) *yaml.Node {
	for y.Kind == yaml.AliasNode {
		y = y.Alias
	}
	return y
}

func isNull(y *yaml.Node) bool { return y.Kind == yaml.ScalarNode && y.ShortTag() == "!!null" }

// plainScalar reports whether a node is one value whose text counts as it stands. Numbers and times do too, so that
// a rack may be called 1.
func plainScalar(y *yaml.Node) bool {
	if y.Kind != yaml.ScalarNode {
		return false
	}
	switch y.ShortTag() {
	case "!!str", "!!int", "!!float", "!!bool", "!!timestamp":
		return true
	}
	return false
}
