package acl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/kafka"
	"lockstep/topicsync/drift"
)

// Options are what a Part needs.
type Options struct {
	Source, Target *kafka.Cluster
	Journal        *Journal
	Logger         *slog.Logger
}

// Part keeps permissions. It implements drift.Part.
type Part struct {
	o   Options
	log *slog.Logger
}

// New returns a Part. It does no I/O.
func New(o Options) *Part {
	return &Part{o: o, log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler))}
}

// Kind implements drift.Part.
func (p *Part) Kind() drift.Kind { return drift.ACL }

// Pass implements drift.Part.
func (p *Part) Pass(ctx context.Context, s drift.Scope) drift.Outcome {
	if !s.Link.ACLs.Sync {
		return drift.Outcome{Condition: drift.Off}
	}
	target, err := observe(ctx, p.o.Target)
	if err != nil {
		return p.cannot(p.o.Target, err)
	}
	in := input{link: s.Link.Name, target: target, marks: p.o.Journal.all(), topicOf: topicOf(s)}
	if s.Order != nil {
		in.takeover, in.confirm = s.Order.Takeover, s.Order.Confirm
	}
	var fault error
	if s.Promotes() {
		in.promote()
	} else {
		source, err := observe(ctx, p.o.Source)
		if err != nil {
			return p.cannot(p.o.Source, err)
		}
		w, err := p.world(ctx, s)
		if err != nil {
			fault = err
			w.WithGroups = false
			in.keepGroups()
		}
		in.none = len(source) == 0
		in.now, in.staged = Translate(source, w, s.Link.ACLs.Mode)
	}
	return p.finish(ctx, s, in, fault)
}

// promote has the plan create what is staged, and leave the rest as it is.
func (in *input) promote() {
	in.takeover = false
	for b, m := range in.marks {
		in.now = append(in.now, b)
		if m == staged {
			in.marks[b] = 0
		}
	}
}

// keepGroups leaves permissions of groups as they are: which groups there are is not known.
func (in *input) keepGroups() {
	for b := range in.marks {
		if b.Type == kmsg.ACLResourceTypeGroup {
			delete(in.marks, b)
		}
	}
}

// finish plans and carries out.
func (p *Part) finish(ctx context.Context, s drift.Scope, in input, fault error) drift.Outcome {
	plan := in.plan()
	if !s.DryRun() {
		fault = cmp.Or(p.carryOut(ctx, plan), fault)
	}
	o := drift.Outcome{Condition: drift.OK, Items: ofTopics(plan.sorted(), s.Order)}
	if fault != nil {
		o.Condition, o.Why = drift.Partly, fault.Error()
		if drift.Denied(fault) {
			o.Remedy = drift.Grant("Alter", "--cluster")
		}
	}
	return o
}

// ofTopics leaves what an order is about; permissions that concern no single topic belong to all.
func ofTopics(items []drift.Item, o *drift.Order) (out []drift.Item) {
	for _, i := range items {
		if o == nil || o.Covers(i.Topic) {
			out = append(out, i)
		}
	}
	return out
}

// carryOut notes and then does what a plan says. An order for single topics does the others' too: permissions are of one
// piece.
func (p *Part) carryOut(ctx context.Context, pl plan) error {
	if len(pl.notes) > 0 {
		if err := p.o.Journal.note(ctx, pl.notes); err != nil {
			return err
		}
	}
	denials, rest := split(pl.create)
	denied, grants := split(pl.remove)
	done := make(map[Binding]mark)
	err := errors.Join(
		p.create(ctx, pl, denials, done), p.remove(ctx, pl, grants, done),
		p.create(ctx, pl, rest, done), p.remove(ctx, pl, denied, done))
	if len(done) > 0 {
		p.log.Info("changed permissions on the target", "count", len(done))
		err = errors.Join(err, p.o.Journal.note(ctx, done))
	}
	return err
}

// split parts denials from the rest.
func split(bs []Binding) (denials, rest []Binding) {
	for _, b := range bs {
		if b.Deny {
			denials = append(denials, b)
		} else {
			rest = append(rest, b)
		}
	}
	return denials, rest
}

func (p *Part) create(ctx context.Context, pl plan, bs []Binding, done map[Binding]mark) error {
	return p.each(pl, bs, create(ctx, p.o.Target, bs), done, func(Binding) mark { return created })
}

func (p *Part) remove(ctx context.Context, pl plan, bs []Binding, done map[Binding]mark) error {
	return p.each(pl, bs, remove(ctx, p.o.Target, bs), done, pl.removed)
}

// each notes what became of permissions, and returns the first error.
func (p *Part) each(pl plan, bs []Binding, errs []error, done map[Binding]mark, after func(Binding) mark) error {
	var first error
	for n, b := range bs {
		i := pl.items[b]
		if errs[n] == nil {
			i.Done, done[b] = true, after(b)
			continue
		}
		i.Err, i.Why, i.State = errs[n], errs[n].Error(), drift.Refused
		if drift.Denied(errs[n]) {
			i.State, i.Remedy = drift.Unavailable, drift.Grant("Alter", "--cluster")
		}
		if first == nil {
			first = fmt.Errorf("change permissions on cluster %s: %w", p.o.Target.Name(), errs[n])
		}
	}
	return first
}

// cannot says why permissions cannot be looked after.
func (p *Part) cannot(c *kafka.Cluster, err error) drift.Outcome {
	switch {
	case errors.Is(err, kerr.SecurityDisabled):
		return drift.Outcome{Condition: drift.NotApplicable, Why: fmt.Sprintf("cluster %s has no authorizer", c.Name())}
	case drift.Denied(err):
		return drift.Outcome{Condition: drift.Unreachable, Why: fmt.Sprintf("cluster %s does not let lockstep read permissions: %v", c.Name(), err),
			Remedy: drift.Grant("Describe", "--cluster")}
	case drift.Unsupported(err):
		return drift.Outcome{Condition: drift.Unreachable, Why: fmt.Sprintf("cluster %s does not know requests for permissions", c.Name())}
	}
	return drift.Outcome{Condition: drift.Unreachable, Why: fmt.Sprintf("read the permissions of cluster %s: %v", c.Name(), err)}
}

// world says what the link copies now.
func (p *Part) world(ctx context.Context, s drift.Scope) (World, error) {
	var sides [2][]string
	if !s.Link.ACLs.Groups || !s.Link.Groups.Sync {
		return newWorld(s, nil, nil)
	}
	var errs [2]error
	var wg sync.WaitGroup
	for i, c := range []*kafka.Cluster{p.o.Source, p.o.Target} {
		wg.Go(func() { sides[i], errs[i] = c.GroupNames(ctx) })
	}
	wg.Wait()
	w, err := newWorld(s, sides[0], sides[1])
	return w, cmp.Or(err, errs[0], errs[1])
}

// topicOf returns the source topic that a permission of the target is on, "" where it is on none alone.
func topicOf(s drift.Scope) func(Binding) string {
	of := make(map[string]string, len(s.Topics))
	for _, t := range s.Topics {
		of[t.Dst] = t.Src
	}
	return func(b Binding) string {
		if b.Type != kmsg.ACLResourceTypeTopic || b.resource().wide() {
			return ""
		}
		return of[b.Name]
	}
}
