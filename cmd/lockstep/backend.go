package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"lockstep/api"
	"lockstep/internal/kafka"
	"lockstep/internal/model"
	"lockstep/offsetsync"
	"lockstep/replicator"
	"lockstep/topicsync"
)

// nodeBackend shows a running node.
type nodeBackend struct{ n *node }

var _ api.Backend = (*nodeBackend)(nil)

var _ api.ConfigReader = (*nodeBackend)(nil)

// Config implements api.ConfigReader.
func (b *nodeBackend) Config(context.Context) (api.ConfigStatus, error) {
	return b.n.reload.Status(), nil
}

func (b *nodeBackend) running(name string) (*running, error) {
	for _, r := range b.n.links.now() {
		if r.cfg.Name == name {
			return r, nil
		}
	}
	return nil, api.NotFound("lockstep status lists the links", "no link %q", name)
}

// link returns a link that can be asked; one that could not even be made has nothing to tell.
func (b *nodeBackend) link(name string) (*link, error) {
	r, err := b.running(name)
	if err != nil {
		return nil, err
	}
	if r.link == nil {
		return nil, api.NotFound("lockstep status tells why", "link %q is stopped: %v", name, r.err)
	}
	return r.link, nil
}

func (b *nodeBackend) Links(context.Context) ([]api.Link, error) {
	var out []api.Link
	for _, r := range b.n.links.now() {
		out = append(out, r.show())
	}
	return out, nil
}

// show summarizes a link.
func (r *running) show() api.Link {
	s := r.status()
	a := api.Link{Name: r.cfg.Name, Source: r.cfg.Source, Target: r.cfg.Target, SafeToFailOver: api.SafetyUnknown(),
		Owner: s.Owner, Term: s.Term, Seal: cmp.Or(string(s.Seal), "unknown"), Reason: string(s.Reason), Detail: s.Detail, Remedy: s.Remedy, Since: s.Since}
	a.State, a.Lanes, a.RPO = api.Summarize(apiLanes(s.Lanes))
	a.Groups = api.Counts{ByState: map[string]int{}}
	if r.link != nil {
		claim, _ := r.link.view.Claim()
		a.SourceID, a.TargetID, a.Pauses = claim.SourceCluster, claim.TargetCluster, apiPauses(r.link.view.Pauses())
		a.Problems = append(problems(r.link.syncer.Topics(), time.Now()), r.link.mirrorProblems(time.Now())...)
		a.Groups, a.Alarms = r.link.groupView().counts(), countAlarms(r.link.alarms.All())
		for _, u := range r.link.syncer.Unmatched() {
			a.Unmatched = append(a.Unmatched, api.Unmatched{Pattern: u.Pattern, Hint: u.Hint})
		}
		a.Kept = kept(r.link.keeper.Report())
		a.GroupsUnread = groupsUnread(r.link.groups.Last())
	}
	switch {
	case s.Reason != model.ReasonNone:
		a.State = heldState(s.Reason)
	case len(a.Problems) > 0 && a.State == api.LinkStateCopying:
		a.State = api.LinkStateDegraded
	}
	return a
}

const (
	stoppedRemedy = "mend the cause, then send the process SIGHUP or change its configuration file: the link starts again"
	deposedRemedy = "none while that instance is the right one; to have the link here again end that one, then send this process SIGHUP"
)

// failed reports whether the link stopped by itself.
func (r *running) failed() bool { return r.over() && r.err != nil }

// status returns the link's figures. The lanes of a link that stopped by itself copy nothing, whatever they did last.
func (r *running) status() (s replicator.LinkStatus) {
	s.Link = r.cfg.Name
	if r.link != nil {
		s = r.link.manager.Status()
	}
	if !r.failed() {
		return s
	}
	s.Reason, s.Detail, s.Since, s.Remedy = stopReason(r.err), r.err.Error(), r.at.UTC(), stoppedRemedy
	var owned *replicator.OwnedError
	if errors.As(r.err, &owned) {
		s.Owner, s.Remedy = owned.Owner, deposedRemedy
	}
	for i := range s.Lanes {
		if l := &s.Lanes[i]; l.State != model.StateStopped && l.State != model.StateClosed {
			l.State, l.Reason, l.Detail, l.Since, l.Remedy = model.StateStopped, s.Reason, s.Detail, s.Since, s.Remedy
		}
	}
	return s
}

