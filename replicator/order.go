package replicator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"lockstep/internal/model"
)

// busy is why an order is refused whose subject another one has.
const busy = "another order for it is being carried out"

// Order plans what an operator ordered and, unless it is a dry run, does it. It returns one step for each subject once each
// has taken its step: opened again, refused with why, or failed; at the latest when ctx ends. An order that was not done in
// time is withdrawn, and can be given again like one that failed half-way. An error says that nothing was done at all.
func (m *Manager) Order(ctx context.Context, o model.Order) ([]model.OrderStep, error) {
	if err := m.takesOrders(); err != nil {
		return nil, err
	}
	switch {
	case o.Kind == model.OrderPause, o.Kind == model.OrderResume:
		return m.orderPause(ctx, o)
	case o.Kind == model.OrderAccept && len(o.Topics) == 0 && len(o.Lanes) == 0:
		return m.acceptSource(ctx, o)
	}
	lanes, err := m.subjects(o)
	if err != nil {
		return nil, err
	}
	return m.orderLanes(ctx, o, lanes)
}

// takesOrders returns why no orders can be given: before the link is ours and after it is being stopped.
func (m *Manager) takesOrders() error {
	select {
	case <-m.owned:
	default:
		return fmt.Errorf("link %s is not open yet", m.opt.Link)
	}
	if m.closing.Load() {
		return fmt.Errorf("link %s is being stopped", m.opt.Link)
	}
	return nil
}

// begins reserves a subject for an order; ended frees it.
func (m *Manager) begins(subject string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ordering[subject] {
		return false
	}
	m.ordering[subject] = true
	return true
}

func (m *Manager) ended(subject string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.ordering, subject)
}

// subjects returns the lanes that an order is about.
func (m *Manager) subjects(o model.Order) ([]*lane, error) {
	switch o.Kind {
	case model.OrderAccept, model.OrderAdopt:
		return m.ofTopics(o)
	case model.OrderSkip:
		if len(o.Lanes) != 1 || o.All {
			return nil, errors.New("skip is for one lane at a time")
		}
	case model.OrderRetry, model.OrderRebuild:
	default:
		return nil, fmt.Errorf("no order %q", o.Kind)
	}
	if o.Kind == model.OrderRebuild {
		m.recallLost(o)
	}
	if o.All {
		return m.stoppedLanes(o.Kind), nil
	}
	if len(o.Lanes) == 0 {
		return nil, errors.New("the order names no lane")
	}
	var lanes []*lane
	for _, ref := range o.Lanes {
		id := model.Lane{Link: m.opt.Link, Topic: ref.Topic, Partition: ref.Partition}
		l := m.lane(id)
		if l == nil {
			return nil, fmt.Errorf("no lane %s", id)
		}
		if !slices.Contains(lanes, l) {
			lanes = append(lanes, l)
		}
	}
	return lanes, nil
}

// stoppedLanes returns the lanes that "all" means.
func (m *Manager) stoppedLanes(kind model.OrderKind) []*lane {
	return m.sorted(func(p picture) bool {
		return p.state == model.StateStopped && (kind != model.OrderRebuild || rebuildHelps(p.reason))
	})
}

func (m *Manager) sorted(want func(picture) bool) []*lane {
	lanes := slices.DeleteFunc(m.all(), func(l *lane) bool { return !want(l.picture()) })
	slices.SortFunc(lanes, func(a, b *lane) int { return a.id.Compare(b.id) })
	return lanes
}

// recallLost brings back the lanes of lost target topics that nobody offers, since the topic that stands there now has fewer
// partitions: it is to grow.
func (m *Manager) recallLost(o model.Order) {
	lost := make(map[string]bool)
	for _, l := range m.all() {
		if p := l.picture(); p.state == model.StateStopped && p.reason == model.ReasonTargetLost {
			lost[l.id.Topic] = true
		}
	}
	named := func(id model.Lane) bool {
		return o.All || slices.Contains(o.Lanes, model.LaneRef{Topic: id.Topic, Partition: id.Partition})
	}
	var missing []model.Lane
	for _, id := range m.view.Lanes() {
		if lost[id.Topic] && named(id) && m.lane(id) == nil {
			missing = append(missing, id)
		}
	}
	m.Gone(missing, model.ReasonTargetLost)
}

