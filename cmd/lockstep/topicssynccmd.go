package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/api"
	"lockstep/internal/model"
)

func (a *app) topicsSyncCommand() *cobra.Command {
	var c consent
	var kinds []string
	var confirm int
	cmd := &cobra.Command{
		Use:   "sync LINK[:TOPIC]...",
		Short: "Make what belongs to topics on the target like the source's now",
		Long: "Make settings, permissions and quotas of the target like the source's now, also where somebody else changed them there (state kept), " +
			"and ask again for what the target refused. Permissions and quotas that concern no single topic belong to a sync of the whole link.\n\n" +
			"Nothing is removed that lockstep did not create. Removals of permissions that were held back, because the source lost many at once, " +
			"are done with --confirm and their number.",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.completeCopied,
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, k := range kinds {
				if !slices.Contains(api.SyncKinds, k) {
					return usage(fmt.Errorf("--kinds %s: kinds are %s", k, strings.Join(api.SyncKinds, ", ")))
				}
			}
			if confirm < 0 {
				return usage(fmt.Errorf("--confirm %d: want the number of removals", confirm))
			}
			orders, err := linkOrTopicOrders(model.OrderSync, args)
			if err != nil {
				return usage(err)
			}
			for i := range orders {
				orders[i].order.Kinds, orders[i].order.Confirm = kinds, confirm
			}
			return a.give(cmd, &c, orders...)
		},
	}
	cmd.Flags().StringSliceVar(&kinds, "kinds", nil, "only these: "+strings.Join(api.SyncKinds, ", "))
	cmd.Flags().IntVar(&confirm, "confirm", 0, "the number of permissions that may be removed")
	c.addFlags(cmd)
	return cmd
}

// linkOrTopicOrders makes one order per link out of names of links and topics. A link that is named as a whole is meant as
// a whole.
func linkOrTopicOrders(kind model.OrderKind, names []string) ([]linkOrder, error) {
	var whole, topics []string
	for _, name := range names {
		if strings.Contains(name, ":") {
			topics = append(topics, name)
		} else {
			whole = append(whole, name)
		}
	}
	orders, err := topicOrders(kind, topics)
	if err != nil {
		return nil, err
	}
	for _, link := range whole {
		orderFor(&orders, link, kind).Topics = nil
	}
	return orders, nil
}
