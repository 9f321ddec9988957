package replicator

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"

	"lockstep/internal/kafka"
	"lockstep/internal/model"
	"lockstep/internal/statelog"
	"lockstep/offsetsync"
)

// judgeAppend looks at a batch of the link's that the target has just taken.
func (w *world) judgeAppend(t *target, b stored) {
	n, ok := w.terms[producerOf(b.PID, b.Epoch)]
	switch {
	case !ok:
		w.failf("%s: offset %d holds a batch of producer %d, epoch %d, which nobody handed out", t.lane, b.BaseOffset, b.PID, b.Epoch)
	case t.shut:
		w.failf("%s: offset %d holds a batch of term %d, after a failover sealed the lane", t.lane, b.BaseOffset, n)
	case n < t.sealed:
		w.failf("%s: offset %d holds a batch of term %d, behind the seal of term %d", t.lane, b.BaseOffset, n, t.sealed)
	}
	for _, r := range b.recs {
		tr := w.truths[r.id]
		switch {
		case tr.lane != t.lane:
			w.failf("%s: offset %d holds a record of lane %s", t.lane, r.off, tr.lane)
		case !tr.readable:
			w.failf("%s: offset %d holds source record %d, whose transaction was not committed", t.lane, r.off, tr.off)
		case w.standsTwice(t, tr):
			w.failf("%s: source record %d stands at target offsets %d and %d", t.lane, tr.off, tr.landed[len(tr.landed)-1], r.off)
		}
		tr.landed = append(tr.landed, r.off)
		t.copies = append(t.copies, placed{tr, r.off})
	}
}

// standsTwice reports whether a record that is about to land is one too many. A copy that the ledger calls one of a lost
// branch may be followed by another one where nobody could know better. Either log may have lost the record by then: the
// target's its copy, or the source's leader the record itself, to the cleaner. Replicas are cleaned each for itself, so that
// another unclean election can bring back a record which was gone when the branches were compared. (Where both logs hold
// it, the ledger must not say so: see observeGap.)
func (w *world) standsTwice(t *target, tr *truth) bool {
	if len(tr.landed) == 0 {
		return false
	}
	last := placed{tr, tr.landed[len(tr.landed)-1]}
	switch {
	case w.lost: // and with the state the ledger of before
		return last.at >= t.start && (t.holds(last) || !t.orphan(last)) && !t.unseen(last)
	case !t.orphan(last):
		return true
	}
	return t.holds(last) && !tr.lost && !t.alone[last]
}

// heal ends all faults, and lets the world come to rest.
func (w *world) heal() {
	w.healing = true
	for _, t := range w.targets {
		t.leaderless, t.weak, t.refuses = false, false, 0
	}
	w.coordinator.timeOut()
	for len(w.coordinator.late) > 0 {
		w.coordinator.write()
	}
	w.replicate()
	w.arriveState()
	if w.stopped {
		w.failOverForGood()
	} else if w.traits.txnWay && w.exist > 1 {
		w.oneStaysWeak()
	}
	w.arrive()
	for _, p := range w.alive(true) {
		p.frozen = false
	}
	for i := range 80 {
		met := i >= 3 || !slices.ContainsFunc(w.sources, func(s *source) bool { return s.branched }) // to be read from first
		if w.failure != "" || met && w.quiet() {
			return
		}
		w.round()
	}
	if !w.quiet() {
		w.failf("the world does not come to rest: %s", w.restless())
	}
}

// failOverForGood resumes the failover until every lane is sealed, while the others are still frozen or cut off.
func (w *world) failOverForGood() {
	for _, p := range w.alive(true) {
		if p.failover {
			p.end("resumed elsewhere")
		}
	}
	p := w.runFailover()
	p.finishTask("failover")
	w.settleLater()
	for i := range w.exist {
		if w.failure == "" && w.fault == noFault && !w.targets[i].shut {
			w.failf("%s: a failover on a healthy target left the lane unsealed", w.targets[i].lane)
		}
	}
}

// oneStaysWeak lets one partition stay below its min ISR while processes die and come: the other lanes go on all the same.
func (w *world) oneStaysWeak() {
	for _, p := range w.alive(true) {
		p.end("killed")
	}
	w.arriveState()
	w.targets[1].weak = true
	w.sources[0].append(-1, 1)
	for range 2 {
		for range 12 {
			w.round()
		}
		for _, p := range w.alive(true) {
			if l := p.lane(0); l != nil && l.state != model.StateStopped && !l.reached(w.sources[0].stable()) {
				w.failf("%s is held up by another partition that is below its min ISR: %s %s", l.id, l.state, l.detail)
			}
			p.end("killed")
		}
	}
	w.targets[1].weak = false
}

