package configs

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"lockstep/internal/kafka"
	"lockstep/topicsync/drift"
)

// Options are what a Part needs.
type Options struct {
	Source, Target *kafka.Cluster
	Journal        *Journal
	// CanTrim reports whether lockstep may delete on the target what the source has deleted: only then is retention opened.
	CanTrim func(dst string) bool
	Logger  *slog.Logger
}

// Part keeps topics' settings. It implements drift.Part.
type Part struct {
	o   Options
	log *slog.Logger

	refused  *refusals
	defaults *BrokerDefault
}

// chunk is how many topics are compared at a time, so that few topics' settings are in memory.
const chunk = 500

// New returns a Part. It does no I/O.
func New(o Options) *Part {
	return &Part{o: o, log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)), refused: newRefusals(), defaults: NewBrokerDefault(o.Target)}
}

// Kind implements drift.Part.
func (p *Part) Kind() drift.Kind { return drift.Config }

// pass is one run of a Part.
type pass struct {
	*Part
	scope   drift.Scope
	exclude func(string) bool
	items   []drift.Item
	fault   error // the first that is not one topic's own
	remedy  string
	missed  map[string]bool // source topics that could not be looked after
	minISR  int             // see Mirror
	closed  []string        // mirrors whose retention is not opened, since they may not be trimmed
}

// Pass implements drift.Part.
func (p *Part) Pass(ctx context.Context, s drift.Scope) drift.Outcome {
	if !s.Link.Configs.Sync && !s.Promotes() {
		return drift.Outcome{Condition: drift.Off}
	}
	follows, err := s.Link.Configs.Filter()
	if err != nil {
		return drift.Outcome{Condition: drift.Unreachable, Why: err.Error()}
	}
	p.refused.forgetOld(s.Now)
	if s.Order != nil && !s.Order.DryRun {
		p.refused.forget() // an operator may have mended it
	}
	if s.Order != nil && len(s.Order.Topics) > 0 {
		s.Topics = slices.DeleteFunc(slices.Clone(s.Topics), func(t drift.Topic) bool { return !s.Order.Covers(t.Src) })
	}
	run := &pass{Part: p, scope: s, exclude: func(key string) bool { return !follows(key) }, missed: make(map[string]bool)}
	if s.Promotes() && !s.Link.Configs.Sync {
		run.exclude = func(key string) bool { return !opened(key) } // only what was opened is closed
	}
	run.minISR = p.defaults.MinISR(ctx)
	for topics := range slices.Chunk(s.Topics, chunk) {
		if ctx.Err() != nil {
			run.failed(context.Cause(ctx), "", topics...)
			continue
		}
		run.compare(ctx, topics)
	}
	return run.outcome()
}

// opened reports whether a setting of a mirror may differ on purpose.
func opened(key string) bool {
	return slices.Contains([]string{KeyBeforeMax, KeyAfterMax, KeyRetention, KeyRetentionBytes, KeyMinISR}, key)
}

func (r *pass) outcome() drift.Outcome {
	o := drift.Outcome{Condition: drift.OK, Items: r.items}
	switch {
	case r.fault == nil && len(r.closed) > 0:
		o.Condition, o.Remedy = drift.Partly, drift.Grant("Delete", "--topic "+r.closed[0])
		o.Why = fmt.Sprintf("%d mirrors have the source's retention, since lockstep may not drop there what the source dropped", len(r.closed))
		return o
	case r.fault == nil:
		return o
	case drift.Unsupported(r.fault):
		o.Condition = drift.Unreachable
		o.Why = fmt.Sprintf("cluster %s does not know IncrementalAlterConfigs: settings of topics that exist are not kept in step", r.o.Target.Name())
	case len(r.missed) >= len(r.scope.Topics):
		o.Condition, o.Why, o.Remedy = drift.Unreachable, r.fault.Error(), r.remedy
	default:
		o.Condition, o.Why, o.Remedy = drift.Partly, fmt.Sprintf("%d topics could not be looked after: %v", len(r.missed), r.fault), r.remedy
	}
	return o
}

// canTrim reports whether a mirror that lockstep made may be trimmed, and notes it when that is not allowed.
func (r *pass) canTrim(t drift.Topic) bool {
	if r.o.CanTrim == nil {
		return false
	}
	if r.o.CanTrim(t.Dst) {
		return true
	}
	r.closed = append(r.closed, t.Dst)
	return false
}

