package offsetsync

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"lockstep/internal/model"
	"lockstep/internal/statelog"
	"lockstep/replicator/batch"
)

// memLog is a state log in memory: what is queued stands in it at once, and every view has read it at once.
type memLog struct {
	entries []statelog.Entry
	views   []*View
	fail    func([]statelog.Entry) (written int, err error) // when set, decides about the next write
}

func (l *memLog) Partition(topic string, p int32) int32 { return statelog.PartitionOf(topic, p) }

func (l *memLog) Queue(_ context.Context, es ...statelog.Entry) (func(context.Context) error, error) {
	var err error
	if l.fail != nil {
		var n int
		n, err = l.fail(es)
		es = es[:n]
	}
	l.append(es...)
	return func(context.Context) error { return err }, nil
}

func (l *memLog) append(es ...statelog.Entry) {
	for _, e := range es {
		e.Offset, e.Value = int64(len(l.entries)), slices.Clone(e.Value)
		l.entries = append(l.entries, e)
		for _, v := range l.views {
			v.apply([]statelog.Entry{e})
		}
	}
}

func (l *memLog) Follow(ctx context.Context, _ func([]statelog.Entry)) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func (l *memLog) Barrier(context.Context) error { return nil }

// view returns a view that has read, and follows, the log.
func (l *memLog) view() *View {
	v := newView(l, "dr")
	v.apply(l.entries)
	l.views = append(l.views, v)
	return v
}

// replay returns a view of the given entries.
func replay(es []statelog.Entry) *View {
	v := newView(&memLog{}, "dr")
	v.apply(es)
	return v
}

// process is one lockstep process: a store and a view.
type process struct {
	store *Store
	view  *View
}

func (l *memLog) process(nonce string) process {
	v := l.view()
	return process{newStore(l, v, nonce), v}
}

var theLane = model.Lane{Link: "dr", Topic: "orders", Partition: 3}

// landed is the truth about one record: physical, not what anybody stored.
type landed struct{ src, dst, count int64 }

// epoch of the world: one valid opening and what of it stands on the target.
type chapter struct {
	id      openingID
	origin  model.Cursor
	ident   model.Identity
	records []landed
}

// world is a source, a target log, and the workers that copy between them.
type world struct {
	t   *rapid.T
	log memLog

	target   []batch.Header
	end      int64 // of the target
	epoch    int16 // highest epoch that has a marker on the target
	pid      int64
	ident    model.Identity
	chapters []*chapter
	procs    int
	logStart int64
}

func newWorld(t *rapid.T) *world {
	return &world{t: t, pid: 7, epoch: -1, ident: model.Identity{DstTopic: "orders", Src: model.TopicID{1}, Dst: model.TopicID{2}}}
}

// worker copies the lane under one opening, until it dies or is replaced.
type worker struct {
	w       *world
	p       process
	n       uint64
	term    model.Term
	ch      *chapter
	next    int64 // next source offset to read
	count   int64 // records sent
	acked   model.Cursor
	landed  []model.Landing // not saved yet
	lineDst int64           // where the line of landings puts record count
}

func (w *world) process() process {
	w.procs++
	p := w.log.process(fmt.Sprintf("p%d", w.procs))
	p.store.segment = segmentSize{30, 90} // a few entries, and a few of those
	return p
}

func (w *world) control(epoch int16) batch.Header {
	h := batch.Header{BaseOffset: w.end, Magic: 2, Attrs: 0x20, PID: w.pid, Epoch: epoch, Count: 1, BaseSeq: -1}
	w.write(h)
	return h
}

func (w *world) write(h batch.Header) {
	h.BaseOffset = w.end
	w.target = append(w.target, h)
	w.end = h.Next()
}

// headers reads the target as a HeaderReader does.
func (w *world) headers(from int64) iter.Seq2[batch.Header, error] {
	hs := slices.Clone(w.target)
	return func(yield func(batch.Header, error) bool) {
		for _, h := range hs {
			if h.Next() > from && !yield(h, nil) {
				return
			}
		}
	}
}

// start opens the lane for the first time.
func (w *world) start(src int64) *worker {
	p := w.process()
	o := Opening{
		Lane: theLane, N: 1, Term: model.Term{N: 1, PID: w.pid, Epoch: 0}, Identity: w.ident,
		Origin: model.Cursor{Src: src, Dst: w.end, SrcEpoch: -1},
	}
	wk, ok := w.open(p, o)
	if !ok {
		w.t.Fatal("the first opening lost")
	}
	return wk
}

