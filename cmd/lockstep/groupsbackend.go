package main

import (
	"context"
	"time"

	"lockstep/api"
	"lockstep/checkpoint"
	"lockstep/internal/model"
	"lockstep/offsetsync"
)

// groupView shows the groups of a pass.
type groupView struct {
	link string
	pass checkpoint.Pass
	ages checkpoint.Ages
	// alarms of the groups, nil where nobody watches them.
	alarms *checkpoint.Alarms
	// paused says that the link is paused, which is then what keeps positions from being written.
	paused bool
	now    time.Time
}

func (v groupView) all() []api.Group {
	var out []api.Group
	for _, s := range v.pass.Summaries(v.ages) {
		out = append(out, v.group(s))
	}
	return out
}

// counts counts the groups that an operator expects to see.
func (v groupView) counts() api.Counts {
	c := api.Counts{ByState: map[string]int{}}
	for _, s := range v.pass.Summaries(nil) {
		if s.Shown() {
			c.Total++
			c.ByState[string(s.State)]++
		}
	}
	return c
}

func (v groupView) one(name string) (api.GroupDetail, error) {
	s, ok := v.pass.Summary(name, v.ages)
	if !ok {
		return api.GroupDetail{}, noGroup(v.link, name)
	}
	d := api.GroupDetail{Group: v.group(s), Positions: []api.GroupPosition{}}
	for _, r := range s.Rows {
		if r.Key != (checkpoint.Key{}) {
			d.Positions = append(d.Positions, v.position(r))
		}
	}
	return d, nil
}

func noGroup(link, name string) error {
	return api.NotFound("lockstep groups list --all --link "+link+" shows the groups", "no group %q of link %q", name, link)
}

func (v groupView) group(s checkpoint.Summary) api.Group {
	g := api.Group{Link: v.link, Group: s.Group, TargetGroup: s.DstGroup, Type: string(s.Type), State: string(s.State), Detail: s.Detail,
		Remedy: v.remedy(s.State, s.Group), SourceState: s.SrcState, TargetState: s.DstState, Partitions: api.Counts{ByState: map[string]int{}}}
	for state, n := range s.Positions {
		g.Partitions.Total += n
		g.Partitions.ByState[string(state)] = n
	}
	g.LagRecords, g.LagSeconds, g.LagAtLeast = api.Known(s.LagRecords), api.Seconds(s.LagSeconds), s.LagAtLeast
	if v.alarms != nil {
		g.Alarms = apiAlarms(v.alarms.Of(s.Group))
	}
	if g.Partitions.Total > 0 {
		g.RecordsAgain = &s.Again
	}
	if !s.Read.IsZero() {
		g.AgeSeconds = api.Seconds(max(0, v.now.Sub(s.Read).Seconds()))
	}
	return g
}

func (v groupView) remedy(state checkpoint.State, group string) string {
	if state == checkpoint.StateSyncOff && v.paused {
		return model.Remedy(model.ReasonPaused, model.Lane{Link: v.link})
	}
	return checkpoint.Remedy(state, v.link, group)
}

func (v groupView) position(r checkpoint.Row) api.GroupPosition {
	p := api.GroupPosition{Topic: r.Topic, Partition: r.Partition, TargetTopic: r.DstTopic, SourceOffset: api.Known(r.Source),
		TranslatedOffset: api.Known(r.Translated), TargetOffset: api.Known(r.Target), Translation: api.OffsetUnknown,
		State: string(r.State), Detail: r.Detail, Remedy: v.remedy(r.State, r.Group), Metadata: r.Metadata}
	if r.Translated >= 0 {
		p.Translation, p.RecordsAgain = r.Kind.String(), &r.Again
		switch r.Kind {
		case offsetsync.BeforeStart:
			p.NeverCopied = r.Off
		case offsetsync.Ahead:
			p.Ahead = r.Off
		case offsetsync.Exact, offsetsync.Hole:
		}
	}
	records, seconds, atLeast := v.pass.Lag(r, v.ages)
	p.LagRecords, p.LagSeconds, p.LagAtLeast = api.Known(records), api.Seconds(seconds), atLeast
	return p
}

// groupView shows the groups of a running link.
func (l *link) groupView() groupView {
	hold := l.holdsGroups()
	return groupView{link: l.cfg.Name, pass: l.groups.Last(), ages: l.ages(), alarms: l.alarms, paused: hold.Writes != "", now: time.Now()}
}

// Groups implements api.GroupReader.
func (b *nodeBackend) Groups(_ context.Context, name string) ([]api.Group, error) {
	l, err := b.link(name)
	if err != nil {
		return nil, err
	}
	return l.groupView().all(), nil
}

// Group implements api.GroupReader.
func (b *nodeBackend) Group(_ context.Context, name, group string) (api.GroupDetail, error) {
	l, err := b.link(name)
	if err != nil {
		return api.GroupDetail{}, err
	}
	return l.groupView().one(group)
}

// GroupHistory implements api.GroupReader.
func (b *nodeBackend) GroupHistory(_ context.Context, name, group string) ([]api.GroupMoment, error) {
	l, err := b.link(name)
	if err != nil {
		return nil, err
	}
	return groupHistory(l.history, name, group)
}

// groupHistory shows where a group stood. Of a moment only positions and states are kept.
func groupHistory(h *checkpoint.History, link, group string) ([]api.GroupMoment, error) {
	var out []api.GroupMoment
	for _, m := range h.Of(group) {
		a := api.GroupMoment{Link: link, Group: group, At: m.At.UTC(), Positions: []api.GroupPosition{}}
		for _, r := range m.Positions {
			a.Positions = append(a.Positions, api.GroupPosition{Topic: r.Topic, Partition: r.Partition, SourceOffset: api.Known(r.Source),
				TranslatedOffset: api.Known(r.Translated), TargetOffset: api.Known(r.Target), State: string(r.State)})
		}
		out = append(out, a)
	}
	if len(out) == 0 {
		return nil, noGroup(link, group)
	}
	return out, nil
}