// arrive decides about all that is still under way from the dead: it arrives, or it never does.
func (w *world) arrive() {
	for _, c := range w.ghosts {
		for len(c.queue) > 0 && w.choose.pick(4) > 0 {
			c.handle()
		}
		c.queue = nil
	}
	w.arriveState()
	w.replicate()
}

func (w *world) arriveState() {
	for _, c := range w.clients() {
		for _, part := range c.underWay() {
			for !c.p.alive && len(c.out[part]) > 0 && w.choose.pick(3) > 0 {
				c.land(part)
			}
			if !c.p.alive {
				c.lose(part)
			}
		}
	}
}

// round lets everybody do all that they can.
func (w *world) round() {
	if len(w.alive(true)) == 0 && !w.stopped {
		w.runWorker("a")
	}
	for _, p := range w.alive(false) {
		p.state.readAll()
		for _, t := range slices.Clone(p.tasks) {
			p.finishTask(t.name)
		}
		for i := range w.exist {
			if p.alive && owns(p) {
				p.copy(i, 100)
			}
		}
		if p.alive && owns(p) && !p.has("beat") {
			p.beat()
			p.finishTask("beat")
		}
		if p.alive && owns(p) && !p.has("flush") && !p.has("finish") && !p.has("trim") {
			p.m.Offer(w.assignments())
			p.start("flush", func(ctx context.Context) { p.m.flush(ctx, false) })
			p.finishTask("flush")
		}
		w.after()
	}
	w.arrive()
}

// quiet reports whether nothing is left to do.
func (w *world) quiet() bool { return w.restless() == "" }

func (w *world) restless() string {
	ps := w.alive(true)
	if len(ps) == 0 && w.stopped {
		return ""
	}
	if len(ps) != 1 || !owns(ps[0]) || ps[0].draining || w.stopped {
		return "not one owner alone is running"
	}
	p := ps[0]
	if len(p.tasks) > 0 {
		return p.name + " has a task " + p.tasks[0].name + " in " + p.tasks[0].at
	}
	for i := range w.exist {
		l := p.lane(i)
		if l == nil {
			return "lane " + w.targets[i].lane.String() + " was not taken"
		}
		if l.state != model.StateStopped && (!l.reached(w.sources[i].stable()) || l.cursor != l.saved) {
			return "lane " + l.id.String() + " is " + string(l.state) + " " + string(l.reason) + " " + l.detail
		}
	}
	return ""
}

// judge looks at everything when the world has come to rest.
func (w *world) judge() {
	for i := range w.exist {
		w.judgeStop(i)
	}
	for _, es := range [][statelog.Partitions][]statelog.Entry{w.state.parts, w.cleaned()} {
		if w.failure != "" {
			return
		}
		r := w.reader(es)
		for i := range w.exist {
			w.judgeLane(r, i, true)
		}
	}
}

// cleaned returns the state topic after a compaction.
func (w *world) cleaned() [statelog.Partitions][]statelog.Entry {
	c := w.state
	c.compact(int64(w.choose.pick(int(c.next)+1)), w.choose.pick(2) == 0)
	return c.parts
}

// judgeDisaster is the moment at which the source and every process die: what stands on the target has to be enough to
// translate all that ever landed there.
func (w *world) judgeDisaster() {
	r := w.reader(w.state.parts)
	for i := range w.exist {
		w.judgeLane(r, i, false)
	}
}

// judgeReader looks at a view that has read some of the state topic: a group is never set behind a record that was copied.
func (w *world) judgeReader(p *proc) {
	for _, t := range w.targets {
		st, found := p.view.Lane(t.lane)
		if !found || w.lost {
			continue
		}
		for _, c := range t.living() {
			if got := st.Map.Translate(c.off); got.Offset > c.at && c.at >= t.start {
				w.failf("%s: %s, which has not read everything, translates %d to %d %s; the record stands at %d", t.lane, p.name, c.off, got.Offset, got.Kind, c.at)
			}
		}
	}
}

// reader returns a process that has read a state topic, and does nothing.
func (w *world) reader(parts [statelog.Partitions][]statelog.Entry) *proc {
	running := w.running
	w.running = nil
	defer func() { w.running = running }()
	r := w.newProc("reader")
	r.alive = false
	was := w.state.parts
	w.state.parts = parts
	r.state.readAll()
	w.state.parts = was
	if err := r.view.Barrier(context.Background()); err != nil {
		w.failf("the state topic cannot be read: %v", err)
	}
	return r
}

// judgeStop looks at a lane that has stopped: was there a reason?
func (w *world) judgeStop(i int) {
	for _, p := range w.alive(true) {
		l := p.lane(i)
		if l == nil || l.state != model.StateStopped || !owns(p) {
			continue
		}
		t := w.targets[i]
		switch {
		case l.reason == model.ReasonNotEmpty && (t.taken || w.lost):
		case l.reason == model.ReasonPlanLost && !t.knew: // nobody could tell
		case l.reason == model.ReasonDiverged && t.hid(): // see stepWipe
		default:
			w.failf("%s has stopped: %s: %s", l.id, l.reason, l.detail)
		}
	}
}

