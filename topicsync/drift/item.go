// Package drift is the vocabulary of what keeps a link's target like its source besides the records: one thing that
// differs, why, and who has to act. Packages that look after one kind of things fill it; a dry run, a real pass, a
// promotion and the comparison that an operator asks for all speak it.
package drift

import "strings"

// Kind is what an item is about.
type Kind string

// The kinds.
const (
	Partitions  Kind = "partitions"  // a topic's number of partitions
	Replication Kind = "replication" // a topic's replication factor
	Config      Kind = "configs"     // a setting of a topic
	ACL         Kind = "acls"        // one permission
	Quota       Kind = "quotas"      // one limit of an entity
	User        Kind = "users"       // a SCRAM user
)

// State says what an item is, and so what becomes of it.
type State string

// The states. Only what is InSync is not shown unless everything is asked for.
const (
	InSync      State = "in_sync"
	Pending     State = "pending"     // lockstep writes it: in this pass, or in the next one
	Staged      State = "staged"      // it is written at promotion
	Opened      State = "opened"      // it differs on purpose while the topic is a mirror, and is set right at promotion
	Kept        State = "kept"        // somebody else wrote it on the target; it is not overwritten
	Held        State = "held"        // a removal that waits for an operator
	Refused     State = "refused"     // the target does not take it
	Excluded    State = "excluded"    // the configuration, or its nature, leaves it out
	Default     State = "default"     // neither side sets it, and the brokers' defaults differ
	Missing     State = "missing"     // only an operator can make it on the target
	Unavailable State = "unavailable" // a side may not be read or written
)

// Item is one thing that is to be alike on both sides.
type Item struct {
	Kind  Kind
	Topic string // on the source; "" for what concerns no single topic
	// DstTopic is the topic's name on the target.
	DstTopic string
	Name     string // a setting's key, a permission in one line, an entity and its limit, a user
	// Source and Target are what the sides have now, Wanted what the target is to have while it is a mirror; nil where
	// there is none.
	Source, Target, Wanted *string
	State                  State
	Why                    string // in words; "" where the state says it all
	Remedy                 string // a command or a setting; "" when nothing is to be done
	Side                   Side   // who has to change for the difference to go; "" when lockstep does it by itself
	Does                   string // what the pass does about it, such as "set retention.ms to 60000"; "" for nothing
	Done                   bool   // it has been done
	Err                    error  // doing it failed
}

// Side is a place where something can be changed.
type Side string

// The sides.
const (
	Source        Side = "source"
	Target        Side = "target"
	Configuration Side = "configuration"
)

// Text returns a pointer to a value that there is.
func Text(s string) *string { return &s }

// String returns an item's name in one line, such as "configs orders retention.ms".
func (i Item) String() string {
	return strings.Join(strings.Fields(string(i.Kind)+" "+i.Topic+" "+i.Name), " ")
}
