package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Change is one difference between two configurations.
type Change struct {
	// Key is the place: limits.buffer_bytes, clusters.primary.brokers, links[dr].on_gap. A link goes by its name and
	// not by its number, so that reordering links is no change.
	Key string
	// Old and New are the values as they are printed, secrets as [redacted]; "" where there was or is none.
	Old, New string
	Link     string // the link that it concerns; "" if none
	Cluster  string // the cluster that it concerns; "" if none
	Reload   Reload // how it is taken over
}

// String returns one line: key, old and new value, and how the change is taken over.
func (c Change) String() string {
	shown := func(v string) string {
		if v == "" {
			return "(none)"
		}
		return v
	}
	return fmt.Sprintf("%s: %s → %s (%s)", c.Key, shown(c.Old), shown(c.New), c.Reload)
}

// Concerns reports whether the change is about a link, or about a cluster that the link copies from or to.
func (c Change) Concerns(l Link) bool {
	return c.Link == l.Name && c.Link != "" || c.Cluster != "" && (c.Cluster == l.Source || c.Cluster == l.Target)
}

// Diff returns what changed from one configuration to another, in the order of the table of keys. It reads neither
// variables nor files: a secret that is taken from the same place is unchanged, whatever is there now.
func Diff(old, next *Config) []Change {
	d := &differ{}
	d.section(newSchema(Keys()), Change{}, reflect.ValueOf(*old), reflect.ValueOf(*next))
	return d.changes
}

// Equal reports whether both clusters have the same settings.
func (c Cluster) Equal(o Cluster) bool {
	d := &differ{}
	d.section(newSchema(Keys()).child("clusters").child("*"), Change{}, reflect.ValueOf(c), reflect.ValueOf(o))
	return c.Name == o.Name && len(d.changes) == 0
}

// differ walks two configurations along the table. at is a change that names the place where it stands.
type differ struct{ changes []Change }

func (d *differ) section(n *node, at Change, old, next reflect.Value) {
	for _, c := range n.children {
		here := at
		here.Key = strings.TrimPrefix(at.Key+"."+c.segment, ".")
		here.Reload = c.Reload
		from, to := field(old, c.segment), field(next, c.segment)
		switch {
		case c.Optional:
			d.optional(c, here, from, to)
		case c.Type == TypeSection:
			d.section(c, here, from, to)
		case c.Type == TypeMap:
			d.clusters(c.child("*"), here, from, to)
		case c.Type == TypeSeq:
			d.links(c.child("[]"), here, from, to)
		case !same(from.Interface(), to.Interface()):
			here.Old, here.New = shown(from.Interface()), shown(to.Interface())
			d.changes = append(d.changes, here)
		}
	}
}

// optional compares sections that mean something by being there.
func (d *differ) optional(n *node, at Change, old, next reflect.Value) {
	switch {
	case old.IsNil() && next.IsNil():
	case old.IsNil():
		at.New = shown(next.Interface())
		d.changes = append(d.changes, at)
	case next.IsNil():
		at.Old = shown(old.Interface())
		d.changes = append(d.changes, at)
	default:
		d.section(n, at, old.Elem(), next.Elem())
	}
}

func (d *differ) clusters(n *node, at Change, old, next reflect.Value) {
	was, is := old.Interface().(map[string]Cluster), next.Interface().(map[string]Cluster)
	for _, name := range union(slices.Sorted(maps.Keys(is)), slices.Sorted(maps.Keys(was))) {
		here := at
		here.Key, here.Cluster = at.Key+"."+path{name}.String(), name
		from, before := was[name]
		to, now := is[name]
		if before && now {
			d.section(n, here, reflect.ValueOf(from), reflect.ValueOf(to))
			continue
		}
		d.whole(here, before, now, shown(from.Brokers), shown(to.Brokers))
	}
}

func (d *differ) links(n *node, at Change, old, next reflect.Value) {
	was, is := byName(old.Interface().([]Link)), byName(next.Interface().([]Link))
	for _, name := range union(linkNames(next.Interface().([]Link)), linkNames(old.Interface().([]Link))) {
		here := at
		here.Key, here.Link = at.Key+"["+name+"]", name
		from, before := was[name]
		to, now := is[name]
		if before && now {
			d.section(n, here, reflect.ValueOf(from), reflect.ValueOf(to))
			continue
		}
		d.whole(here, before, now, from.Source+" → "+from.Target, to.Source+" → "+to.Target)
	}
}

// whole notes something that came or went as a whole.
func (d *differ) whole(at Change, before, now bool, old, next string) {
	if before {
		at.Old = old
	}
	if now {
		at.New = next
	}
	d.changes = append(d.changes, at)
}

func byName(links []Link) map[string]Link {
	out := make(map[string]Link, len(links))
	for _, l := range links {
		out[l.Name] = l
	}
	return out
}

func linkNames(links []Link) []string {
	names := make([]string, len(links))
	for i, l := range links {
		names[i] = l.Name
	}
	return names
}

// union returns the names of both lists, those of the first in its order before the rest of the second.
func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, name := range b {
		if !slices.Contains(a, name) {
			out = append(out, name)
		}
	}
	return out
}

// same reports whether two values of one key mean the same: a list without entries is one, however it is kept.
func same(a, b any) bool {
	switch x := a.(type) {
	case Secret:
		return x.Equal(b.(Secret))
	case []string:
		return slices.Equal(x, b.([]string))
	}
	return a == b
}

// shown returns a value as it is printed: a text as it is, anything else as JSON, in which secrets are redacted.
func shown(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case Duration:
		return v.String()
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // patterns have < and >
	if err := enc.Encode(v); err != nil {
		return fmt.Sprintf("(%T)", v)
	}
	return strings.TrimSpace(b.String())
}

func yamlName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	return name
}
