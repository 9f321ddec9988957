package drift

import (
	"context"
	"slices"
	"time"

	"lockstep/config"
	"lockstep/internal/model"
)

// Part looks after one kind of things of a link. One goroutine at a time calls it.
type Part interface {
	Kind() Kind
	// Pass looks at both sides and makes the target like the source as far as that is lockstep's to do, or as far as the
	// order says. It asks nothing of a cluster where its kind is switched off, and changes nothing in a dry run. It stores
	// what it is about to write in the state topic before it writes it.
	Pass(ctx context.Context, s Scope) Outcome
}

// Scope is what a pass is about.
type Scope struct {
	Link config.Link
	// Topics are those that the link copies and that both sides have, by their name on the source.
	Topics []Topic
	// Foreign are the target's topics that are no copies of this link's, without the brokers' own and lockstep's own, which
	// are Own.
	Foreign, Own []string
	Now          time.Time
	// Full asks for everything that differs, brokers' defaults included.
	Full bool
	// Order is what an operator wants beyond an ordinary pass; nil for one.
	Order *Order
}

// Topic is a topic that a link copies, as both sides have it.
type Topic struct {
	Src, Dst                  string
	SrcID, DstID              model.TopicID
	Partitions, DstPartitions int
	// Replicas and DstReplicas are replication factors; 0 is not known.
	Replicas, DstReplicas int
}

// Order makes a pass do more than it does by itself.
type Order struct {
	Topics []string // on the source, those that it is about; empty for all, and for what concerns no topic
	Kinds  []Kind   // empty for all
	DryRun bool
	// Takeover overwrites what somebody else wrote on the target and does what is held. Removals of things that somebody
	// else made are not part of it.
	Takeover bool
	// Confirm is the number of removals that the operator agrees to. A pass with more of them does none.
	Confirm int
	// Promote makes the target ready for work: everything opened is closed, everything staged is written, from what the
	// state topic holds; the source is not asked.
	Promote bool
}

// Wants reports whether a pass is about a kind.
func (s Scope) Wants(k Kind) bool {
	return s.Order == nil || len(s.Order.Kinds) == 0 || slices.Contains(s.Order.Kinds, k)
}

// Covers reports whether the order is about a source topic; "" is what concerns no topic.
func (o *Order) Covers(topic string) bool {
	return o != nil && (len(o.Topics) == 0 || slices.Contains(o.Topics, topic))
}

// DryRun reports whether nothing is to be changed.
func (s Scope) DryRun() bool { return s.Order != nil && s.Order.DryRun }

// Promotes reports whether the pass makes the target ready for work.
func (s Scope) Promotes() bool { return s.Order != nil && s.Order.Promote }

// Outcome is what a pass saw and did.
type Outcome struct {
	Condition Condition
	Why       string // in words; "" for OK
	Remedy    string
	Items     []Item // what differs or differed when the pass began; by topic and name
}

// Condition says whether things of a kind can be looked after.
type Condition string

// The conditions.
const (
	OK            Condition = "ok"
	Off           Condition = "off"            // the configuration does not ask for it
	NotApplicable Condition = "not_applicable" // a side has nothing of the kind, such as no authorizer
	Partly        Condition = "partly"         // some things cannot be read or written; the items tell which
	Unreachable   Condition = "unavailable"    // a side cannot be asked, refuses, or does not know the request
)
