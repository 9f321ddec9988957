package replicator

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"runtime/debug"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/kafka"
	"lockstep/internal/model"
	"lockstep/offsetsync"
	"lockstep/replicator/term"
)

// proc is one lockstep process: the product's own manager, with the world as its outside. What the manager would do in
// a goroutine is a task here: a coroutine that gives control back at every call to the outside. So there is one thread,
// and the world chooses what happens between any two calls.
type proc struct {
	w     *world
	name  string
	owner string
	m     *Manager
	view  *offsetsync.View
	state *stateClient
	tasks []*task
	conn  *conn

	alive, frozen, owned, draining bool
	failover                       bool
	justSealed                     bool // for a fault
	beats                          uint64
}

// task is one thread of a process.
type task struct {
	name  string
	next  func() (string, bool)
	stop  func()
	yield func(string) bool
	at    string // the call it waits in
	order order  // what the call is to do
}

// order is how the world lets a call end.
type order int

const (
	orderGo order = iota
	orderFail
)

// killed unwinds a task whose process has died.
type killed struct{}

// step gives control to the world, before a call to the outside has its effect.
func (p *proc) step(what string) order {
	t := p.w.running
	if t == nil {
		return orderGo // a judge asks
	}
	if !t.yield(what) {
		panic(killed{})
	}
	return t.order
}

// start adds a task.
func (p *proc) start(name string, f func(context.Context)) {
	t := &task{name: name}
	t.next, t.stop = iter.Pull(func(yield func(string) bool) {
		t.yield = yield
		defer func() {
			r := recover()
			if fmt.Sprintf("%T", r) == "rapid.invalidData" {
				panic(r) // while it looks for a shorter run: this one does not exist
			}
			if r != nil && r != any(killed{}) {
				p.w.failf("%s panics: %v\n%s", p.name, r, debug.Stack())
			}
		}()
		if yield("begin") {
			f(context.Background())
		}
	})
	p.tasks = append(p.tasks, t)
}

func (p *proc) has(name string) bool {
	return slices.ContainsFunc(p.tasks, func(t *task) bool { return t.name == name })
}

// resume lets a task run up to its next call to the outside.
func (p *proc) resume(t *task, o order) {
	before := p.w.running
	p.w.running, t.order = t, o
	at, ok := t.next()
	p.w.running, t.at = before, at
	p.w.logf("%s %s: now at %q", p.name, t.name, at)
	if !ok {
		p.tasks = slices.DeleteFunc(p.tasks, func(x *task) bool { return x == t })
	}
	p.pump()
}

// end is the process's death, of whatever kind. What it had sent may still arrive.
func (p *proc) end(why string) {
	if !p.alive {
		return
	}
	p.w.logf("%s ends: %s", p.name, why)
	p.alive = false
	for _, t := range p.tasks {
		t.stop()
	}
	p.tasks = nil
	p.w.abandon(p.conn)
	p.conn = nil
}

func (w *world) newProc(owner string) *proc {
	w.born++
	p := &proc{w: w, name: fmt.Sprintf("%s%d", owner, w.born), owner: owner, alive: true}
	p.state = &stateClient{p: p}
	p.view = offsetsync.NewView(p.state)
	_ = p.view.Run(context.Background()) // hands its function to Follow, and returns
	opt := Options{Link: worldLink, Source: w.shared.nowhere, Target: w.shared.nowhere, Owner: owner, Process: p.name, Budget: w.shared.budget,
		Metrics: w.shared.metrics, Logger: w.shared.quiet, View: p.view, Now: func() time.Time { return w.now }}
	p.m = newManager(opt, w.codecs, offsetsync.NewStore(p.state, p.view, p.name))
	p.m.opt.Source, p.m.opt.Target = nil, nil // nobody goes past the outside
	p.m.outside = outside{
		src: sourceSide{p}, dst: targetSide{p}, sealer: &worldSealer{p}, atOnce: 1,
		run:   func(f func(context.Context)) { p.start("spawned", f) },
		pause: func(context.Context, time.Duration) { p.step("pause"); w.now = w.now.Add(7 * time.Second) },
	}
	p.m.terms.ask = p.takeTerm
	p.m.around.at = w.now.AddDate(1000, 0, 0) // nobody else has links here
	p.conn = w.dial(p)
	return p
}