// judgeLane compares the picture of a lane that the target alone gives with the truth. At the end everything that the
// source still has must have been copied.
func (w *world) judgeLane(r *proc, i int, end bool) {
	t := w.targets[i]
	st, found := r.view.Lane(t.lane)
	if !found {
		if len(t.copies) > 0 && !w.lost {
			w.failf("%s: %d records were copied, and there is no state", t.lane, len(t.copies))
		}
		return
	}
	st, ok := w.extended(r, t, st)
	if !ok || w.failure != "" {
		return
	}
	w.judgeOrder(t)
	w.judgeMap(t, st.Map)
	// A lane that has not met another branch yet may still lack it, and after a failover it never will.
	if !w.sources[i].branched || end && !w.stopped && !w.excused(i) {
		w.judgeWhole(i, st, end)
	}
	if end && !w.stopped && st.Cursor.Src < w.sources[i].stable() && !w.excused(i) {
		// Aborted data and markers at the source's end hold nothing to copy.
		for _, tr := range w.truths {
			if tr.lane == t.lane && tr.committed && tr.off >= st.Cursor.Src && !tr.compacted && !tr.deleted && !tr.cut && tr.off < w.sources[i].stable() {
				w.failf("%s: source record %d was never copied, the cursor is %d", t.lane, tr.off, st.Cursor.Src)
				return
			}
		}
	}
}

// excused reports whether the lane has stopped for a reason that judgeStop accepts.
func (w *world) excused(i int) bool {
	for _, p := range w.alive(true) {
		if l := p.lane(i); l != nil && l.state == model.StateStopped {
			return true
		}
	}
	return false
}

// extended moves a stored picture on by what the headers on the target say.
func (w *world) extended(r *proc, t *target, st offsetsync.LaneState) (offsetsync.LaneState, bool) {
	running := w.running
	w.running = nil
	defer func() { w.running = running }()
	if st.Fault != nil {
		w.failf("%s: what is stored does not fit together: %v", t.lane, st.Fault)
		return st, false
	}
	down := t.leaderless
	t.leaderless = false
	defer func() { t.leaderless = down }()
	var was *kafka.Producer
	if p, ok := t.describe().Find(st.Opening.Term.PID); ok {
		was = &p
	}
	tail, err := landed(context.Background(), r.m.dst, t.part, st, t.start, t.hw, was)
	if errors.Is(err, errLost) {
		return st, false // its headers were deleted, and a marker took what the leader knew
	}
	if errors.Is(err, offsetsync.ErrDiverged) && t.hid() {
		return st, false // the lane is about to stop: see stepWipe
	}
	if err != nil {
		w.failf("%s: the picture cannot be completed from the target: %v", t.lane, err)
		return st, false
	}
	if t.cleanedUnseen(st) {
		return st, false
	}
	out, err := st.Extend(tail)
	if err != nil {
		w.failf("%s: the picture cannot be extended: %v", t.lane, err)
	}
	return out, err == nil
}

// judgeOrder looks whether records stand in the order of the source.
func (w *world) judgeOrder(t *target) {
	last := int64(-1)
	for _, c := range t.living() {
		if c.off <= last {
			w.failf("%s: source record %d stands behind %d", t.lane, c.off, last)
			return
		}
		last = c.off
	}
}

// judgeMap looks up every record that landed, and every hole between them.
func (w *world) judgeMap(t *target, m *offsetsync.Map) {
	_, from := m.Start()
	from = max(from, t.start)
	prev := int64(-1)
	src := int64(0)
	for _, tr := range t.living() {
		dst := tr.at
		if dst >= t.hw || dst < t.start {
			continue
		}
		for ; src < tr.off; src++ { // never behind a record that was copied
			if got := m.Translate(src); got.Offset > dst || got.Offset <= prev && got.Kind != offsetsync.BeforeStart {
				w.failf("%s: Translate(%d) = %d %s, the records around it stand at %d and %d", t.lane, src, got.Offset, got.Kind, prev, dst)
				return
			}
		}
		got, back := m.Translate(tr.off), m.Invert(dst)
		if dst >= from && (got.Offset != dst || got.Kind != offsetsync.Exact) {
			w.failf("%s: Translate(%d) = %d %s, the record stands at %d", t.lane, tr.off, got.Offset, got.Kind, dst)
			return
		}
		if dst >= from && (back.Offset != tr.off || back.Kind != offsetsync.Exact) {
			w.failf("%s: Invert(%d) = %d %s, the record is %d", t.lane, dst, back.Offset, back.Kind, tr.off)
			return
		}
		if got.Offset > dst {
			w.failf("%s: Translate(%d) = %d %s skips the record at %d", t.lane, tr.off, got.Offset, got.Kind, dst)
			return
		}
		prev, src = dst, tr.off+1
	}
}

