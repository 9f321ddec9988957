package api

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// TopicReader tells what becomes of a link's source topics, those that it does not copy too, by name; one of them with
// what differs; or how the target compares with the source in full, for the topics that are named or, without a name,
// for all and for what concerns no topic. A comparison asks both clusters. A link or topic that does not exist is a
// NotFound error.
type TopicReader interface {
	Topics(ctx context.Context, link string) ([]Topic, error)
	Topic(ctx context.Context, link, topic string) (TopicDetail, error)
	Diff(ctx context.Context, link string, topics []string) (Diff, error)
}

// Topics is the answer of GET …/topics.
type Topics struct {
	Schema int     `json:"schema"`
	Topics []Topic `json:"topics"`
}

// Topic is one topic of the source, and what becomes of it.
type Topic struct {
	Link        string `json:"link"`
	Topic       string `json:"topic"` // the name on the source
	TargetTopic string `json:"target_topic"`
	State       string `json:"state"` // copied, waiting, failed, skipped, source_deleted, target_lost
	Detail      string `json:"detail"`
	Remedy      string `json:"remedy"`
	Partitions  int    `json:"partitions"` // of the source; 0 is not known
	// TargetPartitions are those of the target's topic, ReadyLanes those that are handed to the copying.
	TargetPartitions int       `json:"target_partitions"`
	ReadyLanes       int       `json:"ready_lanes"`
	Since            time.Time `json:"since,omitzero"`
	// Differences counts by state what differs besides the records.
	Differences Counts `json:"differences"`
}

// TopicSkipped is the state of a topic that the link does not select.
const TopicSkipped = "skipped"

// Troubled reports whether a topic should be copied and is not.
func (t Topic) Troubled() bool { return t.State == "failed" || t.State == "target_lost" }

// TopicFilter chooses topics by name; without names it leaves out, unless All is set, those that the link does not
// select.
type TopicFilter struct {
	Topics []string
	All    bool
}

// Apply returns the topics that the filter chooses.
func (f TopicFilter) Apply(topics []Topic) []Topic {
	return slices.DeleteFunc(slices.Clone(topics), func(t Topic) bool {
		if len(f.Topics) > 0 {
			return !slices.Contains(f.Topics, t.Topic)
		}
		return !f.All && t.State == TopicSkipped
	})
}

// TopicAnswer is the answer of GET …/topics/{topic}.
type TopicAnswer struct {
	Schema int         `json:"schema"`
	Topic  TopicDetail `json:"topic"`
}

// TopicDetail is a topic with what differs of it, as of the newest pass.
type TopicDetail struct {
	Topic
	Items []Item `json:"items"`
}

// Item is one thing that is to be alike on both sides: a topic's partitions or replication, a setting, a permission, a
// quota, a user. Values that a side does not have are null.
type Item struct {
	Kind        string  `json:"kind"`
	Topic       string  `json:"topic"` // on the source; "" for what concerns no single topic
	TargetTopic string  `json:"target_topic"`
	Name        string  `json:"name"`
	Source      *string `json:"source"`
	Target      *string `json:"target"`
	Wanted      *string `json:"wanted"` // what the target is to have while it is a mirror
	State       string  `json:"state"`
	Why         string  `json:"why"`
	Remedy      string  `json:"remedy"`
	Side        string  `json:"side"` // who has to change for it to go: source, target, configuration; "" is lockstep by itself
	Does        string  `json:"does,omitempty"`
	Error       string  `json:"error,omitempty"`
}

// Wanting reports whether an item differs until somebody acts.
func (i Item) Wanting() bool {
	switch i.State {
	case "kept", "held", "refused", "missing", "unavailable":
		return true
	}
	return false
}

// KindStatus says whether things of a kind can be looked after, and how many there are in which state.
type KindStatus struct {
	Kind      string `json:"kind"`
	Condition string `json:"condition"` // ok, off, not_applicable, partly, unavailable
	Why       string `json:"why,omitempty"`
	Remedy    string `json:"remedy,omitempty"`
	Items     Counts `json:"items"`
}

// Wanting reports whether things of the kind cannot be looked after until somebody acts.
func (k KindStatus) Wanting() bool { return k.Condition == "unavailable" || k.Condition == "partly" }

// DiffAnswer is the answer of GET …/diff.
type DiffAnswer struct {
	Schema int  `json:"schema"`
	Diff   Diff `json:"diff"`
}

// Diff is a comparison of both sides of a link.
type Diff struct {
	Link  string       `json:"link"`
	At    time.Time    `json:"at"`
	Kinds []KindStatus `json:"kinds"`
	Items []Item       `json:"items"`
	// Troubles are topics that should be copied and are not.
	Troubles []Topic `json:"troubles"`
}

// Wanting reports whether something differs until somebody acts, or could not be compared.
func (d Diff) Wanting() bool {
	return len(d.Troubles) > 0 || slices.ContainsFunc(d.Items, Item.Wanting) || slices.ContainsFunc(d.Kinds, KindStatus.Wanting)
}

// topics lists the topics of a link. The query topic, allowed more than once, chooses among them; without it, all=true
// adds those that the link does not select.
func (h *handler) topics(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	all, err := strconv.ParseBool(cmp.Or(q.Get("all"), "false"))
	if err != nil {
		h.fail(w, r, BadRequest("true or false", "all %q is not allowed", q.Get("all")))
		return
	}
	topics, err := h.backend.Topics(r.Context(), r.PathValue("link"))
	h.answer(w, r, Topics{Schema: Schema, Topics: full(TopicFilter{Topics: q["topic"], All: all}.Apply(topics))}, err)
}

func (h *handler) topic(w http.ResponseWriter, r *http.Request) {
	d, err := h.backend.Topic(r.Context(), r.PathValue("link"), r.PathValue("topic"))
	d.Items = full(d.Items)
	h.answer(w, r, TopicAnswer{Schema: Schema, Topic: d}, err)
}

// diff compares both sides; the query topic, allowed more than once, names the topics that it is about.
func (h *handler) diff(w http.ResponseWriter, r *http.Request) {
	d, err := h.backend.Diff(r.Context(), r.PathValue("link"), r.URL.Query()["topic"])
	d.Kinds, d.Items, d.Troubles = full(d.Kinds), full(d.Items), full(d.Troubles)
	h.answer(w, r, DiffAnswer{Schema: Schema, Diff: d}, err)
}

// Topics returns all topics of a link's source.
func (c *Client) Topics(ctx context.Context, link string) ([]Topic, error) {
	return c.FilteredTopics(ctx, link, TopicFilter{All: true})
}

// FilteredTopics returns the topics that f chooses; the service chooses, so that few travel.
func (c *Client) FilteredTopics(ctx context.Context, link string, f TopicFilter) ([]Topic, error) {
	q := url.Values{"topic": f.Topics}
	if f.All {
		q.Set("all", "true")
	}
	var out Topics
	err := c.get(ctx, &out, q, "api", "v1", "links", link, "topics")
	return out.Topics, err
}

// Topic returns one topic with what differs.
func (c *Client) Topic(ctx context.Context, link, topic string) (TopicDetail, error) {
	var out TopicAnswer
	err := c.get(ctx, &out, nil, "api", "v1", "links", link, "topics", topic)
	return out.Topic, err
}

// Diff has the service compare both sides.
func (c *Client) Diff(ctx context.Context, link string, topics []string) (Diff, error) {
	var out DiffAnswer
	err := c.get(ctx, &out, url.Values{"topic": topics}, "api", "v1", "links", link, "diff")
	return out.Diff, err
}