// ofTopics returns the lanes of an order's topics that stopped for what the order is the remedy of; where a topic has none,
// all of its lanes, so that the plan says why.
func (m *Manager) ofTopics(o model.Order) ([]*lane, error) {
	if len(o.Topics) == 0 {
		return nil, errors.New("the order names no topic")
	}
	if o.From != "" && o.From != "earliest" && o.From != "latest" {
		return nil, fmt.Errorf("from %q: want earliest or latest", o.From)
	}
	remedied := model.ReasonNotEmpty
	if o.Kind == model.OrderAccept {
		remedied = model.ReasonRecreated
	}
	var lanes []*lane
	for _, topic := range o.Topics {
		all := m.sorted(func(p picture) bool { return p.lane.Topic == topic })
		if len(all) == 0 {
			return nil, fmt.Errorf("link %s has no lane of topic %s", m.opt.Link, topic)
		}
		meant := slices.DeleteFunc(slices.Clone(all), func(l *lane) bool { return l.picture().reason != remedied })
		if len(meant) == 0 {
			meant = all
		}
		lanes = append(lanes, meant...)
	}
	return lanes, nil
}

// orderLanes plans and carries out an order about lanes.
func (m *Manager) orderLanes(ctx context.Context, o model.Order, lanes []*lane) ([]model.OrderStep, error) {
	var mine []*lane
	var steps []model.OrderStep
	for _, l := range lanes {
		if !m.begins(l.id.String()) {
			p := l.picture()
			steps = append(steps, model.OrderStep{Subject: l.id.String(), State: string(p.state), Refused: busy})
			continue
		}
		defer m.ended(l.id.String())
		mine = append(mine, l)
	}
	if len(mine) == 0 {
		return steps, nil
	}
	pictures, err := m.pictures(ctx, mine, o)
	if err != nil {
		return nil, fmt.Errorf("look at both clusters: %w", err)
	}
	planned := make([]model.OrderStep, len(mine))
	for i, p := range pictures {
		planned[i] = planLane(o, p)
	}
	if !o.DryRun {
		m.carryOut(ctx, o, mine, pictures, planned)
	}
	return append(planned, steps...), nil
}

// carryOut does the steps that are not refused: first every lane gets its intent, so that lanes of one broker are opened
// together, then each is waited for.
func (m *Manager) carryOut(ctx context.Context, o model.Order, lanes []*lane, ps []picture, steps []model.OrderStep) {
	m.rereadLimits(ctx, lanes, steps)
	intents := make([]*intent, len(lanes))
	var remake []string
	for i, l := range lanes {
		if steps[i].Refused != "" {
			continue
		}
		it, waits, err := m.give(ctx, o, l, ps[i])
		if err != nil || it == nil { // it was not given, or there is nothing to open
			steps[i] = m.done(o, steps[i], err)
			continue
		}
		if intents[i] = it; waits && !slices.Contains(remake, l.id.Topic) {
			remake = append(remake, l.id.Topic)
		}
	}
	for _, topic := range remake {
		m.opt.Remake(topic)
	}
	for i, it := range intents {
		if it != nil {
			steps[i] = m.done(o, steps[i], m.await(ctx, lanes[i], it))
		}
	}
}

