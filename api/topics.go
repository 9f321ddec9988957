package api

import (
	"net/http"
	"slices"
	"time"
)

// Topics is the answer of GET …/topics.
type Topics struct {
	Schema int     `json:"schema"`
	Topics []Topic `json:"topics"`
}

// Topic is one topic of the source: copied, or why not.
type Topic struct {
	Link        string `json:"link"`
	Topic       string `json:"topic"`
	TargetTopic string `json:"target_topic"`
	State       string `json:"state"` // copied, waiting, failed, skipped, source_deleted, target_lost
	Detail      string `json:"detail"`
	Remedy      string `json:"remedy"`
	Partitions  int    `json:"partitions"`
	// TargetPartitions is 0 where the target does not have the topic, or that is not known.
	TargetPartitions int       `json:"target_partitions"`
	Since            time.Time `json:"since"`
	// Differs counts, by state, what of the topic differs on the target; see Difference.
	Differs Counts `json:"differs"`
}

// TopicSkipped is the state of a topic that the link does not copy.
const TopicSkipped = "skipped"

// Difference is one thing that is not alike on both sides. Values are null where there is none.
type Difference struct {
	Link        string  `json:"link"`
	Kind        string  `json:"kind"` // partitions, replication, configs, acls, quotas, users
	Topic       string  `json:"topic"`
	TargetTopic string  `json:"target_topic"`
	Name        string  `json:"name"`
	Source      *string `json:"source"`
	Target      *string `json:"target"`
	State       string  `json:"state"` // pending, staged, opened, kept, held, refused, excluded, default, missing, unavailable
	Why         string  `json:"why"`
	Remedy      string  `json:"remedy"`
	Side        string  `json:"side"` // source, target, configuration: who has to change; "" when lockstep sees to it
}

// Open reports whether an operator has to act for the difference to go.
func (d Difference) Open() bool {
	return slices.Contains([]string{"kept", "held", "refused", "missing", "unavailable"}, d.State)
}

// Kept tells how things of one kind are kept in step on a link.
type Kept struct {
	Kind      string `json:"kind"`
	Condition string `json:"condition"` // ok, off, not_applicable, partly, unavailable
	Why       string `json:"why"`
	Remedy    string `json:"remedy"`
	// Differs counts what differs, by state.
	Differs Counts `json:"differs"`
}

// Unkept reports whether some or all things of the kind cannot be compared or written until an operator acts.
func (k Kept) Unkept() bool { return k.Condition == "unavailable" || k.Condition == "partly" }

// Diff is the answer of GET …/diff.
type Diff struct {
	Schema      int          `json:"schema"`
	Kinds       []Kept       `json:"kinds"`
	Differences []Difference `json:"differences"`
}

// topics answers GET …/topics; topics that the link leaves out show with all=true.
func (h *handler) topics(w http.ResponseWriter, r *http.Request) {
	all, bad := allParam(r)
	if bad != nil {
		h.fail(w, r, bad)
		return
	}
	topics, err := h.backend.Topics(r.Context(), r.PathValue("link"))
	if !all {
		topics = slices.DeleteFunc(topics, func(t Topic) bool { return t.State == TopicSkipped })
	}
	h.answer(w, r, Topics{Schema: Schema, Topics: full(topics)}, err)
}

// diff answers GET …/diff: the topics that are named, or everything.
func (h *handler) diff(w http.ResponseWriter, r *http.Request) {
	d, err := h.backend.Diff(r.Context(), r.PathValue("link"), r.URL.Query()["topic"])
	d.Schema, d.Kinds, d.Differences = Schema, full(d.Kinds), full(d.Differences)
	h.answer(w, r, d, err)
}
