package api

import "time"

// Schema is the version of every JSON answer. It grows when a field changes its meaning or goes away; new fields do
// not change it.
const Schema = 1

// Status is the answer of GET /api/v1/status.
type Status struct {
	Schema int           `json:"schema"`
	Links  []Link        `json:"links"`
	Config *ConfigStatus `json:"config,omitempty"` // of a running service
}

// ConfigStatus says which configuration is in force, and what is in the way of a newer one.
type ConfigStatus struct {
	File     string    `json:"file"` // "" when all settings are variables
	Hash     string    `json:"hash"` // SHA-256 of the file's content
	LoadedAt time.Time `json:"loaded_at"`
	// Pending are changes in the file that a restart will take over.
	Pending []ConfigChange `json:"pending,omitempty"`
	// Failed is why the file's present content is not in force.
	Failed *ConfigFailure `json:"failed,omitempty"`
}

// ConfigChange is one changed setting.
type ConfigChange struct {
	Key string `json:"key"`
	Old string `json:"old"`
	New string `json:"new"`
}

// ConfigFailure is a configuration with faults: when it was seen, and each fault with its place.
type ConfigFailure struct {
	At     time.Time `json:"at"`
	Hash   string    `json:"hash"`
	Faults []string  `json:"faults"`
}

// LinkStatus is the answer of GET /api/v1/links/{link}.
type LinkStatus struct {
	Schema int  `json:"schema"`
	Link   Link `json:"link"`
}

// Link is one link's summary.
type Link struct {
	Name   string `json:"name"`
	Source string `json:"source"`
	Target string `json:"target"`
	State  string `json:"state"` // a LinkState… word
	// Reason, Detail, Remedy and Since tell what holds the link as a whole, where something does.
	Reason         string    `json:"reason,omitempty"`
	Detail         string    `json:"detail,omitempty"`
	Remedy         string    `json:"remedy,omitempty"`
	Since          time.Time `json:"since,omitzero"`
	SafeToFailOver Safety    `json:"safe_to_fail_over"`
	RPO            RPO       `json:"rpo"`
	Owner          string    `json:"owner"`
	Term           uint64    `json:"term"`
	Seal           string    `json:"seal"` // "direct", "transaction", "none" or "unknown"
	Lanes          Counts    `json:"lanes"`
	// Groups are the link's consumer groups, without those that are left out or have nothing to do with it.
	Groups Counts `json:"groups"`
	// GroupsUnread is why nothing is known of the link's groups, not even which there are; "" when that is known.
	GroupsUnread string `json:"groups_unread,omitempty"`
	// Alarms counts the alarms of groups that are raised; the groups have them.
	Alarms AlarmCounts `json:"alarms"`
	// SourceID and TargetID are the clusters' own ids, as the link's claim names them.
	SourceID string `json:"source_id,omitempty"`
	TargetID string `json:"target_id,omitempty"`
	// Kept tells how partitions, settings, permissions, quotas and users are kept in step; empty before the first look.
	Kept []Kept `json:"kept,omitempty"`
	// Pauses are in force.
	Pauses []Pause `json:"pauses,omitempty"`
	// Unmatched are patterns of topics.include that match no topic of the source.
	Unmatched []Unmatched `json:"unmatched,omitempty"`
	// Problems are topics that the link should copy, or write for readers of MirrorMaker 2, and cannot. They may have no lanes
	// that would show it.
	Problems []TopicProblem `json:"problems,omitempty"`
}

// Unmatched is a pattern that selects nothing, and what it may have been meant for.
type Unmatched struct {
	Pattern string `json:"pattern"`
	Hint    string `json:"hint"`
}

