package replicator

import (
	"context"
	"errors"
	"slices"
	"time"

	"lockstep/internal/model"
	"lockstep/internal/statelog"
	"lockstep/offsetsync"
)

// step is one kind of thing that can happen in a world.
type worldStep struct {
	name   string
	weight int
	do     func(*world)
	when   func(traits) bool // nil: always
}

// worldSteps is all that can happen. Each does nothing where it makes no sense.
func worldSteps() []worldStep {
	return []worldStep{
		{name: "copy", weight: 14, do: (*world).stepCopy},
		{name: "run a task", weight: 22, do: (*world).stepTask},
		{name: "records", weight: 8, do: (*world).stepRecords},
		{name: "transaction", weight: 4, do: (*world).stepTransaction},
		{name: "compact source", weight: 3, do: (*world).stepCompactSource},
		{name: "retain source", weight: 1, do: (*world).stepRetainSource},
		{name: "source leader", weight: 2, do: func(w *world) { w.sources[w.pickLane()].elect() }},
		{name: "truncate source", weight: 2, do: (*world).stepTruncate, when: func(t traits) bool { return t.truncations }},
		{name: "fetch", weight: 3, do: (*world).stepFetch},
		{name: "send", weight: 5, do: (*world).stepSend},
		{name: "handle", weight: 5, do: (*world).stepHandle},
		{name: "answer", weight: 4, do: (*world).stepAnswer},
		{name: "cut", weight: 3, do: (*world).stepCut},
		{name: "flush", weight: 5, do: (*world).stepFlush},
		{name: "trim", weight: 2, do: (*world).stepTrim, when: func(t traits) bool { return t.trims }},
		{name: "beat", weight: 2, do: (*world).stepBeat},
		{name: "crash", weight: 3, do: (*world).stepCrash},
		{name: "clean stop", weight: 3, do: (*world).stepStop},
		{name: "start", weight: 6, do: (*world).stepStart},
		{name: "restart at once", weight: 3, do: (*world).stepRestart},
		{name: "restart in a loop", weight: 25, do: (*world).stepRestart, when: func(t traits) bool { return t.restarts }},
		{name: "freeze", weight: 2, do: (*world).stepFreeze, when: func(t traits) bool { return !t.aged }},
		{name: "thaw", weight: 2, do: (*world).stepThaw},
		{name: "state lands", weight: 3, do: (*world).stepStateLands},
		{name: "state fails", weight: 2, do: (*world).stepStateFails},
		{name: "state is lost", weight: 1, do: (*world).stepStateLost},
		{name: "state is read", weight: 3, do: (*world).stepStateRead},
		{name: "state is compacted", weight: 2, do: (*world).stepStateCompacted},
		{name: "replicate", weight: 3, do: (*world).stepReplicate},
		{name: "leader", weight: 2, do: (*world).stepLeader},
		{name: "min isr", weight: 1, do: (*world).stepMinISR},
		{name: "refuse", weight: 2, do: (*world).stepRefuse},
		{name: "stranger", weight: 1, do: (*world).stepStranger, when: func(t traits) bool { return t.strangers }},
		{name: "delete on target", weight: 2, do: (*world).stepDelete, when: func(t traits) bool { return t.trims }},
		{name: "compact target", weight: 3, do: (*world).stepCompactTarget, when: func(t traits) bool { return t.compacted }},
		{name: "sweep", weight: 3, do: (*world).stepSweep, when: func(t traits) bool { return t.aged }},
		{name: "coordinator", weight: 2, do: (*world).stepCoordinator},
		{name: "coordinator forgets", weight: 1, do: func(w *world) { w.coordinator.known = false }, when: func(t traits) bool { return !t.txnWay }},
		{name: "partition added", weight: 1, do: (*world).stepAdd},
		{name: "failover", weight: 1, do: (*world).stepFailover, when: func(t traits) bool { return t.failover }},
		{name: "state is wiped", weight: 1, do: (*world).stepWipe, when: func(t traits) bool { return t.wiped }},
		{name: "somebody reads", weight: 2, do: (*world).stepReader},
		{name: "disaster", weight: 1, do: (*world).judgeDisaster},
	}
}

