package checkpoint

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"lockstep/internal/kafka"
)

// offsetsTopic is where Kafka keeps groups: the leader of one of its partitions is the coordinator of the groups in it,
// and the only broker that lists them.
const offsetsTopic = "__consumer_offsets"

// Observe lists the groups of a cluster, of all types, and reads the committed offsets of those that want accepts (nil:
// all). It asks the coordinators only, all at once, and waits for none longer than the cluster's deadline; one that hangs
// while the others are through is given up after three seconds. What could not be read is in the Picture, as Failed or
// Partial; the error means that nothing was learnt.
func Observe(ctx context.Context, c *kafka.Cluster, want func(group string) bool) (Picture, error) {
	return NewObserver(c).Observe(ctx, want)
}

// Observer observes one cluster again and again. Most groups stand still from one look to the next: their offsets are
// the same map in both pictures, so nobody may change one. It is for one goroutine at a time.
type Observer struct {
	c    *kafka.Cluster
	last map[string]Group // seen, and not known to be gone
}

// NewObserver returns an Observer that has seen nothing yet.
func NewObserver(c *kafka.Cluster) *Observer { return &Observer{c: c} }

// Observe is as the function of this name. Groups that it saw before and that nobody lists any more are asked for at their
// coordinators: while one takes over it may list nothing, and say nothing about it. They are gone, or in Failed. What is not
// wanted in one look is forgotten in the next.
func (o *Observer) Observe(ctx context.Context, want func(group string) bool) (Picture, error) {
	l := newLook(o.c, want)
	l.last = o.last
	if err := l.observe(ctx); err != nil {
		return l.picture(), err
	}
	p := l.picture()
	unlisted := o.unlisted(p, want)
	if len(unlisted) > 0 {
		l.confirmAbsent(ctx, unlisted, p.Failed)
	}
	last := p.Groups
	for name := range p.Failed {
		g, known := o.last[name]
		if !known {
			continue
		}
		if len(last) == len(p.Groups) {
			last = maps.Clone(last) // the picture is the caller's
		}
		last[name] = g
	}
	o.last = last
	return p, nil
}

// unlisted returns wanted groups that were seen before and are nowhere in a picture.
func (o *Observer) unlisted(p Picture, want func(string) bool) []string {
	var out []string
	for name := range o.last {
		_, there := p.Groups[name]
		if _, failed := p.Failed[name]; !there && !failed && (want == nil || want(name)) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// Reread reads named groups now. Groups that are in no list are asked for at their coordinators: a group that is in
// neither Groups nor Failed certainly has no positions.
func Reread(ctx context.Context, c *kafka.Cluster, names []string) Picture {
	wanted := make(map[string]bool, len(names))
	for _, n := range names {
		wanted[n] = true
	}
	l := newLook(c, func(g string) bool { return wanted[g] })
	err := l.observe(ctx)
	p := l.picture()
	for g := range p.Groups {
		delete(wanted, g)
	}
	for g := range p.Failed {
		delete(wanted, g)
	}
	switch unseen := slices.Sorted(maps.Keys(wanted)); {
	case err != nil:
		for _, g := range unseen {
			p.Failed[g] = err
		}
	case len(unseen) > 0:
		l.confirmAbsent(ctx, unseen, p.Failed)
	}
	return p
}

// observe asks all coordinators. The error means that none of them listed its groups.
func (l *look) observe(ctx context.Context) error {
	before, err := coordination(ctx, l.c)
	if err != nil {
		return fmt.Errorf("observe groups of cluster %s: %w", l.c.Name(), err)
	}
	l.c.EachBroker(ctx, before.brokers, kafka.BrokerPatience, l.broker)
	if len(l.silent) == len(before.brokers) {
		return fmt.Errorf("observe groups of cluster %s: %w", l.c.Name(), l.picture().Partial)
	}
	after, err := coordination(ctx, l.c)
	if err == nil {
		err = before.movedTo(after)
	}
	l.moved = err
	return nil
}

// coordinators are the brokers that groups can be asked for, as one broker knew them.
type coordinators struct {
	brokers []int32
	leaders map[int32]kafka.Leader // by partition of the topic of offsets; empty when it may not be seen
}

// coordination asks who coordinates groups. Where the topic of offsets cannot be seen, any broker may.
func coordination(ctx context.Context, c *kafka.Cluster) (coordinators, error) {
	meta, err := c.QuickMetadata(ctx, offsetsTopic)
	if err != nil {
		return coordinators{}, err
	}
	out := coordinators{leaders: map[int32]kafka.Leader{}}
	leading := map[int32]bool{}
	for _, p := range meta.Topics[offsetsTopic].Parts {
		out.leaders[p.Partition] = kafka.Leader{Broker: p.Leader, Epoch: p.Epoch}
		if p.Leader >= 0 {
			leading[p.Leader] = true
		}
	}
	if out.brokers = slices.Sorted(maps.Keys(leading)); len(out.brokers) == 0 {
		out.brokers = slices.Sorted(maps.Keys(meta.Brokers))
	}
	return out, nil
}

// movedTo says why groups may have been overlooked although every coordinator answered: nobody lists the groups of a
// partition without leader, and both or none those of one that moves.
func (c coordinators) movedTo(after coordinators) error {
	for _, p := range slices.Sorted(maps.Keys(c.leaders)) {
		was, is := c.leaders[p], after.leaders[p]
		switch {
		case is.Broker < 0:
			return fmt.Errorf("groups of %s/%d have no coordinator: %w", offsetsTopic, p, kerr.CoordinatorNotAvailable)
		case was != is:
			return fmt.Errorf("groups of %s/%d moved to another coordinator meanwhile: %w", offsetsTopic, p, kerr.NotCoordinator)
		}
	}
	return nil
}

// confirmAbsent asks the coordinators of groups that nobody listed whether they have positions, and notes in failed where
// that is so or not known. Coordinators that did not list their groups are not waited for again.
func (l *look) confirmAbsent(ctx context.Context, names []string, failed map[string]error) {
	at, lost := l.c.Coordinators(ctx, names)
	maps.Copy(failed, lost)
	unlisted := map[int32][]kafka.GroupListing{}
	for g, b := range at {
		if err := l.silent[b]; err != nil {
			failed[g] = err
		} else {
			unlisted[b] = append(unlisted[b], kafka.GroupListing{Name: g})
		}
	}
	again := newLook(l.c, nil)
	l.c.EachBroker(ctx, slices.Collect(maps.Keys(unlisted)), kafka.BrokerPatience, func(ctx context.Context, broker int32, heard func()) {
		again.fetch(ctx, broker, unlisted[broker], heard)
	})
	maps.Copy(failed, again.failed)
	for name, g := range again.groups {
		if len(g.Offsets)+len(g.Unstable) > 0 {
			failed[name] = fmt.Errorf("group %s has positions on cluster %s and was not listed", name, l.c.Name())
		}
	}
}
