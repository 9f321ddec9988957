package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"lockstep/internal/kafka"
	"lockstep/internal/model"
)

// commitsInFlight is how many groups are committed at a time, all coordinators together.
const commitsInFlight = 32

// Apply commits the rows that have Write on the target, whose Bases are durable: one commit for each group. Right before
// it reads those groups again: what is not any more as the plan saw it is left out, and so are groups that have members
// or cannot be read. The rows returned are those given, without Write and with the state that each came to.
func Apply(ctx context.Context, c *kafka.Cluster, rows []Row) []Row {
	out := slices.Clone(rows)
	writes := map[string][]*Row{}
	for i := range out {
		if r := &out[i]; r.Write {
			r.Write = false
			writes[r.DstGroup] = append(writes[r.DstGroup], r)
		}
	}
	if len(writes) == 0 {
		return out
	}
	a := applier{c: c, now: Reread(ctx, c, slices.Sorted(maps.Keys(writes)))}
	a.topics, a.topicsErr = c.QuickMetadata(ctx, topicsOf(writes)...)
	a.write(ctx, writes)
	return out
}

func topicsOf(writes map[string][]*Row) []string {
	names := map[string]bool{}
	for _, rows := range writes {
		for _, r := range rows {
			names[r.DstTopic] = true
		}
	}
	return slices.Collect(maps.Keys(names))
}

// applier writes what a plan decided, if the target is still as the plan saw it.
type applier struct {
	c         *kafka.Cluster
	now       Picture
	topics    kafka.Meta
	topicsErr error
}

// write commits what the target's picture does not speak against.
func (a *applier) write(ctx context.Context, writes map[string][]*Row) {
	for group, rows := range writes {
		if rows = slices.DeleteFunc(rows, a.leavesOut); len(rows) == 0 {
			delete(writes, group)
		} else {
			writes[group] = rows
		}
	}
	a.commitAll(ctx, writes)
}

// leavesOut reports whether a row must not be written, and notes why.
func (a *applier) leavesOut(r *Row) bool {
	state, detail := changed(a.now, *r)
	if state == "" {
		state, detail = a.missing(*r)
	}
	if state == "" {
		return false
	}
	r.settle(state, detail)
	return true
}

// changed says what keeps a row from being written, given the target as it is now; "" for nothing. A group that is
// nowhere has no positions: see Reread.
func changed(now Picture, r Row) (State, string) {
	if err := now.Failed[r.DstGroup]; err != nil {
		return unreadable(err, r)
	}
	g, exists := now.Groups[r.DstGroup]
	is := int64(-1)
	if o, ok := g.Offsets[r.dstKey()]; ok {
		is = o.Offset
	}
	switch {
	case !exists && r.Target < 0:
		return "", ""
	case exists && (!g.Supported() || !g.plain()):
		return StateTypeConflict, fmt.Sprintf("on the target %s is a group of type %s and protocol %q", g.Name, g.Type, g.Protocol)
	case exists && !g.Idle():
		return StateActiveOnTarget, fmt.Sprintf("the group is in state %s on the target", cmp.Or(g.State, "unknown"))
	case g.Unstable[r.dstKey()] != nil:
		return StatePending, fmt.Sprintf("the target's position is about to be changed: %v", g.Unstable[r.dstKey()])
	case is == r.Target:
		return "", ""
	case is == r.Translated:
		return StateSynced, ""
	case r.Target < 0:
		return StateExistsOnTarget, fmt.Sprintf("the target got position %d since it was looked at, when it had none", is)
	}
	return StateMovedOnTarget, fmt.Sprintf("the target's position went from %d to %d since it was looked at", r.Target, is)
}

// missing says that the partition of a row does not exist on the target: some brokers would take a commit for it.
func (a *applier) missing(r Row) (State, string) {
	t, ok := a.topics.Topics[r.DstTopic]
	err := cmp.Or(a.topicsErr, t.Err)
	if _, found := t.Part(r.Partition); err == nil && (!ok || !found) {
		err = kerr.UnknownTopicOrPartition
	}
	switch {
	case err == nil:
		return "", ""
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return StatePending, fmt.Sprintf("the target has no partition %s", r.dstKey())
	}
	return unreadable(err, r)
}

