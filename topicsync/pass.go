package topicsync

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"lockstep/config"
	"lockstep/internal/kafka"
	"lockstep/internal/model"
	"lockstep/topicsync/configs"
)

// look is what one pass sees and finds out.
type look struct {
	link     config.Link // in force in this pass
	links    []config.Link
	next     *config.Link // narrows link; nil: does not
	src, dst kafka.Meta
	wanted   []Wanted
	skipped  []Skipped
	errs     map[string]error // by source topic: what is wrong with it now
}

// fail notes what is wrong with a topic; the first error of a pass stays.
func (l *look) fail(topic string, err error) {
	if _, ok := l.errs[topic]; !ok {
		l.errs[topic] = err
	}
}

// once makes one pass and returns how many wanted topics are neither ready nor in error.
func (s *Syncer) once(ctx context.Context) (open int, err error) {
	select {
	case s.pass <- struct{}{}:
		defer func() { <-s.pass }()
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	s.leave(ctx)
	l, err := s.observe(ctx)
	if err != nil {
		return 0, err
	}
	s.markLost(ctx, l)
	s.change(ctx, l)
	s.offer(ctx, l)
	s.gone(ctx, l)
	s.keepScope(l)
	s.noteUnmatched(l)
	return s.publish(l), ctx.Err()
}

// keepScope remembers what the pass saw for Scope.
func (s *Syncer) keepScope(l *look) {
	scope := scopeOf(l)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = &scope
}

// observe asks both clusters for all topics, at the same time.
func (s *Syncer) observe(ctx context.Context) (*look, error) {
	l := s.newLook()
	var errs [2]error
	var wg sync.WaitGroup
	wg.Go(func() { l.src, errs[0] = s.o.Src.Metadata(ctx) })
	wg.Go(func() { l.dst, errs[1] = s.o.Dst.Metadata(ctx) })
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("look at topics: %w", err)
		}
	}
	if err := s.sameClusters(l); err != nil {
		return nil, err
	}
	s.rememberStart(l)
	s.choose(l)
	for _, w := range l.wanted {
		if w.Src.Err != nil {
			l.fail(w.Src.Name, topicError("describe", w.Src.Name, s.o.Src.Name(), "Describe", w.Src.Err))
		}
		if w.Dst.Err != nil {
			l.fail(w.Src.Name, topicError("describe", w.Dst.Name, s.o.Dst.Name(), "Describe", w.Dst.Err))
		}
	}
	return l, nil
}

// sameClusters refuses to go on when another cluster answers than in the pass before.
func (s *Syncer) sameClusters(l *look) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, id := range []string{l.src.ClusterID, l.dst.ClusterID} {
		if s.ids[i] != "" && id != s.ids[i] {
			return fmt.Errorf("look at topics: %w: id %s, before %s", ErrClusterChanged, id, s.ids[i])
		}
		s.ids[i] = id
	}
	return nil
}

// choose pairs what the link selects on both sides.
func (s *Syncer) choose(l *look) {
	l.wanted, l.skipped = Select(l.link, l.src.Topics, l.dst.Topics, s.meet.of(l.link, l.links, l.src.Topics))
	if l.next == nil {
		return
	}
	l.wanted = slices.DeleteFunc(l.wanted, func(w Wanted) bool {
		ok, why := l.next.Selects(w.Src.Name)
		if !ok {
			l.skipped = append(l.skipped, Skipped{Topic: w.Src.Name, Why: why})
		}
		return !ok
	})
}

// rememberStart keeps what the first pass sees of the source, and what the first pass after SetLink sees of topics that
// were not selected before.
func (s *Syncer) rememberStart(l *look) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.start == nil
	if first {
		s.start = make(map[string]seen, len(l.src.Topics))
	}
	for name, t := range l.src.Topics {
		chosen := s.before != nil && !selects(*s.before, name) && selects(l.link, name)
		if chosen {
			s.topicLocked(name).chosen = true
		}
		if first || chosen {
			s.start[name] = seen{t.ID, len(t.Parts)}
		}
	}
	s.before = nil
}

