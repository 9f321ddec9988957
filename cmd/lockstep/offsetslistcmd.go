package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"lockstep/api"
	"lockstep/checkpoint"
	"lockstep/checkpoint/reset"
	"lockstep/internal/kafka"
)

func (a *app) offsetsListCommand() *cobra.Command {
	var f offsetsFlags
	c := &cobra.Command{
		Use:   "list --link L [--group G] [--topic T]",
		Short: "Show logs' starts and ends on both sides, and where groups stand",
		Long: "Show for each partition the start, the stable end and the end of its log, on both sides of the link, and with --group where the group " +
			"stands there. Without --topic it shows the topics that the groups have positions in, and without --group all that the link copies. " +
			"--side says on which side topics are named, and where groups are looked for.",
		RunE: func(cmd *cobra.Command, _ []string) error { return a.listOffsets(cmd, &f) },
	}
	f.addSide(c)
	f.addChoice(c)
	return c
}

// sidePart is one partition on one side, and where a group stands in it.
type sidePart struct {
	Group     string  `json:"group,omitempty"`
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	Side      string  `json:"side"`
	Cluster   string  `json:"cluster"`
	Start     *int64  `json:"start"`
	StableEnd *int64  `json:"stable_end"`
	End       *int64  `json:"end"`
	Position  *int64  `json:"position,omitempty"`
	Lag       *int64  `json:"lag,omitempty"`
	Metadata  *string `json:"metadata,omitempty"`
	Error     string  `json:"error,omitempty"`
}

type sidesAnswer struct {
	Schema     int        `json:"schema"`
	Partitions []sidePart `json:"partitions"`
}

func (a *app) listOffsets(cmd *cobra.Command, f *offsetsFlags) error {
	if err := a.checkOutput("table", "json", "csv"); err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return usage(err)
	}
	topics, err := reset.ParseTopics(f.topics)
	if err != nil {
		return usage(err)
	}
	s, err := a.sides(cmd, f.link)
	if err != nil {
		return err
	}
	defer s.close()
	l := lister{sides: s, f: f, topics: topics, notes: a.stderr}
	if err := l.look(cmd.Context()); err != nil {
		return err
	}
	out := l.parts()
	if err := a.print(sidesAnswer{Schema: api.Schema, Partitions: out}, a.sidesTable(out, len(l.groups) > 0)); err != nil {
		return err
	}
	if len(l.failed) > 0 {
		return &exitError{exitPartly, errors.Join(l.failed...)}
	}
	return nil
}

// lister collects what both sides say.
type lister struct {
	*sides
	f      *offsetsFlags
	topics []reset.Topic
	notes  io.Writer

	groups []string         // as the side of the flags calls them
	keys   []checkpoint.Key // by their names on the source
	seen   map[string]oneSide
	failed []error
}

// oneSide is what one cluster says. Keys are its own.
type oneSide struct {
	cluster string
	groups  checkpoint.Picture
	logs    map[checkpoint.Key]reset.Log
}

func (l *lister) look(ctx context.Context) error {
	c, err := l.cluster(l.f.side)
	if err != nil {
		return err
	}
	p, err := l.f.observe(ctx, c)
	if err != nil {
		return err
	}
	if l.f.allGroups {
		l.groups = sortedKeys(p.Groups)
	} else {
		l.groups = groupNames(checkpoint.Picture{}, l.f.groups)
	}
	for _, g := range l.groups {
		if len(positionsIn(p.Groups[g], chosen(nil))) == 0 {
			fmt.Fprintf(l.notes, "group %s has no positions on cluster %s%s\n", printable(g), c.Name(), because(p, g))
		}
	}
	if l.keys, err = l.choose(ctx, c, p); err != nil {
		return err
	}
	l.seen = make(map[string]oneSide)
	for _, side := range []string{sideSource, sideTarget} {
		if err := l.lookAt(ctx, side); err != nil { // the other side is worth to be shown alone
			l.failed = append(l.failed, fmt.Errorf("%s: %w", side, err))
		}
	}
	return nil
}

