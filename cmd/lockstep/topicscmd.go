package main

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/spf13/cobra"

	"lockstep/internal/model"
)

var topicPattern = regexp.MustCompile(`^([a-zA-Z0-9._-]+):([a-zA-Z0-9._-]+)$`)

func (a *app) topicsCommand() *cobra.Command {
	c := &cobra.Command{Use: "topics", Short: "List topics, compare and sync what belongs to them, pause them, and take care of those that are not copied"}
	c.AddCommand(
		a.topicsListCommand(), a.topicsDiffCommand(), a.topicsSyncCommand(),
		a.topicsAcceptCommand(), a.topicsAdoptCommand(),
		a.topicsOrderCommand(model.OrderPause, "pause", "End the copying of topics cleanly until they are resumed",
			"End the copying of topics cleanly until they are resumed; the link's other topics go on. What was sent is finished and stored, "+
				"and the pause outlives restarts."),
		a.topicsOrderCommand(model.OrderResume, "resume", "Go on with paused topics",
			"Go on with topics that were paused by name: their lanes are opened again where they ended. A pause of the whole link is lifted "+
				"with lockstep links resume."),
	)
	return c
}

func (a *app) topicsAcceptCommand() *cobra.Command {
	return a.topicsOrderCommand(model.OrderAccept, "accept", "Copy source topics that were deleted and made anew",
		"Copy source topics that were deleted and made anew (reason recreated): the new topic's records are copied from its start, behind the "+
			"old one's records on the target.")
}

func (a *app) topicsAdoptCommand() *cobra.Command {
	return a.topicsOrderCommand(model.OrderAdopt, "adopt", "Copy topics behind what their targets hold already",
		"Copy topics behind what their targets hold already (reason not_empty). What stands there stays, is not compared and has no translation.\n\n"+
			"--from says where in the source the copy begins: earliest, latest, or as the link's own start when it is not given.")
}

func (a *app) topicsOrderCommand(kind model.OrderKind, name, short, long string) *cobra.Command {
	var c consent
	var from string
	cmd := &cobra.Command{
		Use:               name + " LINK:TOPIC...",
		Short:             short,
		Long:              long,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.completeTopics,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains([]string{"", "earliest", "latest"}, from) {
				return usage(fmt.Errorf("--from %s: want earliest or latest", from))
			}
			orders, err := topicOrders(kind, args)
			if err != nil {
				return usage(err)
			}
			for i := range orders {
				orders[i].order.From = from
			}
			return a.give(cmd, &c, orders...)
		},
	}
	if kind == model.OrderAdopt {
		cmd.Flags().StringVar(&from, "from", "", "earliest or latest (default: the link's start)")
	}
	c.addFlags(cmd)
	return cmd
}
