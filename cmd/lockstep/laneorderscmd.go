package main

import (
	"errors"

	"github.com/spf13/cobra"

	"lockstep/internal/model"
)

func (a *app) lanesRetryCommand() *cobra.Command {
	return a.lanesOrderCommand(model.OrderRetry, "retry", "Look again whether stopped lanes can go on", "every stopped lane of the link",
		"Look again whether stopped lanes can go on, once what stopped them has been mended. A lane that cannot stops again, with its reason.\n\n"+
			"A lane that stopped at a gap goes on behind the lost range, which the ledger keeps.")
}

func (a *app) lanesRebuildCommand() *cobra.Command {
	return a.lanesOrderCommand(model.OrderRebuild, "rebuild", "Copy stopped lanes anew, into an emptied or new target partition",
		"every lane of the link that stopped for what a rebuild helps against: target_lost, plan_lost, diverged, source_truncated",
		"Copy stopped lanes anew from the start of their source logs. What the target partition holds is deleted first, and a target topic "+
			"that is gone is made again. Offsets that were translated before have no answer any more.")
}

func (a *app) lanesOrderCommand(kind model.OrderKind, name, short, allHelp, long string) *cobra.Command {
	var c consent
	var link string
	var all bool
	cmd := &cobra.Command{
		Use:               name + " LINK:TOPIC/PARTITION... | --link L --all",
		Short:             short,
		Long:              long,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.completeLanes,
		RunE: func(cmd *cobra.Command, args []string) error {
			orders, err := lanesOrAll(kind, args, link, all)
			if err != nil {
				return usage(err)
			}
			return a.give(cmd, &c, orders...)
		},
	}
	cmd.Flags().StringVar(&link, "link", "", "with --all: the link")
	cmd.Flags().BoolVar(&all, "all", false, allHelp)
	c.addFlags(cmd)
	return cmd
}

func (a *app) lanesSkipCommand() *cobra.Command {
	var c consent
	var to int64
	cmd := &cobra.Command{
		Use:   "skip LINK:TOPIC/PARTITION --to OFFSET",
		Short: "Have a stopped lane go on at another source offset",
		Long: "Have a stopped lane go on at another source offset. The source offsets that it leaves out go to the ledger, and are never " +
			"copied by themselves.",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeLanes,
		RunE: func(cmd *cobra.Command, args []string) error {
			orders, err := laneOrders(model.OrderSkip, args)
			switch {
			case err != nil:
				return usage(err)
			case !cmd.Flags().Changed("to") || to < 0:
				return usage(errors.New("give the source offset to go on at with --to, a number from 0 on"))
			}
			orders[0].order.To = to
			return a.give(cmd, &c, orders...)
		},
	}
	cmd.Flags().Int64Var(&to, "to", 0, "source offset to go on at")
	c.addFlags(cmd)
	return cmd
}