// run lets a world live for so many steps, and stops early when a promise is broken.
func (w *world) run(steps int) {
	all := slices.DeleteFunc(worldSteps(), func(s worldStep) bool { return s.when != nil && !s.when(w.traits) })
	sum := 0
	for _, s := range all {
		sum += s.weight
	}
	if w.traits.manyRecords {
		w.longLife()
	}
	w.runWorker("a")
	for range steps {
		n := w.choose.pick(sum)
		for _, s := range all {
			if n -= s.weight; n < 0 {
				w.logf("- %s", s.name)
				s.do(w)
				break
			}
		}
		w.after()
		if w.failure != "" {
			return
		}
	}
}

// longLife makes the lanes ones that have copied nearly as many records in their term as there are sequences.
func (w *world) longLife() {
	p := w.newProc("a")
	w.coordinator.next(w)
	t := model.Term{N: 1, PID: w.coordinator.pid, Epoch: w.coordinator.epoch, Owner: p.owner}
	w.terms[producerOf(t.PID, t.Epoch)] = t.N
	ctx := context.Background()
	err := p.m.store.PutTerm(ctx, t)
	for _, a := range w.assignments() {
		o := offsetsync.Opening{Lane: a.Lane, N: 1, Term: t, Identity: a.Identity,
			Origin: model.Cursor{Count: 1<<31 - int64(1+w.choose.pick(9)), SrcEpoch: -1}}
		_, oerr := p.m.store.Open(ctx, []offsetsync.Opening{o})
		serr := p.m.store.Save(ctx, []offsetsync.Progress{{Lane: a.Lane, Opening: 1, Cursor: o.Origin, Clean: true}})
		err = errors.Join(err, oerr, serr)
	}
	if err != nil {
		w.failf("prepare a lane with many records: %v", err)
	}
}

// after is what follows every step.
func (w *world) after() {
	w.now = w.now.Add(400 * time.Millisecond)
	w.settleLater()
	for _, p := range w.alive(false) {
		p.pump()
		p.finish()
	}
	w.settleLater()
}

func pickOf[T any](w *world, xs []T) (x T, ok bool) {
	if len(xs) == 0 {
		return x, false
	}
	if len(xs) == 1 {
		return xs[0], true
	}
	return xs[w.choose.pick(len(xs))], true
}

func (w *world) pickLane() int {
	if w.exist == 1 {
		return 0
	}
	return w.choose.pick(w.exist)
}

func (w *world) pickProc(may func(*proc) bool) (*proc, bool) {
	return pickOf(w, slices.DeleteFunc(w.alive(false), func(p *proc) bool { return may != nil && !may(p) }))
}

func owns(p *proc) bool { return p.owned && !p.failover }

// stepCopy lets a process copy for a while without a fault.
func (w *world) stepCopy() {
	if p, ok := w.pickProc(owns); ok {
		p.copy(w.pickLane(), 1+w.choose.pick(4))
	}
}

func (p *proc) copy(i, most int) {
	p.fetch(i, most)
	if p.w.healing || p.w.choose.pick(3) < 2 {
		p.finishTask("plan")
	}
	if !p.alive {
		return
	}
	for p.send(i) {
		continue
	}
	for len(p.conn.queue) > 0 {
		p.conn.handle()
	}
	t := p.w.targets[i]
	if !t.weak {
		p.w.replicate()
	}
	for p.alive && p.conn.answer() {
		p.w.settleLater()
	}
}

// replicate lets the replicas of all partitions catch up.
func (w *world) replicate() {
	for _, t := range w.targets {
		t.hw = t.end
	}
}

// finishTask runs a task of that name to its end.
func (p *proc) finishTask(name string) {
	for range 1000 {
		i := slices.IndexFunc(p.tasks, func(t *task) bool { return t.name == name })
		if i < 0 || !p.alive {
			return
		}
		p.resume(p.tasks[i], orderGo)
		p.w.settleLater()
	}
	p.w.failf("%s: task %s does not end", p.name, name)
}

