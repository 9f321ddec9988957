package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/api"
)

const offlineTopics = "\n\nIt asks the running service; with -c and no service there it looks at both clusters itself."

func (a *app) topicsListCommand() *cobra.Command {
	var link string
	var all bool
	c := &cobra.Command{
		Use:   "list [LINK|LINK:TOPIC...]",
		Short: "List the topics of the source: copied, or why not",
		Long: "List the topics of the source: copied, or why not. DIFFERS counts what of a topic is not alike on the target, by state; " +
			"lockstep topics diff shows it. Topics that the link leaves out show with --all, or when they are named." + offlineTopics,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.completeCopied,
		RunE: func(cmd *cobra.Command, args []string) error {
			orders, err := linkOrTopicOrders("", args)
			if err != nil {
				return usage(err)
			}
			out := api.Topics{Schema: api.Schema, Topics: []api.Topic{}}
			err = a.askTarget(cmd, cmp.Or(link, onlyLink(orders)), func(b api.Backend, name string) error {
				names, wanted := topicsOf(orders, name)
				if !wanted {
					return nil
				}
				topics, err := b.Topics(cmd.Context(), name)
				out.Topics = append(out.Topics, chooseTopics(topics, names, all)...)
				return err
			})
			if err != nil {
				return err
			}
			if missing := missingTopics(orders, out.Topics); len(missing) > 0 {
				return usage(fmt.Errorf("the source has no topic %s: lockstep topics list --all shows its topics", strings.Join(missing, ", ")))
			}
			return a.print(out, a.topicsTable(out.Topics))
		},
	}
	c.Flags().StringVar(&link, "link", "", "only this link")
	c.Flags().BoolVar(&all, "all", false, "also topics that the link leaves out")
	return c
}

// missingTopics are the names that the sources do not know.
func missingTopics(orders []linkOrder, topics []api.Topic) (out []string) {
	for _, o := range orders {
		for _, name := range o.order.Topics {
			if !slices.ContainsFunc(topics, func(t api.Topic) bool { return t.Link == o.link && t.Topic == name }) {
				out = append(out, o.link+":"+name)
			}
		}
	}
	return out
}

// chooseTopics returns the topics that are named, or without names those that are to be shown.
func chooseTopics(topics []api.Topic, names []string, all bool) []api.Topic {
	return slices.DeleteFunc(topics, func(t api.Topic) bool {
		if len(names) > 0 {
			return !slices.Contains(names, t.Topic)
		}
		return !all && t.State == api.TopicSkipped
	})
}

func (a *app) topicsTable(topics []api.Topic) *table {
	t := &table{head: []string{"TOPIC", "TARGET", "STATE", "PARTITIONS", "DIFFERS", "DETAIL"}}
	detail := a.column(50)
	for _, x := range topics {
		t.addLines([]string{x.Link + ":" + printable(x.Topic)}, []string{targetName(x)}, []string{x.State}, []string{partitionsText(x)}, lanesParts(x.Differs), detail(x.Detail))
		if x.Remedy != "" && a.output == "table" {
			t.add("", "", "what to do", "", "", harmless(x.Remedy))
		}
	}
	return t
}

// targetName is the name on the target, where it is another one.
func targetName(t api.Topic) string {
	if t.TargetTopic == t.Topic {
		return "same"
	}
	return printable(t.TargetTopic)
}

func partitionsText(t api.Topic) string {
	if t.Partitions == t.TargetPartitions || t.TargetPartitions == 0 {
		return strconv.Itoa(t.Partitions)
	}
	return fmt.Sprintf("%d, there %d", t.Partitions, t.TargetPartitions)
}