// spawn starts a process.
func (w *world) spawn(owner string) *proc {
	p := w.newProc(owner)
	w.procs = append(w.procs, p)
	return p
}

// runWorker starts a process that copies.
func (w *world) runWorker(owner string) *proc {
	p := w.spawn(owner)
	p.start("own", func(ctx context.Context) {
		if err := p.m.own(ctx); err != nil {
			w.logf("%s: %v", p.name, err)
			p.m.fail(err)
			return
		}
		p.m.way.Store(p.m.storedWay())
		p.owned = true
		p.m.Offer(w.assignments())
	})
	return p
}

// pump starts what the manager's loops would start.
func (p *proc) pump() {
	if !p.alive {
		return
	}
	select {
	case err := <-p.m.fatal:
		p.w.later = append(p.w.later, func() { p.end(err.Error()) }) // not while one of its tasks runs
		return
	default:
	}
	for _, l := range p.m.prepareQ.drain() {
		for l.prepareNext() {
			continue
		}
	}
	p.pumpQueue("enter", p.m.openQ, p.m.enter)
	p.pumpQueue("repair", p.m.repairQ, p.m.repair)
	p.pumpPlan()
	p.w.mutate(p)
}

func (p *proc) pumpQueue(name string, q *queue, work func(context.Context, []*lane)) {
	if p.has(name) {
		return
	}
	if lanes := q.drain(); len(lanes) > 0 {
		p.start(name, func(ctx context.Context) {
			p.m.opening.Add(1)
			work(ctx, lanes)
			p.m.opening.Add(-1)
		})
	}
}

func (p *proc) pumpPlan() {
	if p.has("plan") || p.has("trim") { // which would wait for each other, and this is one thread
		return
	}
	var lanes []*lane
	for _, q := range p.m.planQs {
		lanes = append(lanes, q.drain()...)
	}
	if len(lanes) > 0 {
		p.start("plan", func(ctx context.Context) { p.m.plan(ctx, lanes) })
	}
}

// lane returns the process's lane, nil when it has none.
func (p *proc) lane(i int) *lane { return p.m.lanes[p.w.targets[i].lane] }

// fetch reads once from the source and prepares what came.
func (p *proc) fetch(i, most int) {
	l := p.lane(i)
	if l == nil || !p.alive {
		return
	}
	pos, gen, ok, _ := l.position()
	if !ok {
		return
	}
	if p.w.fault == faultEpochNotSent {
		pos.LastEpoch = -1
	}
	answer := p.w.sources[i].fetch(pos, most)
	if p.w.fault == faultAbortedNotNamed {
		answer.AbortedTransactions = nil
	}
	buf := newBuffer(p.m.budget, int64(len(answer.RecordBatches)))
	defer buf.release()
	(&fetcher{m: p.m}).deliver(wanted{lane: l, gen: gen, off: pos.Offset, epoch: pos.LastEpoch}, answer, buf)
	if len(answer.RecordBatches) == 0 && answer.ErrorCode == 0 {
		l.idle(pos.Offset)
	}
	p.pump()
}

// takeTerm is the coordinator's answer to InitProducerId, as term.Take makes a term of it.
func (p *proc) takeTerm(_ context.Context, last model.Term) (model.Term, error) {
	for {
		p.step("init producer id")
		c := &p.w.coordinator
		if c.hanging() {
			return model.Term{}, kerr.ConcurrentTransactions
		}
		c.next(p.w)
		if last.N > 0 && c.pid == last.PID && c.epoch <= last.Epoch {
			continue
		}
		t := model.Term{N: last.N + 1, PID: c.pid, Epoch: c.epoch, Owner: p.owner}
		p.w.terms[producerOf(t.PID, t.Epoch)] = t.N
		return t, nil
	}
}

// sourceSide and targetSide are the two clusters as a process reaches them.
type (
	sourceSide struct{ p *proc }
	targetSide struct{ p *proc }
)

