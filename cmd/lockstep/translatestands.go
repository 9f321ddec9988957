package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"lockstep/api"
	"lockstep/checkpoint"
	"lockstep/internal/model"
	"lockstep/offsetsync"
)

// stand is a position of a group on the side from which it is translated.
type stand struct {
	group, dstGroup string
	key             checkpoint.Key // of the source; on the target's side too, but for topics that are not the link's
	next            int64          // -1: it could not be read
	copied          bool           // the topic is one of the link's
	from            string         // a From… word
	at              time.Time
}

// laneKeys are the partitions of a link, by their names on the side from which positions come, and what they are called
// on the source.
type laneKeys map[checkpoint.Key]checkpoint.Key

// linkKeys returns the partitions that the state topic knows.
func linkKeys(view *offsetsync.View, reverse bool) laneKeys {
	out := make(laneKeys)
	for _, id := range view.Lanes() {
		src := checkpoint.Key{Topic: id.Topic, Partition: id.Partition}
		asked := src
		if st, ok := view.Lane(id); reverse && ok {
			asked.Topic = st.Opening.Identity.DstTopic
		}
		out[asked] = src
	}
	return out
}

// standsOfPass tells where the groups asked for stood on the source when the service looked last.
func standsOfPass(link string, p checkpoint.Pass, req api.TranslateRequest) ([]stand, error) {
	if p.At.IsZero() {
		return nil, notYetLooked(p.Err)
	}
	rows := make(map[string][]checkpoint.Row)
	for _, r := range p.Rows {
		rows[r.Group] = append(rows[r.Group], r)
	}
	names := wantedGroups(req, slices.Collect(maps.Keys(rows)))
	var out []stand
	for _, name := range names {
		rs, known := rows[name]
		if !known {
			return nil, noGroup(link, name)
		}
		at := p.At
		if stale, ok := p.Stale[name]; ok {
			at = stale
		}
		out = append(out, standsOfRows(rs, at)...)
		if !req.AllGroups {
			out = append(out, elsewhere(name, rs, p.Groups[name].Offsets, at)...)
		}
	}
	return sorted(out), nil
}

func standsOfRows(rows []checkpoint.Row, at time.Time) (out []stand) {
	for _, r := range rows {
		if r.Key != (checkpoint.Key{}) && (r.Source >= 0 || r.State == checkpoint.StateUnstable) {
			out = append(out, stand{r.Group, r.DstGroup, r.Key, r.Source, true, api.FromService, at})
		}
	}
	return out
}

// elsewhere are positions of a group in topics that the link does not copy.
func elsewhere(group string, rows []checkpoint.Row, offsets map[checkpoint.Key]checkpoint.Committed, at time.Time) (out []stand) {
	have := make(map[checkpoint.Key]bool, len(rows))
	for _, r := range rows {
		have[r.Key] = true
	}
	for k, c := range offsets {
		if !have[k] {
			out = append(out, stand{group, rows[0].DstGroup, k, c.Offset, false, api.FromService, at})
		}
	}
	return out
}

// standsOfPicture tells where groups stand on a cluster that was looked at now. names are those on the source, and rename
// what they are called on the target.
func standsOfPicture(link string, p checkpoint.Picture, req api.TranslateRequest, names []string, rename func(string) string, lanes laneKeys, at time.Time) ([]stand, error) {
	var out []stand
	for _, name := range names {
		there := name
		if req.Reverse {
			there = rename(name)
		}
		if err := p.Failed[there]; err != nil {
			return nil, fmt.Errorf("read the positions of group %q: %w", there, err)
		}
		g, known := p.Groups[there]
		switch {
		case !known && !req.AllGroups && req.Reverse:
			return nil, api.NotFound("lockstep groups show tells how it stands", "group %q has no positions on the target of link %q", there, link)
		case !known && !req.AllGroups:
			return nil, noGroup(link, name)
		}
		s := stand{group: name, dstGroup: rename(name), from: api.FromCluster, at: at}
		for k, c := range g.Offsets {
			s.key, s.copied, s.next = lanes.of(k), lanes.has(k), c.Offset
			if s.copied || !req.AllGroups {
				out = append(out, s)
			}
		}
		for k := range g.Unstable {
			if s.key, s.copied, s.next = lanes.of(k), lanes.has(k), -1; s.copied {
				out = append(out, s)
			}
		}
	}
	return sorted(out), nil
}

func (l laneKeys) has(k checkpoint.Key) bool { _, ok := l[k]; return ok }

func (l laneKeys) of(k checkpoint.Key) checkpoint.Key {
	if src, ok := l[k]; ok {
		return src
	}
	return k
}

// standsOfBases tells where groups stood on the source when the target was last given a position of theirs.
func standsOfBases(link string, all map[string]map[checkpoint.Key]checkpoint.Base, req api.TranslateRequest, rename func(string) string) ([]stand, error) {
	var out []stand
	for _, name := range wantedGroups(req, slices.Collect(maps.Keys(all))) {
		bases, known := all[name]
		if !known {
			return nil, noGroup(link, name)
		}
		for k, b := range bases {
			out = append(out, stand{name, rename(name), k, b.Source, true, api.FromStateTopic, b.At})
		}
	}
	return sorted(out), nil
}

// wantedGroups are the groups asked for, in order; all are those that are known.
func wantedGroups(req api.TranslateRequest, all []string) []string {
	names := slices.Clone(req.Groups)
	if req.AllGroups {
		names = all
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func sorted(ss []stand) []stand {
	slices.SortFunc(ss, func(a, b stand) int {
		return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.key.Topic, b.key.Topic), cmp.Compare(a.key.Partition, b.key.Partition))
	})
	return ss
}

func notYetLooked(why error) error {
	msg := "the groups were not looked at yet"
	if why != nil {
		msg += ": " + why.Error()
	}
	return &api.Error{Status: 503, Code: api.CodeNotReady, Message: msg, Hint: "wait, or see lockstep status"}
}

// translated answers a group's position from the lane's state.
func (s stand) translated(link string, reverse bool, lane laneReader) (api.Offset, error) {
	p := api.Position{Topic: s.key.Topic, Partition: s.key.Partition, Offset: s.next}
	var st offsetsync.LaneState
	var known bool
	if s.copied && s.next >= 0 {
		var err error
		if st, known, err = lane(model.Lane{Link: link, Topic: p.Topic, Partition: p.Partition}); err != nil {
			return api.Offset{}, err
		}
	}
	o := translated(link, p, reverse, st, known)
	if !s.copied {
		o.State = api.OffsetNotCopied
	}
	if s.next < 0 {
		o.SourceOffset, o.TargetOffset = nil, nil
	}
	at := s.at.UTC()
	o.Group, o.TargetGroup, o.PositionFrom, o.AsOf = s.group, s.dstGroup, s.from, &at
	return o, nil
}
