package main

import (
	"context"
	"maps"
	"slices"

	"lockstep/api"
	"lockstep/topicsync"
	"lockstep/topicsync/drift"
)

// topicView shows the topics of a link, and what the newest pass found of what belongs to them.
type topicView struct {
	link   string
	topics []topicsync.TopicStatus
	report topicsync.Report
}

func (v topicView) all() []api.Topic {
	differs := make(map[string]api.Counts)
	for _, i := range v.report.Items() {
		if i.Topic == "" {
			continue
		}
		c := differs[i.Topic]
		count(&c, i)
		differs[i.Topic] = c
	}
	out := make([]api.Topic, 0, len(v.topics))
	for _, t := range v.topics {
		c := differs[t.Topic]
		if c.ByState == nil {
			c.ByState = map[string]int{}
		}
		out = append(out, api.Topic{Link: v.link, Topic: t.Topic, TargetTopic: t.DstTopic, State: string(t.State), Detail: t.Detail, Remedy: t.Remedy,
			Partitions: t.Partitions, TargetPartitions: t.DstPartitions, Since: t.Since.UTC(), Differs: c})
	}
	return out
}

// count adds an item that differs. What a pass has just done does not differ any more.
func count(c *api.Counts, i drift.Item) {
	if i.Done {
		return
	}
	if c.ByState == nil {
		c.ByState = map[string]int{}
	}
	c.Total++
	c.ByState[string(i.State)]++
}

// kept tells how things of each kind are kept in step.
func kept(r topicsync.Report) (out []api.Kept) {
	for _, kind := range slices.Sorted(maps.Keys(r.Outcomes)) {
		o := r.Outcomes[kind]
		k := api.Kept{Kind: string(kind), Condition: string(o.Condition), Why: o.Why, Remedy: o.Remedy, Differs: api.Counts{ByState: map[string]int{}}}
		for _, i := range o.Items {
			count(&k.Differs, i)
		}
		out = append(out, k)
	}
	return out
}

// diffOf gives a comparison the form that is shown.
func diffOf(link string, r topicsync.Report) api.Diff {
	d := api.Diff{Kinds: kept(r)}
	for _, i := range r.Items() {
		d.Differences = append(d.Differences, api.Difference{Link: link, Kind: string(i.Kind), Topic: i.Topic, TargetTopic: i.DstTopic, Name: i.Name,
			Source: i.Source, Target: i.Target, State: string(i.State), Why: i.Why, Remedy: i.Remedy, Side: string(i.Side)})
	}
	return d
}

// checkTopics refuses names that a link does not copy.
func checkTopics(link string, scope drift.Scope, names []string) error {
	if unknown := notCopied(scope, names); len(unknown) > 0 {
		return api.NotFound("lockstep topics list --all shows the topics, and why one is not copied", "link %q copies no topic %q to its target", link, unknown[0])
	}
	return nil
}

// Topics implements api.TopicReader.
func (b *nodeBackend) Topics(_ context.Context, name string) ([]api.Topic, error) {
	l, err := b.link(name)
	if err != nil {
		return nil, err
	}
	return topicView{name, l.syncer.Topics(), l.keeper.Report()}.all(), nil
}

// Diff implements api.TopicReader.
func (b *nodeBackend) Diff(ctx context.Context, name string, topics []string) (api.Diff, error) {
	l, err := b.link(name)
	if err != nil {
		return api.Diff{}, err
	}
	scope, _ := l.syncer.Scope()
	if err := checkTopics(name, scope, topics); err != nil {
		return api.Diff{}, err
	}
	r, err := l.keeper.Diff(ctx, topics)
	return diffOf(name, r), err
}
