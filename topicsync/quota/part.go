package quota

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"lockstep/internal/kafka"
	"lockstep/topicsync/drift"
)

// Options are what a Part and Users need.
type Options struct {
	Source, Target *kafka.Cluster
	Journal        *Journal // of a Part
	Own            []string // client ids of lockstep's own clients: an id, and what begins with it and a dash
	Logger         *slog.Logger
}

// Part keeps client quotas. It implements drift.Part.
type Part struct {
	o       Options
	log     *slog.Logger
	refused map[limit]refusal
}

// refusal is what the target did not take.
type refusal struct {
	value string
	err   error
	at    time.Time
}

const (
	// refusedFor is how long a limit that the target refused is not asked for again: its brokers may be other ones by then.
	refusedFor = time.Hour
	// deniedFor is the same where a permission was missing.
	deniedFor = 5 * time.Minute
)

// holds reports whether a write is not to be tried again yet.
func (r refusal) holds(w write, now time.Time) bool {
	age := refusedFor
	if drift.Denied(r.err) {
		age = deniedFor
	}
	return r.err != nil && r.value == describe(w.value) && now.Sub(r.at) < age
}

// New returns a Part. It does no I/O.
func New(o Options) *Part {
	return &Part{o: o, log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)), refused: make(map[limit]refusal)}
}

// Kind implements drift.Part.
func (p *Part) Kind() drift.Kind { return drift.Quota }

// Pass implements drift.Part. Quotas concern no single topic: an order for some topics does not touch them.
func (p *Part) Pass(ctx context.Context, s drift.Scope) drift.Outcome {
	if !s.Link.Quotas.Sync || s.Order != nil && !s.Order.Covers("") {
		return drift.Outcome{Condition: drift.Off}
	}
	in := input{link: s.Link.Name, bases: p.o.Journal.all(), own: p.o.Own, full: s.Full}
	if s.Order != nil {
		in.takeover, in.confirm = s.Order.Takeover, s.Order.Confirm
	}
	var err error
	if in.target, err = observe(ctx, p.o.Target); err != nil {
		return cannot(p.o.Target, "client quotas", "DescribeConfigs", err)
	}
	if s.Promotes() {
		in.source = written(in.bases) // without the source: what was under way is finished
	} else if in.source, err = observe(ctx, p.o.Source); err != nil {
		return cannot(p.o.Source, "client quotas", "DescribeConfigs", err)
	}
	return p.finish(ctx, s, in.plan())
}

// written returns the limits that lockstep wrote.
func written(bases map[limit]base) map[limit]float64 {
	out := make(map[limit]float64)
	for l, b := range bases {
		if b.Value != nil {
			out[l] = *b.Value
		}
	}
	return out
}

// finish carries a plan out and says how things stand.
func (p *Part) finish(ctx context.Context, s drift.Scope, pl plan) drift.Outcome {
	p.leaveRefused(s, &pl)
	o := drift.Outcome{Condition: drift.OK}
	for _, i := range pl.items {
		if i.State == drift.Unavailable {
			o.Condition, o.Why, o.Remedy = drift.Partly, i.Why, i.Remedy
		}
	}
	if !s.DryRun() {
		if err := p.carryOut(ctx, s, pl); err != nil {
			o.Condition, o.Why = drift.Partly, err.Error()
			if drift.Denied(err) {
				o.Remedy = drift.Grant("AlterConfigs", "--cluster")
			}
		}
	}
	o.Items = pl.sorted()
	return o
}

// leaveRefused takes writes out of a plan that the target refused not long ago, unless an operator orders the pass.
func (p *Part) leaveRefused(s drift.Scope, pl *plan) {
	if s.Order != nil {
		return
	}
	var ws []write
	for _, w := range pl.writes {
		if r := p.refused[w.limit]; r.holds(w, s.Now) {
			pl.refuse(w, r.err)
			delete(pl.notes, w.limit)
			continue
		}
		ws = append(ws, w)
	}
	pl.writes = ws
}

func describe(v *float64) string {
	if v == nil {
		return ""
	}
	return *text(v)
}

// refuse says that the target does not take a write.
func (p plan) refuse(w write, err error) {
	i := p.items[w.limit]
	i.State, i.Err, i.Why, i.Side, i.Does = drift.Refused, err, err.Error(), drift.Target, ""
	if drift.Denied(err) {
		i.State, i.Remedy = drift.Unavailable, drift.Grant("AlterConfigs", "--cluster")
	}
}

// carryOut notes and then does what a plan says. It returns the first failure that is not one limit's own.
func (p *Part) carryOut(ctx context.Context, s drift.Scope, pl plan) error {
	before := p.o.Journal.all()
	if err := p.o.Journal.note(ctx, pl.notes); err != nil {
		return err
	}
	var fault error
	done, after := 0, make(map[limit]*base)
	for n, err := range alter(ctx, p.o.Target, pl.writes) {
		w := pl.writes[n]
		if err == nil {
			pl.items[w.limit].Done = true
			done++
			after[w.limit] = pl.done(w)
			delete(p.refused, w.limit)
			continue
		}
		pl.refuse(w, err)
		if refused(err) || drift.Denied(err) { // it was not written
			p.refused[w.limit] = refusal{describe(w.value), err, s.Now}
			after[w.limit] = nil
			if b, ok := before[w.limit]; ok {
				after[w.limit] = &b
			}
		}
		if fault == nil && !refused(err) {
			fault = fmt.Errorf("change quotas on cluster %s: %w", p.o.Target.Name(), err)
		}
	}
	if done > 0 {
		p.log.Info("changed quotas on the target", "count", done)
	}
	return cmp.Or(p.o.Journal.note(ctx, after), fault)
}

// cannot says why things of a cluster cannot be looked after.
func cannot(c *kafka.Cluster, what, operation string, err error) drift.Outcome {
	switch {
	case drift.Denied(err):
		return drift.Outcome{Condition: drift.Unreachable, Why: fmt.Sprintf("cluster %s does not let lockstep read %s: %v", c.Name(), what, err),
			Remedy: drift.Grant(operation, "--cluster")}
	case drift.Unsupported(err):
		return drift.Outcome{Condition: drift.Unreachable, Why: fmt.Sprintf("cluster %s does not know requests for %s", c.Name(), what)}
	}
	return drift.Outcome{Condition: drift.Unreachable, Why: err.Error()}
}
