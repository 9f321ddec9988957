package main

import (
	"context"
	"fmt"

	"lockstep/api"
	"lockstep/topicsync"
)

// Topics looks at both sides.
func (o *offline) Topics(ctx context.Context, name string) ([]api.Topic, error) {
	s, _, err := o.look(ctx, name)
	if err != nil {
		return nil, err
	}
	return topicView{link: name, topics: s.Topics()}.all(), nil
}

// Diff compares both sides, with what the state topic says of what lockstep wrote.
func (o *offline) Diff(ctx context.Context, name string, topics []string) (api.Diff, error) {
	s, k, err := o.look(ctx, name)
	if err != nil {
		return api.Diff{}, err
	}
	scope, _ := s.Scope()
	if err := checkTopics(name, scope, topics); err != nil {
		return api.Diff{}, err
	}
	r, err := k.Diff(ctx, topics)
	return diffOf(name, r), err
}

// look sees which topics a link has on both sides. Nothing is changed.
func (o *offline) look(ctx context.Context, name string) (*topicsync.Syncer, *topicsync.Keeper, error) {
	l, err := o.open(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	cfg := o.linkConfig(name)
	src, err := o.cluster(cfg.Source)
	if err != nil {
		return nil, nil, err
	}
	s := topicsync.New(topicsync.Options{Link: cfg, Links: o.cfg.Links, Src: src, Dst: l.dst, Known: knownBy(l.view)})
	if err := s.Look(ctx); err != nil {
		return nil, nil, fmt.Errorf("%w; without a service both clusters have to answer", err)
	}
	parts := l.journals.parts(partOptions{src: src, dst: l.dst, own: ownClients(o.cfg, cfg), log: o.log, canTrim: func(string) bool { return true }})
	return s, topicsync.NewKeeper(topicsync.KeeperOptions{Parts: parts.all, Scope: s.Scope, Logger: o.log}), nil
}

var _ api.TopicReader = (*offline)(nil)
