package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"lockstep/checkpoint"
	"lockstep/checkpoint/reset"
	"lockstep/internal/kafka"
	"lockstep/internal/when"
)

// resetFlags say where positions shall go: one of them is given.
type resetFlags struct {
	earliest, latest, current bool
	offset, shift             int64
	datetime, duration, file  string
}

var resetForms = []string{"to-earliest", "to-latest", "to-current", "to-offset", "shift-by", "to-datetime", "by-duration", "from-file"}

func (r *resetFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&r.earliest, "to-earliest", false, "to the start of the log")
	f.BoolVar(&r.latest, "to-latest", false, "to the end of the log")
	f.BoolVar(&r.current, "to-current", false, "to where the group stands; into the log where it stands outside of it")
	f.Int64Var(&r.offset, "to-offset", 0, "to this offset")
	f.Int64Var(&r.shift, "shift-by", 0, "by so many offsets, back when negative")
	f.StringVar(&r.datetime, "to-datetime", "", "to the first record at or after a time: 2026-01-31T08:00:00Z, any offset instead of Z, or 1769846400s, 1769846400000ms")
	f.StringVar(&r.duration, "by-duration", "", "to the first record that is at most so old: PT1H30M, P1D or 90m")
	f.StringVar(&r.file, "from-file", "", "to the positions of a file, as offsets import reads them")
}

// spec returns the form that is given, and its words.
func (r *resetFlags) spec(cmd *cobra.Command, now time.Time) (reset.Spec, string, error) {
	given := slices.DeleteFunc(slices.Clone(resetForms), func(name string) bool { return !cmd.Flags().Changed(name) })
	if len(given) != 1 {
		return reset.Spec{}, "", fmt.Errorf("say where to, by exactly one of --%s; %d are given", joinFlags(resetForms), len(given))
	}
	words := "reset --" + given[0]
	switch given[0] {
	case "to-earliest":
		return reset.Spec{Kind: reset.ToEarliest}, words, onlyTrue(given[0], r.earliest)
	case "to-latest":
		return reset.Spec{Kind: reset.ToLatest}, words, onlyTrue(given[0], r.latest)
	case "to-current":
		return reset.Spec{Kind: reset.ToCurrent}, words, onlyTrue(given[0], r.current)
	case "to-offset":
		if r.offset < 0 {
			return reset.Spec{}, "", fmt.Errorf("--to-offset %d: offsets begin at 0", r.offset)
		}
		return reset.Spec{Kind: reset.ToOffset, N: r.offset}, fmt.Sprintf("%s %d", words, r.offset), nil
	case "shift-by":
		return reset.Spec{Kind: reset.ShiftBy, N: r.shift}, fmt.Sprintf("%s %d", words, r.shift), nil
	case "to-datetime":
		t, err := when.Parse(r.datetime, now)
		if err != nil {
			return reset.Spec{}, "", fmt.Errorf("--to-datetime: %w", err)
		}
		return reset.Spec{Kind: reset.ToTime, At: t}, words + " " + when.Text(t), nil
	case "by-duration":
		d, err := when.ParseDuration(r.duration)
		if err != nil {
			return reset.Spec{}, "", fmt.Errorf("--by-duration: %w", err)
		}
		t := now.Add(-d).UTC()
		return reset.Spec{Kind: reset.ToTime, At: t}, fmt.Sprintf("%s %s (to %s)", words, r.duration, when.Text(t)), nil
	}
	return reset.Spec{}, words + " " + r.file, nil
}

func joinFlags(names []string) string {
	out := names[0]
	for _, n := range names[1:] {
		out += ", --" + n
	}
	return out
}

func onlyTrue(name string, value bool) error {
	if !value {
		return fmt.Errorf("--%s takes no value", name)
	}
	return nil
}

func (a *app) offsetsResetCommand() *cobra.Command {
	var f offsetsFlags
	var r resetFlags
	var c consent
	cmd := &cobra.Command{
		Use:   "reset --link L (--group G | --all-groups) (--topic T | --all-topics) --to-…",
		Short: "Move positions of groups that have no members",
		Long: "Move committed positions of groups, in all the ways of kafka-consumer-groups.sh --reset-offsets. The plan shows for each position where " +
			"it is and where it goes, with key and time (in UTC) of the record that is read next there. Positions outside of the log become its start or " +
			"end. Groups that have members are refused.\n\nThe old positions are kept before anything is written: offsets undo brings them back. What was " +
			"written is read back.\n\n--topic without partitions means all partitions of the topic. With --all-groups it only moves positions that groups have.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			spec, words, err := r.spec(cmd, time.Now())
			if err != nil {
				return usage(err)
			}
			if r.file != "" {
				return a.importOffsets(cmd, &c, &f, fileOffsets{name: r.file, does: words})
			}
			return a.resetOffsets(cmd, &c, &f, spec, words)
		},
	}
	f.addSide(cmd)
	f.addChoice(cmd)
	r.add(cmd)
	c.addFlags(cmd)
	return cmd
}