// give brings a lane to rest and hands it its intent; nil when there is nothing to open.
func (m *Manager) give(ctx context.Context, o model.Order, l *lane, p picture) (it *intent, waits bool, err error) {
	if o.Kind == model.OrderAccept && p.src.err != nil {
		l.stop(model.ReasonSourceDeleted, "the new source topic has no such partition; the target keeps its copy")
		return nil, false, nil
	}
	it = &intent{kind: o.Kind, reason: o.Reason, opening: p.stored.Opening.N, to: o.To, was: l.stoppedFor(), answer: make(chan error, 1)}
	it.behindGap = o.Kind == model.OrderRetry && p.reason == model.ReasonGap
	if o.Kind == model.OrderAdopt {
		it.from = m.adoptFrom(o, p.born)
	}
	if waits = o.Kind == model.OrderRebuild && p.reason == model.ReasonTargetLost && (p.mustRemake() || otherID(p.now.Dst, p.dstID)); waits {
		if m.opt.Remake == nil {
			return nil, false, errors.New("nobody here makes target topics")
		}
		it.lost = p.now.Dst
	}
	it.retried = p.state == model.StateRetrying
	if err = m.rest(ctx, l, it.was); err == nil {
		err = m.handOver(l, it, waits)
	}
	if err != nil && it.retried {
		m.again(it.was.reason, l) // it was stopped for the order alone
	}
	return it, waits, err
}

// handOver gives an intent to its lane, unless a pause came first.
func (m *Manager) handOver(l *lane, it *intent, waits bool) error {
	m.offers.Lock() // see hold
	defer m.offers.Unlock()
	if held, ok := m.holds().of(l.id.Topic); ok {
		return errors.New("it was " + pauseText(held))
	}
	if !l.obey(it, waits) {
		return errors.New("it changed meanwhile: look at it again")
	}
	return nil
}

// stoppedFor is why the lane stopped, or what holds it up.
func (l *lane) stoppedFor() refusal {
	l.mu.Lock()
	defer l.mu.Unlock()
	return refusal{reason: l.reason, detail: l.detail}
}

// rest stops a lane that does not go on by itself, waits until nothing of it is under way, and has its end stored.
func (m *Manager) rest(ctx context.Context, l *lane, why refusal) error {
	if p := l.picture(); p.state != model.StateStopped {
		l.stop(why.reason, why.detail)
	}
	tick := time.NewTicker(releaseLook)
	defer tick.Stop()
	for !l.atRest() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("what was sent of it is not answered yet: %w", context.Cause(ctx))
		}
	}
	m.save(ctx, []*lane{l}, false)
	return m.view.Barrier(ctx)
}

// await waits until a lane has taken its intent.
func (m *Manager) await(ctx context.Context, l *lane, it *intent) error {
	select {
	case err := <-it.answer:
		return err
	case <-m.work.Done():
		return errStopped
	case <-ctx.Done():
	}
	l.withdraw(it)
	select {
	case err := <-it.answer:
		return err // just in time
	default:
		p := l.picture()
		return fmt.Errorf("not done in time (%s %s); order it again: %w", p.state, p.reason, context.Cause(ctx))
	}
}

// done notes what became of a step, and logs it.
func (m *Manager) done(o model.Order, s model.OrderStep, err error) model.OrderStep {
	s.Done = err == nil
	attrs := []any{"order", o.Kind, "subject", s.Subject, "was", s.State, "does", s.Does, "by", o.By, "reason", o.Reason}
	if err != nil {
		s.Error = err.Error()
		m.tell(event{slog.LevelWarn, "order not done", "order", string(o.Kind)}, append(attrs, "error", err)...)
		return s
	}
	m.tell(event{slog.LevelInfo, "order done", "order", string(o.Kind)}, attrs...)
	return s
}

// rereadLimits reads again what the lanes' target topics accept: an operator may have raised it.
func (m *Manager) rereadLimits(ctx context.Context, lanes []*lane, steps []model.OrderStep) {
	if m.opt.Limits == nil {
		return
	}
	of := make(map[string][]*lane)
	for i, l := range lanes {
		if steps[i].Refused == "" {
			name := l.picture().now.DstTopic
			of[name] = append(of[name], l)
		}
	}
	for name, ls := range of {
		ask, cancel := context.WithTimeout(ctx, askTimeout)
		limits, err := m.opt.Limits(ask, name)
		cancel()
		if err != nil {
			m.log.Debug("limits of target topic not known", "dst_topic", name, "error", err)
			continue
		}
		for _, l := range ls {
			l.fit(limits)
		}
	}
}