func (s sourceSide) Name() string { return "primary" }
func (s targetSide) Name() string { return "backup" }

func (s sourceSide) ID(context.Context) (string, error) { return "source", nil }
func (s targetSide) ID(context.Context) (string, error) { return "target", nil }

func (s sourceSide) ListOffsets(_ context.Context, parts []kafka.Part, at int64, committed bool) map[kafka.Part]kafka.Offset {
	s.p.step("source ends")
	out := make(map[kafka.Part]kafka.Offset, len(parts))
	for _, part := range parts {
		src := s.p.w.sourceOf(part)
		off := src.start
		if at == kafka.AtEnd {
			off = src.end
			if committed {
				off = src.stable()
			}
		}
		out[part] = kafka.Offset{Offset: off, LeaderEpoch: -1, Timestamp: -1}
	}
	return out
}

func (s targetSide) ListOffsets(_ context.Context, parts []kafka.Part, at int64, _ bool) map[kafka.Part]kafka.Offset {
	s.p.step("target ends")
	out := make(map[kafka.Part]kafka.Offset, len(parts))
	for _, part := range parts {
		t := s.p.w.targetOf(part)
		o := kafka.Offset{Offset: t.start, LeaderEpoch: -1, Timestamp: -1}
		if at == kafka.AtEnd {
			o.Offset = t.hw
			s.p.w.lieAboutEnd(s.p, t, &o.Offset)
		}
		if t.leaderless {
			o = kafka.Offset{Offset: -1, LeaderEpoch: -1, Timestamp: -1, Err: kerr.NotLeaderForPartition}
		}
		out[part] = o
	}
	return out
}

func (s sourceSide) EpochEnds(_ context.Context, asks map[kafka.Part]int32) map[kafka.Part]kafka.EpochEnd {
	s.p.step("epoch ends")
	out := make(map[kafka.Part]kafka.EpochEnd, len(asks))
	for part, epoch := range asks {
		src := s.p.w.sourceOf(part)
		e, end := src.endOf(epoch)
		a := kafka.EpochEnd{Epoch: e, End: end, Leader: src.epoch}
		s.p.w.lieAboutEpochs(epoch, &a)
		out[part] = a
	}
	return out
}

func (s targetSide) EpochEnds(context.Context, map[kafka.Part]int32) map[kafka.Part]kafka.EpochEnd {
	return nil
}

func (s sourceSide) DescribeProducers(context.Context, []kafka.Part) map[kafka.Part]kafka.Producers {
	return nil
}

func (s targetSide) DescribeProducers(_ context.Context, parts []kafka.Part) map[kafka.Part]kafka.Producers {
	s.p.step("describe producers")
	out := make(map[kafka.Part]kafka.Producers, len(parts))
	for _, part := range parts {
		out[part] = s.p.w.targetOf(part).describe()
	}
	return out
}

func (t *target) describe() (ps kafka.Producers) {
	if t.leaderless {
		return kafka.Producers{Err: kerr.NotLeaderForPartition}
	}
	for pid, p := range t.known {
		ps.Active = append(ps.Active, kafka.Producer{PID: pid, Epoch: p.epoch, LastSequence: p.seq, CoordinatorEpoch: -1, TxnStart: -1})
	}
	return ps
}

// readBatches is how many batches one read brings: few, so that things happen between reads.
const readBatches = 3

func (s sourceSide) ThrottledSince(time.Time) bool { return false }

func (s sourceSide) ReadAt(_ context.Context, part kafka.Part, off int64, _ int32, _ bool) (kmsg.FetchResponseTopicPartition, error) {
	s.p.step("read source")
	src := s.p.w.sourceOf(part)
	p := kmsg.NewFetchResponseTopicPartition()
	if off < src.start || off > src.end {
		return p, kerr.OffsetOutOfRange
	}
	p.HighWatermark = src.end
	p.RecordBatches = served(src.log, off, src.end, readBatches)
	return p, nil
}

func (s targetSide) ThrottledSince(time.Time) bool { return false }