// stepTask lets one task of a process go on, for one call or for many.
func (w *world) stepTask() {
	p, ok := w.pickProc(func(p *proc) bool { return len(p.tasks) > 0 })
	if !ok {
		return
	}
	t, _ := pickOf(w, p.tasks)
	for range []int{1, 1, 2, 3, 5, 8, 13, 30}[w.choose.pick(8)] {
		if !p.alive || !slices.Contains(p.tasks, t) {
			return
		}
		p.resume(t, orderGo)
		w.settleLater()
	}
}

func (w *world) stepRecords() { w.sources[w.pickLane()].append(-1, 1+w.choose.pick(3)) }

func (w *world) stepTransaction() {
	s := w.sources[w.pickLane()]
	pid := int64(1 + w.choose.pick(2))
	switch w.choose.pick(4) {
	case 0:
		s.finish(pid, false)
	case 1:
		s.finish(pid, true)
	default:
		s.append(pid, 1+w.choose.pick(2))
	}
}

func (w *world) stepCompactSource() {
	s := w.sources[w.pickLane()]
	if len(s.log) == 0 {
		return
	}
	keep := w.choose.pick(4)
	s.compact(w.choose.pick(len(s.log)), func(r rec) bool { return int(r.off)%4 != keep })
}

func (w *world) stepRetainSource() {
	s := w.sources[w.pickLane()]
	if n := s.stable() - s.start; n > 0 {
		s.retain(s.start + int64(w.choose.pick(int(n)+1)))
	}
}

// stepTruncate loses the source's end, often while nobody runs, and lets it grow again.
func (w *world) stepTruncate() {
	s := w.sources[w.pickLane()]
	if s.aside != nil && w.choose.pick(3) == 0 {
		s.swap()
		return
	}
	if n := s.end - s.start; n > 0 {
		s.truncate(s.start + int64(w.choose.pick(int(n))))
		s.append(-1, 1+w.choose.pick(4))
		s.append(-1, 1+w.choose.pick(4))
	}
}

func (w *world) stepFetch() {
	if p, ok := w.pickProc(owns); ok {
		p.fetch(w.pickLane(), 1+w.choose.pick(3))
	}
}

func (w *world) stepSend() {
	if p, ok := w.pickProc(owns); ok {
		i := w.pickLane()
		for range 1 + w.choose.pick(maxInFlight) {
			p.send(i)
		}
	}
}

// conns returns the connections on which something is under way, abandoned ones included.
func (w *world) conns() (cs []*conn) {
	for _, p := range w.procs {
		if p.conn != nil && len(p.conn.queue) > 0 {
			cs = append(cs, p.conn)
		}
	}
	for _, c := range w.ghosts {
		if len(c.queue) > 0 {
			cs = append(cs, c)
		}
	}
	return cs
}

func (w *world) stepHandle() {
	if c, ok := pickOf(w, w.conns()); ok {
		for range 1 + w.choose.pick(3) {
			if len(c.queue) > 0 {
				c.handle()
			}
		}
	}
}

func (w *world) stepAnswer() {
	p, ok := w.pickProc(func(p *proc) bool { return len(p.conn.handled) > 0 })
	if !ok {
		return
	}
	if w.choose.pick(2) == 0 {
		w.replicate()
	}
	for range 1 + w.choose.pick(3) {
		if p.alive {
			p.conn.answer()
			w.settleLater()
		}
	}
}

var errCut = errors.New("the connection broke")

func (w *world) stepCut() {
	if p, ok := w.pickProc(owns); ok {
		p.cut(errCut)
	}
}

func (w *world) stepFlush() {
	if p, ok := w.pickProc(owns); ok && !p.has("flush") && !p.has("finish") && !p.has("trim") {
		p.start("flush", func(ctx context.Context) { p.m.flush(ctx, false) })
		if w.choose.pick(2) == 0 {
			p.finishTask("flush")
		}
	}
}

