package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"lockstep/api"
	"lockstep/config"
	"lockstep/internal/kafka"
	"lockstep/internal/model"
	"lockstep/internal/statelog"
	"lockstep/offsetsync"
	"lockstep/topicsync"
	"lockstep/topicsync/acl"
	"lockstep/topicsync/configs"
	"lockstep/topicsync/drift"
)

// written is what lockstep wrote on a link's target besides records and positions, as the state topic has it.
type written struct {
	settings    *configs.Journal
	permissions *acl.Journal
}

// newWritten has to come before the view runs.
func newWritten(view *offsetsync.View, state *statelog.Log) written {
	return written{settings: configs.NewJournal(view, state), permissions: acl.NewJournal(view, state)}
}

// parts look after everything that is to be alike on both sides besides the records and the groups.
func (w written) parts(src, dst *kafka.Cluster, canTrim func() bool, log *slog.Logger) []drift.Part {
	return []drift.Part{
		topicsync.Sizes{},
		configs.New(configs.Options{Source: src, Target: dst, Journal: w.settings, CanTrim: canTrim, Logger: log}),
		acl.New(acl.Options{Source: src, Target: dst, Journal: w.permissions, Logger: log}),
	}
}

// newTopics prepares what keeps the link's topics. It has to come before the view runs.
func (l *link) newTopics(cfg config.Link, all []config.Link, log *slog.Logger) {
	w := newWritten(l.view, l.state)
	l.syncer = topicsync.New(topicsync.Options{Link: cfg, Links: all, Src: l.src, Dst: l.dst, Lanes: l, Logger: log, Known: l.known,
		Journal: w.settings, Open: l.canTrim})
	l.keeper = topicsync.NewKeeper(topicsync.KeeperOptions{Parts: w.parts(l.src, l.dst, l.canTrim, l.log), Scope: l.topicScope, Logger: l.log})
}

// canTrim reports whether what the source drops is dropped on the target as well. Nothing does that yet.
func (l *link) canTrim() bool { return false }

// topicScope is what the keeper works on; nothing while the clusters may be others than those that were copied between.
func (l *link) topicScope() (drift.Scope, bool) {
	if r, _ := l.manager.Replaced(); r != nil || l.manager.Superseded() != nil {
		return drift.Scope{}, false
	}
	return l.syncer.Scope()
}

// keepInStepOnce makes one pass over what is kept besides records and groups, after the topics were looked at. What does
// not follow is logged and holds nothing up.
func (l *link) keepInStepOnce(ctx context.Context) error {
	if err := l.keeper.Once(ctx); err != nil {
		return fmt.Errorf("settings and permissions of topics: %w", err)
	}
	return nil
}

// syncTopics makes the target like the source now, for an operator.
func (l *link) syncTopics(ctx context.Context, o model.Order) ([]model.OrderStep, error) {
	select {
	case <-l.manager.Owned():
	default:
		return nil, errors.New("the link is not ours, or not yet")
	}
	scope, ok := l.topicScope()
	if !ok {
		return nil, errors.New("the link's topics are not looked at: it is not open yet, or held as a whole")
	}
	steps := unknownTopics(l.cfg.Name, o.Topics, scope)
	known := slices.DeleteFunc(slices.Clone(o.Topics), func(name string) bool { return !hasTopic(scope, name) })
	if len(o.Topics) > 0 && len(known) == 0 {
		return steps, nil
	}
	r, err := l.keeper.Order(ctx, drift.Order{Topics: known, Kinds: syncKinds(o.Kinds), DryRun: o.DryRun, Takeover: true, Confirm: o.Confirm})
	if err != nil {
		return nil, err
	}
	steps = append(steps, syncSteps(l.cfg.Name, r)...)
	if !o.DryRun {
		l.log.Info("topics brought in step", "topics", o.Topics, "kinds", o.Kinds, "by", o.By, "reason", o.Reason, "steps", len(steps))
	}
	return steps, nil
}

func hasTopic(s drift.Scope, name string) bool {
	return slices.ContainsFunc(s.Topics, func(t drift.Topic) bool { return t.Src == name })
}

func unknownTopics(link string, names []string, s drift.Scope) (steps []model.OrderStep) {
	for _, name := range names {
		if !hasTopic(s, name) {
			steps = append(steps, model.OrderStep{Subject: link + ":" + name, Does: "compare it",
				Refused: "the link does not copy it, or a side does not have it; lockstep topics list --all tells why"})
		}
	}
	return steps
}

// syncKinds are the kinds that an order names. Replication comes with partitions, users with quotas.
func syncKinds(names []string) (kinds []drift.Kind) {
	for _, n := range names {
		kinds = append(kinds, drift.Kind(n))
		if n == string(drift.Quota) {
			kinds = append(kinds, drift.User)
		}
	}
	return kinds
}

// syncSteps are the lines of an order's plan: what is written, and what waits for somebody.
func syncSteps(link string, r topicsync.Report) []model.OrderStep {
	steps := []model.OrderStep{}
	for _, k := range slices.Sorted(maps.Keys(r.Outcomes)) {
		if o := r.Outcomes[k]; o.Condition == drift.Unreachable {
			steps = append(steps, model.OrderStep{Subject: link, State: string(k) + " " + string(o.Condition), Does: "compare " + string(k),
				Refused: sentence(o.Why, o.Remedy)})
		}
	}
	for _, i := range r.Items() {
		s := model.OrderStep{Subject: itemSubject(link, i), State: string(i.State), Does: i.Does, Done: i.Done}
		switch {
		case i.Err != nil:
			s.Does, s.Error = cmp.Or(s.Does, "write "+i.Name), i.Err.Error()
		case i.Does == "" && (i.State == drift.Held || i.State == drift.Refused || i.State == drift.Missing || i.State == drift.Unavailable):
			s.Does, s.Refused = "write "+strings.TrimSpace(string(i.Kind)+" "+i.Name), cmp.Or(sentence(i.Why, i.Remedy), string(i.State))
		case i.Does == "":
			continue
		}
		steps = append(steps, s)
	}
	return steps
}