// born reports whether a partition was not there when the first pass looked, or else whether its topic was chosen
// since. Of a topic that could not be described then, nothing counts as new.
func (s *Syncer) born(t kafka.TopicMeta, partition int32) (born, chosen bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, ok := s.start[t.Name]
	known := ok && (was.parts == 0 || was.id == t.ID && int(partition) < was.parts)
	return !known, known && s.topicLocked(t.Name).chosen
}

// markLost notes target topics that existed and are gone. Lanes of one that vanished while nobody looked are ended too,
// so that they are seen.
func (s *Syncer) markLost(ctx context.Context, l *look) {
	var ended []model.Lane
	for _, w := range l.wanted {
		lost := !w.Exists && s.existed(w)
		s.with(w.Src.Name, func(t *topic) {
			if lost && !t.lost && len(t.offered) == 0 {
				ended = append(ended, s.knownLanes(w)...)
			}
			t.lost = lost
		})
		if lost {
			l.fail(w.Src.Name, errTargetLost)
		} else if s.otherID(w) {
			l.fail(w.Src.Name, errTargetSmaller)
		}
	}
	if len(ended) > 0 {
		s.o.Lanes.Gone(ctx, ended, model.ReasonTargetLost)
	}
}

// knownLanes returns the lanes of a topic that an earlier run copied.
func (s *Syncer) knownLanes(w Wanted) (lanes []model.Lane) {
	for _, p := range w.Src.Parts {
		l := s.lane(w, p.Partition)
		if id, ok := s.o.Known(l); ok && id.DstTopic == w.Dst.Name {
			lanes = append(lanes, l)
		}
	}
	return lanes
}

// existed reports whether the target topic was there before, in this run or, by the state topic, in an earlier one.
func (s *Syncer) existed(w Wanted) bool {
	if s.remade(w) {
		return false
	}
	var before bool
	s.with(w.Src.Name, func(t *topic) { before = t.lost || len(t.offered) > 0 })
	if before || s.o.Known == nil {
		return before
	}
	return len(s.knownLanes(w)) > 0
}

// otherID reports whether lanes of the topic joined a target topic of another id, in this run or an earlier one: the
// present one was made by somebody else, and lockstep does not change it.
func (s *Syncer) otherID(w Wanted) (other bool) {
	if !w.Exists || len(w.Dst.Parts) >= len(w.Src.Parts) || s.remade(w) {
		return false
	}
	s.with(w.Src.Name, func(t *topic) {
		for _, id := range t.offered {
			other = other || id.Dst != w.Dst.ID
		}
	})
	if other || s.o.Known == nil {
		return other
	}
	id, ok := s.o.Known(s.lane(w, 0))
	return ok && id.DstTopic == w.Dst.Name && id.Dst != w.Dst.ID
}

func (s *Syncer) lane(w Wanted, partition int32) model.Lane {
	return model.Lane{Link: s.o.Link.Name, Topic: w.Src.Name, Partition: partition}
}

// change plans and applies what the target needs, and looks at the changed topics again.
func (s *Syncer) change(ctx context.Context, l *look) {
	now := time.Now()
	s.noteBrokers(len(l.dst.Brokers))
	in := Input{
		Link: l.link, Brokers: len(l.dst.Brokers), Refused: s.refused(), Mirror: s.mirror(ctx, l),
		Explicit: s.explicit(ctx, l, now), Lost: make(map[string]bool),
	}
	for _, w := range l.wanted {
		if !s.due(w.Src.Name, now) {
			continue
		}
		in.Wanted = append(in.Wanted, w)
		in.Lost[w.Dst.Name] = l.errs[w.Src.Name] != nil
	}
	actions := Plan(in)
	if len(actions) == 0 {
		return
	}
	if err := s.intend(ctx, in, actions); err != nil {
		for _, a := range actions {
			l.fail(a.Topic, err)
		}
		return
	}
	var changed []string
	results := Apply(ctx, s.o.Dst, actions, &s.batch)
	for _, r := range results {
		s.applied(l, r, now)
		changed = append(changed, r.DstTopic)
	}
	s.lookAgain(ctx, l, changed)
	s.created(ctx, l, in, results)
}