// stopReason is the word for why a link stopped as a whole.
func stopReason(err error) model.Reason {
	var owned *replicator.OwnedError
	var newer *offsetsync.NewerFormatError
	switch {
	case errors.As(err, &owned):
		return model.ReasonSuperseded
	case errors.As(err, &newer), errors.Is(err, offsetsync.ErrMalformed):
		return model.ReasonStateTopic
	case errors.Is(err, topicsync.ErrClusterChanged): // the target: a replaced source ends no link
		return model.ReasonTargetLost
	}
	if _, reason := kafka.Classify(err); reason != model.ReasonNone {
		return reason
	}
	return model.ReasonRefused
}

// heldState is the state of a link that is held as a whole, whatever its lanes are doing yet.
func heldState(r model.Reason) string {
	switch r {
	case model.ReasonPaused:
		return api.LinkStatePaused
	case model.ReasonSuperseded:
		return api.LinkStateNotOwned
	}
	return api.LinkStateStopped
}

func apiPauses(ps []model.Pause) (out []api.Pause) {
	for _, p := range ps {
		out = append(out, api.Pause{Topic: p.Topic, By: p.By, Reason: p.Reason, At: p.At.UTC()})
	}
	return out
}

// waitsLong is after how long a topic that should be over its wait is shown as a problem.
const waitsLong = 10 * time.Second

// problems picks the topics that should be copied and are not.
func problems(topics []topicsync.TopicStatus, now time.Time) (out []api.TopicProblem) {
	for _, t := range topics {
		waits := t.State == topicsync.TopicWaiting && now.Sub(t.Since) > waitsLong
		if waits || t.State == topicsync.TopicFailed || t.State == topicsync.TopicTargetLost {
			out = append(out, api.TopicProblem{Topic: t.Topic, State: string(t.State), Detail: t.Detail, Remedy: t.Remedy})
		}
	}
	return out
}

func apiLanes(ss []model.LaneStatus) []api.Lane {
	out := make([]api.Lane, len(ss))
	for i, s := range ss {
		out[i] = api.NewLane(s)
	}
	return out
}

func (b *nodeBackend) Lanes(_ context.Context, name string) ([]api.Lane, error) {
	r, err := b.running(name)
	if err != nil {
		return nil, err
	}
	return apiLanes(r.status().Lanes), nil
}

func (b *nodeBackend) Lane(ctx context.Context, name, topic string, partition int32) (api.LaneDetail, error) {
	lanes, err := b.Lanes(ctx, name)
	if err != nil {
		return api.LaneDetail{}, err
	}
	for _, a := range lanes {
		if a.Topic == topic && a.Partition == partition {
			l, err := b.link(name)
			if err != nil {
				return api.LaneDetail{}, err
			}
			return laneDetail(a, l.view), nil
		}
	}
	return api.LaneDetail{}, api.NotFound("lockstep lanes list shows the lanes", "no lane %s:%s/%d", name, topic, partition)
}

// laneDetail adds to a lane what the state topic says of it.
func laneDetail(a api.Lane, view *offsetsync.View) api.LaneDetail {
	d := api.LaneDetail{Lane: a, Gaps: []api.Gap{}, SourceLeaderEpoch: -1}
	st, ok := view.Lane(model.Lane{Link: a.Link, Topic: a.Topic, Partition: a.Partition})
	if !ok {
		return d
	}
	d.SourceTopicID, d.TargetTopicID = st.Opening.Identity.Src.String(), st.Opening.Identity.Dst.String()
	d.SourceLeaderEpoch, d.Count, d.Spans = st.Cursor.SrcEpoch, st.Cursor.Count, st.Map.Len()
	for _, g := range st.Gaps {
		d.Gaps = append(d.Gaps, api.NewGap(g))
	}
	return d
}

func (b *nodeBackend) Gaps(_ context.Context, name string) ([]api.Gap, error) {
	l, err := b.link(name)
	if err != nil {
		return nil, err
	}
	return apiGaps(l.view.Gaps()), nil
}

func apiGaps(gs []model.Gap) []api.Gap {
	out := make([]api.Gap, len(gs))
	for i, g := range gs {
		out[i] = api.NewGap(g)
	}
	return out
}