func (w *world) stepTrim() {
	if p, ok := w.pickProc(owns); ok && !p.has("trim") && !p.has("flush") && !p.has("finish") && !p.has("plan") {
		p.start("trim", p.m.trim)
	}
}

func (w *world) stepBeat() {
	if p, ok := w.pickProc(owns); ok && !p.has("beat") {
		p.beat()
	}
}

// beat is one round of Manager.beat.
func (p *proc) beat() {
	p.beats++
	claim, _ := p.view.Claim()
	b := offsetsync.Beat{Claim: claim.ID, Owner: p.owner, Node: p.name, Seq: p.beats, At: p.w.now}
	p.start("beat", func(ctx context.Context) {
		_ = p.m.store.PutBeat(ctx, b)
		if err := p.m.superseded(); err != nil {
			p.m.fail(err)
		}
	})
}

func (w *world) stepCrash() {
	if p, ok := pickOf(w, w.alive(true)); ok {
		p.end("crash")
	}
}

func (w *world) stepStop() {
	if p, ok := w.pickProc(owns); ok {
		p.drain()
	}
}

// stepStart starts a process of an owner that has none: one instance holds the lock of a data directory.
func (w *world) stepStart() {
	owners := []string{"a"}
	if w.traits.twoOwners {
		owners = append(owners, "b")
	}
	free := slices.DeleteFunc(owners, func(o string) bool {
		return slices.ContainsFunc(w.alive(true), func(p *proc) bool { return p.owner == o })
	})
	if o, ok := pickOf(w, free); ok {
		w.startProc(o)
	}
}

func (w *world) startProc(owner string) {
	p := w.runWorker(owner)
	if w.choose.pick(3) > 0 {
		p.finishTask("own")
	}
	if w.choose.pick(3) > 0 {
		p.finishTask("enter")
	}
}

// stepRestart ends a process, cleanly if that is possible at once, and starts the next one: restarts in a loop.
func (w *world) stepRestart() {
	p, ok := w.pickProc(owns)
	if !ok {
		return
	}
	i := w.pickLane()
	if w.choose.pick(2) == 0 && p.send(i) {
		p.cut(errCut)
	}
	p.finishTask("repair")
	if p.alive && w.choose.pick(3) > 0 {
		p.drain()
		w.after()
		p.finishTask("finish")
	}
	if p.alive && !p.frozen {
		p.end("killed")
	}
	w.settleLater()
	if s := w.sources[i]; w.choose.pick(2) == 0 && len(s.log) > 0 {
		keep := w.choose.pick(2)
		for at := len(s.log) - 1; at >= 0; at-- {
			s.compact(at, func(r rec) bool { return int(r.off)%2 != keep })
		}
	}
	w.startProc(p.owner)
}

// meanwhile lets others copy while a process is under way to seal.
func (w *world) meanwhile(p *proc) {
	if w.healing || w.choose.pick(3) < 2 {
		return
	}
	i := w.pickLane()
	w.sources[i].append(-1, 2)
	for _, q := range w.alive(false) {
		if q != p && owns(q) {
			q.copy(i, 3)
		}
	}
}

func (w *world) stepFreeze() {
	if p, ok := w.pickProc(owns); ok {
		p.frozen = true
	}
}

func (w *world) stepThaw() {
	if p, ok := pickOf(w, slices.DeleteFunc(w.alive(true), func(p *proc) bool { return !p.frozen })); ok {
		p.frozen = false
	}
}

// clients returns the state clients that have something under way, of dead processes, too.
func (w *world) clients() (cs []*stateClient) {
	for _, p := range w.procs {
		if len(p.state.underWay()) > 0 {
			cs = append(cs, p.state)
		}
	}
	return cs
}

func (w *world) stepStateLands() {
	if c, ok := pickOf(w, w.clients()); ok {
		part, _ := pickOf(w, c.underWay())
		c.land(part)
	}
}