// failed notes topics that could not be looked after.
func (r *pass) failed(err error, remedy string, topics ...drift.Topic) {
	for _, t := range topics {
		r.missed[t.Src] = true
	}
	if r.fault == nil || drift.Unsupported(err) {
		r.fault, r.remedy = err, remedy
	}
}

// compare looks at some topics, writes what is to be written, and adds how they stand.
func (r *pass) compare(ctx context.Context, topics []drift.Topic) {
	subjects := r.read(ctx, topics)
	plans := make([]plan, len(subjects))
	records := make(map[string]Record)
	for i, s := range subjects {
		plans[i] = s.plan()
		if !r.scope.DryRun() {
			r.spare(s, &plans[i])
		}
		if plans[i].differs(s) {
			records[s.Src] = plans[i].record
		}
	}
	if !r.scope.DryRun() && len(records) > 0 {
		if err := r.o.Journal.put(ctx, records); err != nil {
			r.failed(err, "", topics...)
			return
		}
		r.write(ctx, subjects, plans)
	}
	for i := range plans {
		r.items = append(r.items, r.shown(subjects[i], plans[i])...)
	}
}

// spare takes the changes of a topic that may not be changed out of its plan.
func (r *pass) spare(s subject, p *plan) {
	err := r.refused.isBarred(s.Dst)
	if err == nil {
		return
	}
	for _, ch := range p.changes {
		r.settle(s, p, ch, err)
	}
	p.changes = nil
}

// read returns the topics that could be read on both sides; a promotion does not ask the source.
func (r *pass) read(ctx context.Context, topics []drift.Topic) []subject {
	src, dst := make([]string, len(topics)), make([]string, len(topics))
	for i, t := range topics {
		src[i], dst[i] = t.Src, t.Dst
	}
	var source, target map[string]Settings
	var wg sync.WaitGroup
	if !r.scope.Promotes() {
		wg.Go(func() { source = Read(ctx, r.o.Source, src, nil, r.scope.Full) })
	}
	wg.Go(func() { target = Read(ctx, r.o.Target, dst, nil, r.scope.Full) })
	wg.Wait()
	var out []subject
	for _, t := range topics {
		if !r.scope.Promotes() {
			if err := source[t.Src].Err; err != nil {
				r.failedTopic(t, drift.Source, t.Src, r.o.Source.Name(), err)
				continue
			}
		}
		if err := target[t.Dst].Err; err != nil {
			r.failedTopic(t, drift.Target, t.Dst, r.o.Target.Name(), err)
			continue
		}
		sub := r.subject(t, source[t.Src], target[t.Dst])
		if sub.source == nil {
			r.unknown(t)
			continue
		}
		out = append(out, sub)
	}
	return out
}

func (r *pass) failedTopic(t drift.Topic, side drift.Side, name, cluster string, err error) {
	remedy := ""
	if drift.Denied(err) {
		remedy = drift.Grant("DescribeConfigs", "--topic "+name)
	}
	r.failed(fmt.Errorf("read the settings of topic %q on cluster %s: %w", name, cluster, err), remedy, t)
	if r.scope.Order != nil || drift.Denied(err) {
		r.items = append(r.items, drift.Item{Kind: drift.Config, Topic: t.Src, DstTopic: t.Dst, State: drift.Unavailable, Side: side,
			Why: fmt.Sprintf("read the settings on cluster %s: %v", cluster, err), Remedy: remedy})
	}
}

// unknown notes a topic whose source nobody has seen and cannot see now: nothing of it is changed.
func (r *pass) unknown(t drift.Topic) {
	why := "what the source topic's settings were is not in the state topic"
	r.failed(fmt.Errorf("topic %q: %s", t.Src, why), "", t)
	r.items = append(r.items, drift.Item{Kind: drift.Config, Topic: t.Src, DstTopic: t.Dst, State: drift.Unavailable, Side: drift.Source, Why: why})
}

func (r *pass) subject(t drift.Topic, source, target Settings) subject {
	rec := r.o.Journal.recordOf(t.Src, t.Dst, t.DstID, target.Explicit)
	stored, ok := r.o.Journal.Of(t.Src)
	s := subject{Topic: t, record: rec, source: source.Explicit, theirs: target.Explicit, full: [2]map[string]string{source.Effective, target.Effective}}
	s.stale = !ok || stored.DstID != rec.DstID || stored.Intent != nil
	if r.scope.Promotes() {
		s.source = rec.Source
	}
	s.overwrite = r.scope.Link.Configs.Force || r.scope.Order != nil && r.scope.Order.Takeover && r.scope.Order.Covers(t.Src)
	s.mirror = r.mirror(t, rec.Made)
	s.refused = func(key string, value *string) string { return r.refused.of(t.Dst, key, value) }
	return s
}

