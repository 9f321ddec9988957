package replicator

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"lockstep/internal/failpoint"
	"lockstep/internal/kafka"
	"lockstep/internal/model"
	"lockstep/offsetsync"
)

const (
	// openGroup is how many lanes of one target broker are opened together: one request asks for all of them.
	openGroup = 500
	// readAtOnce is how many logs are read at a time for one broker.
	readAtOnce = 8
	// askTimeout bounds one question to the brokers.
	askTimeout = 15 * time.Second
)

// runOpener establishes the positions of lanes: those that enter, and those whose last batches have an unknown
// outcome. Lanes of one target broker go together, and each broker has a worker of its own, so that a broker that hangs
// delays no lane of another.
func (m *Manager) runOpener(ctx context.Context, q *queue, work func(context.Context, []*lane)) {
	var running sync.WaitGroup
	defer running.Wait()
	brokers := make(map[int32]*queue)
	for {
		first, ok := q.wait(ctx)
		if !ok {
			return
		}
		for broker, lanes := range m.byTargetLeader(q, append([]*lane{first}, q.drain()...)) {
			bq, ok := brokers[broker]
			if !ok {
				bq = newQueue()
				brokers[broker] = bq
				running.Go(func() { m.openAt(ctx, bq, work) })
			}
			bq.push(lanes...)
		}
	}
}

// openAt works through one broker's lanes.
func (m *Manager) openAt(ctx context.Context, q *queue, work func(context.Context, []*lane)) {
	for {
		first, ok := q.wait(ctx)
		if !ok {
			return
		}
		for group := range slices.Chunk(append([]*lane{first}, q.drain()...), openGroup) {
			m.opening.Add(1)
			work(ctx, group)
			m.opening.Add(-1)
		}
	}
}

// byTargetLeader groups lanes by the broker that leads their target partition. A lane whose leader is not known comes
// up again, together with others, when leaders change.
func (m *Manager) byTargetLeader(q *queue, lanes []*lane) map[int32][]*lane {
	at := make(map[int32][]*lane)
	for _, l := range lanes {
		if leader, ok := m.leaderOrPark(l, q); ok {
			at[leader.Broker] = append(at[leader.Broker], l)
		}
	}
	return at
}

// parked is a lane that waits for a leader, and the queue that it goes back to. It may wait for several.
type parked struct {
	lane  *lane
	queue *queue
}

// leaderOrPark looks up a lane's target leader; without one, the lane comes back to q when leaders change.
func (m *Manager) leaderOrPark(l *lane, q *queue) (kafka.Leader, bool) {
	m.sendMu.Lock()
	leader, ok := m.dstLeaders.Lookup(l.dstPart())
	if !ok {
		m.unled[parked{l, q}] = struct{}{}
	}
	m.sendMu.Unlock()
	if !ok {
		m.knowUnsealed(l)
		l.trouble(model.ReasonLeaderUnavailable, "the target partition has no known leader")
	}
	return leader, ok
}

// later lets a lane come up again, in the queue where it was, after a wait that grows with each attempt.
func (m *Manager) later(l *lane, r model.Reason, detail string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == model.StateStopped || (l.draining || !l.entering) && l.verdict != mending {
		return // what a lane has sent, a drain waits for: that goes on
	}
	l.attempts++
	l.troubleLocked(r, detail, m.now())
	most := backoffMost
	if l.why.reason == model.ReasonUnsealed {
		most = sealMost
	}
	q := m.openQ
	if l.verdict == mending {
		q = m.repairQ
	}
	m.dstLeaders.Stale(l.dstPart(), -1)
	m.after(waitFor(l.attempts, most), func() { q.push(l) })
}

func (m *Manager) laterErr(l *lane, what string, err error) {
	action, reason := kafka.Classify(err)
	if action == kafka.Stop {
		l.stop(reason, what+": "+err.Error())
		return
	}
	m.later(l, reason, what+": "+err.Error())
}

// entry is a lane on its way to its next opening.
type entry struct {
	lane       *lane
	ident      model.Identity
	part       kafka.Part
	above      uint64
	born       bool
	start, end int64 // the target's log
	state      offsetsync.LaneState
	found      bool // the state topic knows the lane
	next       offsetsync.Opening
	intent     *intent    // what an operator ordered, if anything
	ordered    bool       // its place is the ordered one, not the recovered one
	from       int64      // the source offset that the intent has to be told: see intent.asks
	term       model.Term // that the lane goes on in, once its older one has ended
	marker     int64      // offset of the marker that ended it; -1: none
	dstEpoch   int32      // of the target leader that told the log's end, or that wrote the marker
	orphans    *model.Gap // what the source lost and the target holds, by the ledger
	orphaned   int64      // records of it
	fork       fork
}

