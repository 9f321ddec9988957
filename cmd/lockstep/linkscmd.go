package main

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"lockstep/api"
	"lockstep/internal/model"
)

func (a *app) linksCommand() *cobra.Command {
	c := &cobra.Command{Use: "links", Short: "List links, show one, and take care of them"}
	c.AddCommand(
		a.linksListCommand(), a.linksShowCommand(),
		a.linksOrderCommand(model.OrderPause, "pause", "End a link's copying cleanly until it is resumed",
			"End a link's copying cleanly until it is resumed. What was sent is finished and stored, and the pause outlives restarts."),
		a.linksOrderCommand(model.OrderResume, "resume", "Go on with a paused link",
			"Go on with a paused link: its lanes are opened again where they ended."),
		a.linksOrderCommand(model.OrderAccept, "accept", "Go on with a link whose source was replaced on purpose",
			"Go on with a link whose source was replaced on purpose (reason source_replaced). Look first whether this is the right source: what the "+
				"old one held and the new one does not stays on the target and goes to the ledger."),
		a.linksRemoveCommand(),
	)
	return c
}

func (a *app) linksListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the links of a running service with their state",
		RunE: func(cmd *cobra.Command, _ []string) error {
			svc, err := a.asked(cmd)
			if err != nil {
				return err
			}
			links, err := svc.Links(cmd.Context())
			if err != nil {
				return err
			}
			t := &table{head: []string{"NAME", "FROM", "TO", "STATE", "REASON"}}
			for _, l := range links {
				t.add(l.Name, l.Source, l.Target, l.State, cmp.Or(l.Reason, "-"))
			}
			return a.print(api.Status{Schema: api.Schema, Links: links}, t)
		},
	}
}

func (a *app) linksShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "show LINK",
		Short:             "Show all of one link",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeLinks,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.checkOutput("table", "json"); err != nil {
				return err
			}
			svc, err := a.service(cmd)
			if err != nil {
				return err
			}
			l, err := svc.Link(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if err := a.print(api.LinkStatus{Schema: api.Schema, Link: l}, linkTable(l)); err != nil || a.output != "table" {
				return err
			}
			return a.troubles(cmd.Context(), svc, []api.Link{l})
		},
	}
}

func linkTable(l api.Link) *table {
	t := &table{head: []string{"LINK", l.Name}}
	t.add("from", clusterText(l.Source, l.SourceID))
	t.add("to", clusterText(l.Target, l.TargetID))
	state := l.State
	if !l.Since.IsZero() {
		state += " for " + age(l.Since)
	}
	t.add("state", state)
	t.add("owner", cmp.Or(l.Owner, "-"))
	t.add("term", strconv.FormatUint(l.Term, 10))
	t.add("seal", l.Seal)
	t.add("behind", behindText(l.RPO.Records, l.RPO.Seconds, false))
	if l.RPO.UnknownLanes > 0 {
		t.add("", "without "+plural(l.RPO.UnknownLanes, "lane")+", as the source has not told where it ends")
	}
	t.add("lanes", fmt.Sprintf("%d: %s", l.Lanes.Total, lanesText(l.Lanes)))
	t.add("groups", fmt.Sprintf("%d: %s", l.Groups.Total, lanesText(l.Groups)))
	for _, p := range l.Pauses {
		what := "the link"
		if p.Topic != "" {
			what = "topic " + p.Topic
		}
		t.add("paused", fmt.Sprintf("%s, by %s at %s: %s", what, cmp.Or(p.By, "somebody"), p.At.Format("2006-01-02 15:04:05Z"), cmp.Or(p.Reason, "no reason given")))
	}
	return t
}

func clusterText(name, id string) string {
	if id == "" {
		return name
	}
	return name + ", cluster id " + id
}

func (a *app) linksOrderCommand(kind model.OrderKind, name, short, long string) *cobra.Command {
	var c consent
	cmd := &cobra.Command{
		Use:               name + " LINK",
		Short:             short,
		Long:              long,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeLinks,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.give(cmd, &c, linkOrder{args[0], model.Order{Kind: kind}})
		},
	}
	c.addFlags(cmd)
	return cmd
}
