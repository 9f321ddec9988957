// Package quota keeps client quotas of a link's target like those of its source, and tells which SCRAM users are missing
// there.
//
// A quota belongs to lockstep when lockstep wrote it and it still has the value that was written. Everything else on the
// target is kept and shown.
package quota

import (
	"cmp"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Entity is whom a quota is for, such as "client-id=reports,user=billing"; a name of <default> stands for everybody
// without a quota of their own. It is comparable.
type Entity string

// part is one part of an entity.
type part struct {
	kind string  // user, client-id, ip
	name *string // nil: the default
}

const defaultName = "<default>"

func entityOf(parts []part) Entity {
	texts := make([]string, 0, len(parts))
	for _, p := range parts {
		name := defaultName
		if p.name != nil {
			name = escape(*p.name)
		}
		texts = append(texts, p.kind+"="+name)
	}
	slices.Sort(texts)
	return Entity(strings.Join(texts, ","))
}

// parts takes an entity apart.
func (e Entity) parts() (out []part) {
	for text := range strings.SplitSeq(string(e), ",") {
		kind, name, _ := strings.Cut(text, "=")
		p := part{kind: kind}
		if name != defaultName {
			p.name = kmsg.StringPtr(unescape(name))
		}
		out = append(out, p)
	}
	return out
}

var escaper = strings.NewReplacer("%", "%25", ",", "%2C", "=", "%3D", "<", "%3C")

func escape(s string) string { return escaper.Replace(s) }

func unescape(s string) string {
	return strings.NewReplacer("%2C", ",", "%3D", "=", "%3C", "<", "%25", "%").Replace(s)
}

// own reports whether an entity is a client of lockstep's, or one that begins like one.
func (e Entity) own(ids []string) bool {
	for _, p := range e.parts() {
		if p.kind == "client-id" && p.name != nil && slices.ContainsFunc(ids, func(id string) bool { return strings.HasPrefix(*p.name, id) }) {
			return true
		}
	}
	return false
}

// limit is one limit of an entity.
type limit struct {
	entity Entity
	key    string // such as producer_byte_rate
}

func (l limit) compare(o limit) int {
	return cmp.Or(cmp.Compare(l.entity, o.entity), cmp.Compare(l.key, o.key))
}

// String returns a limit in one line, such as "user=billing producer_byte_rate".
func (l limit) String() string { return string(l.entity) + " " + l.key }