// mirror says what settings of new topics depend on.
func (s *Syncer) mirror(ctx context.Context, l *look) configs.Mirror {
	follows, err := l.link.Configs.Filter()
	m := configs.Mirror{Link: l.link.Name, Exclude: func(key string) bool { return l.link.Configs.Sync && (err != nil || !follows(key)) }, MinISR: s.knownMinISR(ctx, l)}
	m.Open = l.link.Configs.Sync && l.link.Configs.Retention == "open" && s.o.Open != nil && s.o.Open()
	return m
}

// knownMinISR is the target brokers' default, for topics that are about to be created; 0 when there are none.
func (s *Syncer) knownMinISR(ctx context.Context, l *look) int {
	if !slices.ContainsFunc(l.wanted, func(w Wanted) bool { return !w.Exists }) {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	return s.defaults.MinISR(ctx)
}

// intend notes what is about to be created. Without that nothing is: whose a topic is would not be known afterwards.
func (s *Syncer) intend(ctx context.Context, in Input, actions []Action) error {
	if s.o.Journal == nil {
		return nil
	}
	var cs []configs.Creation
	for _, a := range actions {
		if a.Kind == Create {
			cs = append(cs, configs.Creation{Topic: a.Topic, Dst: a.DstTopic, Settings: mapOf(a.Settings), Source: in.Explicit[a.Topic]})
		}
	}
	if len(cs) == 0 {
		return nil
	}
	return s.o.Journal.Intend(ctx, cs)
}

// created notes what was created. When that fails, the intent tells as long as nobody changed the topic's settings.
func (s *Syncer) created(ctx context.Context, l *look, in Input, results []Result) {
	if s.o.Journal == nil {
		return
	}
	var cs []configs.Creation
	for _, r := range results {
		id := r.ID
		if id.IsZero() {
			id = l.dst.Topics[r.DstTopic].ID
		}
		if r.Kind == Create && r.Err == nil && !r.Existed && !id.IsZero() {
			cs = append(cs, configs.Creation{Topic: r.Topic, Dst: r.DstTopic, Settings: mapOf(r.Settings), Source: in.Explicit[r.Topic], ID: id})
		}
	}
	if len(cs) == 0 {
		return
	}
	if err := s.o.Journal.Created(ctx, cs); err != nil {
		s.log.Warn("note that topics were created", "error", err)
	}
}

// noteBrokers makes refused topics due when the target's number of brokers changed: it may be what they waited for.
func (s *Syncer) noteBrokers(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nodes == n {
		return
	}
	s.nodes = n
	for _, t := range s.topics {
		t.retry = retry{}
	}
}

// explicit reads the source's settings of the topics that are to be created; none are wanted of them when the link does
// not want settings to follow.
func (s *Syncer) explicit(ctx context.Context, l *look, now time.Time) map[string]map[string]string {
	var missing []string
	for _, w := range l.wanted {
		if !w.Exists && l.errs[w.Src.Name] == nil && s.due(w.Src.Name, now) {
			missing = append(missing, w.Src.Name)
		}
	}
	if !l.link.Configs.Sync {
		none := make(map[string]map[string]string, len(missing))
		for _, name := range missing {
			none[name] = map[string]string{}
		}
		return none
	}
	settings, errs := readExplicit(ctx, s.o.Src, missing)
	for name, err := range errs {
		l.fail(name, err)
	}
	return settings
}

// due reports whether the target may be asked again about a topic that it refused before.
func (s *Syncer) due(name string, now time.Time) (due bool) {
	s.with(name, func(t *topic) { due = t.retry.due(now) })
	return due
}

// applied notes what became of an action.
func (s *Syncer) applied(l *look, r Result, now time.Time) {
	s.with(r.Topic, func(t *topic) {
		if r.Err != nil {
			t.retry.failed(now, s.o.Interval)
			return
		}
		t.retry = retry{}
		if r.Kind == Create && !r.Existed {
			t.left = r.Left
		}
	})
	s.learn(r.Unknown)
	if r.Err != nil {
		l.fail(r.Topic, r.Err)
		return
	}
	if !r.Existed {
		s.log.Info("changed target topic", "action", r.Kind, "topic", r.Topic, "dst_topic", r.DstTopic,
			"partitions", r.Partitions, "replication", r.Replication, "left_out", len(r.Left), "reason", r.Reason)
	}
}

// lookAgain takes the changed topics' new metadata into the pass. When that fails, the next pass sees them.
func (s *Syncer) lookAgain(ctx context.Context, l *look, names []string) {
	meta, err := s.o.Dst.Metadata(ctx, names...)
	if err != nil {
		return
	}
	maps.Copy(l.dst.Topics, meta.Topics)
	s.choose(l)
	for _, w := range l.wanted {
		if w.Exists && w.Dst.Err != nil {
			l.fail(w.Src.Name, topicError("describe", w.Dst.Name, s.o.Dst.Name(), "Describe", w.Dst.Err))
		}
	}
}

// refused returns a copy of the setting names that the target does not know.
func (s *Syncer) refused() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.refuse)
}

