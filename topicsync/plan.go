package topicsync

import (
	"fmt"

	"lockstep/config"
	"lockstep/internal/model"
	"lockstep/topicsync/configs"
)

// Kind is what an action does.
type Kind string

// The kinds. There is none that shrinks or deletes.
const (
	Create Kind = "create" // a topic that the target lacks
	Grow   Kind = "grow"   // a topic that has fewer partitions than the source's
)

// Action is one change on the target, with what it makes and why.
type Action struct {
	Kind        Kind
	Topic       string // on the source
	DstTopic    string
	From        int32 // partitions before; 0 for Create
	Partitions  int32 // partitions afterwards
	Replication int16 // Create only; -1 lets the target choose
	Settings    []Setting
	Left        []configs.Left // settings of the source that are not carried over as they are
	Strict      bool           // it is not created without one of its settings
	Reason      string
}

// Input is what a plan is made from.
type Input struct {
	Link   config.Link
	Wanted []Wanted
	// Brokers is the number of the target's brokers.
	Brokers int
	// Explicit holds the explicit settings of source topics. A topic that is to be created and is not in it waits.
	Explicit map[string]map[string]string
	// Mirror says what the new topics' settings depend on; its Replicas are filled in.
	Mirror configs.Mirror
	// Refused holds setting names that the target does not know, with its own words.
	Refused map[string]string
	// Lost holds target topics that existed once: they are never created again silently, nor grown.
	Lost map[string]bool
}

// Plan returns what has to be done so that the target has every wanted topic with enough partitions. It is pure, and
// a plan made after all of its actions succeeded is empty.
func Plan(in Input) []Action {
	var actions []Action
	for _, w := range in.Wanted {
		if a, ok := planTopic(in, w); ok {
			actions = append(actions, a)
		}
	}
	return actions
}

func planTopic(in Input, w Wanted) (Action, bool) {
	want, have := int32(len(w.Src.Parts)), int32(len(w.Dst.Parts))
	switch {
	case w.Src.Err != nil, w.Dst.Err != nil, want == 0, in.Lost[w.Dst.Name]:
		return Action{}, false
	case !w.Exists:
		return planCreate(in, w)
	case have < want:
		return Action{
			Kind: Grow, Topic: w.Src.Name, DstTopic: w.Dst.Name, From: have, Partitions: want,
			Reason: fmt.Sprintf("the source has %d partitions, the target %d", want, have),
		}, true
	}
	return Action{}, false
}

func planCreate(in Input, w Wanted) (Action, bool) {
	explicit, ok := in.Explicit[w.Src.Name]
	if !ok {
		return Action{}, false
	}
	replication, why := planReplication(in.Link.ReplicationFactor, replicas(w.Src), in.Brokers)
	mirror := in.Mirror
	mirror.Replicas = max(0, int(replication))
	refused := in.Refused
	if in.Link.Configs.Strict {
		refused = nil // what is left out without asking would not be missed
	}
	settings, left := planSettings(explicit, mirror, refused)
	return Action{
		Kind: Create, Topic: w.Src.Name, DstTopic: w.Dst.Name,
		Partitions: int32(len(w.Src.Parts)), Replication: replication, Settings: settings, Left: left, Strict: in.Link.Configs.Strict,
		Reason: "the target does not have it" + why,
	}, true
}

// planReplication returns the replication factor of a new topic: the configured one as it is (-1 is the target's default), else the source's as far
// as the target's brokers go.
func planReplication(configured, src, brokers int) (int16, string) {
	switch {
	case configured == -1:
		return -1, "; the replication factor is the target's default"
	case configured > 0:
		return int16(configured), ""
	case src == 0 || brokers == 0:
		return -1, "; the replication factor is the target's default, since the source's is not known"
	case src > brokers:
		return int16(brokers), fmt.Sprintf("; replication factor %d instead of the source's %d, since the target has %[1]d brokers", brokers, src)
	}
	return int16(src), ""
}

// Identity returns the identity of a wanted topic's lanes. ok is false while an id is not known.
func (w Wanted) Identity() (id model.Identity, ok bool) {
	id = model.Identity{DstTopic: w.Dst.Name, Src: w.Src.ID, Dst: w.Dst.ID}
	return id, w.Exists && !id.Src.IsZero() && !id.Dst.IsZero()
}
