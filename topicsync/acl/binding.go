// Package acl keeps permissions on what a link copies: translated to the names that things have on the target, never wider
// than on the source, and with those to write held back until the promotion unless the link is a migration.
//
// A permission belongs to lockstep when lockstep created it; only those are ever removed. What was created, and what is
// held back, is in the link's state topic, so that a promotion needs no source.
package acl

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Binding is one permission. It is comparable, and has Kafka's words.
type Binding struct {
	Type      kmsg.ACLResourceType
	Name      string
	Pattern   kmsg.ACLResourcePatternType // literal or prefixed
	Principal string                      // such as User:billing, or User:*
	Host      string                      // * is any
	Operation kmsg.ACLOperation
	Deny      bool
}

// wildcard is the name, principal or host that stands for every one.
const wildcard = "*"

// String returns a binding in one line, such as "allow User:billing READ topic orders (literal) from *".
func (b Binding) String() string {
	verb := "allow"
	if b.Deny {
		verb = "deny"
	}
	return fmt.Sprintf("%s %s %s %s %s (%s) from %s", verb, b.Principal, b.Operation, strings.ToLower(b.Type.String()), b.Name, strings.ToLower(b.Pattern.String()), b.Host)
}

// compare orders bindings by what they are on, and then by whom they are for.
func (b Binding) compare(o Binding) int {
	return cmp.Or(cmp.Compare(b.Type, o.Type), cmp.Compare(b.Name, o.Name), cmp.Compare(b.Pattern, o.Pattern), cmp.Compare(b.Principal, o.Principal),
		cmp.Compare(b.Operation, o.Operation), cmp.Compare(b.Host, o.Host), compareBool(b.Deny, o.Deny))
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// resource is what a binding is on.
type resource struct {
	Type    kmsg.ACLResourceType
	Name    string
	Pattern kmsg.ACLResourcePatternType
}

func (b Binding) resource() resource { return resource{b.Type, b.Name, b.Pattern} }

// covers reports whether a resource covers a name of its type.
func (r resource) covers(name string) bool {
	if r.Pattern == kmsg.ACLResourcePatternTypePrefixed {
		return strings.HasPrefix(name, r.Name)
	}
	return r.Name == wildcard || r.Name == name
}

// wide reports whether a resource may cover several names.
func (r resource) wide() bool {
	return r.Pattern == kmsg.ACLResourcePatternTypePrefixed || r.Name == wildcard
}

// overlaps reports whether two wide resources may cover the same name.
func (r resource) overlaps(o resource) bool {
	a, b := r.prefix(), o.prefix()
	return r.Type == o.Type && (strings.HasPrefix(a, b) || strings.HasPrefix(b, a))
}

// prefix is what all names begin with that a wide resource covers.
func (r resource) prefix() string {
	if r.Pattern == kmsg.ACLResourcePatternTypePrefixed {
		return r.Name
	}
	return ""
}