// enter opens a group of lanes of one target broker.
func (m *Manager) enter(ctx context.Context, lanes []*lane) {
	if !m.pulse.await(ctx) {
		return
	}
	entries, see := m.entries(lanes)
	defer leaveOpener(entries)
	if see && !m.stillOurs(ctx, entries) {
		return
	}
	m.refit(ctx, entries)
	var fresh, clean, dirty, strange []*entry
	for _, e := range m.emptied(ctx, m.asked(ctx, m.unclaimed(ctx, m.rewindCheck(ctx, m.targetEnds(ctx, entries))))) {
		step, reason, detail := decide(e, m.opt.Owner)
		switch step {
		case stepFresh:
			fresh = append(fresh, e)
		case stepClean:
			clean = append(clean, e)
		case stepRecover, stepOrdered:
			e.lane.needsSeal()
			e.ordered = step == stepOrdered
			dirty = append(dirty, e)
		case stepStop:
			if !e.found {
				strange = append(strange, e)
				continue
			}
			e.lane.stop(reason, detail)
		}
	}
	m.notEmpty(ctx, strange)
	ready := m.first(ctx, fresh)
	for _, e := range clean {
		e.next = continued(e, e.state.Cursor)
		if m.moved(ctx, e) {
			ready = append(ready, e)
		}
	}
	m.commit(ctx, ready)
	m.commit(ctx, m.recover(ctx, dirty))
}

// notEmpty stops lanes whose target holds something, unless the state tells by now who wrote it.
func (m *Manager) notEmpty(ctx context.Context, es []*entry) {
	if len(es) == 0 {
		return
	}
	if err := m.view.Barrier(ctx); err != nil {
		m.laterAll(es, "read the state topic", err)
		return
	}
	for _, e := range es {
		if _, found := m.view.Lane(e.lane.id); found {
			m.later(e.lane, model.ReasonSuperseded, "another opening came first")
			continue
		}
		_, reason, detail := decide(e, m.opt.Owner)
		e.lane.stop(reason, detail)
	}
}

// entries takes the lanes that still want to be opened. see tells that one was refused for its epoch.
func (m *Manager) entries(lanes []*lane) (es []*entry, see bool) {
	claim, _ := m.view.Claim()
	above := claim.AcceptedTerm // what was copied before that may be of another source
	for _, l := range lanes {
		l.mu.Lock()
		if l.entering && !l.draining && l.state != model.StateStopped {
			es = append(es, &entry{lane: l, ident: l.ident, part: l.dstPart(), above: max(l.termAbove, above), born: l.born, intent: l.intent, marker: -1})
			l.atOpener++
			see = see || l.seeStop
		}
		l.mu.Unlock()
	}
	return es, see
}

