package quota

import (
	"cmp"
	"slices"
	"strings"

	"lockstep/internal/statelog"
)

// The types of entities that Kafka knows.
const (
	typeUser   = "user"
	typeClient = "client-id"
	typeIP     = "ip"
)

var types = []string{typeUser, typeClient, typeIP}

// limb is one component of an entity. The zero limb is one that the entity does not have.
type limb struct {
	has     bool
	isOther bool // the default: for every name without a limit of its own
	name    string
}

// entity is whom a quota is for: a user, a client id, a user's client id, an address, or the default of those. It has
// one limb for each of types.
type entity [3]limb

// limit is one value of an entity.
type limit struct {
	entity entity
	key    string // producer_byte_rate and the like
}

// String returns the entity as kafka-configs.sh prints it, and the key.
func (l limit) String() string { return l.entity.String() + " " + l.key }

// String returns for example "user alice, client-id <default>".
func (e entity) String() string {
	var out []string
	for i, l := range e {
		switch {
		case l.isOther:
			out = append(out, types[i]+" <default>")
		case l.has:
			out = append(out, types[i]+" "+l.name)
		}
	}
	return strings.Join(out, ", ")
}

// user returns the user that the entity names, if it names one.
func (e entity) user() (string, bool) { return e[0].name, e[0].has && !e[0].isOther }

// of reports whether the entity is a client id of one of the given clients: theirs are these ids, and these with a dash
// and more behind.
func (e entity) of(clients []string) bool {
	c := e[1]
	return c.has && !c.isOther && slices.ContainsFunc(clients, func(own string) bool {
		return own != "" && (c.name == own || strings.HasPrefix(c.name, own+"-"))
	})
}

// limbKeys of a state record's key tell an absent limb, the default and a name apart.
const (
	limbAbsent  = "-"
	limbDefault = "*"
	limbName    = "="
)

func (e entity) recordKey() string {
	parts := []string{kindQuota}
	for _, l := range e {
		switch {
		case !l.has:
			parts = append(parts, limbAbsent)
		case l.isOther:
			parts = append(parts, limbDefault)
		default:
			parts = append(parts, limbName+l.name)
		}
	}
	return statelog.Key(parts...)
}

func entityOf(key string) (e entity, ok bool) {
	parts, ok := statelog.SplitKey(key)
	if !ok || len(parts) != len(e)+1 {
		return e, false
	}
	for i, p := range parts[1:] {
		name, named := strings.CutPrefix(p, limbName)
		switch {
		case named:
			e[i] = limb{has: true, name: name}
		case p == limbDefault:
			e[i] = limb{has: true, isOther: true}
		case p != limbAbsent:
			return e, false
		}
	}
	return e, true
}

func (l limit) compare(m limit) int {
	return cmp.Or(cmp.Compare(l.entity.recordKey(), m.entity.recordKey()), cmp.Compare(l.key, m.key))
}
