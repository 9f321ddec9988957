package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/checkpoint"
	"lockstep/checkpoint/reset"
	"lockstep/config"
	"lockstep/internal/kafka"
)

func (a *app) offsetsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "offsets",
		Short: "List, export, import, reset and undo positions of consumer groups",
		Long: "List, export, import, reset and undo committed positions of consumer groups, on either cluster of a link. These commands work on the " +
			"clusters themselves, by the configuration that -c names; they need no service.",
	}
	c.AddCommand(a.offsetsListCommand(), a.offsetsExportCommand(), a.offsetsResetCommand(), a.offsetsImportCommand(), a.offsetsUndoCommand())
	return c
}

// The sides of a link.
const (
	sideSource = "source"
	sideTarget = "target"
)

// offsetsFlags say which positions are meant.
type offsetsFlags struct {
	link, side string
	groups     []string
	allGroups  bool
	topics     []string
	allTopics  bool
}

func (f *offsetsFlags) addSide(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.link, "link", "", "the link")
	cmd.Flags().StringVar(&f.side, "side", sideTarget, "which cluster of the link: target or source")
}

func (f *offsetsFlags) addChoice(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringArrayVar(&f.groups, "group", nil, "consumer group; may be repeated")
	fl.BoolVar(&f.allGroups, "all-groups", false, "all groups that have positions")
	fl.StringArrayVar(&f.topics, "topic", nil, "topic, or some of its partitions as orders:0,1; by its name on that cluster; may be repeated")
	fl.BoolVar(&f.allTopics, "all-topics", false, "all topics that a group has positions in")
}

func (f *offsetsFlags) check() error {
	switch {
	case f.link == "":
		return errors.New("name the link with --link")
	case f.side != sideSource && f.side != sideTarget:
		return fmt.Errorf("--side %q: want target or source", f.side)
	case len(f.groups) > 0 && f.allGroups:
		return errors.New("--group and --all-groups exclude each other")
	case len(f.topics) > 0 && f.allTopics:
		return errors.New("--topic and --all-topics exclude each other")
	case slices.Contains(f.groups, ""):
		return errors.New("--group: a group has a name")
	}
	return nil
}

// sides are the clusters of a link. They are dialled when they are asked for.
type sides struct {
	link config.Link
	dialled
}

// sides reads the configuration and finds the link. The caller closes it.
func (a *app) sides(cmd *cobra.Command, link string) (*sides, error) {
	if a.server != "" {
		return nil, usage(errors.New("offsets works on the clusters themselves, not through a service: name the configuration with -c instead of --server"))
	}
	cfg, err := a.load(cmd)
	if err != nil {
		return nil, err
	}
	l, ok := cfg.Link(link)
	if !ok {
		return nil, usage(fmt.Errorf("the configuration has no link %q", link))
	}
	return &sides{l, newDialled(cfg, newLogger(a.stderr, config.Log{Level: "error"}))}, nil
}

// cluster returns the cluster of one side.
func (s *sides) cluster(side string) (*kafka.Cluster, error) {
	name := s.link.Target
	if side == sideSource {
		name = s.link.Source
	}
	return s.named(name)
}

// onTarget returns the target's name of a source topic, and onSource the reverse, "" when there is none.
func (s *sides) onTarget(topic string) string { return s.link.TargetTopic(topic) }

func (s *sides) onSource(topic string) string { return unnamed(s.link.Topics.Rename, "{topic}", topic) }

// groupOn returns what a group is called on a side that is called name on the other; "" when there is no such name.
func (s *sides) groupOn(side, name string) (string, error) {
	if side == sideSource {
		return unnamed(s.link.Groups.Rename, "{group}", name), nil
	}
	filter, err := s.link.Groups.Filter()
	if err != nil {
		return "", err
	}
	return filter.Target(name), nil
}

// unnamed takes what stands for the variable out of a name that a template made; "" when it did not make it.
func unnamed(template, variable, name string) string {
	before, after, ok := strings.Cut(template, variable)
	if !ok { // left out: the name stays
		return name
	}
	rest, had := strings.CutPrefix(name, before)
	inner, ends := strings.CutSuffix(rest, after)
	if !had || !ends {
		return ""
	}
	return inner
}

// observe reads the groups that the flags name; none when no flag names any.
func (f *offsetsFlags) observe(ctx context.Context, c *kafka.Cluster) (checkpoint.Picture, error) {
	if !f.allGroups {
		return reset.Cluster{C: c}.Reread(ctx, f.groups), nil
	}
	return checkpoint.Observe(ctx, c, nil)
}

// unread says which groups could not be read.
func unread(p checkpoint.Picture) error {
	var errs []error
	for _, g := range sortedKeys(p.Failed) {
		errs = append(errs, fmt.Errorf("group %q: %w", g, p.Failed[g]))
	}
	return errors.Join(append(errs, p.Partial)...)
}

// chosen reports which of a group's positions the topics of the command line mean; all when there are none.
func chosen(topics []reset.Topic) func(checkpoint.Key) bool {
	return func(k checkpoint.Key) bool {
		return len(topics) == 0 || slices.ContainsFunc(topics, func(t reset.Topic) bool {
			return t.Name == k.Topic && (t.Partitions == nil || slices.Contains(t.Partitions, k.Partition))
		})
	}
}
