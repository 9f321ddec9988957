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
	ReasonHangingTxn        Reason = "hanging_transaction" // an open transaction holds the source's stable offset
	ReasonInternal          Reason = "internal"            // a broken invariant of lockstep's own; please report it
)

// Remedy returns what an operator does about a reason: a command, or "by itself".
func Remedy(r Reason, l Lane) string {
	switch r {
	case ReasonNone:
		return ""
	case ReasonNotEmpty:
		return "empty or rename the target topic, or take it over: lockstep topics adopt --link " + l.Link + " --topic " + l.Topic
	case ReasonRecreated:
		return "lockstep topics accept --link " + l.Link + " --topic " + l.Topic
	case ReasonTooLarge, ReasonTimestampRefused, ReasonMissingKey, ReasonCorrupt, ReasonRefused:
		return "change the target topic's settings and run: lockstep lanes retry " + l.String() + ", or leave records out: lockstep lanes skip " + l.String() + " --to OFFSET"
	case ReasonTargetLost, ReasonDiverged, ReasonPlanLost:
		return "lockstep lanes rebuild " + l.String()
	case ReasonNotAuthorized:
		return "lockstep validate prints the missing grants; then: lockstep lanes retry " + l.String()
	case ReasonGap, ReasonSourceTruncated:
		return "lockstep lanes retry " + l.String()
	case ReasonSourceDeleted:
		return "nothing to do; the target keeps its copy"
	case ReasonSuperseded:
		return "another instance owns the link; this one stops"
	case ReasonHangingTxn:
		return "end the transaction on the source: kafka-transactions.sh find-hanging"
	case ReasonInternal:
		return "lockstep lanes retry " + l.String() + ", and please report it with the log"
	default:
		return "by itself"
	}
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
}

// LagRecords is how many source offsets are readable and not copied yet; 0 while the source's end is not known.
func (s *LaneStatus) LagRecords() int64 {
	return max(0, s.Readable-s.Cursor.Src)
}