// judgeWhole looks for records below the cursor that were neither copied nor written to the ledger.
func (w *world) judgeWhole(i int, st offsetsync.LaneState, end bool) {
	t := w.targets[i]
	gaps := st.Gaps
	copies := make(map[*truth]placed)
	for _, c := range t.living() {
		if copies[c.truth] = c; c.cut && end {
			w.failf("%s: source record %d, which the source lost, stands at %d and is not in the ledger", t.lane, c.off, c.at)
			return
		}
	}
	for _, tr := range w.truths {
		if tr.lane != t.lane || tr.cut {
			continue
		}
		in := slices.ContainsFunc(gaps, func(g model.Gap) bool {
			return g.From <= tr.off && tr.off < g.To && g.DstTo == 0 // others name what stands on the target only
		})
		c, copied := copies[tr]
		switch {
		case in && copied:
			w.failf("%s: source record %d is in the ledger of what was lost, and stands at %d", t.lane, tr.off, c.at)
			return
		case in || copied || !tr.committed || tr.compacted || tr.off >= st.Cursor.Src || tr.off < t.origin:
		case tr.deleted:
			w.failf("%s: source record %d was deleted before it was copied, and is not in the ledger", t.lane, tr.off)
			return
		default:
			w.failf("%s: source record %d is missing, the cursor is %d", t.lane, tr.off, st.Cursor.Src)
			return
		}
	}
}

// observe notes what the judge has to know of an entry that lands in the state topic.
func (w *world) observe(e statelog.Entry) {
	parts, _ := statelog.SplitKey(e.Key)
	w.stopped = w.stopped || parts[0] == "stop"
	if len(parts) > 3 && parts[0] == "lane" && parts[3] == "gap" {
		w.observeGap(w.targets[int(parts[2][0]-'0')], parts[4], e.Value)
	}
	if len(parts) > 3 && parts[0] == "lane" && parts[3] == "cursor" && e.Value != nil {
		if err := json.Unmarshal(e.Value, &w.targets[int(parts[2][0]-'0')].stored); err != nil {
			w.failf("cursor %s: %v", e.Key, err)
		}
	}
	if len(parts) != 6 || parts[0] != "lane" || parts[3] != "opening" || e.Value == nil {
		return
	}
	t := w.targets[int(parts[2][0]-'0')]
	var v struct {
		Origin model.Cursor `json:"origin"`
	}
	n, err := strconv.ParseUint(parts[4], 10, 64)
	if err := errors.Join(err, json.Unmarshal(e.Value, &v)); err != nil {
		w.failf("opening %s: %v", e.Key, err)
	}
	if n == 1 && t.origin < 0 {
		t.origin = v.Origin.Src
	}
	if n > t.openings { // else another one came first
		t.opens(n, v.Origin.Src)
	}
}

// opens lets an opening count: what is said to be lost from its origin on is not in the map any more. What was said before
// a process died counts only if its successor found the same.
func (t *target) opens(n uint64, origin int64) {
	t.openings = n
	for _, g := range t.pending {
		if origin <= g.From {
			t.orphans = append(t.orphans, g)
		}
	}
	t.pending = nil
}

// observeGap notes what the ledger says of copies that the source does not have any more. Where both logs hold a record, it
// can be known that both have it.
func (w *world) observeGap(t *target, from string, value []byte) {
	g, v := model.Gap{}, struct {
		To      int64 `json:"to"`
		DstFrom int64 `json:"dst_from"`
		DstTo   int64 `json:"dst_to"`
	}{}
	off, err := strconv.ParseInt(from, 10, 64)
	if err := errors.Join(err, json.Unmarshal(value, &v)); err != nil {
		w.failf("gap %s of %s: %v", from, t.lane, err)
	}
	if v.DstTo == 0 {
		return
	}
	g.From, g.To, g.DstFrom, g.DstTo = off, v.To, v.DstFrom, v.DstTo
	w.logf("ledger of %d: source offsets %d to %d stand on the target only, at %d to %d", t.lane.Partition, g.From, g.To, g.DstFrom, g.DstTo)
	t.pending = append(t.pending, g)
	for _, c := range t.living() {
		switch {
		case !t.within(g, c):
		case !w.sources[t.part.Partition].holds(rec{c.off, c.id}):
			t.alone[c] = true
		case !c.lost && t.holds(c):
			w.failf("%s: the ledger says that the copy of source record %d at %d stands on the target only, and the source has it", t.lane, c.off, c.at)
		}
	}
}
