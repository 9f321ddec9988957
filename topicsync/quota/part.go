package quota

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/kafka"
	"lockstep/topicsync/drift"
)

const requestTimeout = 15 * time.Second

// Options are what a Part needs.
type Options struct {
	Source, Target *kafka.Cluster
	Journal        *Journal
	Own            []string // beginnings of lockstep's client ids
	Logger         *slog.Logger
}

// Part keeps client quotas. It implements drift.Part.
type Part struct {
	o   Options
	log *slog.Logger
}

// New returns a Part. It does no I/O.
func New(o Options) *Part {
	return &Part{o: o, log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler))}
}

// Kind implements drift.Part.
func (p *Part) Kind() drift.Kind { return drift.Quota }

// Pass implements drift.Part. Quotas are as they are to be before a promotion already.
func (p *Part) Pass(ctx context.Context, s drift.Scope) drift.Outcome {
	if !s.Link.Quotas.Sync || s.Promotes() {
		return drift.Outcome{Condition: drift.Off}
	}
	source, err := observe(ctx, p.o.Source)
	if err != nil {
		return cannot(p.o.Source, "read quotas", "DescribeConfigs", err)
	}
	target, err := observe(ctx, p.o.Target)
	if err != nil {
		return cannot(p.o.Target, "read quotas", "DescribeConfigs", err)
	}
	in := input{link: s.Link.Name, source: source, target: target, bases: p.o.Journal.all(), own: p.o.Own,
		overwrite: s.Order != nil && s.Order.Takeover && s.Order.Covers("")}
	pl := in.plan()
	o := drift.Outcome{Condition: drift.OK}
	if !s.DryRun() {
		if err := p.carryOut(ctx, pl, in.bases); err != nil {
			o = cannot(p.o.Target, "change quotas", "AlterConfigs", err)
			o.Condition = drift.Partly
		}
	}
	o.Items = pl.sorted()
	return o
}

// carryOut notes and then does what a plan says.
func (p *Part) carryOut(ctx context.Context, pl plan, before map[limit]base) error {
	if len(pl.notes) > 0 {
		if err := p.o.Journal.note(ctx, pl.notes); err != nil {
			return err
		}
	}
	if len(pl.changes) == 0 {
		return nil
	}
	errs := alter(ctx, p.o.Target, pl.changes)
	after := make(map[limit]*base)
	var first error
	done := 0
	for n, ch := range pl.changes {
		i := pl.items[ch.limit]
		switch err := errs[n]; {
		case err == nil:
			i.Done = true
			done++
			if after[ch.limit] = nil; ch.value != nil {
				after[ch.limit] = &base{Value: ch.value}
			}
		default:
			i.Err, i.State, i.Why = err, drift.Refused, err.Error()
			first = cmp.Or(first, err)
			if drift.Denied(err) {
				i.State, i.Remedy = drift.Unavailable, drift.Grant("AlterConfigs", "--cluster")
			}
			if drift.Denied(err) { // certainly not done
				if after[ch.limit] = nil; before[ch.limit] != (base{}) {
					b := before[ch.limit]
					after[ch.limit] = &b
				}
			}
		}
	}
	if done > 0 {
		p.log.Info("changed quotas on the target", "count", done)
	}
	return cmp.Or(first, p.o.Journal.note(ctx, after))
}

// cannot says why something cannot be looked after.
func cannot(c *kafka.Cluster, what, operation string, err error) drift.Outcome {
	o := drift.Outcome{Condition: drift.Unreachable, Why: fmt.Sprintf("%s of cluster %s: %v", what, c.Name(), err)}
	switch {
	case drift.Denied(err):
		o.Remedy = drift.Grant(operation, "--cluster")
	case drift.Unsupported(err):
		o.Why = fmt.Sprintf("%s of cluster %s: it does not know the request", what, c.Name())
	}
	return o
}

// observe returns all client quotas of a cluster.
func observe(ctx context.Context, c *kafka.Cluster) (map[limit]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	resp, err := kmsg.NewPtrDescribeClientQuotasRequest().RequestWith(ctx, c.Admin())
	if err != nil {
		return nil, err
	}
	if err := drift.BrokerError(resp.ErrorCode, resp.ErrorMessage); err != nil {
		return nil, err
	}
	out := make(map[limit]float64)
	for _, e := range resp.Entries {
		parts := make([]part, 0, len(e.Entity))
		for _, x := range e.Entity {
			parts = append(parts, part{x.Type, x.Name})
		}
		for _, v := range e.Values {
			out[limit{entityOf(parts), v.Key}] = v.Value
		}
	}
	return out, nil
}

// alter changes quotas, and returns what became of each. Limits of one entity go together.
func alter(ctx context.Context, c *kafka.Cluster, changes []change) []error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	byEntity := make(map[Entity][]int)
	for n, ch := range changes {
		byEntity[ch.entity] = append(byEntity[ch.entity], n)
	}
	req := kmsg.NewPtrAlterClientQuotasRequest()
	for _, e := range slices.Sorted(maps.Keys(byEntity)) {
		x := kmsg.NewAlterClientQuotasRequestEntry()
		for _, p := range e.parts() {
			y := kmsg.NewAlterClientQuotasRequestEntryEntity()
			y.Type, y.Name = p.kind, p.name
			x.Entity = append(x.Entity, y)
		}
		for _, n := range byEntity[e] {
			op := kmsg.NewAlterClientQuotasRequestEntryOp()
			op.Key = changes[n].key
			if op.Remove = changes[n].value == nil; !op.Remove {
				op.Value = *changes[n].value
			}
			x.Ops = append(x.Ops, op)
		}
		req.Entries = append(req.Entries, x)
	}
	errs := make([]error, len(changes))
	resp, err := req.RequestWith(ctx, c.Admin())
	answers := make(map[Entity]error)
	if err == nil {
		for _, e := range resp.Entries {
			parts := make([]part, 0, len(e.Entity))
			for _, x := range e.Entity {
				parts = append(parts, part{x.Type, x.Name})
			}
			answers[entityOf(parts)] = drift.BrokerError(e.ErrorCode, e.ErrorMessage)
		}
	}
	for n, ch := range changes {
		answer, ok := answers[ch.entity]
		switch {
		case err != nil:
			errs[n] = err
		case !ok:
			errs[n] = fmt.Errorf("the broker's answer leaves %s out: %w", ch.entity, kerr.UnknownServerError)
		default:
			errs[n] = answer
		}
	}
	return errs
}
