package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lockstep/checkpoint"
	"lockstep/config"
	"lockstep/internal/model"
	"lockstep/internal/pause"
	"lockstep/offsetsync"
)

// newGroups prepares what keeps the link's consumer groups. It has to come before the view runs.
func (l *link) newGroups(cfg config.Link) error {
	set, err := groupSettings(cfg.Groups)
	if err != nil {
		return err
	}
	l.setSelection(cfg)
	l.mirror = l.newMirror(cfg)
	l.bases, l.history = checkpoint.NewBases(l.view, l.state), checkpoint.NewHistory(l.view, l.state)
	l.alarms = checkpoint.NewAlarms()
	l.groups = checkpoint.New(checkpoint.Options{
		Link: cfg.Name, Settings: set, Sides: checkpoint.NewSides(l.src, l.dst), Lanes: groupLanes{l}, Store: l.bases, History: l.history,
		Barrier: l.view.Barrier, Hold: l.holdsGroups, SameSource: l.sameSource, Selects: l.selects, Listeners: l.listeners(), Logger: l.log,
	})
	return nil
}

func groupSettings(g config.Groups) (checkpoint.Settings, error) {
	filter, err := g.Filter()
	return checkpoint.Settings{Filter: filter, Interval: time.Duration(g.Interval), Sync: g.Sync, MaxRewind: int64(g.MaxRewind),
		RewindHold: time.Duration(g.RewindHold)}, err
}

// retuneGroups takes over changed settings.
func (l *link) retuneGroups(cfg config.Link) error {
	set, err := groupSettings(cfg.Groups)
	if err != nil {
		return err
	}
	l.setSelection(cfg)
	l.groups.Tune(set)
	return nil
}

func (l *link) setSelection(cfg config.Link) { l.selection.Store(&cfg) }

// selects tells the target's name of a topic that the link copies.
func (l *link) selects(topic string) (dst string, ok bool) {
	cfg := l.selection.Load()
	ok, _ = cfg.Selects(topic)
	return cfg.TargetTopic(topic), ok
}

// keepGroups keeps the groups in step from the first look at the topics on: before it, lanes are not known.
func (l *link) keepGroups(ctx context.Context) {
	if l.awaitReady(ctx) {
		l.groups.Run(ctx)
	}
}

// awaitReady waits until the topics were looked at, and returns false when ctx ended first.
func (l *link) awaitReady(ctx context.Context) bool {
	for !l.ready.Load() {
		if !pause.For(ctx, 50*time.Millisecond) {
			return false
		}
	}
	return true
}

// atWork says why nothing can be done for an operator yet.
func (l *link) atWork() error {
	select {
	case <-l.manager.Owned():
	default:
		return errors.New("the link is not ours, or not yet")
	}
	if !l.ready.Load() {
		return errors.New("the link is not open yet")
	}
	return nil
}

// acceptGroups puts groups where they stand on the source, for an operator.
func (l *link) acceptGroups(ctx context.Context, o model.Order) ([]model.OrderStep, error) {
	if err := l.atWork(); err != nil {
		return nil, err
	}
	steps, err := l.groups.Accept(ctx, o.Groups, o.DryRun)
	if !o.DryRun && err == nil {
		l.log.Info("groups accepted", "groups", o.Groups, "by", o.By, "reason", o.Reason, "positions", len(steps))
	}
	return steps, err
}

// syncGroupsOnce puts the groups right after everything was copied. Nothing that is left to do by itself stays undone.
func (l *link) syncGroupsOnce(ctx context.Context) error {
	l.manager.Flush(ctx) // what was copied is translated up to its end
	for range onceAttempts {
		if err := l.groups.Once(ctx); err != nil && ctx.Err() != nil {
			return err
		}
		if l.groups.Last().Err == nil && len(l.undone()) == 0 {
			return nil
		}
		if !pause.For(ctx, time.Second) {
			return ctx.Err()
		}
	}
	if err := l.groups.Last().Err; err != nil {
		return fmt.Errorf("groups: %w", err)
	}
	undone := l.undone()
	for _, s := range undone[:min(len(undone), 10)] {
		l.log.Error("group not in step", "group", s.Group, "state", s.State, "detail", s.Detail, "remedy", checkpoint.Remedy(s.State, l.cfg.Name, s.Group))
	}
	return fmt.Errorf("%s could not be put where they stand on the source: lockstep's log names them", plural(len(undone), "group"))
}