// Pause holds a link, or one topic of it, until it is resumed.
type Pause struct {
	Topic  string    `json:"topic"` // "" is the whole link
	By     string    `json:"by"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

// TopicNotInSync is the state of a topic that is written for readers of MirrorMaker 2 and misses something.
const TopicNotInSync = "not_in_sync"

// TopicProblem is a source topic that is not copied although it should be, or a topic of the link's own.
type TopicProblem struct {
	Topic  string `json:"topic"`
	State  string `json:"state"` // failed, waiting or target_lost; not_in_sync
	Detail string `json:"detail"`
	Remedy string `json:"remedy"`
}

// The states of a link, the worst of its lanes first.
const (
	LinkStateStopped  = "stopped"   // every lane waits for an operator, or another instance owns the link
	LinkStateDegraded = "degraded"  // some lanes wait for an operator, the others copy
	LinkStateRetrying = "retrying"  // a lane makes no progress because of a fault that is expected to pass
	LinkStateOpening  = "opening"   // a lane's position is being established, or no lane is known yet
	LinkStatePaused   = "paused"    // an operator holds every lane
	LinkStateCopying  = "copying"   // every lane copies, or would if there were records
	LinkStateClosed   = "closed"    // every lane ended cleanly
	LinkStateNotOwned = "not_owned" // another instance, or a stop, has the link
)

// Safety answers "may I fail over now": "yes", "no" or "unknown", and why it is not "yes".
type Safety struct {
	Answer  string   `json:"answer"`
	Because []string `json:"because"`
}

// SafetyUnknown is the answer of a release that cannot fail over: it does not judge what it cannot do.
func SafetyUnknown() Safety {
	return Safety{Answer: "unknown", Because: []string{"failover is not part of this release"}}
}

// RPO is what would be missing on the target if the source were gone now: source offsets not copied yet, and for how
// long the oldest of them has waited. A figure that is not known is null. UnknownLanes counts the lanes that
// the figures leave out because the source has not told their end.
type RPO struct {
	Records      *int64   `json:"records"`
	Seconds      *float64 `json:"seconds"`
	UnknownLanes int      `json:"unknown_lanes,omitempty"`
}

// Counts says how many things there are and in which state. A stopped lane counts under its reason.
type Counts struct {
	Total   int            `json:"total"`
	ByState map[string]int `json:"by_state"`
}

// Lanes is the answer of GET …/lanes.
type Lanes struct {
	Schema int    `json:"schema"`
	Lanes  []Lane `json:"lanes"`
}

// Lane is one lane's figures. Offsets are "next to read"; one that is not known is null.
type Lane struct {
	Link               string    `json:"link"`
	Topic              string    `json:"topic"` // the name on the source
	Partition          int32     `json:"partition"`
	TargetTopic        string    `json:"target_topic"`
	State              string    `json:"state"`
	Reason             string    `json:"reason"`
	Detail             string    `json:"detail"`
	Since              time.Time `json:"since"`
	Remedy             string    `json:"remedy"`
	Term               uint64    `json:"term"`
	Opening            uint64    `json:"opening"`
	SourceOffset       int64     `json:"source_offset"`
	TargetOffset       int64     `json:"target_offset"`
	SourceStartOffset  *int64    `json:"source_start_offset"`
	SourceStableOffset *int64    `json:"source_stable_offset"`
	SourceEndOffset    *int64    `json:"source_end_offset"`
	TargetEndOffset    *int64    `json:"target_end_offset"`
	LagRecords         *int64    `json:"lag_records"`
	LagSeconds         *float64  `json:"lag_seconds"`
	CopiedRecords      int64     `json:"copied_records"` // by the present process
	CopiedBytes        int64     `json:"copied_bytes"`
}

// LaneAnswer is the answer of GET …/lanes/{topic}/{partition}.
type LaneAnswer struct {
	Schema int        `json:"schema"`
	Lane   LaneDetail `json:"lane"`
}

// LaneDetail is a lane with what only a look at one lane shows: its topics' ids, its map's size and its gaps.
type LaneDetail struct {
	Lane
	SourceTopicID     string `json:"source_topic_id"`
	TargetTopicID     string `json:"target_topic_id"`
	SourceLeaderEpoch int32  `json:"source_leader_epoch"` // of the last copied batch, -1 when not known
	Count             int64  `json:"count"`               // records copied in this term
	Spans             int    `json:"spans"`               // of the offset map
	Gaps              []Gap  `json:"gaps"`
}

// Gaps is the answer of GET …/gaps.
type Gaps struct {
	Schema int   `json:"schema"`
	Gaps   []Gap `json:"gaps"`
}

// Gap is a source range [From, To) that could not be copied. Offsets is To minus From: the range may hold fewer
// records than offsets.
type Gap struct {
	Link      string    `json:"link"`
	Topic     string    `json:"topic"`
	Partition int32     `json:"partition"`
	From      int64     `json:"from"`
	To        int64     `json:"to"`
	Offsets   int64     `json:"offsets"`
	Reason    string    `json:"reason"`
	At        time.Time `json:"at"`
	// TargetFrom and TargetTo are the target offsets that hold records of the range which the source lost afterwards.
	TargetFrom int64 `json:"target_from,omitempty"`
	TargetTo   int64 `json:"target_to,omitempty"`
}

// TranslateRequest is the body of POST …/translate. Topic is the name on the source in both directions; Offset is an
// offset of the source, or with Reverse of the target. Groups, by their names on the source, ask for where these stand
// on the source, or with Reverse on the target; AllGroups for every group that has a position in a topic of the link.
type TranslateRequest struct {
	Reverse   bool       `json:"reverse"`
	Offsets   []Position `json:"offsets"`
	Groups    []string   `json:"groups,omitempty"`
	AllGroups bool       `json:"all_groups,omitempty"`
}

// OfGroups reports whether positions of groups are asked for.
func (r TranslateRequest) OfGroups() bool { return r.AllGroups || len(r.Groups) > 0 }

// Position is an offset in a lane, "next to read".
type Position struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
}

// Offsets is the answer of POST …/translate.
type Offsets struct {
	Schema  int      `json:"schema"`
	Offsets []Offset `json:"offsets"`
}

// Offset is one translated offset. The side that was asked for is null where the lane has no answer (OffsetUnknown).
type Offset struct {
	Link         string `json:"link"`
	Topic        string `json:"topic"`
	Partition    int32  `json:"partition"`
	SourceOffset *int64 `json:"source_offset"`
	TargetTopic  string `json:"target_topic"`
	TargetOffset *int64 `json:"target_offset"`
	State        string `json:"state"` // an Offset… word
	// NeverCopied is the number of source offsets between the one asked for and the first that was copied
	// (before_start only).
	NeverCopied int64 `json:"never_copied,omitempty"`
	// Ahead is how far the offset asked for lies beyond what was copied (ahead only).
	Ahead int64 `json:"ahead,omitempty"`
	// Group is whose position was asked for, where that is a group's; TargetGroup its name on the target. PositionFrom
	// is who told it, a From… word, and AsOf when it stood there.
	Group        string     `json:"group,omitempty"`
	TargetGroup  string     `json:"target_group,omitempty"`
	PositionFrom string     `json:"position_from,omitempty"`
	AsOf         *time.Time `json:"as_of,omitempty"`
}

// Who told where a group stands.
const (
	FromService    = "service"     // the running service, as of its last look at the groups
	FromCluster    = "cluster"     // the cluster itself, asked for this answer
	FromStateTopic = "state_topic" // the state topic, as of the last position that was taken over from the source
)

// The states of a translated offset.
const (
	OffsetExact       = "exact"        // the same record
	OffsetHole        = "hole"         // no record stands there; the start of what comes next
	OffsetBeforeStart = "before_start" // before the first copied record; the first copied record
	OffsetAhead       = "ahead"        // not copied yet; the end of what was copied
	OffsetUnknown     = "unknown"      // no such lane, or nothing of it was copied
	OffsetNotCopied   = "not_copied"   // a position of a group in a topic that is not the link's
)