func (w *world) stepStateLost() {
	dead := slices.DeleteFunc(w.clients(), func(c *stateClient) bool { return c.p.alive })
	if c, ok := pickOf(w, dead); ok {
		part, _ := pickOf(w, c.underWay())
		c.lose(part)
	}
}

// stepStateFails lets a process hear nothing of a write that may still arrive.
func (w *world) stepStateFails() {
	p, ok := w.pickProc(nil)
	if !ok {
		return
	}
	for _, t := range p.tasks {
		if t.at == "state answer" {
			p.resume(t, orderFail)
			return
		}
	}
}

func (w *world) stepStateRead() {
	p, ok := w.pickProc(nil)
	if !ok {
		return
	}
	part := 0
	if i := w.choose.pick(1 + 2*worldLanes); i > 0 {
		part = (int(p.state.Partition("orders", int32(i-1)/2)) + (i-1)%2) % statelog.Partitions
	}
	if behind := w.state.next - p.state.read[part]; behind > 0 {
		p.state.deliver(part, p.state.read[part]+1+int64(w.choose.pick(int(behind))))
		w.judgeReader(p)
	}
}

// stepReader is somebody who has read each partition of the state topic up to somewhere.
func (w *world) stepReader() {
	r := w.newProc("reader")
	r.alive = false
	for part, es := range w.state.parts {
		if len(es) > 0 {
			r.state.deliver(part, es[w.choose.pick(len(es))].Offset+1)
		}
	}
	w.judgeReader(r)
}

func (w *world) stepStateCompacted() {
	w.state.compact(int64(w.choose.pick(int(w.state.next)+1)), w.choose.pick(2) == 0)
}

// stepWipe loses the state topic. Whoever runs ends; what they have under way never arrives.
//
// What a leader has appended and its followers have not is behind the high watermark: ListOffsets and fetches show such a
// partition as empty, for as long as replication lags. A lane without state is opened on it as a new one, as if the batch
// were still under way. The design promises nothing to a link whose state somebody deletes while it runs, and says how that
// ends: the old batch is found in front of the first new one or when headers are read next, and the lane stops as diverged.
// By then no more than one batch can stand twice, since a lane sends one until it has the first answer.
func (w *world) stepWipe() {
	for _, p := range w.procs {
		p.end("the state topic is gone")
		for _, part := range p.state.underWay() {
			p.state.lose(part)
		}
	}
	w.ghosts = nil
	w.state = stateTopic{next: w.state.next}
	w.lost = true
	for _, t := range w.targets {
		t.taken, t.origin, t.copies, t.orphans, t.pending, t.openings, t.sealed = t.end > t.start, -1, nil, nil, nil, 0, 0 // terms are counted anew
		t.hiddenFrom, t.hiddenTo = t.hw, t.end
		if t.hw > t.start {
			t.hiddenTo = t.hw // the lane is seen not to be empty
		}
	}
}

func (w *world) stepReplicate() {
	t := w.targets[w.pickLane()]
	if n := t.end - t.hw; n > 0 {
		t.hw += 1 + int64(w.choose.pick(int(n)))
	}
}

func (w *world) stepLeader() {
	t := w.targets[w.pickLane()]
	t.leaderless = !t.leaderless
}

func (w *world) stepMinISR() {
	t := w.targets[w.pickLane()]
	t.weak = !t.weak
}

func (w *world) stepRefuse() { w.targets[w.pickLane()].refuses = 1 + w.choose.pick(2) }

func (w *world) stepStranger() {
	t := w.targets[w.pickLane()]
	t.stranger(1 + int64(w.choose.pick(3)))
}

func (w *world) stepDelete() {
	t := w.targets[w.pickLane()]
	if n := t.hw - t.start; n > 0 {
		t.deleteTo(t.start + int64(w.choose.pick(int(n)+1)))
	}
}

