package config

import "strings"

// reader gathers what the file, the environment and the flags say, and everything that is wrong with it.
type reader struct {
	schema *node
	faults []Fault

	// places says where a value or a section was given, by path key; for a value by the layer that wins.
	places map[string]Place

	// bad holds paths whose value could not be used. What would follow from their absence is not reported too.
	bad map[string]bool
}

func newReader() *reader {
	return &reader{schema: newSchema(Keys()), places: map[string]Place{}, bad: map[string]bool{}}
}

// fault reports what is wrong at a path and marks the path as not usable. The empty path is the whole configuration.
func (r *reader) fault(f Fault, at path) {
	f.Key = at.String()
	r.faults = append(r.faults, f)
	r.bad[at.key()] = true
}

// ok reports whether nothing is wrong with the path itself, nor with any place above it.
func (r *reader) ok(p path) bool {
	for n := len(p); n >= 0; n-- {
		if r.bad[p[:n].key()] {
			return false
		}
	}
	return true
}

// has reports whether any layer gives the value, the section, or something in the section.
func (r *reader) has(p path) bool {
	_, ok := r.places[p.key()]
	return ok
}

// place returns where a path was given, else where the nearest section above it was; the file as a whole in the end.
func (r *reader) place(p path, whole Place) Place {
	for n := len(p); n > 0; n-- {
		if at, ok := r.places[p[:n].key()]; ok {
			return at
		}
	}
	return whole
}

// value takes a scalar's text for a leaf: it parses, checks and remembers the place. ok is false after a fault.
func (r *reader) value(n *node, at path, text string, place Place) (value any, ok bool) {
	value, wrong := n.parse(text)
	if wrong != "" {
		r.fault(Fault{Place: place, What: wrong, Allowed: n.allowed(), Nearest: nearestValue(n.Key, text)}, at)
		return nil, false
	}
	r.note(at, place)
	ok = true
	if list, isList := value.([]string); isList {
		for i, entry := range list {
			ok = r.entry(n, at, i, entry, place) && ok
		}
		return value, ok
	}
	if wrong := n.judge(value); wrong != "" {
		r.fault(Fault{Place: place, What: wrong, Allowed: n.allowed(), Nearest: nearestValue(n.Key, text)}, at)
		return nil, false
	}
	return value, true
}

// entry checks one entry of a list of texts.
func (r *reader) entry(n *node, at path, i int, text string, place Place) (ok bool) {
	wrong := n.judgeEntry(text)
	if wrong != "" {
		r.entryFault(n, at, i, wrong, place)
	}
	return wrong == ""
}

// entryFault reports an entry of a list, and so makes the whole list unusable.
func (r *reader) entryFault(n *node, at path, i int, wrong string, place Place) {
	r.fault(Fault{Place: place, What: wrong, Allowed: n.allowed()}, at.add(index(i)))
	r.bad[at.key()] = true
}

// note remembers the place of a value, and of the sections around it where they have none yet.
func (r *reader) note(p path, place Place) {
	r.places[p.key()] = place
	for n := len(p) - 1; n > 0; n-- {
		if _, ok := r.places[p[:n].key()]; !ok {
			r.places[p[:n].key()] = place
		}
	}
}

// nearestValue suggests a value; never for a secret.
func nearestValue(k Key, text string) string {
	switch {
	case k.Type == TypeEnum:
		return nearest(text, k.Values)
	case k.Path == "links[].start":
		return nearest(text, []string{"earliest", "latest"})
	}
	return ""
}

// unknown reports a key that is not in the table. spell turns a path into what the operator has to write.
func (r *reader) unknown(parent *node, at path, place Place, spell func(path) string) {
	word := at[len(at)-1]
	f := Fault{Place: place, What: "unknown key", Allowed: strings.Join(parent.names(), ", ")}
	if near := nearest(word, parent.names()); near != "" {
		f.Nearest = spell(at[:len(at)-1].add(near))
	} else if elsewhere := r.elsewhere(at); elsewhere != nil {
		f.Nearest = spell(elsewhere)
	}
	r.fault(f, at)
}

// elsewhere finds a key of that name in another section, for instance topics.include for an include right below the
// link. A section near by is preferred.
func (r *reader) elsewhere(at path) path {
	var found path
	shared := -1
	r.schema.walk(func(n *node) {
		if n.parent == nil || bare(n.segment) != bare(at[len(at)-1]) {
			return
		}
		if p, s := concrete(n.path(), at); s > shared {
			found, shared = p, s
		}
	})
	return found
}

// concrete fills the names and entries of at into a pattern, as far as both go the same way; shared is how far.
func concrete(pattern, at path) (filled path, shared int) {
	filled = pattern.add()
	for i := range min(len(pattern), len(at)) {
		if pattern[i] != "*" && pattern[i] != "[]" && pattern[i] != at[i] {
			break
		}
		filled[i] = at[i]
		shared++
	}
	return filled, shared
}

// layer is what one source says: path keys and parsed values.
type layer map[string]any
