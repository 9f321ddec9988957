package config

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/knadh/koanf/providers/env/v2"
)

// envPrefix begins every environment variable that is a setting; envLevel stands between its levels.
const (
	envPrefix = "LOCKSTEP_"
	envLevel  = "__"
)

// names are the clusters and links that the file knows. Variables refer to them without regard to case, and with an
// underscore for a dot or hyphen, which a variable's name cannot have.
type names struct {
	clusters []string
	links    []string // by their position; "" has no name
}

// envReader turns environment variables into values.
type envReader struct {
	*reader
	names names
	given map[string]string // path key → variable
}

// readEnv returns koanf's provider of the environment's values. Faults are reported while koanf reads it.
func (r *reader) readEnv(environ []string, known names) *env.Env {
	e := &envReader{reader: r, names: known, given: map[string]string{}}
	return env.Provider(delim, env.Opt{
		Prefix:        envPrefix,
		EnvironFunc:   func() []string { return environ },
		TransformFunc: e.variable,
	})
}

// variable returns the path key and the value of a variable; an empty key when it is not a setting, or at fault.
func (e *envReader) variable(name, text string) (string, any) {
	place := Place{Name: name}
	words := strings.Split(strings.ToLower(strings.TrimPrefix(name, envPrefix)), envLevel)
	if len(words) == 1 {
		e.singleUnderscore(name, words[0])
		return "", nil
	}
	n, at, wrong := e.resolve(words)
	switch {
	case wrong.What != "":
		wrong.Place = place
		e.fault(wrong, at)
		return "", nil
	case n == nil:
		e.unknown(e.parentOf(at), at, place, func(p path) string { return variableName(p.add(words[len(at):]...)) })
		return "", nil
	case n.container():
		e.switchOn(n, at, text, place)
		return "", nil
	}
	if other, twice := e.given[at.key()]; twice {
		e.fault(Fault{Place: place, What: "gives the same key as " + other}, at)
		return "", nil
	}
	e.given[at.key()] = name
	v, ok := e.value(n, at, text, place)
	if !ok {
		return "", nil
	}
	return at.key(), v
}

// resolve walks the schema. n is nil when the last segment of at is unknown.
func (e *envReader) resolve(words []string) (n *node, at path, wrong Fault) {
	n = e.schema
	for _, word := range words {
		if !n.container() {
			return nil, at, Fault{What: "has nothing below it"}
		}
		var segment string
		if segment, wrong = e.segment(n, word); wrong.What != "" {
			return nil, at.add(word), wrong
		}
		at = at.add(segment)
		if n = n.step(segment); n == nil {
			return nil, at, Fault{}
		}
	}
	return n, at, Fault{}
}

// parentOf returns the node above the last segment of a path whose other segments are known.
func (e *envReader) parentOf(at path) *node {
	n := e.schema
	for _, s := range at[:len(at)-1] {
		n = n.step(s)
	}
	return n
}

// segment turns one word of a variable's name into a path segment.
func (e *envReader) segment(n *node, word string) (string, Fault) {
	switch n.Type {
	case TypeMap:
		return e.clusterSegment(n.child("*"), word)
	case TypeSeq:
		return e.linkSegment(word)
	default:
		return word, Fault{}
	}
}

// clusterSegment finds the file's cluster of that name; none is a new cluster in small letters.
func (e *envReader) clusterSegment(child *node, word string) (string, Fault) {
	found := alike(word, e.names.clusters)
	switch {
	case len(found) > 1:
		return "", Fault{What: fmt.Sprintf("%s could be the cluster %s", quote(word), strings.Join(found, " or "))}
	case len(found) == 1:
		return found[0], Fault{}
	}
	if wrong := child.judgeEntry(word); wrong != "" {
		return "", Fault{What: wrong, Allowed: child.Allowed}
	}
	return word, Fault{}
}

// linkSegment finds the link by its number or by its name in the file. A number may be that of a new link.
func (e *envReader) linkSegment(word string) (string, Fault) {
	if n, err := strconv.ParseUint(word, 10, 16); err == nil {
		return index(int(n)), Fault{}
	}
	found := alike(word, e.names.links)
	allowed := "a link's number from 0, or its name in the file"
	switch {
	case word == "" || len(found) == 0:
		return "", Fault{What: fmt.Sprintf("there is no link %s in the file", quote(word)), Allowed: allowed, Nearest: nearest(word, e.names.links)}
	case len(found) > 1:
		return "", Fault{What: fmt.Sprintf("%s could be the link %s", quote(word), strings.Join(found, " or ")), Allowed: allowed}
	}
	for i, name := range e.names.links {
		if name == found[0] {
			return index(i), Fault{}
		}
	}
	return "", Fault{}
}

func alike(word string, names []string) []string {
	var found []string
	for _, name := range names {
		if name != "" && envWord(name) == envWord(word) {
			found = append(found, name)
		}
	}
	return found
}

func envWord(name string) string {
	return strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(name))
}

// switchOn takes "{}" for a section that means something by being there, such as tls.
func (r *reader) switchOn(n *node, at path, text string, place Place) {
	if n.Optional && text == "{}" {
		r.note(at, place)
		return
	}
	allowed := "one of the keys in it: " + strings.Join(n.names(), ", ")
	if n.Optional {
		allowed = "{}, or " + allowed
	}
	r.fault(Fault{Place: place, What: "is a section", Allowed: allowed}, at)
}

// singleUnderscore reports a variable that would be a setting if it had two underscores between its levels. Others
// without two underscores are not ours: Kubernetes sets LOCKSTEP_PORT and the like for a service called lockstep.
func (e *envReader) singleUnderscore(name, word string) {
	e.schema.walk(func(n *node) {
		if n.parent == nil || n.container() || !sameWords(n.path(), strings.Split(word, "_")) {
			return
		}
		e.faults = append(e.faults, Fault{Place: Place{Name: name}, Key: n.Path, What: "two underscores stand between the levels of a key", Nearest: variableName(n.path())})
	})
}

// sameWords reports whether single-underscore words spell a pattern, with any one word for a name or number.
func sameWords(pattern path, words []string) bool {
	var want []string
	for _, s := range pattern {
		want = append(want, strings.Split(s, "_")...)
	}
	if len(want) != len(words) {
		return false
	}
	for i, w := range want {
		if w != words[i] && w != "*" && w != "[]" {
			return false
		}
	}
	return true
}

// variableName returns the environment variable for a path or pattern. A name or number of the operator's choice
// shows as <NAME> or <N>.
func variableName(p path) string {
	words := make([]string, 0, len(p))
	for _, s := range p {
		switch n, isEntry := isIndex(s); {
		case isEntry:
			words = append(words, strconv.Itoa(n))
		case s == "*":
			words = append(words, "<NAME>")
		case s == "[]":
			words = append(words, "<N>")
		default:
			words = append(words, envWord(s))
		}
	}
	return envPrefix + strings.Join(words, envLevel)
}
