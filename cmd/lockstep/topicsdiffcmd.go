package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/api"
	"lockstep/internal/model"
)

// errDiffers is the end of a comparison that found something for an operator; the answer itself was printed.
var errDiffers = errors.New("something differs that is not set right by itself")

func (a *app) topicsDiffCommand() *cobra.Command {
	var full bool
	c := &cobra.Command{
		Use:   "diff LINK|LINK:TOPIC...",
		Short: "Compare both sides: partitions, replication, settings, permissions, quotas, users",
		Long: "Compare both sides now: partitions, replication, settings, permissions, quotas, users. For each thing that differs it says why, and which side " +
			"has to change. With LINK it compares all of the link's topics and what concerns none; with LINK:TOPIC that topic.\n\n" +
			"What differs on purpose, or will be written at promotion, is shown with --full only, as are brokers' defaults that differ.\n\n" +
			"Exit code 0: nothing differs that needs somebody. 1: something does, or could not be compared." + offlineTopics,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.completeAllTopics,
		RunE: func(cmd *cobra.Command, args []string) error {
			named, err := parseLinkTopics(args)
			if err != nil {
				return usage(err)
			}
			var diffs []api.Diff
			err = a.eachNamed(cmd, named, func(b api.Backend, l linkTopics) error {
				d, err := b.Diff(cmd.Context(), l.link, l.topics)
				diffs = append(diffs, d)
				return err
			})
			if err != nil {
				return err
			}
			return a.printDiffs(diffs, full)
		},
	}
	c.Flags().BoolVar(&full, "full", false, "also what differs on purpose, and what lockstep sets right by itself")
	return c
}

func (a *app) printDiffs(diffs []api.Diff, full bool) error {
	wanting := slices.ContainsFunc(diffs, api.Diff.Wanting)
	var err error
	switch {
	case a.output == "json" && len(diffs) == 1:
		err = a.print(api.DiffAnswer{Schema: api.Schema, Diff: diffs[0]}, nil)
	case a.output == "json":
		return usage(errors.New("name topics of one link for -o json"))
	case a.output == "csv":
		err = a.print(nil, diffCSV(diffs))
	default:
		for _, d := range diffs {
			err = errors.Join(err, writeDiff(a.stdout, d, full))
		}
	}
	if err == nil && wanting {
		return &exitError{exitFailed, errDiffers}
	}
	return err
}

// shownItem reports whether an item is shown without --full.
func shownItem(i api.Item) bool { return i.Wanting() || i.State == "pending" }

// writeDiff prints a comparison for people.
func writeDiff(w io.Writer, d api.Diff, full bool) error {
	fmt.Fprintf(w, "%s, %s\n", d.Link, d.At.Format("2006-01-02 15:04:05Z"))
	if err := kindsTable(d.Kinds).write(w); err != nil {
		return err
	}
	for _, k := range d.Kinds {
		writeReason(w, k.Kind+" "+k.Condition, k.Why, k.Remedy)
	}
	for _, t := range d.Troubles {
		writeReason(w, fmt.Sprintf("%s:%s %s", t.Link, t.Topic, t.State), t.Detail, t.Remedy)
	}
	hidden := 0
	for _, i := range d.Items {
		if !full && !shownItem(i) {
			hidden++
			continue
		}
		writeItem(w, d.Link, i)
	}
	if hidden > 0 {
		fmt.Fprintf(w, "\n%s more that need nobody: --full shows them\n", plural(hidden, "difference"))
	}
	return nil
}

func writeReason(w io.Writer, what, why, remedy string) {
	if why == "" && remedy == "" {
		return
	}
	fmt.Fprintf(w, "\n%s\n", what)
	for _, line := range wrap(harmless(why), besideItem) {
		fmt.Fprintln(w, "  "+line)
	}
	if remedy != "" {
		fmt.Fprintln(w, "  what to do: "+harmless(remedy))
	}
}

// besideItem is the width of sentences below what they are about.
const besideItem = groupsWidth - len("  ")

func writeItem(w io.Writer, link string, i api.Item) {
	where := link
	if i.Topic != "" {
		where += ":" + i.Topic
	}
	fmt.Fprintf(w, "\n%s %s\n", where, printable(strings.Join(strings.Fields(i.Kind+" "+i.Name), " "))+": "+i.State)
	fmt.Fprintf(w, "  source %s, target %s%s\n", valueText(i.Source), valueText(i.Target), wantedText(i))
	for _, line := range wrap(harmless(i.Why), besideItem) {
		if line != "" {
			fmt.Fprintln(w, "  "+line)
		}
	}
	if i.Side != "" {
		fmt.Fprintln(w, "  to change: "+i.Side)
	}
	if i.Remedy != "" {
		fmt.Fprintln(w, "  what to do: "+harmless(i.Remedy))
	}
}

func valueText(v *string) string {
	switch {
	case v == nil:
		return "-"
	case *v == "":
		return `""`
	}
	return printable(*v)
}

// wantedText says what the target is to have where that is not the source's value.
func wantedText(i api.Item) string {
	if i.Wanted == nil || i.Source != nil && *i.Wanted == *i.Source {
		return ""
	}
	return ", as a mirror " + valueText(i.Wanted)
}

func kindsTable(kinds []api.KindStatus) *table {
	t := &table{head: []string{"KIND", "CONDITION", "DIFFERS"}}
	for _, k := range kinds {
		t.add(k.Kind, k.Condition, differsText(k.Items))
	}
	return t
}

func diffCSV(diffs []api.Diff) *table {
	t := &table{head: []string{"LINK", "KIND", "TOPIC", "TARGET TOPIC", "NAME", "SOURCE", "TARGET", "WANTED", "STATE", "SIDE", "WHY", "REMEDY"}}
	for _, d := range diffs {
		for _, i := range d.Items {
			t.add(d.Link, i.Kind, i.Topic, i.TargetTopic, i.Name, text(i.Source), text(i.Target), text(i.Wanted), i.State, i.Side, i.Why, i.Remedy)
		}
	}
	return t
}

func text(v *string) string {
	if v == nil {
		return ""
	}
	return *v
}

func (a *app) topicsSyncCommand() *cobra.Command {
	var c consent
	var kinds []string
	var confirm int
	cmd := &cobra.Command{
		Use:   "sync LINK|LINK:TOPIC...",
		Short: "Make the target like the source now, also where somebody else changed it",
		Long: "Make settings, permissions and quotas of the target like the source's now, also those that somebody else changed on the target and that are " +
			"kept otherwise. Permissions and quotas that somebody else made are not removed.\n\n--confirm N does removals that are held, as long as there are no more than N.",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.completeAllTopics,
		RunE: func(cmd *cobra.Command, args []string) error {
			named, err := parseLinkTopics(args)
			if err != nil {
				return usage(err)
			}
			for _, k := range kinds {
				if !slices.Contains(api.SyncKinds(), k) {
					return usage(fmt.Errorf("--kinds %s: kinds are %s", k, strings.Join(api.SyncKinds(), ", ")))
				}
			}
			if confirm < 0 {
				return usage(fmt.Errorf("--confirm %d: want a number from 0 on", confirm))
			}
			var orders []linkOrder
			for _, l := range named {
				orders = append(orders, linkOrder{l.link, model.Order{Kind: model.OrderSync, Topics: l.topics, Kinds: kinds, Confirm: confirm}})
			}
			return a.give(cmd, &c, orders...)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&kinds, "kinds", nil, "only these: "+strings.Join(api.SyncKinds(), ", "))
	f.IntVar(&confirm, "confirm", 0, "do up to this many removals of permissions that are held")
	c.addFlags(cmd)
	return cmd
}
