package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"

	"github.com/spf13/cobra"

	"lockstep/api"
	"lockstep/internal/model"
)

// linkOrder is an order for one link of a running service.
type linkOrder struct {
	link  string
	order model.Order
}

// give has the running service carry out orders, under the one rule for changes.
func (a *app) give(cmd *cobra.Command, c *consent, orders ...linkOrder) error {
	if err := a.checkConsent(c); err != nil {
		return err // before a service is asked for anything
	}
	svc, err := a.service(cmd)
	if err != nil {
		return err
	}
	by := operator()
	for i := range orders {
		orders[i].order.By, orders[i].order.Reason = by, c.reason
	}
	return a.carryOut(cmd, c, change{
		plan: func(ctx context.Context) ([]model.OrderStep, error) { return giveAll(ctx, svc, orders, true) },
		do:   func(ctx context.Context) ([]model.OrderStep, error) { return giveAll(ctx, svc, orders, false) },
	})
}

// giveAll sends the orders one after the other. Once one of them was carried out, the failure of a later one is a step
// that failed.
func giveAll(ctx context.Context, to api.Carer, orders []linkOrder, dryRun bool) ([]model.OrderStep, error) {
	var out []model.OrderStep
	for i, o := range orders {
		o.order.DryRun = dryRun
		steps, err := to.Order(ctx, o.link, o.order)
		if err != nil && (dryRun || i == 0) {
			return nil, err
		}
		if err != nil {
			steps = []model.OrderStep{{Subject: o.link, Does: string(o.order.Kind), Error: err.Error()}}
		}
		out = append(out, steps...)
	}
	return out, nil
}

// operator says who gives an order: the user and the machine.
func operator() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		return name
	}
	return name + "@" + host
}

// laneOrders makes one order per link out of lane names.
func laneOrders(kind model.OrderKind, names []string) ([]linkOrder, error) {
	var out []linkOrder
	for _, name := range names {
		link, topic, partition, err := parseLane(name)
		if err != nil {
			return nil, err
		}
		o := orderFor(&out, link, kind)
		o.Lanes = append(o.Lanes, model.LaneRef{Topic: topic, Partition: partition})
	}
	return out, nil
}

// topicOrders makes one order per link out of topic names.
func topicOrders(kind model.OrderKind, names []string) ([]linkOrder, error) {
	var out []linkOrder
	for _, name := range names {
		m := topicPattern.FindStringSubmatch(name)
		if m == nil {
			return nil, fmt.Errorf("topic %q: want LINK:TOPIC, as in dr:orders", name)
		}
		o := orderFor(&out, m[1], kind)
		o.Topics = append(o.Topics, m[2])
	}
	return out, nil
}

// orderFor returns the link's order in orders, where it is added when it is not there yet.
func orderFor(orders *[]linkOrder, link string, kind model.OrderKind) *model.Order {
	for i := range *orders {
		if (*orders)[i].link == link {
			return &(*orders)[i].order
		}
	}
	*orders = append(*orders, linkOrder{link: link, order: model.Order{Kind: kind}})
	return &(*orders)[len(*orders)-1].order
}

// lanesOrAll makes orders for the lanes that are named, or for every stopped lane of a link.
func lanesOrAll(kind model.OrderKind, names []string, link string, all bool) ([]linkOrder, error) {
	switch {
	case all && len(names) > 0:
		return nil, errors.New("name lanes, or give --link and --all, not both")
	case all && link == "":
		return nil, errors.New("--all needs --link: it is for every stopped lane of one link")
	case all:
		return []linkOrder{{link, model.Order{Kind: kind, All: true}}}, nil
	case link != "":
		return nil, errors.New("--link needs --all; lanes carry their link in their names")
	case len(names) == 0:
		return nil, errors.New("name lanes as LINK:TOPIC/PARTITION, or give --link and --all")
	}
	return laneOrders(kind, names)
}