func (w *world) stepCompactTarget() {
	t := w.targets[w.pickLane()]
	if len(t.log) > 0 {
		keep := w.choose.pick(4)
		t.compact(w.choose.pick(len(t.log)), func(r rec) bool { return int(r.off)%4 != keep })
	}
}

// stepSweep drops producers of old records. It comes every ten minutes, and nothing is under way for so long: what a frozen
// process or a strange network keeps for longer finds seals forgotten. That is a limit that the design states.
func (w *world) stepSweep() {
	for _, c := range w.ghosts {
		c.queue = nil
	}
	i := w.pickLane()
	if p, ok := w.pickProc(owns); ok && w.choose.pick(2) == 0 && p.send(i) { // between a batch and its answer
		for len(p.conn.queue) > 0 {
			p.conn.handle()
		}
		p.cut(errCut)
	}
	w.targets[i].forget()
}

func (w *world) stepCoordinator() {
	if w.choose.pick(3) == 0 {
		w.coordinator.timeOut()
	}
	w.coordinator.write()
}

// stepAdd adds a partition; who runs hears of it, sooner or later.
func (w *world) stepAdd() {
	if w.exist < worldLanes {
		w.exist++
	}
	for _, p := range w.alive(false) {
		if p.owned && !p.failover && !p.draining {
			p.m.Offer(w.assignments())
		}
	}
}

// stepFailover starts a failover, or lets an interrupted one be resumed.
func (w *world) stepFailover() {
	if slices.ContainsFunc(w.alive(true), func(p *proc) bool { return p.failover }) {
		return
	}
	p := w.runFailover()
	if w.choose.pick(2) == 0 {
		p.finishTask("failover")
	}
}

// runFailover is a failover as the design has it: the stop is announced, then a term is taken, then the state is read,
// then [Shut] seals every lane of the target's metadata and of the state.
func (w *world) runFailover() *proc {
	p := w.spawn("f")
	p.failover = true
	p.start("failover", func(ctx context.Context) {
		if err := p.failOver(ctx); err != nil {
			w.logf("failover: %v", err)
		}
		w.later = append(w.later, func() { p.end("failover is through") })
	})
	return p
}

func (p *proc) failOver(ctx context.Context) error {
	stop := func() error {
		return p.m.store.PutStop(ctx, offsetsync.Stop{ID: p.name, By: p.name, Reason: "failover", At: p.w.now})
	}
	if p.w.fault != faultStopAfterMarkers {
		if err := stop(); err != nil {
			return err
		}
	}
	if err := p.view.Barrier(ctx); err != nil {
		return err
	}
	var t model.Term
	for t == (model.Term{}) || t != p.m.terms.newest() { // until nobody took one at the same moment
		var err error
		if t, err = p.takeTerm(ctx, p.m.terms.newest()); err != nil {
			return err
		}
		if err := errors.Join(p.m.store.PutTerm(ctx, t), p.view.Barrier(ctx)); err != nil {
			return err
		}
	}
	lanes, exist := p.failoverList(), p.w.exist
	out, err := Shut(ctx, p.m.store, p.view, p.m.sealer, t, lanes, p.w.now)
	if err != nil {
		return err
	}
	if p.w.fault == faultStopAfterMarkers {
		if err := stop(); err != nil {
			return err
		}
	}
	listed := make(map[model.Lane]bool)
	for _, x := range lanes {
		t := p.w.targetOf(x.Part)
		t.shut, listed[x.Lane] = t.shut || out[x.Part].Sealed(), true
	}
	for _, t := range p.w.targets[:exist] {
		t.shut = t.shut || !listed[t.lane] // as far as the failover knows, all is sealed
	}
	return nil
}

// failoverList is every lane of the target's metadata, and so of the state, too.
func (p *proc) failoverList() (lanes []Shutting) {
	for i, a := range p.w.assignments() {
		if _, found := p.view.Lane(a.Lane); !found && p.w.fault == faultListOfStateAlone {
			continue
		}
		lanes = append(lanes, Shutting{Lane: a.Lane, Part: p.w.targets[i].part})
	}
	return lanes
}