func (s targetSide) ReadAt(_ context.Context, part kafka.Part, off int64, _ int32, _ bool) (kmsg.FetchResponseTopicPartition, error) {
	s.p.step("read target")
	t := s.p.w.targetOf(part)
	p := kmsg.NewFetchResponseTopicPartition()
	switch {
	case t.leaderless:
		return p, kerr.NotLeaderForPartition
	case off < t.start || off > t.hw:
		return p, kerr.OffsetOutOfRange
	}
	p.HighWatermark = t.hw
	p.RecordBatches = served(t.log, off, t.hw, readBatches)
	p.RecordBatches = s.p.w.lieAboutHeaders(p.RecordBatches)
	return p, nil
}

// worldSealer seals as package term does, whose own tests hold what it makes of each broker's answers.
type worldSealer struct{ p *proc }

// sealing is one partition on its way through a seal.
type sealing struct {
	term.Target
	t      *target
	pid    int64
	epoch  int16
	out    term.Outcome
	search int64
}

func (s *worldSealer) Seal(_ context.Context, t model.Term, targets []term.Target) (map[kafka.Part]term.Outcome, term.Way) {
	w := s.p.w
	jobs := make([]*sealing, len(targets))
	for i, x := range targets {
		jobs[i] = &sealing{Target: x, t: w.targetOf(x.Part), pid: t.PID, epoch: t.Epoch, out: term.Outcome{Marker: -1, LeaderEpoch: -1}}
		if x.Ends.N > 0 && x.Ends.PID != t.PID && w.fault != faultMarkerUnderNewID {
			jobs[i].pid, jobs[i].epoch = x.Ends.PID, math.MaxInt16
		}
		if _, opened := s.p.view.Lane(w.targetOf(x.Part).lane); w.fault == faultShutUnderOneID && !opened {
			jobs[i].pid, jobs[i].epoch = t.PID, t.Epoch
		}
	}
	w.meanwhile(s.p)
	s.p.step("describe before the seal")
	for _, j := range jobs {
		j.search = j.t.end
		j.was()
		if x := j.Ends; x.N == 0 {
			continue // the second marker
		}
		j.t.knew = j.out.Was != nil && j.out.Was.Epoch == j.Ends.Epoch && j.out.Was.LastSequence >= 0
	}
	if w.way == term.WayTransaction && t.PID == w.coordinator.pid {
		s.byTransaction(t, jobs)
	} else {
		s.direct(jobs)
	}
	s.p.justSealed = true
	out := make(map[kafka.Part]term.Outcome, len(jobs))
	for _, j := range jobs {
		j.out.PID, j.out.Epoch, j.out.Way = j.pid, j.epoch, w.way
		if w.fault == faultDescribeAfterMarker {
			j.was()
		}
		if j.out.Err == nil && (j.pid == t.PID || w.fault == faultMarkerUnderNewID) {
			j.t.sealed = max(j.t.sealed, t.N)
		}
		out[j.Part] = j.out
	}
	return out, w.way
}

func (j *sealing) was() {
	if p, ok := j.t.describe().Find(j.Ends.PID); ok {
		j.out.Was = &p
	} else {
		j.out.Was = nil
	}
}

func (s *worldSealer) direct(jobs []*sealing) {
	for _, j := range jobs {
		s.p.step("write marker")
		s.p.w.meanwhile(s.p)
		j.direct(s.p.w.fault)
	}
}

func (j *sealing) direct(f fault) {
	if f == faultNoMarker {
		j.out.Marker = max(0, j.t.hw-1)
		return
	}
	at, err := j.t.mark(j.pid, j.epoch)
	switch {
	case err == nil:
		j.out.Marker, j.t.hw = at, j.t.end // confirmed: the replicas have it
		if f == faultEndAskedBefore {
			j.out.Marker = max(0, j.search-1)
		}
	case f == faultOneAnswerForAll:
		j.out.Marker = max(0, j.t.hw-1)
	case errors.Is(err, kerr.InvalidProducerEpoch):
		j.out.Err = fmt.Errorf("%w: %w", term.ErrSuperseded, err)
	default:
		j.out.Err = err
	}
}