func (w *world) open(p process, o Opening) (*worker, bool) {
	won, err := p.store.Open(context.Background(), []Opening{o})
	if err != nil {
		w.t.Fatalf("open: %v", err)
	}
	if !won[0] {
		return nil, false
	}
	st, _ := p.view.Lane(theLane)
	ch := &chapter{id: openingID{o.N, st.Opening.Nonce}, origin: o.Origin, ident: o.Identity}
	w.chapters = append(w.chapters, ch)
	return &worker{
		w: w, p: p, n: o.N, term: o.Term, ch: ch, next: o.Origin.Src, count: o.Origin.Count,
		acked: o.Origin, lineDst: o.Origin.Dst,
	}, true
}

// copy plans and sends n records, some of the source's offsets before them being without a record. A worker that has
// been fenced plans, but nothing lands.
func (k *worker) copy(holes []int64, acks bool) {
	start, count := k.next, k.count
	var js []model.Jump
	var srcs []int64
	src := start
	for i, hole := range holes {
		if hole > 0 || i == 0 && src != k.lineSrc() {
			src += hole
			js = append(js, model.Jump{Count: count + int64(i), Src: src})
		}
		srcs = append(srcs, src)
		src++
	}
	if len(js) > 0 {
		if err := k.p.store.Plan(context.Background(), map[model.Lane]PlanAdd{theLane: {k.n, js}}); err != nil {
			k.w.t.Fatalf("plan: %v", err)
		}
	}
	k.next, k.count = src, count+int64(len(srcs))
	if k.term.Epoch < k.w.epoch || len(srcs) == 0 {
		return
	}
	k.send(count, srcs)
	if acks {
		k.ack(count, srcs)
	}
}

// lineSrc is the source offset behind the last record sent: what needs no jump.
func (k *worker) lineSrc() int64 { return k.next }

func (k *worker) send(count int64, srcs []int64) {
	w := k.w
	for i, src := range srcs {
		k.ch.records = append(k.ch.records, landed{src, w.end + int64(i), count + int64(i)})
	}
	n := int32(len(srcs))
	w.write(batch.Header{Magic: 2, PID: w.pid, Epoch: k.term.Epoch, BaseSeq: model.Seq(count), Count: n, LastOffsetDelta: n - 1})
}

func (k *worker) ack(count int64, srcs []int64) {
	recs := k.ch.records[len(k.ch.records)-len(srcs):]
	if recs[0].dst != k.lineDst {
		k.landed = append(k.landed, model.Landing{Count: count, Dst: recs[0].dst})
	}
	last := recs[len(recs)-1]
	k.lineDst = last.dst + 1
	k.acked = model.Cursor{Src: last.src + 1, Dst: last.dst + 1, Count: last.count + 1, SrcEpoch: 4}
}

func (k *worker) save(clean bool) {
	p := Progress{Lane: theLane, Opening: k.n, Cursor: k.acked, Landings: k.landed, Clean: clean}
	if err := k.p.store.Save(context.Background(), []Progress{p}); err != nil {
		k.w.t.Fatalf("save: %v", err)
	}
	k.landed = nil
}

// takeOver seals the lane in a new term and recovers what landed from the target's headers. It returns the opening to
// store; src below the recovered cursor says that the source was truncated there.
func (w *world) takeOver(p process, truncated func(model.Cursor) int64) Opening {
	st, ok := p.view.Lane(theLane)
	if !ok {
		w.t.Fatal("the lane has no state")
	}
	w.epoch = max(w.epoch, st.Opening.Term.Epoch) + 1
	marker := w.control(w.epoch)
	st, _ = p.view.Lane(theLane) // once more behind the marker
	if st.Fault != nil {
		w.t.Fatalf("state: %v", st.Fault)
	}
	stop := func(h batch.Header) bool { return h.BaseOffset == marker.BaseOffset }
	tail, err := Tail(w.headers(st.Cursor.Dst), w.pid, st.Opening.Term.Epoch, st, stop)
	if err != nil || !tail.Stopped {
		w.t.Fatalf("tail: stopped %v, %v", tail.Stopped, err)
	}
	origin := tail.Cursor
	origin.Count = 0
	origin.Src = truncated(origin)
	return Opening{
		Lane: theLane, N: st.Opening.N + 1, Prev: st.Opening.Nonce, Identity: w.ident,
		Term:   model.Term{N: st.Opening.Term.N + 1, PID: w.pid, Epoch: w.epoch},
		Origin: origin, Closed: &Closed{Cursor: tail.Cursor, Landings: tail.Landings},
	}
}

// reopen takes the lane up again after a clean end, in the same term.
func (w *world) reopen(p process) Opening {
	st, _ := p.view.Lane(theLane)
	return Opening{
		Lane: theLane, N: st.Opening.N + 1, Prev: st.Opening.Nonce, Identity: w.ident, Term: st.Opening.Term,
		Origin: st.Cursor, Closed: &Closed{Cursor: st.Cursor},
	}
}

// element is a record, or the place where an opening begins.
type element struct {
	src, dst int64
	record   bool
}

// naive is the truth, one element per record: what the openings of the newest identity put where, those of the newest one
// up to the stored cursor.
type naive struct {
	els   []element
	start element
	stop  element
}

