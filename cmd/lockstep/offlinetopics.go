package main

import (
	"context"
	"fmt"

	"lockstep/api"
	"lockstep/internal/model"
	"lockstep/topicsync"
	"lockstep/topicsync/drift"
)

// Topics looks at both clusters, and compares what the link keeps in step.
func (o *offline) Topics(ctx context.Context, name string) ([]api.Topic, error) {
	v, err := o.topicView(ctx, name, drift.Order{DryRun: true}, false)
	return v.all(), err
}

// Topic implements api.TopicReader.
func (o *offline) Topic(ctx context.Context, name, topic string) (api.TopicDetail, error) {
	v, err := o.topicView(ctx, name, drift.Order{DryRun: true}, false)
	if err != nil {
		return api.TopicDetail{}, err
	}
	return v.one(topic)
}

// Diff implements api.TopicReader.
func (o *offline) Diff(ctx context.Context, name string, topics []string) (api.Diff, error) {
	v, err := o.topicView(ctx, name, drift.Order{Topics: topics, DryRun: true}, true)
	if err != nil {
		return api.Diff{}, err
	}
	return v.diff(topics)
}

// topicView makes a dry pass of its own.
func (o *offline) topicView(ctx context.Context, name string, order drift.Order, full bool) (topicView, error) {
	l, err := o.open(ctx, name)
	if err != nil {
		return topicView{}, err
	}
	cfg := o.linkConfig(name)
	src, err := o.cluster(cfg.Source)
	if err != nil {
		return topicView{}, err
	}
	known := func(id model.Lane) (model.Identity, bool) {
		st, ok := l.view.Lane(id)
		return st.Opening.Identity, ok
	}
	scope, topics, err := topicsync.Look(ctx, topicsync.Options{Link: cfg, Links: o.cfg.Links, Src: src, Dst: l.dst, Known: known})
	if err != nil {
		return topicView{}, fmt.Errorf("link %s: %w", name, err)
	}
	keeper := topicsync.NewKeeper(topicsync.KeeperOptions{
		Parts: l.written.parts(src, l.dst, func() bool { return false }, o.log),
		Scope: func() (drift.Scope, bool) { return scope, true },
	})
	look := keeper.Order
	if full {
		look = func(ctx context.Context, o drift.Order) (topicsync.Report, error) { return keeper.Diff(ctx, o.Topics) }
	}
	report, err := look(ctx, order)
	return topicView{link: name, topics: topics, report: report}, err
}