// commitAll commits the groups at their coordinators, all of them at once. Each has answered just now, so none is given up
// early: a commit waits for the replicas of the topic of offsets, which may take as long as one of them is being replaced.
func (a *applier) commitAll(ctx context.Context, writes map[string][]*Row) {
	at, lost := a.c.Coordinators(ctx, slices.Sorted(maps.Keys(writes)))
	for group, err := range lost {
		for _, r := range writes[group] {
			r.settle(refusal(err, *r))
		}
	}
	byBroker := map[int32][]string{}
	for _, group := range slices.Sorted(maps.Keys(at)) {
		byBroker[at[group]] = append(byBroker[at[group]], group)
	}
	limit := max(1, commitsInFlight/max(1, len(byBroker)))
	a.c.EachBroker(ctx, slices.Collect(maps.Keys(byBroker)), 0, func(ctx context.Context, broker int32, heard func()) {
		groups := byBroker[broker]
		inParallel(len(groups), limit, func(i int) {
			a.commit(ctx, broker, groups[i], writes[groups[i]])
			heard()
		})
	})
}

// commit writes the rows of one group. A target that takes less metadata than the source gets the positions without.
func (a *applier) commit(ctx context.Context, broker int32, group string, rows []*Row) {
	offsets := make(map[Key]Committed, len(rows))
	for _, r := range rows {
		offsets[r.dstKey()] = Committed{Offset: r.Translated, LeaderEpoch: -1, Metadata: r.Metadata}
	}
	refused, err := commitAt(ctx, a.c, broker, group, offsets)
	bare := map[Key]Committed{}
	for k, err := range refused {
		if errors.Is(err, kerr.OffsetMetadataTooLarge) {
			bare[k] = Committed{Offset: offsets[k].Offset, LeaderEpoch: -1}
		}
	}
	if len(bare) > 0 {
		again, err := commitAt(ctx, a.c, broker, group, bare)
		for k := range bare {
			refused[k] = cmp.Or(err, again[k])
		}
	}
	for _, r := range rows {
		_, without := bare[r.dstKey()]
		r.committed(cmp.Or(err, refused[r.dstKey()]), without)
	}
}

// committed notes what became of a row's commit.
func (r *Row) committed(err error, bare bool) {
	if err != nil {
		r.settle(refusal(err, *r))
		return
	}
	detail := r.Detail
	if bare {
		detail = "written without its metadata, which is larger than the target's offset.metadata.max.bytes"
	}
	r.settle(StateSynced, detail)
}

// settle gives a row its state. What is synced stands where it belongs; if it was only written again so that the target does
// not forget it, it is in no other state than before.
func (r *Row) settle(state State, detail string) {
	if state == StateSynced {
		r.Target = r.Translated
		if r.State != StatePending && r.State != "" {
			return
		}
		r.Again = 0
	}
	r.State, r.Detail = state, detail
}

func (r Row) dstKey() Key { return Key{r.DstTopic, r.Partition} }

// unreadable is the state of a row whose target cannot be looked at.
func unreadable(err error, r Row) (State, string) {
	if state, detail := unauthorized(err, r, "DESCRIBE"); state != "" {
		return state, detail
	}
	return StateTargetUnreadable, err.Error()
}

// refusal is the state of a row whose commit failed. That of a group with members is refused since we are none of them.
func refusal(err error, r Row) (State, string) {
	if state, detail := unauthorized(err, r, "READ"); state != "" {
		return state, detail
	}
	switch {
	case RefusedForMembers(err):
		return StateActiveOnTarget, fmt.Sprintf("the target refused the commit, the group has members there: %v", err)
	case isOneOf(err, kerr.GroupIDNotFound, kerr.InconsistentGroupProtocol):
		return StateTypeConflict, fmt.Sprintf("the target refused the commit, it has another kind of group there: %v", err)
	}
	return StatePending, err.Error()
}

// unauthorized names the permission that is missing; "" when that is not the reason.
func unauthorized(err error, r Row, operation string) (State, string) {
	_, reason := kafka.Classify(err)
	switch {
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		return StateNotAuthorized, fmt.Sprintf("%s on group %s of the target is needed: %v", operation, r.DstGroup, err)
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return StateNotAuthorized, fmt.Sprintf("%s on topic %s of the target is needed: %v", operation, r.DstTopic, err)
	case reason == model.ReasonNotAuthorized:
		return StateNotAuthorized, err.Error()
	}
	return "", ""
}

// RefusedForMembers reports whether a coordinator refused a commit because the group has members, of which we are none.
func RefusedForMembers(err error) bool {
	return isOneOf(err, kerr.UnknownMemberID, kerr.IllegalGeneration, kerr.FencedInstanceID, kerr.RebalanceInProgress,
		kerr.StaleMemberEpoch, kerr.FencedMemberEpoch, kerr.UnreleasedInstanceID)
}

func isOneOf(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(t error) bool { return errors.Is(err, t) })
}