// byTransaction adds healthy partitions to a transaction and aborts it. The coordinator answers before it writes the
// markers, and leaves out partitions without a leader; only the log itself is proof.
func (s *worldSealer) byTransaction(t model.Term, jobs []*sealing) {
	w := s.p.w
	c := &w.coordinator
	var in []*sealing
	for _, j := range jobs {
		if j.t.weak && w.fault != faultWeakInTransaction {
			j.out.Err = term.ErrBelowMinISR
			continue
		}
		in = append(in, j)
	}
	s.p.step("add partitions")
	if c.pid != t.PID || c.epoch != t.Epoch {
		for _, j := range in {
			j.out.Err = term.ErrSuperseded
		}
		return
	}
	c.open = nil
	for _, j := range in {
		c.open = append(c.open, j.t)
	}
	s.p.step("end transaction")
	if c.pid == t.PID && c.epoch == t.Epoch {
		c.end(t.Epoch)
	}
	if w.fault == faultAnswerIsProof {
		for _, j := range in {
			j.out.Marker = max(0, j.t.hw-1)
		}
		return
	}
	s.readBack(in)
}

// readBack waits for the markers in the logs, for a while.
func (s *worldSealer) readBack(jobs []*sealing) {
	for range 4 {
		s.p.step("read back")
		for n := len(s.p.w.coordinator.late); n > 0 && (s.p.w.healing || s.p.w.choose.pick(3) == 0); n-- {
			s.p.w.coordinator.write()
		}
		left := 0
		for _, j := range jobs {
			if j.out.Marker < 0 && !j.found() {
				left++
			}
		}
		if left == 0 {
			return
		}
	}
	for _, j := range jobs {
		if j.out.Marker < 0 && !j.found() {
			j.out.Err = term.ErrNoMarker
		}
	}
}

func (j *sealing) found() bool {
	for _, b := range j.t.log {
		if b.Control() && b.PID == j.pid && b.BaseOffset >= j.search && b.Next() <= j.t.hw {
			if b.Epoch == j.epoch {
				j.out.Marker, j.out.Err = b.BaseOffset, nil
				return true
			}
			if b.Epoch > j.epoch {
				j.out.Err = term.ErrSuperseded
				return true
			}
		}
	}
	return false
}

// coordinator is the target's transaction coordinator for the link's transactional id.
type coordinator struct {
	known bool
	pid   int64
	epoch int16
	open  []*target    // a transaction that nobody has ended
	late  []lateMarker // markers that it has promised
}

// lateMarker is a marker that a coordinator has not written yet.
type lateMarker struct {
	t     *target
	pid   int64
	epoch int16
}

func (c *coordinator) next(w *world) {
	if !c.known {
		w.pids++
		*c = coordinator{known: true, pid: w.pids, epoch: -1, late: c.late}
	}
	if c.open != nil {
		c.epoch++ // it first aborts what is open, under a raised epoch
		c.end(c.epoch)
	}
	c.epoch++
}

// hanging reports whether an ended transaction waits for a partition below its min ISR: no new epoch meanwhile.
func (c *coordinator) hanging() bool {
	return slices.ContainsFunc(c.late, func(m lateMarker) bool { return m.t.weak })
}

// end promises an abort marker to every partition with a leader.
func (c *coordinator) end(epoch int16) {
	for _, t := range c.open {
		if !t.leaderless {
			c.late = append(c.late, lateMarker{t, c.pid, epoch})
		}
	}
	c.open = nil
}

// write writes the oldest promised marker.
func (c *coordinator) write() {
	for i, m := range c.late {
		if m.t.weak || m.t.leaderless {
			continue
		}
		c.late = slices.Delete(c.late, i, i+1)
		if _, err := m.t.mark(m.pid, m.epoch); err == nil {
			m.t.hw = m.t.end
		}
		return
	}
}

// timeOut aborts a transaction that a dead sealer left, under a raised epoch.
func (c *coordinator) timeOut() {
	if c.open != nil {
		c.epoch++
		c.end(c.epoch)
	}
}