func (a *app) resetOffsets(cmd *cobra.Command, c *consent, f *offsetsFlags, spec reset.Spec, words string) error {
	if err := f.check(); err != nil {
		return usage(err)
	}
	switch {
	case len(f.groups) == 0 && !f.allGroups:
		return usage(errors.New("name groups with --group, or give --all-groups"))
	case len(f.topics) == 0 && !f.allTopics:
		return usage(errors.New("name topics with --topic, or give --all-topics"))
	}
	topics, err := reset.ParseTopics(f.topics)
	if err != nil {
		return usage(err)
	}
	return a.moveOn(cmd, c, f, func(m *mover) {
		m.does, m.at = words, spec.At
		m.targets = func(ctx context.Context) ([]reset.Target, checkpoint.Picture, error) {
			return resetTargets(ctx, m.cluster, f, topics, spec)
		}
	})
}

// moveOn makes a mover for the cluster that the flags name, has it filled in, and moves.
func (a *app) moveOn(cmd *cobra.Command, c *consent, f *offsetsFlags, fill func(*mover)) error {
	if err := a.checkConsent(c); err != nil {
		return err
	}
	s, err := a.sides(cmd, f.link)
	if err != nil {
		return err
	}
	defer s.close()
	m, err := a.newMover(s, f.side)
	if err != nil {
		return err
	}
	fill(m)
	return a.move(cmd, c, m)
}

func (a *app) newMover(s *sides, side string) (*mover, error) {
	cluster, err := s.cluster(side)
	if err != nil {
		return nil, err
	}
	dst, err := s.cluster(sideTarget)
	if err != nil {
		return nil, err
	}
	again := "lockstep offsets undo --link " + s.link.Name
	if a.configFile != "" {
		again += " -c " + a.configFile
	}
	return &mover{link: s.link.Name, cluster: cluster, dst: dst, again: again}, nil
}

// resetTargets lists what a reset is about.
func resetTargets(ctx context.Context, c *kafka.Cluster, f *offsetsFlags, topics []reset.Topic, spec reset.Spec) ([]reset.Target, checkpoint.Picture, error) {
	p, err := f.observe(ctx, c)
	if err != nil {
		return nil, p, err
	}
	if f.allGroups && unread(p) != nil {
		return nil, p, fmt.Errorf("not all groups are known, so none is moved: %w", unread(p))
	}
	var named []checkpoint.Key
	if len(topics) > 0 {
		if named, err = reset.Partitions(ctx, c, topics); err != nil {
			return nil, p, usage(err)
		}
	}
	var out []reset.Target
	for _, g := range groupNames(p, f.groups) {
		keys := named
		if f.allGroups || len(topics) == 0 {
			keys = positionsIn(p.Groups[g], chosen(topics))
		}
		for _, k := range keys {
			out = append(out, reset.Target{Group: g, Key: k, Spec: spec})
		}
		if len(keys) == 0 && !f.allGroups {
			return nil, p, refused(fmt.Errorf("group %q has no positions on cluster %s%s", g, c.Name(), because(p, g)))
		}
	}
	return out, p, nil
}

// because adds why a group's positions are not known.
func because(p checkpoint.Picture, group string) string {
	if err := errors.Join(p.Failed[group], p.Partial); err != nil {
		return fmt.Sprintf(" as far as is known: %v", err)
	}
	if g, ok := p.Groups[group]; ok && !g.Supported() {
		return fmt.Sprintf(": it is a %s group", g.Type)
	}
	return ""
}

// groupNames are the groups that were named, or all that are there.
func groupNames(p checkpoint.Picture, named []string) []string {
	if len(named) == 0 {
		return sortedKeys(p.Groups)
	}
	out := slices.Clone(named)
	slices.Sort(out)
	return slices.Compact(out)
}

// positionsIn lists the group's positions that are meant. Those that a transaction holds count: the plan says so.
func positionsIn(g checkpoint.Group, is func(checkpoint.Key) bool) []checkpoint.Key {
	var out []checkpoint.Key
	for k := range g.Offsets {
		if is(k) {
			out = append(out, k)
		}
	}
	for k := range g.Unstable {
		if is(k) {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, checkpoint.Key.Compare)
	return out
}
