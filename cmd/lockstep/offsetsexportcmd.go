package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"lockstep/checkpoint/reset"
)

func (a *app) offsetsExportCommand() *cobra.Command {
	var f offsetsFlags
	c := &cobra.Command{
		Use:   "export --link L (--group G | --all-groups) -o csv|json",
		Short: "Write positions of groups to standard output",
		Long: "Write positions of groups to standard output. The CSV is that of kafka-consumer-groups.sh, which reads it with --from-file: " +
			"topic,partition,offset for one --group, otherwise the group before them, no header. JSON keeps the metadata of positions too. offsets " +
			"import reads both.",
		RunE: func(cmd *cobra.Command, _ []string) error { return a.exportOffsets(cmd, &f) },
	}
	f.addSide(c)
	f.addChoice(c)
	return c
}

func (a *app) exportOffsets(cmd *cobra.Command, f *offsetsFlags) error {
	if err := a.checkOutput("csv", "json"); err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return usage(err)
	}
	if len(f.groups) == 0 && !f.allGroups {
		return usage(errors.New("name groups with --group, or give --all-groups"))
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
	c, err := s.cluster(f.side)
	if err != nil {
		return err
	}
	p, err := f.observe(cmd.Context(), c)
	if err != nil {
		return err
	}
	if err := unread(p); err != nil { // a file that lacks a group looks as if the group had nothing
		return fmt.Errorf("not all is known, so nothing is exported: %w", err)
	}
	is := chosen(topics)
	ps := slices.DeleteFunc(reset.Of(p.Groups), func(p reset.Position) bool { return !is(p.Key) })
	if len(ps) == 0 && f.allGroups {
		return fmt.Errorf("no positions on cluster %s", c.Name())
	}
	for _, g := range f.groups {
		if !slices.ContainsFunc(ps, func(p reset.Position) bool { return p.Group == g }) {
			return fmt.Errorf("nothing is exported: group %q has no such positions on cluster %s", g, c.Name())
		}
	}
	for _, g := range sortedKeys(p.Groups) {
		if n := len(p.Groups[g].Unstable); n > 0 {
			fmt.Fprintf(a.stderr, "group %s: %s left out, which an open transaction is about to change\n", printable(g), plural(n, "position"))
		}
	}
	if a.output == "json" {
		return reset.WriteJSON(a.stdout, ps)
	}
	return reset.WriteCSV(a.stdout, ps, len(f.groups) == 1)
}
