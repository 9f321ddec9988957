package api

import "time"

// Groups is the answer of GET …/groups.
type Groups struct {
	Schema int     `json:"schema"`
	Groups []Group `json:"groups"`
}

// Group is one consumer group of the source, and how it stands on the target. Its state is the worst of its positions'.
type Group struct {
	Link        string `json:"link"`
	Group       string `json:"group"`
	TargetGroup string `json:"target_group"`
	Type        string `json:"type"` // classic, consumer, share, streams; "" is not known
	State       string `json:"state"`
	Detail      string `json:"detail"`
	Remedy      string `json:"remedy"`
	SourceState string `json:"source_state"` // Kafka's word for the group on the source, "" when not known
	TargetState string `json:"target_state"` // and on the target, "" when not known or not there
	// Partitions counts the group's positions in topics of the link, by state.
	Partitions Counts `json:"partitions"`
	// LagRecords and LagSeconds are how far the group is behind on the source: all records together, and the oldest
	// record's wait. LagAtLeast says that the wait may be longer than is remembered.
	LagRecords *int64   `json:"lag_records"`
	LagSeconds *float64 `json:"lag_seconds"`
	LagAtLeast bool     `json:"lag_at_least,omitempty"`
	// RecordsAgain is how many records the group would read a second time if it moved to the target now.
	RecordsAgain *int64 `json:"records_again"`
	// AgeSeconds is how old this picture of the source's positions is.
	AgeSeconds *float64 `json:"age_seconds"`
	Alarms     []Alarm  `json:"alarms,omitempty"`
}

// Aside reports whether a group is left out, or has no position in a topic of the link.
func (g Group) Aside() bool { return g.State == GroupExcluded || g.State == GroupNoMirroredTopics }

// The states of groups that are only shown when all are asked for.
const (
	GroupExcluded         = "excluded"
	GroupNoMirroredTopics = "no_mirrored_topics"
)

// GroupAnswer is the answer of GET …/groups/{group}.
type GroupAnswer struct {
	Schema int         `json:"schema"`
	Group  GroupDetail `json:"group"`
}

// GroupDetail is a group with each of its positions.
type GroupDetail struct {
	Group
	Positions []GroupPosition `json:"positions"`
}

// GroupPosition is one position of a group. Offsets are "next to read"; one that there is not is null.
type GroupPosition struct {
	Topic            string   `json:"topic"` // the name on the source
	Partition        int32    `json:"partition"`
	TargetTopic      string   `json:"target_topic"`
	SourceOffset     *int64   `json:"source_offset"`
	TranslatedOffset *int64   `json:"translated_offset"`
	TargetOffset     *int64   `json:"target_offset"`
	Translation      string   `json:"translation"` // an Offset… word
	NeverCopied      int64    `json:"never_copied,omitempty"`
	Ahead            int64    `json:"ahead,omitempty"`
	State            string   `json:"state"`
	Detail           string   `json:"detail"`
	Remedy           string   `json:"remedy"`
	LagRecords       *int64   `json:"lag_records"`
	LagSeconds       *float64 `json:"lag_seconds"`
	LagAtLeast       bool     `json:"lag_at_least,omitempty"`
	RecordsAgain     *int64   `json:"records_again"`
	Metadata         string   `json:"metadata,omitempty"`
}

// Alarm is something about a group that wants attention.
type Alarm struct {
	Kind     string    `json:"kind"`     // lag, rising, stalled, skew
	Severity string    `json:"severity"` // warning, critical
	Topic    string    `json:"topic,omitempty"`
	Detail   string    `json:"detail"`
	Since    time.Time `json:"since"`
}

// AlarmCounts says how many alarms are raised.
type AlarmCounts struct {
	Warning  int `json:"warning"`
	Critical int `json:"critical"`
}

// GroupHistory is the answer of GET …/groups/{group}/history.
type GroupHistory struct {
	Schema  int           `json:"schema"`
	History []GroupMoment `json:"history"` // oldest first
}

// GroupMoment is where a group stood at one time.
type GroupMoment struct {
	Link      string          `json:"link"`
	Group     string          `json:"group"`
	At        time.Time       `json:"at"`
	Positions []GroupPosition `json:"positions"`
}

// GroupUnsupportedType and GroupActiveOnTarget are states that a reader of lag has to know: the first keeps no offsets, the
// second is at work on the target, so that what it has not read on the source says nothing.
const (
	GroupUnsupportedType = "unsupported_type"
	GroupActiveOnTarget  = "active_on_target"
)
