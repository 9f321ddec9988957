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

// Remedy returns what an operator does about a reason, or "by itself".
func Remedy(r Reason, l Lane) string {
	const again = "; then restart lockstep, which looks at every lane again"
	switch r {
	case ReasonNone:
		return ""
	case ReasonNotEmpty:
		return "empty or delete the target topic, or give the link another name for it with topics.rename" + again
	case ReasonOtherLink, ReasonCycle:
		return "leave the topic out of one of the two links with topics.exclude, or rename it with topics.rename" + again
	case ReasonRecreated:
		return "the target keeps what was copied of the old topic; to copy the new one, give it another name with topics.rename, or copy it with a link of another name" + again
	case ReasonTooLarge:
		return "raise max.message.bytes of the target topic (kafka-configs.sh --alter)" + again
	case ReasonTimestampRefused:
		return "raise message.timestamp.before.max.ms or message.timestamp.after.max.ms of the target topic (kafka-configs.sh --alter)" + again
	case ReasonMissingKey, ReasonRefused:
		return "change the target topic's settings so that it accepts the record (kafka-configs.sh --alter)" + again
	case ReasonCorrupt:
		return "check the source partition (kafka-dump-log.sh); the batch is damaged where it is stored" + again
	case ReasonTargetLost, ReasonDiverged, ReasonPlanLost:
		return "compare both positions; to copy the topic anew, use another target name with topics.rename, or a link of another name" + again
	case ReasonNotAuthorized:
		return "give the missing permission (the detail names it)" + again
	case ReasonGap:
		return "set on_gap: continue to go on behind the lost range" + again
	case ReasonSourceTruncated:
		return "the source lost records that were copied; compare both positions before copying the topic under another name"
	case ReasonSourceDeleted:
		return "nothing to do; the target keeps its copy"
	case ReasonSuperseded:
		return "another instance owns the link; this one stops"
	case ReasonHangingTxn:
		return "end the transaction on the source: kafka-transactions.sh find-hanging"
	case ReasonInternal:
		return "restart lockstep, and please report this with the log; lane " + l.String()
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
}

// LagRecords is how many source offsets are readable and not copied yet; 0 while the source's end is not known.
func (s *LaneStatus) LagRecords() int64 {
	return max(0, s.Readable-s.Cursor.Src)
}