func (r *pass) mirror(t drift.Topic, made bool) Mirror {
	return Mirror{Link: r.scope.Link.Name, Exclude: r.exclude, Replicas: t.DstReplicas, MinISR: r.minISR, Promoted: r.scope.Promotes(),
		Open: made && r.scope.Link.Configs.Retention == "open" && r.canTrim(t)}
}

// write carries out plans whose records are stored, and notes what became of them.
func (r *pass) write(ctx context.Context, subjects []subject, plans []plan) {
	var as []*altering
	var of []int
	for i, p := range plans {
		if len(p.changes) > 0 {
			as, of = append(as, &altering{topic: subjects[i].Dst, changes: p.changes}), append(of, i)
		}
	}
	if len(as) == 0 {
		return
	}
	for key, err := range apply(ctx, r.o.Target, as) {
		r.refused.add(refusal{key: key}, err.Error(), r.scope.Now)
	}
	landed := make(map[string]Record)
	for n, a := range as {
		s, p := subjects[of[n]], &plans[of[n]]
		p.record.Written = maps.Clone(p.record.Written) // the journal shows the former
		for k, ch := range a.changes {
			r.settle(s, p, ch, a.errs[k])
		}
		landed[s.Src] = p.record
	}
	if err := r.o.Journal.put(ctx, landed); err != nil { // they are settled in the next pass
		r.log.Debug("note that settings were written", "error", err)
	}
	r.tell(as)
}

// settle notes what became of one change.
func (r *pass) settle(s subject, p *plan, ch change, err error) {
	item := &p.items[ch.item]
	if err == nil {
		item.Done = true
		if ch.value == nil {
			p.note(ch.key, nil)
		} else {
			p.note(ch.key, &Base{Value: ch.value})
		}
		return
	}
	item.Err = err
	switch {
	case refused(err):
		*item = refusedItem(*item, err.Error())
		r.refused.add(refusalOf(s.Dst, ch.key, ch.value), err.Error(), r.scope.Now)
		p.undo(s, ch.key)
	case drift.Denied(err):
		item.State, item.Why, item.Remedy, item.Side = drift.Unavailable, err.Error(), drift.Grant("AlterConfigs", "--topic "+s.Dst), drift.Target
		r.failed(fmt.Errorf("change the settings of topic %q on cluster %s: %w", s.Dst, r.o.Target.Name(), err), item.Remedy, s.Topic)
		r.refused.bars(s.Dst, err, r.scope.Now)
		p.undo(s, ch.key)
	case drift.Unsupported(err):
		item.State, item.Why = drift.Unavailable, "the target does not know IncrementalAlterConfigs"
		r.failed(err, "", s.Topic)
		r.refused.bars("", err, r.scope.Now)
		p.undo(s, ch.key)
	default:
		r.failed(fmt.Errorf("change the settings of topic %q on cluster %s: %w", s.Dst, r.o.Target.Name(), err), "", s.Topic)
	}
}

// undo takes back the note of a write that certainly was not done.
func (p *plan) undo(s subject, key string) {
	if b, ok := s.record.Written[key]; ok {
		p.note(key, &b)
		return
	}
	p.note(key, nil)
}

func (r *pass) tell(as []*altering) {
	done, topics := 0, 0
	for _, a := range as {
		n := 0
		for _, err := range a.errs {
			if err == nil {
				n++
			}
		}
		if done += n; n > 0 {
			topics++
		}
	}
	if done > 0 {
		r.log.Info("changed settings of target topics", "topics", topics, "settings", done)
	}
}

// shown returns what of a topic is shown: what differs, and in a full look what the brokers' defaults make different.
func (r *pass) shown(s subject, p plan) []drift.Item {
	items := slices.DeleteFunc(p.items, func(i drift.Item) bool {
		return i.State == drift.InSync || !r.scope.Full && !i.Done && i.Does == "" && (i.State == drift.Excluded || i.State == drift.Opened)
	})
	if r.scope.Full {
		items = append(items, s.defaults()...)
	}
	slices.SortStableFunc(items, func(a, b drift.Item) int { return cmp.Compare(a.Name, b.Name) })
	return items
}

// Forget has everything that the target refused asked for again: the configuration changed.
func (p *Part) Forget() { p.refused.forget() }