// targetEnds asks the leader for both ends of every target log. A lane whose leader does not answer waits: right after
// a topic was created, leaders refuse batches until they answer this.
func (m *Manager) targetEnds(ctx context.Context, es []*entry) []*entry {
	parts := make([]kafka.Part, len(es))
	for i, e := range es {
		parts[i] = e.part
		// Before the log: what somebody else stores and appends meanwhile must not look like records that are gone.
		e.state, e.found = m.view.Lane(e.lane.id)
		if leader, ok := m.dstLeaders.Lookup(e.part); ok {
			e.dstEpoch = leader.Epoch
		}
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	ends := m.dst.ListOffsets(ctx, parts, kafka.AtEnd, false)
	starts := m.dst.ListOffsets(ctx, parts, kafka.AtStart, false)
	var ok []*entry
	for _, e := range es {
		end, start := ends[e.part], starts[e.part]
		if end.Err != nil || start.Err != nil {
			m.laterErr(e.lane, "ask the target leader for the log's end", firstErr(end.Err, start.Err))
			continue
		}
		e.start, e.end = start.Offset, end.Offset
		ok = append(ok, e)
	}
	return ok
}

func firstErr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// step is how a lane enters.
type step int

const (
	stepFresh   step = iota // never copied: from the link's start position
	stepClean               // drained, and nothing happened since: same term
	stepRecover             // seal, then read what landed
	stepOrdered             // seal, then go on where an operator said
	stepStop
)

// decide chooses how a lane enters, from its state on the target alone.
func decide(e *entry, owner string) (step, model.Reason, string) {
	if e.intent.repositions(e, owner) {
		return stepOrdered, "", ""
	}
	if !e.found {
		if e.start != e.end {
			return stepStop, model.ReasonNotEmpty, fmt.Sprintf("target %s/%d holds offsets %d to %d and this link has no state for it",
				e.part.Topic, e.part.Partition, e.start, e.end-1)
		}
		return stepFresh, "", ""
	}
	was := e.state.Opening.Identity
	switch {
	case was.Src != e.ident.Src && !was.Src.IsZero() && !e.ident.Src.IsZero():
		return stepStop, model.ReasonRecreated, fmt.Sprintf("source topic has id %s, copied was %s", e.ident.Src, was.Src)
	case was.DstTopic != e.ident.DstTopic || was.Dst != e.ident.Dst && !was.Dst.IsZero() && !e.ident.Dst.IsZero():
		return stepStop, model.ReasonTargetLost, fmt.Sprintf("target topic is %s with id %s, copied to was %s with id %s",
			e.ident.DstTopic, e.ident.Dst, was.DstTopic, was.Dst)
	case e.end < e.state.Cursor.Dst && markerLost(e):
		return stepRecover, "", ""
	case e.end < e.state.Cursor.Dst:
		return stepStop, model.ReasonDiverged, fmt.Sprintf("target log ends at %d, the state says %d records were copied up to %d%s",
			e.end, e.state.Cursor.Count, e.state.Cursor.Dst, leftOf(e.state, e.end))
	case e.clean(owner):
		return stepClean, "", ""
	}
	return stepRecover, "", ""
}

// clean reports whether the lane ended cleanly and nothing happened to its target log since.
func (e *entry) clean(owner string) bool {
	return e.state.Clean && e.end == e.state.Cursor.Dst && e.state.Opening.Term.N > e.above && e.state.Opening.Term.Owner == owner
}

// continued is the next opening of a lane in the term of the one before.
func continued(e *entry, at model.Cursor) offsetsync.Opening {
	prev := e.state.Opening
	return offsetsync.Opening{Lane: e.lane.id, N: prev.N + 1, Prev: prev.Nonce, Term: prev.Term, Identity: e.ident,
		Origin: at, Epochs: e.state.Epochs, Closed: &offsetsync.Closed{Cursor: at}}
}

// first gives lanes that were never copied their origin.
func (m *Manager) first(ctx context.Context, es []*entry) []*entry {
	if len(es) == 0 {
		return nil
	}
	t, err := m.terms.forOpening(ctx, 0)
	if err != nil {
		m.laterAll(es, "take a term", err)
		return nil
	}
	parts, ats := make([]kafka.Part, len(es)), make([]int64, len(es))
	for i, e := range es {
		parts[i], ats[i] = e.srcPart(), m.tuning().Start.offset(e.born)
	}
	froms := m.positions(ctx, parts, ats)
	var ready []*entry
	for _, e := range es {
		from := froms[e.srcPart()]
		if from.Err != nil {
			m.laterErr(e.lane, "ask the source leader for the start position", from.Err)
			continue
		}
		e.next = offsetsync.Opening{Lane: e.lane.id, N: 1, Term: t, Identity: e.ident,
			Origin: model.Cursor{Src: from.Offset, Dst: e.end, Count: firstCount(), SrcEpoch: -1}}
		ready = append(ready, e)
	}
	return ready
}

func (m *Manager) laterAll(es []*entry, what string, err error) {
	for _, e := range es {
		m.laterErr(e.lane, what, err)
	}
}

// commit makes openings durable and lets their lanes go. An opening that another one forestalled is void, and its lane
// looks at the state again.
func (m *Manager) commit(ctx context.Context, es []*entry) {
	es = slices.DeleteFunc(es, func(e *entry) bool { return e.lane.leaving() || !m.stillOrdered(e) })
	if len(es) == 0 {
		return
	}
	openings := make([]offsetsync.Opening, len(es))
	for i, e := range es {
		openings[i] = e.next
	}
	failpoint.Pass("before_open")
	won, err := m.store.Open(ctx, openings)
	failpoint.Pass("after_open")
	if err != nil {
		m.laterAll(es, "store openings", err)
		return
	}
	var begun []*entry
	for i, e := range es {
		if !won[i] {
			m.later(e.lane, model.ReasonSuperseded, "another opening came first")
			continue
		}
		begun = append(begun, e)
	}
	for _, e := range m.emptied(ctx, begun) {
		e.lane.stands(e.marker, e.dstEpoch)
		m.reportCut(e)
		e.lane.inherit(e.next.Epochs, e.next.Origin)
		e.lane.begin(e.next.N, e.next.Term, e.next.Origin, m.now())
		e.lane.answer(e.intent, nil)
		m.watchLeaders([]*lane{e.lane})
	}
}