func (a *app) topicsDiffCommand() *cobra.Command {
	var link string
	var open bool
	c := &cobra.Command{
		Use:   "diff [LINK|LINK:TOPIC...]",
		Short: "Compare what belongs to topics on both sides",
		Long: "Compare what belongs to topics on both sides: partitions, replication, settings with the brokers' defaults, permissions, quotas and users. " +
			"SIDE says which side has to change for a difference to go; where it says lockstep, it sees to it by itself.\n\n" +
			"Exit code 1 says that an operator has to act for something to be alike (states kept, held, refused, missing, unavailable); " +
			"or that something could not be compared; what differs on purpose does not count." + offlineTopics,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.completeCopied,
		RunE: func(cmd *cobra.Command, args []string) error {
			orders, err := linkOrTopicOrders("", args)
			if err != nil {
				return usage(err)
			}
			out := api.Diff{Schema: api.Schema, Kinds: []api.Kept{}, Differences: []api.Difference{}}
			var cannot []string
			err = a.askTarget(cmd, cmp.Or(link, onlyLink(orders)), func(b api.Backend, name string) error {
				topics, wanted := topicsOf(orders, name)
				if !wanted {
					return nil
				}
				d, err := b.Diff(cmd.Context(), name, topics)
				out.Kinds, out.Differences = append(out.Kinds, d.Kinds...), append(out.Differences, d.Differences...)
				for _, k := range d.Kinds {
					if k.Why != "" {
						cannot = append(cannot, fmt.Sprintf("%s: %s: %s: %s", name, k.Kind, k.Condition, k.Why))
					}
				}
				return err
			})
			if err != nil {
				return err
			}
			if open {
				out.Differences = slices.DeleteFunc(out.Differences, func(d api.Difference) bool { return !d.Open() })
			}
			if err := a.print(out, a.diffTable(out.Differences)); err != nil {
				return err
			}
			for _, line := range cannot {
				fmt.Fprintln(a.stderr, harmless(line))
			}
			return openDifferences(out)
		},
	}
	c.Flags().StringVar(&link, "link", "", "only this link")
	c.Flags().BoolVar(&open, "open", false, "only what an operator has to act upon")
	return c
}

// onlyLink is the link that all orders are for, "" for several or none.
func onlyLink(orders []linkOrder) string {
	if len(orders) == 1 {
		return orders[0].link
	}
	return ""
}

// topicsOf returns the topics that are named for a link; wanted is false for a link that nobody named.
func topicsOf(orders []linkOrder, link string) (topics []string, wanted bool) {
	for _, o := range orders {
		if o.link == link {
			return o.order.Topics, true
		}
	}
	return nil, len(orders) == 0
}

// openDifferences is the error that a comparison ends with when somebody has to act.
func openDifferences(d api.Diff) error {
	n, unkept := 0, []string{}
	for _, x := range d.Differences {
		if x.Open() {
			n++
		}
	}
	for _, k := range d.Kinds {
		if k.Unkept() {
			unkept = append(unkept, k.Kind)
		}
	}
	switch {
	case n > 0:
		return fmt.Errorf("%s that an operator has to act upon", plural(n, "difference"))
	case len(unkept) > 0:
		return fmt.Errorf("not everything could be compared: %s", strings.Join(unkept, ", "))
	}
	return nil
}

func (a *app) diffTable(ds []api.Difference) *table {
	t := &table{head: []string{"SUBJECT", "WHAT", "SOURCE", "TARGET", "STATE", "SIDE", "WHY"}}
	what, value, why := a.column(36), a.column(18), a.column(40)
	for _, d := range ds {
		subject := d.Link
		if d.Topic != "" {
			subject += ":" + printable(d.Topic)
		}
		t.addLines([]string{subject}, what(cmp.Or(d.Name, d.Kind)), value(valueText(d.Source)), value(valueText(d.Target)), []string{d.State},
			[]string{cmp.Or(d.Side, "lockstep")}, why(d.Why))
		if d.Remedy != "" && a.output == "table" {
			t.add("", "what to do", harmless(d.Remedy))
		}
	}
	return t
}

// valueText shows a value that may not be there, or be empty.
func valueText(v *string) string {
	switch {
	case v == nil:
		return "-"
	case *v == "":
		return `""`
	}
	return printable(*v)
}

func (a *app) completeCopied(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var out []string
	a.eachKnown(cmd, func(ctx context.Context, svc *api.Client, link string) {
		topics, err := svc.Topics(ctx, link)
		if err != nil {
			return // nothing to offer
		}
		for _, t := range topics {
			if name := t.Link + ":" + t.Topic; t.State != api.TopicSkipped && !slices.Contains(args, name) {
				out = append(out, name)
			}
		}
	})
	return out, cobra.ShellCompDirectiveNoFileComp
}
