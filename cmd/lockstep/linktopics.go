package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"lockstep/config"
	"lockstep/internal/kafka"
	"lockstep/internal/model"
	"lockstep/internal/statelog"
	"lockstep/offsetsync"
	"lockstep/topicsync"
	"lockstep/topicsync/acl"
	"lockstep/topicsync/configs"
	"lockstep/topicsync/drift"
	"lockstep/topicsync/quota"
	"lockstep/topicsync/trim"
)

// journals are what the state topic holds of what lockstep wrote on the target besides records and positions.
type journals struct {
	configs *configs.Journal
	acls    *acl.Journal
	quotas  *quota.Journal
}

func newJournals(view *offsetsync.View, state *statelog.Log) journals {
	return journals{configs: configs.NewJournal(view, state), acls: acl.NewJournal(view, state), quotas: quota.NewJournal(view, state)}
}

// partOptions are what the parts of a link need.
type partOptions struct {
	src, dst *kafka.Cluster
	own      []string // lockstep's client ids
	canTrim  func(dst string) bool
	log      *slog.Logger
}

// parts look after what belongs to topics.
type parts struct {
	configs *configs.Part
	all     []drift.Part
}

// ownClients are the client ids that lockstep itself has on a link's clusters.
func ownClients(all *config.Config, l config.Link) []string {
	return []string{all.Clusters[l.Source].ClientID, all.Clusters[l.Target].ClientID}
}

func (j journals) parts(o partOptions) parts {
	c := configs.New(configs.Options{Source: o.src, Target: o.dst, Journal: j.configs, CanTrim: o.canTrim, Logger: o.log})
	return parts{configs: c, all: []drift.Part{
		topicsync.Sizes{}, c,
		acl.New(acl.Options{Source: o.src, Target: o.dst, Journal: j.acls, Logger: o.log}),
		quota.New(quota.Options{Source: o.src, Target: o.dst, Journal: j.quotas, Own: o.own, Logger: o.log}),
		quota.NewUsers(quota.Options{Source: o.src, Target: o.dst, Own: o.own, Logger: o.log}),
	}}
}

// newTopics prepares what keeps the link's topics, their settings and what belongs to them in step. It has to come before
// the view runs.
func (l *link) newTopics(cfg config.Link, all *config.Config, log *slog.Logger) {
	j := newJournals(l.view, l.state)
	l.trimmer = trim.New(trim.Options{Link: cfg.Name, Source: l.src, Target: l.dst, Maps: trim.Durable{View: l.view}, Topics: l.trimmable, Made: j.configs.Made, Logger: l.log})
	l.syncer = topicsync.New(topicsync.Options{Link: cfg, Links: all.Links, Src: l.src, Dst: l.dst, Lanes: l, Logger: log, Known: knownBy(l.view),
		Journal: j.configs, Open: l.trimmer.CanNew})
	parts := j.parts(partOptions{src: l.src, dst: l.dst, own: ownClients(all, cfg), canTrim: l.trimmer.Can, log: l.log})
	l.configs = parts.configs
	l.keeper = topicsync.NewKeeper(topicsync.KeeperOptions{Parts: parts.all, Scope: l.syncer.Scope, Held: l.holdsSettings, Logger: l.log})
}

// holdsSettings says what keeps the link from writing on the target, "" for nothing: it is paused, or not ours, or its
// source is another one than it was.
func (l *link) holdsSettings() string {
	h := l.holdsGroups()
	return cmp.Or(h.Writes, h.Source)
}

// keepSettings keeps what belongs to the topics in step, from the first look at them on.
func (l *link) keepSettings(ctx context.Context) {
	if l.awaitReady(ctx) {
		l.keeper.Run(ctx)
	}
}

// trimMirrors has mirrors drop what the source dropped. A paused link changes nothing on the target.
func (l *link) trimMirrors(ctx context.Context) {
	if l.awaitReady(ctx) {
		l.trimmer.Run(ctx)
	}
}

// trimmable returns the topics whose mirrors may be trimmed now.
func (l *link) trimmable() []drift.Topic {
	s, ok := l.syncer.Scope()
	if !ok || l.holdsSettings() != "" || s.Link.Configs.Retention != "open" || !s.Link.Configs.Sync {
		return nil
	}
	return s.Topics
}

// syncTopics makes the target like the source now, for an operator.
func (l *link) syncTopics(ctx context.Context, o model.Order) ([]model.OrderStep, error) {
	if err := l.atWork(); err != nil {
		return nil, err
	}
	scope, _ := l.syncer.Scope()
	if unknown := notCopied(scope, o.Topics); len(unknown) > 0 {
		return nil, fmt.Errorf("topics %q are not copied by link %s; lockstep topics list --all tells why", unknown, l.cfg.Name)
	}
	order := drift.Order{Topics: o.Topics, DryRun: o.DryRun, Takeover: true, Confirm: o.Confirm}
	for _, k := range o.Kinds {
		order.Kinds = append(order.Kinds, drift.Kind(k))
	}
	l.configs.Forget()
	r, err := l.keeper.Order(ctx, order)
	if err != nil {
		return nil, err
	}
	if !o.DryRun {
		l.log.Info("topics synced", "topics", o.Topics, "kinds", o.Kinds, "by", o.By, "reason", o.Reason)
	}
	return syncSteps(l.cfg.Name, r), nil
}

// notCopied returns those of the names that are no topics which both sides have.
func notCopied(scope drift.Scope, topics []string) (unknown []string) {
	known := make(map[string]bool, len(scope.Topics))
	for _, t := range scope.Topics {
		known[t.Src] = true
	}
	for _, t := range topics {
		if !known[t] {
			unknown = append(unknown, t)
		}
	}
	return unknown
}

// syncSteps tells what an order for topics does, or why it does nothing about something that differs.
func syncSteps(link string, r topicsync.Report) []model.OrderStep {
	var steps []model.OrderStep
	for _, i := range r.Items() {
		s := model.OrderStep{Subject: subjectOf(link, i), State: string(i.State), Does: i.Does, Done: i.Done, CanUndo: true}
		switch {
		case i.Err != nil:
			s.Error = i.Err.Error()
		case i.Does == "":
			if i.State == drift.Opened || i.State == drift.Excluded || i.State == drift.Staged {
				continue
			}
			s.Refused = i.Why
			if i.Remedy != "" {
				s.Refused += "; " + i.Remedy
			}
		}
		steps = append(steps, s)
	}
	for _, kind := range slices.Sorted(maps.Keys(r.Outcomes)) {
		if o := r.Outcomes[kind]; o.Condition == drift.Unreachable || o.Condition == drift.Partly {
			steps = append(steps, model.OrderStep{Subject: link + " " + string(kind), State: string(o.Condition), Refused: o.Why})
		}
	}
	return steps
}

// subjectOf names an item, as "dr:orders retention.ms".
func subjectOf(link string, i drift.Item) string {
	s := link
	if i.Topic != "" {
		s += ":" + i.Topic
	}
	if i.Name != "" {
		return s + " " + i.Name
	}
	return s + " " + string(i.Kind)
}