func itemSubject(link string, i drift.Item) string {
	if i.Topic == "" {
		return link
	}
	return link + ":" + i.Topic
}

func sentence(why, remedy string) string {
	if why == "" || remedy == "" {
		return why + remedy
	}
	return why + "; " + remedy
}

// topicView shows a link's topics.
type topicView struct {
	link   string
	topics []topicsync.TopicStatus
	report topicsync.Report
}

func (l *link) topicView() topicView {
	return topicView{link: l.cfg.Name, topics: l.syncer.Topics(), report: l.keeper.Report()}
}

func (v topicView) all() []api.Topic {
	of := make(map[string]api.Counts)
	for _, i := range v.report.Items() {
		c := of[i.Topic]
		count(&c, i)
		of[i.Topic] = c
	}
	out := make([]api.Topic, len(v.topics))
	for n, t := range v.topics {
		out[n] = api.Topic{Link: v.link, Topic: t.Topic, TargetTopic: t.DstTopic, State: string(t.State), Detail: t.Detail, Remedy: t.Remedy,
			Partitions: t.Partitions, TargetPartitions: t.DstPartitions, ReadyLanes: t.Ready, Since: t.Since.UTC(), Differences: of[t.Topic]}
		if out[n].Differences.ByState == nil {
			out[n].Differences.ByState = map[string]int{}
		}
	}
	return out
}

// count adds an item that differs.
func count(c *api.Counts, i drift.Item) {
	if i.State == drift.InSync {
		return
	}
	if c.ByState == nil {
		c.ByState = make(map[string]int)
	}
	c.Total++
	c.ByState[string(i.State)]++
}

func (v topicView) one(topic string) (api.TopicDetail, error) {
	for _, t := range v.all() {
		if t.Topic == topic {
			return api.TopicDetail{Topic: t, Items: apiItems(v.report, func(i drift.Item) bool { return i.Topic == topic })}, nil
		}
	}
	return api.TopicDetail{}, api.NotFound("lockstep topics list --all shows the topics", "no topic %q on the source of link %q", topic, v.link)
}

// diff shows a comparison of the named topics, or of all and what concerns none.
func (v topicView) diff(names []string) (api.Diff, error) {
	d := api.Diff{Link: v.link, At: v.report.At.UTC(), Kinds: kindsOf(v.report), Items: apiItems(v.report, func(i drift.Item) bool {
		return i.State != drift.InSync && (len(names) == 0 || slices.Contains(names, i.Topic))
	})}
	topics := v.all()
	for _, name := range names {
		if !slices.ContainsFunc(topics, func(t api.Topic) bool { return t.Topic == name }) {
			_, err := v.one(name)
			return api.Diff{}, err
		}
	}
	for _, t := range topics {
		named := slices.Contains(names, t.Topic)
		if t.Troubled() && len(names) == 0 || named && t.State != string(topicsync.TopicCopied) {
			d.Troubles = append(d.Troubles, t)
		}
	}
	return d, nil
}

func apiItems(r topicsync.Report, wants func(drift.Item) bool) []api.Item {
	out := []api.Item{}
	for _, i := range r.Items() {
		if !wants(i) {
			continue
		}
		a := api.Item{Kind: string(i.Kind), Topic: i.Topic, TargetTopic: i.DstTopic, Name: i.Name, Source: i.Source, Target: i.Target, Wanted: i.Wanted,
			State: string(i.State), Why: i.Why, Remedy: i.Remedy, Side: string(i.Side), Does: i.Does}
		if i.Err != nil {
			a.Error = i.Err.Error()
		}
		out = append(out, a)
	}
	return out
}

func kindsOf(r topicsync.Report) (out []api.KindStatus) {
	for _, k := range slices.Sorted(maps.Keys(r.Outcomes)) {
		o := r.Outcomes[k]
		s := api.KindStatus{Kind: string(k), Condition: string(o.Condition), Why: o.Why, Remedy: o.Remedy, Items: api.Counts{ByState: map[string]int{}}}
		for _, i := range o.Items {
			count(&s.Items, i)
		}
		out = append(out, s)
	}
	return out
}

// Topics implements api.TopicReader.
func (b *nodeBackend) Topics(_ context.Context, name string) ([]api.Topic, error) {
	l, err := b.link(name)
	if err != nil {
		return nil, err
	}
	return l.topicView().all(), nil
}

// Topic implements api.TopicReader.
func (b *nodeBackend) Topic(_ context.Context, name, topic string) (api.TopicDetail, error) {
	l, err := b.link(name)
	if err != nil {
		return api.TopicDetail{}, err
	}
	return l.topicView().one(topic)
}

// Diff implements api.TopicReader.
func (b *nodeBackend) Diff(ctx context.Context, name string, topics []string) (api.Diff, error) {
	r, err := b.running(name)
	if err != nil {
		return api.Diff{}, err
	}
	if r.over() {
		return api.Diff{}, stoppedError(r)
	}
	v := r.link.topicView()
	if v.report, err = r.link.keeper.Diff(ctx, topics); err != nil {
		return api.Diff{}, err
	}
	return v.diff(topics)
}