// Translate brings the stored map up to the present before it answers: the running lane knows more than the state
// topic, which is up to a second old.
func (b *nodeBackend) Translate(ctx context.Context, name string, req api.TranslateRequest) ([]api.Offset, error) {
	r, err := b.running(name)
	if err != nil {
		return nil, err
	}
	if r.over() {
		return nil, stoppedError(r)
	}
	l := r.link
	var stands []stand
	if req.OfGroups() {
		if stands, err = l.groupStands(ctx, req); err != nil {
			return nil, err
		}
	}
	l.manager.Flush(ctx)
	if err := l.view.Barrier(ctx); err != nil {
		return nil, err
	}
	return translateAll(name, req, stands, func(id model.Lane) (offsetsync.LaneState, bool, error) {
		st, ok := l.view.Lane(id)
		return st, ok, nil
	})
}

// Order implements api.Carer.
func (b *nodeBackend) Order(ctx context.Context, name string, o model.Order) ([]model.OrderStep, error) {
	r, err := b.running(name)
	if err != nil {
		return nil, err
	}
	if r.over() {
		return nil, stoppedError(r)
	}
	steps, err := r.link.order(ctx, o)
	if err != nil && ctx.Err() != nil {
		return nil, err // the time was over, or nobody waits for the answer
	}
	if err != nil {
		return nil, api.Refused("nothing was done; lockstep status shows links and lanes", "%v", err)
	}
	return steps, nil
}

// order has an order carried out by whoever cares for its subjects.
func (l *link) order(ctx context.Context, o model.Order) ([]model.OrderStep, error) {
	switch {
	case o.Kind == model.OrderSync:
		return l.syncTopics(ctx, o)
	case len(o.Groups) > 0:
		return l.acceptGroups(ctx, o)
	}
	return l.manager.Order(ctx, o)
}

func (b *nodeBackend) Ready(context.Context) error {
	var waiting []error
	for _, r := range b.n.links.now() {
		if err := r.ready(); err != nil {
			waiting = append(waiting, err)
		}
	}
	return errors.Join(waiting...)
}

// ready returns what keeps the link from its work, nil once its first pass is done.
func (r *running) ready() error {
	switch {
	case r.failed():
		return fmt.Errorf("link %s is stopped: %w", r.cfg.Name, r.err)
	case r.link.ready.Load():
		return nil
	}
	why := "its state and topics are being read"
	if w := r.link.waits.Load(); w != nil {
		why = *w
	}
	if s := r.link.manager.Status(); s.Reason != model.ReasonNone {
		why = s.Detail
	}
	return fmt.Errorf("link %s is not open yet: %s", r.cfg.Name, why)
}

// stoppedError answers what only a link at work can do.
func stoppedError(r *running) error {
	return &api.Error{Status: http.StatusServiceUnavailable, Code: api.CodeNotReady, Message: fmt.Sprintf("link %q is stopped: %v", r.cfg.Name, r.err),
		Hint: "lockstep status tells more"}
}

// laneReader returns what is known of a lane, false when nothing is.
type laneReader func(model.Lane) (offsetsync.LaneState, bool, error)

// translateAll answers each position of a request, and those of groups, from the lanes' states.
func translateAll(link string, req api.TranslateRequest, stands []stand, lane laneReader) ([]api.Offset, error) {
	out := make([]api.Offset, 0, len(req.Offsets)+len(stands))
	for _, p := range req.Offsets {
		st, ok, err := lane(model.Lane{Link: link, Topic: p.Topic, Partition: p.Partition})
		if err != nil {
			return nil, err
		}
		out = append(out, translated(link, p, req.Reverse, st, ok))
	}
	for _, s := range stands {
		o, err := s.translated(link, req.Reverse, lane)
		if err != nil {
			return nil, err
		}
		out = append(out, o)
	}
	return out, nil
}

func translated(link string, p api.Position, reverse bool, st offsetsync.LaneState, known bool) api.Offset {
	o := api.Offset{Link: link, Topic: p.Topic, Partition: p.Partition, State: api.OffsetUnknown}
	asked, answer := &o.SourceOffset, &o.TargetOffset
	if reverse {
		asked, answer = answer, asked
	}
	*asked = &p.Offset
	if !known || st.Fault != nil {
		return o
	}
	o.TargetTopic = st.Opening.Identity.DstTopic
	t := st.Map.Translate(p.Offset)
	if reverse {
		t = st.Map.Invert(p.Offset)
	}
	*answer, o.State = &t.Offset, t.Kind.String()
	switch t.Kind {
	case offsetsync.BeforeStart:
		o.NeverCopied = t.Off
	case offsetsync.Ahead:
		o.Ahead = t.Off
	case offsetsync.Exact, offsetsync.Hole:
	}
	return o
}