// choose lists the partitions that are shown, by their names on the source.
func (l *lister) choose(ctx context.Context, c *kafka.Cluster, p checkpoint.Picture) ([]checkpoint.Key, error) {
	var keys []checkpoint.Key
	if len(l.topics) == 0 && len(l.groups) > 0 {
		for _, g := range l.groups {
			keys = append(keys, positionsIn(p.Groups[g], chosen(nil))...)
		}
	} else {
		var err error
		if keys, err = reset.Partitions(ctx, c, l.topics); err != nil {
			return nil, usage(err)
		}
	}
	var out []checkpoint.Key
	for _, k := range keys {
		if l.f.side == sideTarget {
			k.Topic = l.onSource(k.Topic)
		}
		copied, _ := l.link.Selects(k.Topic)
		if k.Topic != "" && (copied || len(l.topics) > 0 || len(l.groups) > 0) {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, checkpoint.Key.Compare)
	return slices.Compact(out), nil
}

// key returns a partition's name on one side.
func (l *lister) key(side string, k checkpoint.Key) checkpoint.Key {
	if side == sideTarget {
		k.Topic = l.onTarget(k.Topic)
	}
	return k
}

func (l *lister) lookAt(ctx context.Context, side string) error {
	c, err := l.cluster(side)
	if err != nil {
		return err
	}
	keys := make([]checkpoint.Key, len(l.keys))
	for i, k := range l.keys {
		keys[i] = l.key(side, k)
	}
	o := oneSide{cluster: c.Name(), logs: reset.Logs(ctx, c, keys, time.Time{})}
	if len(l.groups) > 0 {
		names, err := l.groupsOn(side)
		if err != nil {
			return err
		}
		o.groups = reset.Cluster{C: c}.Reread(ctx, names)
	}
	l.seen[side] = o
	err = unread(o.groups)
	for _, k := range keys {
		if log := o.logs[k]; log.Err != nil {
			return errors.Join(log.Err, err)
		}
	}
	return err
}

// groupsOn are the groups by their names on a side; those that can have no counterpart there are left out.
func (l *lister) groupsOn(side string) ([]string, error) {
	if side == l.f.side {
		return l.groups, nil
	}
	var out []string
	for _, g := range l.groups {
		name, err := l.groupOn(side, g)
		if err != nil {
			return nil, err
		}
		if name != "" {
			out = append(out, name)
		}
	}
	return out, nil
}

// parts joins both sides, in the order of groups and partitions.
func (l *lister) parts() []sidePart {
	out := []sidePart{}
	groups := l.groups
	if len(groups) == 0 {
		groups = []string{""}
	}
	for _, g := range groups {
		for _, k := range l.keys {
			for _, side := range []string{sideSource, sideTarget} {
				name := g
				if g != "" && side != l.f.side {
					name, _ = l.groupOn(side, g) // its error ended the look at that side
				}
				out = append(out, l.seen[side].part(name, side, l.key(side, k)))
			}
		}
	}
	return out
}

func (o oneSide) part(group, side string, k checkpoint.Key) sidePart {
	out := sidePart{Group: group, Topic: k.Topic, Partition: k.Partition, Side: side, Cluster: o.cluster}
	log, ok := o.logs[k]
	switch {
	case !ok:
		out.Error = "no such partition"
	case log.Err != nil:
		out.Error = log.Err.Error()
	default:
		out.Start, out.StableEnd, out.End = &log.Start, &log.Stable, &log.End
	}
	if c, has := o.groups.Groups[group].Offsets[k]; has {
		out.Position, out.Metadata = &c.Offset, &c.Metadata
		if out.End != nil {
			lag := max(0, log.End-c.Offset)
			out.Lag = &lag
		}
	}
	return out
}

// sidesTable shows partitions in two lines each. For people the cluster and errors are left to JSON, and so is metadata
// where there is none.
func (a *app) sidesTable(ps []sidePart, groups bool) *table {
	t := &table{head: []string{"TOPIC", "PARTITION", "SIDE", "START", "STABLE END", "END"}}
	metadata := a.output != "table" || slices.ContainsFunc(ps, func(p sidePart) bool { return p.Metadata != nil && *p.Metadata != "" })
	if groups {
		t.head = append([]string{"GROUP"}, append(t.head, "POSITION", "LAG")...)
		if metadata {
			t.head = append(t.head, "METADATA")
		}
	}
	for _, p := range ps {
		row := []string{p.Topic, strconv.Itoa(int(p.Partition)), p.Side, offset(p.Start), offset(p.StableEnd), offset(p.End)}
		if groups {
			meta := ""
			if p.Metadata != nil {
				meta = *p.Metadata
			}
			if a.output == "table" {
				meta = cutMetadata(meta)
			}
			row = append([]string{p.Group}, append(row, offset(p.Position), offset(p.Lag))...)
			if metadata {
				row = append(row, meta)
			}
		}
		t.add(row...)
	}
	return t
}

func cutMetadata(meta string) string {
	if meta == "" {
		return ""
	}
	return cutKey(meta)
}