func (s *Syncer) learn(unknown map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(s.refuse, unknown)
}

// with runs fn on what is remembered of a source topic, under the lock.
func (s *Syncer) with(name string, fn func(*topic)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn(s.topicLocked(name))
}

func (s *Syncer) topicLocked(name string) *topic {
	t := s.topics[name]
	if t == nil {
		t = &topic{offered: make(map[int32]model.Identity)}
		s.topics[name] = t
	}
	return t
}

// publish sets every topic's status, logs what changed, and returns how many wanted topics are still on their way.
func (s *Syncer) publish(l *look) (open int) {
	now := time.Now()
	for _, k := range l.skipped {
		st := TopicStatus{Topic: k.Topic, DstTopic: l.link.TargetTopic(k.Topic), State: TopicSkipped, Detail: k.Why}
		if k.Fault {
			st.State, st.Remedy = TopicFailed, "change topics.rename, or leave the topic out with topics.exclude"
		}
		s.show(st, now)
	}
	for _, w := range l.wanted {
		st := statusOf(s.o.Link.Name, w, s.ready(w), l.errs[w.Src.Name])
		if st.State == TopicWaiting && st.Err == nil && !s.due(w.Src.Name, now) {
			st = s.previous(w.Src.Name, st)
		}
		if st.State == TopicWaiting {
			open++
		}
		s.show(st, now)
	}
	return open
}

// previous keeps the state and the error of the last attempt while the next one is still to come: this pass found out
// nothing new.
func (s *Syncer) previous(name string, st TopicStatus) TopicStatus {
	s.with(name, func(t *topic) {
		if t.status.Err != nil {
			st.State, st.Detail, st.Remedy, st.Err = t.status.State, t.status.Detail, t.status.Remedy, t.status.Err
		}
	})
	return st
}

// ready counts a topic's offered lanes of its present identity.
func (s *Syncer) ready(w Wanted) (n int) {
	id, ok := w.Identity()
	if !ok {
		return 0
	}
	s.with(w.Src.Name, func(t *topic) {
		for p, offered := range t.offered {
			if offered == id && int(p) < len(w.Src.Parts) {
				n++
			}
		}
	})
	return n
}

// show stores a status, and logs a change of state once.
func (s *Syncer) show(st TopicStatus, now time.Time) {
	st.Link, st.Since = s.o.Link.Name, now
	var was TopicStatus
	s.with(st.Topic, func(t *topic) {
		was = t.status
		if was.State == st.State {
			st.Since = was.Since
		}
		st.Left = slices.Clone(t.left)
		t.status = st
	})
	if was.State == st.State || st.State == TopicSkipped {
		return
	}
	log := s.log.Info
	if st.State == TopicFailed || st.State == TopicTargetLost {
		log = s.log.Warn
	}
	log("topic state", "topic", st.Topic, "dst_topic", st.DstTopic, "state", st.State, "detail", st.Detail)
}
