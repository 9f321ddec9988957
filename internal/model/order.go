package model

import "time"

// Order is what an operator asks of a link, of topics or of lanes.
type Order struct {
	Kind   OrderKind `json:"kind"`
	Lanes  []LaneRef `json:"lanes,omitempty"`  // retry, skip, rebuild
	Topics []string  `json:"topics,omitempty"` // accept, adopt, pause and resume of topics, by their names on the source
	Groups []string  `json:"groups,omitempty"` // accept of consumer groups, by their names on the source
	All    bool      `json:"all,omitempty"`    // retry, rebuild: every lane that is stopped
	To     int64     `json:"to,omitempty"`     // skip: the source offset to go on at
	From   string    `json:"from,omitempty"`   // adopt: earliest or latest; "" is the link's own start
	Kinds  []string  `json:"kinds,omitempty"`  // sync: partitions, configs, acls, quotas; empty is all of them
	// Confirm is the number of removals on the target that a sync may do; it does none if there are more.
	Confirm int    `json:"confirm,omitempty"`
	By      string `json:"by,omitempty"`     // who asks
	Reason  string `json:"reason,omitempty"` // why; kept with what is written about it
	DryRun  bool   `json:"dry_run,omitempty"`
}

// LaneRef names a lane of a link that is known from elsewhere.
type LaneRef struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
}

// OrderKind is the verb of an order.
type OrderKind string

// The kinds of orders.
const (
	OrderPause  OrderKind = "pause"  // the link, or topics: end all lanes cleanly until they are resumed
	OrderResume OrderKind = "resume" // the link, or topics: open their lanes again
	// OrderAccept of the link: its source was replaced on purpose. Topics: a source topic was made anew. Groups: they are
	// put where they stand on the source, whatever keeps them from that.
	OrderAccept  OrderKind = "accept"
	OrderRetry   OrderKind = "retry"   // lanes: look again whether the lane can go on
	OrderSkip    OrderKind = "skip"    // one lane: go on at another source offset; what is left out goes to the ledger
	OrderRebuild OrderKind = "rebuild" // lanes: copy anew from the source log's start, into an emptied or new target
	OrderAdopt   OrderKind = "adopt"   // topics: copy behind what the target holds already
	// OrderSync of the link or of topics: make partitions, settings, permissions and quotas of the target like the source's
	// now, also where somebody else changed them there.
	OrderSync OrderKind = "sync"
)

// OrderStep is one line of an order's plan: what happens to one lane, topic or link, and what that costs. A step that is
// refused says why, and nothing happens to its subject.
type OrderStep struct {
	Subject string `json:"subject"` // LINK, LINK:TOPIC or LINK:TOPIC/PARTITION
	State   string `json:"state"`   // as it is now: state, or state and reason
	Does    string `json:"does"`    // what is going to happen, in words with positions
	Leaves  int64  `json:"leaves"`  // source offsets that will not be copied by it, and go to the ledger
	Deletes int64  `json:"deletes"` // records that it deletes on the target
	CanUndo bool   `json:"can_undo"`
	Refused string `json:"refused,omitempty"` // why it cannot be done
	Done    bool   `json:"done"`              // it has been done
	Error   string `json:"error,omitempty"`   // doing it failed
}

// Pause holds a link, or one topic of it, until it is lifted.
type Pause struct {
	ID     string    `json:"id"`
	Topic  string    `json:"topic"` // "" is the whole link
	By     string    `json:"by"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
	Lifted bool      `json:"lifted,omitempty"`
}
