package main

import (
	"context"
	"fmt"
	"time"

	"lockstep/api"
	"lockstep/checkpoint"
	"lockstep/config"
	"lockstep/internal/model"
	"lockstep/offsetsync"
	"lockstep/replicator"
)

// Groups shows the groups as the source showed them last: their positions are in the state topic, and what the target
// holds of them is asked for.
func (o *offline) Groups(ctx context.Context, name string) ([]api.Group, error) {
	v, err := o.groupView(ctx, name)
	return v.all(), err
}

// Group implements api.GroupReader.
func (o *offline) Group(ctx context.Context, name, group string) (api.GroupDetail, error) {
	v, err := o.groupView(ctx, name)
	if err != nil {
		return api.GroupDetail{}, err
	}
	return v.one(group)
}

// GroupHistory implements api.GroupReader.
func (o *offline) GroupHistory(ctx context.Context, name, group string) ([]api.GroupMoment, error) {
	l, err := o.open(ctx, name)
	if err != nil {
		return nil, err
	}
	return groupHistory(l.history, name, group)
}

func (o *offline) groupView(ctx context.Context, name string) (groupView, error) {
	v := groupView{link: name, now: time.Now()}
	l, err := o.open(ctx, name)
	if err != nil {
		return v, err
	}
	cfg := o.linkConfig(name)
	filter, err := cfg.Groups.Filter()
	if err != nil {
		return v, err
	}
	v.pass, err = l.lastPass(ctx, name, filter)
	return v, err
}

// linkConfig returns the configuration of a link that was opened.
func (o *offline) linkConfig(name string) config.Link {
	cfg, _ := o.cfg.Link(name)
	return cfg
}

// lastPass plans with the positions that the source showed last. Nothing is written, and nobody will: what would be is
// told as such.
func (l *offlineLink) lastPass(ctx context.Context, name string, filter checkpoint.Filter) (checkpoint.Pass, error) {
	bases := l.bases.All()
	lanes, err := l.landedLanes(ctx, name, bases)
	if err != nil {
		return checkpoint.Pass{}, err
	}
	in := checkpoint.Input{Now: time.Now(), Source: lastSource(bases), Lanes: lanes, Bases: bases,
		Rules: checkpoint.Rules{Link: name, Sync: true, MaxRewind: 1 << 62, DstGroup: filter.Target}}
	var names []string
	for group := range bases {
		names = append(names, filter.Target(group))
	}
	in.Target = checkpoint.Reread(ctx, l.dst, names)
	rows := checkpoint.Plan(in)
	for i := range rows {
		doubt(&rows[i], bases[rows[i].Group][rows[i].Key].Suspect)
		if rows[i].Write && rows[i].State == checkpoint.StatePending {
			rows[i].Detail = "no service runs here that would write it"
		}
	}
	return checkpoint.Pass{At: lastWritten(bases), Groups: in.Source.Groups, Target: in.Target.Groups, Rows: rows, Lanes: lanes}, ctx.Err()
}

// doubt shows that the source's last position was not believed, so that nobody takes the one before it for the last.
func doubt(r *checkpoint.Row, s *checkpoint.Suspicion) {
	if s == nil || r.State != checkpoint.StateSynced && r.State != checkpoint.StatePending {
		return
	}
	r.Source, r.State, r.Detail, r.Write = s.Source, checkpoint.StateSuspectSource, s.Why, false
}

// lastSource is the source as it was when its positions were last stored.
func lastSource(bases map[string]map[checkpoint.Key]checkpoint.Base) checkpoint.Picture {
	p := checkpoint.Picture{Groups: make(map[string]checkpoint.Group, len(bases))}
	for name, of := range bases {
		g := checkpoint.Group{Name: name, Type: checkpoint.TypeClassic, Offsets: make(map[checkpoint.Key]checkpoint.Committed, len(of))}
		for k, b := range of {
			g.Offsets[k] = checkpoint.Committed{Offset: b.Source, LeaderEpoch: -1}
		}
		p.Groups[name] = g
	}
	return p
}

func lastWritten(bases map[string]map[checkpoint.Key]checkpoint.Base) (at time.Time) {
	for _, of := range bases {
		for _, b := range of {
			if b.At.After(at) {
				at = b.At
			}
		}
	}
	return at
}

// landedLanes are the lanes that groups have positions in, with everything that landed on the target.
func (l *offlineLink) landedLanes(ctx context.Context, name string, bases map[string]map[checkpoint.Key]checkpoint.Base) (map[checkpoint.Key]checkpoint.Lane, error) {
	lanes := make(map[checkpoint.Key]checkpoint.Lane)
	for _, of := range bases {
		for k := range of {
			if _, done := lanes[k]; done {
				continue
			}
			id := model.Lane{Link: name, Topic: k.Topic, Partition: k.Partition}
			st, ok := l.view.Lane(id)
			if !ok {
				continue
			}
			st, err := replicator.Landed(ctx, l.dst, st, id)
			if err != nil {
				return nil, fmt.Errorf("read what landed on %s/%d: %w", st.Opening.Identity.DstTopic, id.Partition, err)
			}
			lanes[k] = offlineLane(st)
		}
	}
	return lanes, nil
}

func offlineLane(st offsetsync.LaneState) checkpoint.Lane {
	lane := checkpoint.Lane{DstTopic: st.Opening.Identity.DstTopic, Map: st.Map, Opening: st.Opening.N, SrcStart: -1, SrcEnd: -1, DstStart: -1, DstEnd: -1, Readable: -1}
	if st.Fault != nil {
		lane.Held = model.ReasonPlanLost
	}
	return lane
}
