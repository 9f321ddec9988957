package model

import "time"

// State says what a lane does now.
type State string

// The states of a lane.
const (
	StateWaiting  State = "waiting"  // known, its target leader does not answer yet
	StateOpening  State = "opening"  // its position is being established
	StateCopying  State = "copying"  // records flow, or would if there were any
	StateRetrying State = "retrying" // no progress for 10 s because of a fault that is expected to pass
	StateStopped  State = "stopped"  // an operator has to act; the reason and its remedy say how
	StatePaused   State = "paused"   // an operator holds it; it ended cleanly
	StateDraining State = "draining" // finishing what was sent, before it is closed
	StateClosed   State = "closed"   // ended cleanly, or its topic is gone
)

// Reason says why a lane is stopped or retrying. The words are fixed: runbooks and alerts name them.
type Reason string

// The reasons. Each has a line in Remedy.
const (
	ReasonNone              Reason = ""
	ReasonNotEmpty          Reason = "not_empty"           // the target partition holds records and there is no state
	ReasonOtherLink         Reason = "other_link"          // another link already writes this target topic
	ReasonCycle             Reason = "cycle"               // the source topic is itself copied from this link's target
	ReasonRecreated         Reason = "recreated"           // the source topic has another id than before
	ReasonSourceDeleted     Reason = "source_deleted"      // the source topic is gone
	ReasonSourceTruncated   Reason = "source_truncated"    // the source log ends before the cursor, or took another branch
	ReasonSourceReplaced    Reason = "source_replaced"     // the whole source is another cluster, or was restored from a copy
	ReasonTargetLost        Reason = "target_lost"         // the target partition is gone or was created again
	ReasonTooLarge          Reason = "too_large"           // one record is larger than the target accepts
	ReasonTimestampRefused  Reason = "timestamp_refused"   // outside of the target's message.timestamp bounds
	ReasonMissingKey        Reason = "missing_key"         // the target topic is compacted and a record has no key
	ReasonCorrupt           Reason = "corrupt"             // a source batch fails its checksum or cannot be decoded
	ReasonRefused           Reason = "refused"             // the target refuses a record for another reason
	ReasonNotAuthorized     Reason = "not_authorized"      // an ACL is missing on one side
	ReasonDiverged          Reason = "diverged"            // source, state and target disagree about what was copied
	ReasonGap               Reason = "gap"                 // on_gap: pause, and source records were deleted before they were read
	ReasonSuperseded        Reason = "superseded"          // another owner or a stop was found in the state topic
	ReasonPlanLost          Reason = "plan_lost"           // the headers on the target are gone and nothing else tells the position
	ReasonLeaderUnavailable Reason = "leader_unavailable"  // no leader, or it does not answer
	ReasonNetwork           Reason = "network"             // connections break
	ReasonThrottled         Reason = "throttled"           // a quota holds the lane back
	ReasonStateTopic        Reason = "state_topic"         // the state topic cannot be written
	ReasonUnsealed          Reason = "unsealed"            // no marker that ends the older term stands in the target partition yet
	ReasonPaused            Reason = "paused"              // an operator paused the link or the topic
	ReasonHangingTxn        Reason = "hanging_transaction" // an open transaction holds the source's stable offset
	ReasonInternal          Reason = "internal"            // a broken invariant of lockstep's own; please report it
)

// Remedy returns what an operator does about a reason: the command where there is one, or "by itself".
func Remedy(r Reason, l Lane) string {
	retry := "lockstep lanes retry " + l.String()
	skip := "lockstep lanes skip " + l.String() + " --to OFFSET"
	rebuild := "lockstep lanes rebuild " + l.String()
	topic := l.Link + ":" + l.Topic
	switch r {
	case ReasonNone:
		return ""
	case ReasonNotEmpty:
		return "lockstep topics adopt " + topic + " copies behind what the target holds; or give the topic another name there with topics.rename"
	case ReasonOtherLink, ReasonCycle:
		return "leave the topic out of one of the two links with topics.exclude, or rename it with topics.rename; then " + retry
	case ReasonRecreated:
		return "lockstep topics accept " + topic + " copies the new topic behind the old one's records"
	case ReasonTooLarge:
		return "raise max.message.bytes of the target topic (kafka-configs.sh --alter), then " + retry + "; or leave the record out: " + skip
	case ReasonTimestampRefused:
		return "raise message.timestamp.before.max.ms or message.timestamp.after.max.ms of the target topic (kafka-configs.sh --alter), then " + retry + "; or " + skip
	case ReasonMissingKey, ReasonRefused:
		return "change the target topic's settings so that it accepts the record (kafka-configs.sh --alter), then " + retry + "; or leave the record out: " + skip
	case ReasonCorrupt:
		return "the batch is damaged where it is stored (kafka-dump-log.sh shows it); leave it out: " + skip
	case ReasonTargetLost, ReasonPlanLost:
		return rebuild + " copies it anew from the source"
	case ReasonDiverged:
		return "compare both positions; " + rebuild + " copies it anew, " + skip + " goes on elsewhere"
	case ReasonNotAuthorized:
		return "give the missing permission (the detail names it); the lane goes on by itself"
	case ReasonGap:
		return retry + " goes on behind the lost range, which is kept in the ledger"
	case ReasonSourceTruncated:
		return "compare both positions; " + rebuild + " copies it anew, " + skip + " goes on elsewhere"
	case ReasonSourceReplaced:
		return "look whether this is the right source; lockstep links accept " + l.Link + " goes on with it"
	case ReasonSourceDeleted:
		return "nothing to do; the target keeps its copy"
	case ReasonSuperseded:
		return "another instance owns the link; this one stops"
	case ReasonPaused:
		return "lockstep links resume " + l.Link
	case ReasonHangingTxn:
		return "end the transaction on the source: kafka-transactions.sh find-hanging"
	case ReasonInternal:
		return retry + ", and please report this with the log"
	}
	return "by itself"
}

// LaneStatus is a lane's present figures, for status, metrics and the log.
type LaneStatus struct {
	Lane
	DstTopic string
	State    State
	Reason   Reason
	Detail   string // what was seen, with positions
	Since    time.Time
	Remedy   string
	Term     uint64
	Opening  uint64
	Cursor   Cursor
	// SrcStart, SrcStable and SrcEnd are the source's log start, stable end and end as last seen; -1 when unknown.
	SrcStart, SrcStable, SrcEnd int64
	Readable                    int64 // SrcStable, or SrcEnd on a read-uncommitted link: what can be copied now
	DstEnd                      int64
	Records, Bytes              int64 // copied by this process
	// LagSeconds is how long the oldest record that is not copied yet has waited, as far as (offset, time) points tell.
	LagSeconds float64
}

// Gap is a source range [From, To) that could not be copied. It never leaves the ledger.
type Gap struct {
	Lane   Lane      `json:"lane"`
	From   int64     `json:"from"`
	To     int64     `json:"to"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
	// DstFrom and DstTo are the target offsets [DstFrom, DstTo) that hold records of this source range which the source
	// does not have any more; both 0 when there are none.
	DstFrom int64 `json:"dst_from,omitempty"`
	DstTo   int64 `json:"dst_to,omitempty"`
}

// LagRecords is how many source offsets are readable and not copied yet; 0 while the source's end is not known.
func (s *LaneStatus) LagRecords() int64 {
	return max(0, s.Readable-s.Cursor.Src)
}