func (w *world) naive(cursor model.Cursor) naive {
	first := len(w.chapters) - 1
	for first > 0 && w.chapters[first-1].ident == w.ident {
		first--
	}
	o := w.chapters[first].origin
	n := naive{start: element{src: o.Src, dst: o.Dst}, stop: element{src: cursor.Src, dst: cursor.Dst}}
	for i, c := range w.chapters[first:] {
		keep := slices.DeleteFunc(n.els, func(e element) bool { return e.src >= c.origin.Src })
		n.els = append(keep, element{src: c.origin.Src, dst: c.origin.Dst})
		if c.origin.Src <= n.start.src {
			n.start = element{src: c.origin.Src, dst: c.origin.Dst}
		}
		for _, r := range c.records {
			if first+i < len(w.chapters)-1 || r.count < cursor.Count {
				n.els = append(n.els, element{r.src, r.dst, true})
			}
		}
	}
	n.drop(w.logStart)
	return n
}

// drop forgets what stands below the target's log start.
func (n *naive) drop(dst int64) {
	if dst <= n.start.dst {
		return
	}
	n.els = slices.DeleteFunc(n.els, func(e element) bool { return e.dst < dst })
	n.start = n.stop
	if dst >= n.stop.dst {
		n.els = nil
	}
	if len(n.els) > 0 {
		n.start = n.els[0]
	}
}

func (n naive) translate(g int64) (off int64, k Kind) {
	switch {
	case g > n.stop.src:
		return n.stop.dst, Ahead
	case g == n.stop.src:
		return n.stop.dst, Exact
	case g < n.start.src:
		off, _ = n.translate(n.start.src)
		return off, BeforeStart
	}
	for _, e := range n.els {
		if e.src == g && e.record {
			return e.dst, Exact
		}
		if e.src > g && e.record {
			return e.dst, Hole
		}
	}
	return n.stop.dst, Hole
}

func (n naive) invert(d int64) (off int64, k Kind) {
	switch {
	case d > n.stop.dst:
		return n.stop.src, Ahead
	case d == n.stop.dst:
		return n.stop.src, Exact
	case d < n.start.dst:
		off, _ = n.invert(n.start.dst)
		return off, BeforeStart
	}
	for _, e := range n.els {
		if e.dst == d && e.record {
			return e.src, Exact
		}
		if e.dst > d {
			return e.src, Hole
		}
	}
	return n.stop.src, Hole
}

// check compares a picture with the truth, at every offset.
func (w *world) check(st LaneState) {
	w.t.Helper()
	if st.Fault != nil {
		w.t.Fatalf("fault: %v", st.Fault)
	}
	w.checkMap(st.Map, w.naive(st.Cursor))
}

func (w *world) checkMap(m *Map, n naive) {
	w.t.Helper()
	for g := int64(0); g <= n.stop.src+3; g++ {
		got := m.Translate(g)
		off, kind := n.translate(g)
		if first := n.first(); w.logStart > 0 && g < first.src && got.Offset <= first.dst && got.Kind != Exact {
			continue // see first
		}
		if got.Offset != off || got.Kind != kind {
			w.t.Fatalf("Translate(%d) = %d %v, the truth is %d %v\n%s", g, got.Offset, got.Kind, off, kind, w.dump(m))
		}
	}
	for d := int64(0); d <= n.stop.dst+3; d++ {
		got := m.Invert(d)
		off, kind := n.invert(d)
		if first := n.first(); w.logStart > 0 && d < first.dst && got.Offset <= first.src && got.Kind != Exact {
			continue
		}
		if got.Offset != off || got.Kind != kind {
			w.t.Fatalf("Invert(%d) = %d %v, the truth is %d %v\n%s", d, got.Offset, got.Kind, off, kind, w.dump(m))
		}
	}
}

// first returns the first record that is left, or the end. Once something was trimmed, what is in front of it may be
// answered by whichever opening a reader still knows there: nothing is skipped either way.
func (n naive) first() element {
	for _, e := range n.els {
		if e.record {
			return e
		}
	}
	return n.stop
}

func (w *world) dump(m *Map) string {
	s := fmt.Sprintf("map from %v to %v:", m.start, m.stop)
	for sp := range m.Spans() {
		s += fmt.Sprintf(" %d→%d×%d", sp.Src, sp.Dst, sp.N)
	}
	for _, c := range w.chapters {
		s += fmt.Sprintf("\nopening %d from %+v: %v", c.id.n, c.origin, c.records)
	}
	return s
}

// mapOf builds a map from spans, for tests.
func mapOf(t testing.TB, spans ...model.Span) *Map {
	t.Helper()
	m := &Map{}
	for _, s := range spans {
		if err := m.Append(s); err != nil {
			t.Fatal(err)
		}
	}
	return m
}
