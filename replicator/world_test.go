package replicator

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lockstep/config"
	"lockstep/internal/kafka"
	"lockstep/internal/model"
	"lockstep/replicator/batch"
	"lockstep/replicator/term"
)

const worldLink = "dr"

// chooser makes all decisions of a world: a number below n.
type chooser interface{ pick(n int) int }

// shared is what worlds have in common because it is costly to make and keeps nothing of them.
type shared struct {
	codecs  *batch.Codecs
	metrics *Metrics
	budget  *Budget
	quiet   *slog.Logger
	nowhere *kafka.Cluster // is never asked
}

func newShared(t testing.TB) *shared {
	t.Helper()
	codecs, err := batch.NewCodecs(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	cl, err := kafka.Dial(config.Cluster{Name: "none", Brokers: []string{"127.0.0.1:1"}}, kafka.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return &shared{codecs: codecs, metrics: NewMetrics(prometheus.NewRegistry()), budget: NewBudget(1 << 40),
		quiet: slog.New(slog.DiscardHandler), nowhere: cl}
}

// world is two clusters, the link's state topic, and the processes that copy: everything that Lockstep's promises are
// about, in one thread. The processes are the product's own code. See worldSteps for what can happen.
type world struct {
	*shared
	choose chooser
	fault  fault
	traits traits
	way    term.Way

	now         time.Time
	sources     []*source
	targets     []*target
	exist       int // how many of the lanes exist by now
	state       stateTopic
	coordinator coordinator
	procs       []*proc
	ghosts      []*conn // connections that nobody has any more, and whose requests may still arrive
	running     *task
	later       []func()

	truths  []*truth
	terms   map[producer]uint64
	pids    int64
	born    int
	healing bool // no more faults
	lost    bool // the state topic was wiped
	stopped bool // a failover's stop stands in the state topic

	failure string
	trace   []string
	tracing bool
}

// traits are what a whole run has in common.
type traits struct {
	aged        bool // records are two days old: a broker forgets their producer at any sweep
	txnWay      bool // terms are sealed by transaction
	twoOwners   bool
	compacted   bool // the target topic is compacted
	trims       bool // the target deletes records
	strangers   bool // somebody else writes into the mirror
	truncations bool
	failover    bool
	restarts    bool // processes are restarted in a loop
	wiped       bool // somebody deletes the state topic
	manyRecords bool // the lane's count is near the end of the sequences
}

// producer is a producer id in one epoch.
type producer struct {
	pid   int64
	epoch int16
}

func producerOf(pid int64, epoch int16) producer { return producer{pid, epoch} }

const worldLanes = 2

func newWorld(sh *shared, c chooser, f fault, tr traits) *world {
	w := &world{shared: sh, choose: c, fault: f, traits: tr, way: term.WayDirect, now: time.UnixMilli(1_700_000_000_000),
		terms: make(map[producer]uint64), pids: 100, exist: 1}
	if tr.txnWay {
		w.way = term.WayTransaction
	}
	for i := range int32(worldLanes) {
		lane := model.Lane{Link: worldLink, Topic: "orders", Partition: i}
		part := kafka.Part{Topic: "orders", ID: model.TopicID{1}, Partition: i}
		w.sources = append(w.sources, &source{w: w, lane: lane, part: part, open: make(map[int64]int64)})
		part.ID = model.TopicID{2}
		w.targets = append(w.targets, &target{w: w, lane: lane, part: part, origin: -1, known: make(map[int64]*remembered), alone: make(map[placed]bool), refuses: c.pick(3)})
	}
	return w
}

func (w *world) assignments() (as []Assignment) {
	for i := range w.exist {
		as = append(as, Assignment{Lane: w.targets[i].lane, Born: i > 0,
			Identity: model.Identity{DstTopic: "orders", Src: w.sources[i].part.ID, Dst: w.targets[i].part.ID}})
	}
	return as
}

func (w *world) sourceOf(p kafka.Part) *source { return w.sources[p.Partition] }
func (w *world) targetOf(p kafka.Part) *target { return w.targets[p.Partition] }

func (w *world) recordTime() int64 {
	if w.traits.aged {
		return w.now.Add(-48 * time.Hour).UnixMilli()
	}
	return w.now.UnixMilli()
}

// failf notes the first promise that was broken.
func (w *world) failf(format string, args ...any) {
	if w.failure == "" {
		w.failure = fmt.Sprintf(format, args...)
		w.logf("BROKEN: %s", w.failure)
	}
}

func (w *world) logf(format string, args ...any) {
	if w.tracing {
		w.trace = append(w.trace, fmt.Sprintf(format, args...))
	}
}

// conn is a process's connection for producing: the broker works on its requests in their order.
type conn struct {
	p       *proc
	s       *sender
	queue   []*request // sent
	handled []*request // answered by the broker; the answer is on its way
}

// request is one batch under way.
type request struct {
	o    *outgoing
	lane *lane
	t    *target
	raw  []byte
	base int64
	err  error
}

func (w *world) dial(p *proc) *conn { return &conn{p: p, s: &sender{m: p.m}} }

// abandon leaves a connection's requests to their fate.
func (w *world) abandon(c *conn) {
	if c != nil && len(c.queue) > 0 {
		w.ghosts = append(w.ghosts, c)
	}
}

// send sends the lane's next batch, if it may be sent.
func (p *proc) send(i int) bool {
	l := p.lane(i)
	if l == nil || p.frozen {
		return false
	}
	o := l.take(p.conn.s)
	if o == nil {
		return false
	}
	p.conn.queue = append(p.conn.queue, &request{o: o, lane: l, t: p.w.targets[i], raw: slices.Clone(o.raw)})
	return true
}

// handle lets the broker work on a connection's oldest request.
func (c *conn) handle() {
	r := c.queue[0]
	c.queue = c.queue[1:]
	r.base, r.err = r.t.produce(r.raw)
	c.handled = append(c.handled, r)
}

// answer delivers the oldest answer, if the replicas have what it speaks of.
func (c *conn) answer() bool {
	if len(c.handled) == 0 {
		return false
	}
	r := c.handled[0]
	if r.err == nil && r.base+r.o.n > r.t.hw && r.t.end >= r.base+r.o.n {
		return false
	}
	c.handled = c.handled[1:]
	c.p.settle(r, r.base, r.err)
	return true
}

func (p *proc) settle(r *request, base int64, err error) {
	r.lane.settle(r.o, base, err)
	p.pump()
}

// cut breaks the process's connection: nobody learns what became of what was sent.
func (p *proc) cut(err error) {
	c := p.conn
	lost := append(c.handled, c.queue...)
	c.handled = nil
	p.w.abandon(c)
	p.conn = p.w.dial(p)
	for _, r := range lost {
		p.settle(r, -1, err)
	}
}

// alive returns the processes that run, frozen ones only when asked for.
func (w *world) alive(frozen bool) (ps []*proc) {
	for _, p := range w.procs {
		if p.alive && (frozen || !p.frozen) {
			ps = append(ps, p)
		}
	}
	return ps
}

// settleLater does what had to wait until no task was running.
func (w *world) settleLater() {
	for len(w.later) > 0 {
		f := w.later[0]
		w.later = w.later[1:]
		f()
	}
}

// close ends all coroutines.
func (w *world) close() {
	for _, p := range w.procs {
		p.end("the run is over")
	}
}

// drain begins a process's clean end.
func (p *proc) drain() {
	if p.draining || !p.owned {
		return
	}
	p.draining = true
	p.m.beginDrain()
}

// finish ends a draining process once all was answered.
func (p *proc) finish() {
	if !p.draining || p.has("finish") || p.has("enter") || p.has("flush") || p.has("trim") || !p.m.drained() {
		return
	}
	p.start("finish", func(ctx context.Context) {
		p.m.flush(ctx, true)
		p.m.disown(ctx)
		p.w.later = append(p.w.later, func() { p.end("clean") })
	})
}

// story says how a world went, for people.
func (w *world) story() string {
	var b strings.Builder
	fmt.Fprintf(&b, "traits %+v\n%s\n", w.traits, strings.Join(w.trace, "\n"))
	for i := range w.exist {
		t, s := w.targets[i], w.sources[i]
		fmt.Fprintf(&b, "source %d: %d to %d, stable %d\n", i, s.start, s.end, s.stable())
		for _, x := range s.log {
			fmt.Fprintf(&b, "  %d+%d leader epoch %d pid %d transactional %v control %v: %v\n", x.BaseOffset, x.LastOffsetDelta, x.LeaderEpoch, x.PID, x.Transactional(), x.Control(), x.recs)
		}
		fmt.Fprintf(&b, "target %d: %d to %d, hw %d, sealed %d\n", i, t.start, t.end, t.hw, t.sealed)
		for _, x := range t.log {
			fmt.Fprintf(&b, "  %d+%d pid %d epoch %d seq %d control %v: %v\n", x.BaseOffset, x.LastOffsetDelta, x.PID, x.Epoch, x.BaseSeq, x.Control(), x.recs)
		}
		for _, p := range w.procs {
			if l := p.lane(i); l != nil {
				fmt.Fprintf(&b, "  %s alive %v: %s %s %s; cursor %+v, out %d, inflight %d\n", p.name, p.alive, l.state, l.reason, l.detail, l.cursor, len(l.out), len(l.inflight))
			}
		}
	}
	return b.String()
}