// onceAttempts is how often run --once looks at the groups until nothing is pending.
const onceAttempts = 5

// undone are groups whose positions could not be written, for a reason that lies with neither groups nor operators.
func (l *link) undone() (out []checkpoint.Summary) {
	for _, s := range l.groups.Last().Summaries(nil) {
		switch s.State {
		case checkpoint.StatePending, checkpoint.StateUnstable, checkpoint.StateTargetUnreadable, checkpoint.StateSourceUnreadable, checkpoint.StateNotAuthorized:
			out = append(out, s)
		}
	}
	return out
}

// sameSource makes sure that the cluster which answers as the source is the one that was copied from.
func (l *link) sameSource(ctx context.Context) error {
	id, err := l.src.ID(ctx)
	if err != nil {
		return err
	}
	if claim, ok := l.view.Claim(); ok && claim.SourceCluster != "" && claim.SourceCluster != id {
		return fmt.Errorf("cluster %s is another one (%s) than was copied from (%s)", l.src.Name(), id, claim.SourceCluster)
	}
	return nil
}

// holdsGroups says what keeps the link from its groups.
func (l *link) holdsGroups() (h checkpoint.Hold) {
	if r, _ := l.manager.Replaced(); r != nil {
		h.Source = r.Detail
	}
	for _, p := range l.view.Pauses() {
		if p.Topic == "" {
			h.Writes = fmt.Sprintf("the link is paused by %s since %s", p.By, p.At.UTC().Format(time.RFC3339))
		}
	}
	if err := l.manager.Superseded(); err != nil {
		h.Writes = err.Error()
	}
	return h
}

// groupLanes tells the link's lanes for its groups: the maps as they are stored, and what the manager knows of both
// logs. Only lanes that this process has opened count: before that nobody has looked whether their topics are still the
// same.
type groupLanes struct{ l *link }

// Lanes implements checkpoint.Lanes.
func (g groupLanes) Lanes() map[checkpoint.Key]checkpoint.Lane {
	// The figures first: what is opened in between is in the map, and counts from the next look on.
	status := g.l.manager.Status().Lanes
	maps := g.l.view.Maps()
	out := make(map[checkpoint.Key]checkpoint.Lane, len(status))
	topic, selected := "", false
	for i := range status { // in order: each topic is asked about once
		s := &status[i]
		if s.Topic != topic || i == 0 {
			topic = s.Topic
			_, selected = g.l.selects(topic)
		}
		if !selected {
			continue
		}
		out[checkpoint.Key{Topic: s.Topic, Partition: s.Partition}] = groupLane(s, maps[s.Lane])
	}
	return out
}

func groupLane(s *model.LaneStatus, m offsetsync.Mapped) checkpoint.Lane {
	lane := checkpoint.Lane{DstTopic: s.DstTopic, SrcStart: s.SrcStart, SrcEnd: s.SrcEnd, DstStart: -1, DstEnd: s.DstEnd, Readable: s.Readable}
	if s.Opening == 0 || m.Map == nil || s.Opening > m.Opening { // the last: the map is that of the log before, for a moment
		if s.Reason != model.ReasonNone {
			lane.Waits = fmt.Sprintf("its lane is %s: %s", s.State, s.Reason)
		}
		return lane
	}
	lane.Map, lane.Opening, lane.SrcID, lane.Held = m.Map, m.Opening, m.Identity.Src, heldFor(s)
	if m.Fault != nil && lane.Held == model.ReasonNone {
		lane.Held = model.ReasonPlanLost
	}
	return lane
}

// heldFor picks the reasons for which the source's offsets do not mean what the map says.
func heldFor(s *model.LaneStatus) model.Reason {
	switch s.Reason {
	case model.ReasonRecreated, model.ReasonSourceReplaced, model.ReasonSourceTruncated, model.ReasonDiverged, model.ReasonPlanLost, model.ReasonTargetLost:
		return s.Reason
	}
	return model.ReasonNone
}

// listeners are told of every pass over the groups.
func (l *link) listeners() []checkpoint.Listener {
	out := []checkpoint.Listener{l.alarms}
	if l.mirror != nil {
		out = append(out, l.mirror)
	}
	return out
}
