package replicator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"lockstep/internal/kafka"
	"lockstep/internal/model"
	"lockstep/internal/statelog"
	"lockstep/offsetsync"
	"lockstep/replicator/batch"
	"lockstep/replicator/term"
)

// Options are what a Manager needs. Zero values of the last group mean defaults.
type Options struct {
	Link           string
	Source, Target *kafka.Cluster
	Log            *statelog.Log
	View           *offsetsync.View
	Owner          string // the lockstep cluster that owns the link
	Process        string // drawn at process start; part of the state topic's keys
	Budget         *Budget
	Metrics        *Metrics
	// Limits reads what a target topic accepts; it is asked again when a batch is refused for its size. Optional.
	Limits func(ctx context.Context, topic string) (batch.Limits, error)
	// Remake has a source topic's target topic made again, or made to grow, although it is not the one that was copied to:
	// an operator ordered it. Its lanes are offered afterwards. Optional.
	Remake func(topic string)

	TakeOver bool // claim the link at once, whoever owns it
	Wait     bool // stand by while another instance owns the link

	ReadUncommitted bool
	Tuning          Tuning // to begin with; see Tune
	Rack            string
	Logger          *slog.Logger
	Now             func() time.Time
}

// Manager runs the copy plane of one link.
type Manager struct {
	outside
	opt    Options
	log    *slog.Logger
	now    func() time.Time
	store  *offsetsync.Store
	view   *offsetsync.View
	codecs *batch.Codecs
	way    atomic.Value // term.Way of the newest seal; the sealer's own is not to be had while it works
	terms  *terms
	budget *Budget

	metrics        *Metrics
	delay          prometheus.Observer // of metrics, for this link
	limiter        *rate.Limiter
	tuned          atomic.Pointer[Tuning]
	keeps          atomic.Bool // the claim outlives Run
	producerExpiry time.Duration
	fetchPatience  time.Duration
	srcLeaders     *kafka.Leaders
	dstLeaders     *kafka.Leaders

	prepareQ, openQ, repairQ, checkQ *queue
	planQs                           [statelog.Partitions]*queue
	flushNow                         chan struct{}
	flushing                         chan struct{} // held while cursors are being stored
	closing                          atomic.Bool   // no further lanes are taken
	opening                          atomic.Int64  // groups of lanes that are being opened or repaired

	// work is the life of everything that runs; tasks counts what is neither of the loops in Run.
	work     context.Context
	stopWork context.CancelCauseFunc
	tasks    sync.WaitGroup
	fatal    chan error
	owned    chan struct{} // closed once the link is ours
	standby  atomic.Pointer[Standby]
	crowd    crowd
	pulse    *pulse // while Run runs

	offers sync.Mutex // held while lanes are taken up; who has made a pause durable and then holds it sees every lane

	mu       sync.Mutex // guards the maps below; taken before a fetcher's lock and a lane's, never while holding one
	lanes    map[model.Lane]*lane
	fetchers map[int32][]*fetcher
	ordering map[string]bool // subjects of orders that are being carried out

	sendMu   sync.Mutex // guards the maps below; a leaf, so that it may be taken under a lane's lock
	senders  map[int32]*sender
	unrouted map[*lane]struct{}  // may have something to send, and no leader
	unled    map[parked]struct{} // wait for a leader before they can be opened or repaired

	around    *neighbours
	vanishing vanishing
	source    replacement
}

const maxDecompressed = 1 << 30

// New returns a manager; Run starts it. It does no I/O.
func New(opt Options) (*Manager, error) {
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	codecs, err := batch.NewCodecs(maxDecompressed)
	if err != nil {
		return nil, fmt.Errorf("set up codecs: %w", err)
	}
	m := newManager(opt, codecs, offsetsync.NewStore(opt.Log, opt.View, opt.Process))
	m.src, m.dst, m.atOnce = opt.Source, opt.Target, readAtOnce
	m.pause = pauseFor
	m.run = func(task func(context.Context)) { m.tasks.Go(func() { task(m.work) }) }
	return m, nil
}

// newManager returns a manager without an outside.
func newManager(opt Options, codecs *batch.Codecs, store *offsetsync.Store) *Manager {
	m := &Manager{
		opt: opt, log: opt.Logger.With("link", opt.Link), now: opt.Now, codecs: codecs, budget: opt.Budget, metrics: opt.Metrics,
		view: opt.View, store: store, producerExpiry: defaultExpiry, fetchPatience: fetchPatience,
		srcLeaders: kafka.NewLeaders(opt.Source, kafka.LeadersOptions{}),
		dstLeaders: kafka.NewLeaders(opt.Target, kafka.LeadersOptions{}),
		prepareQ:   newQueue(), planQs: newPlanQs(), openQ: newQueue(), repairQ: newQueue(), checkQ: newQueue(),
		flushNow: make(chan struct{}, 1), flushing: make(chan struct{}, 1), fatal: make(chan error, 1), owned: make(chan struct{}),
		lanes: make(map[model.Lane]*lane), senders: make(map[int32]*sender), fetchers: make(map[int32][]*fetcher),
		unrouted: make(map[*lane]struct{}), unled: make(map[parked]struct{}), ordering: make(map[string]bool),
	}
	m.delay = m.metrics.delay.WithLabelValues(opt.Link)
	m.work, m.stopWork = context.WithCancelCause(context.Background())
	m.terms, m.around = newTerms(m), newNeighbours(m)
	m.source.changed = make(chan struct{})
	m.limiter = rate.NewLimiter(rate.Inf, 0)
	m.Tune(opt.Tuning)
	return m
}

// drainTime bounds how long a stop waits for answers.
const drainTime = 20 * time.Second

// Run copies until ctx ends, then drains: it finishes what was sent and stores clean ends. It returns nil after a clean
// end, ErrForced when draining was cut short, ErrOwned when another instance owns the link.
//
// hard ends at once: nothing is waited for any more.
func (m *Manager) Run(ctx, hard context.Context) error {
	defer m.stopWork(errStopped)
	if err := m.own(ctx); err != nil {
		return err
	}
	m.learnExpiry(ctx)
	m.way.Store(m.storedWay())
	m.sealer = term.NewSealer(m.opt.Target, m.opt.Link, term.Options{Logger: m.opt.Logger, Way: m.sealWay()})
	m.pulse = newPulse()
	g, work := errgroup.WithContext(m.work)
	m.loops(work, g)
	var cause error
	select {
	case <-ctx.Done():
	case <-work.Done():
	case cause = <-m.fatal:
	}
	clean := cause == nil && work.Err() == nil && m.finish(ctx, hard)
	m.stopWork(errStopped)
	err := g.Wait()
	m.tasks.Wait()
	m.tellRest(m.now())
	switch {
	case cause != nil:
		return cause
	case err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, errStopped):
		return err
	case !clean:
		return ErrForced
	}
	return nil
}

// ErrForced says that a stop did not wait for all answers; the next start seals and recovers the lanes concerned.
var ErrForced = errors.New("stopped before every batch was answered")

var errStopped = errors.New("stopped")

// finish drains within its time, or until hard ends.
func (m *Manager) finish(ctx, hard context.Context) bool {
	drainCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	defer context.AfterFunc(hard, cancel)()
	clean := m.drain(drainCtx)
	if clean {
		m.disown(drainCtx)
	}
	return clean
}

func (m *Manager) loops(ctx context.Context, g *errgroup.Group) {
	g.Go(func() error { return m.srcLeaders.Run(ctx) })
	g.Go(func() error { return m.dstLeaders.Run(ctx) })
	g.Go(func() error { return m.beat(ctx) })
	g.Go(func() error { return m.guard(ctx) })
	g.Go(func() error { m.runPulse(ctx); return nil })
	g.Go(func() error { m.terms.keep(ctx); return nil })
	for range runtime.GOMAXPROCS(0) {
		g.Go(func() error { m.runPreparer(ctx); return nil })
	}
	for _, q := range m.planQs {
		g.Go(func() error { m.runPlanner(ctx, q); return nil })
	}
	g.Go(func() error { m.runFlusher(ctx); return nil })
	g.Go(func() error { m.runRouter(ctx); return nil })
	g.Go(func() error { every(ctx, trimEvery, m.trim); return nil })
	g.Go(func() error { every(ctx, watchEvery, m.watch); return nil })
	g.Go(func() error { every(ctx, lookEach, m.watchEnds); return nil })
	g.Go(func() error { every(ctx, quietEvery, m.watchQuiet); return nil })
	if !m.opt.ReadUncommitted {
		g.Go(func() error { every(ctx, txnEvery, m.watchTransactions); return nil })
	}
	g.Go(func() error { m.runOpener(ctx, m.openQ, m.enter); return nil })
	g.Go(func() error { m.runOpener(ctx, m.repairQ, m.repair); return nil })
	g.Go(func() error { m.runOpener(ctx, m.checkQ, m.checkAll); return nil })
}

// take returns the lane of an assignment and whether it was there before. While the manager drains there are no new ones.
func (m *Manager) take(a Assignment) (l *lane, found bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l, found = m.lanes[a.Lane]; found || m.closing.Load() {
		return l, found
	}
	l = newLane(m, a, m.now())
	m.lanes[a.Lane] = l
	return l, false
}

func (m *Manager) lane(id model.Lane) *lane {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lanes[id]
}

func (m *Manager) all() []*lane {
	m.mu.Lock()
	defer m.mu.Unlock()
	ls := make([]*lane, 0, len(m.lanes))
	for _, l := range m.lanes {
		ls = append(ls, l)
	}
	return ls
}

// fail ends the manager with an error that concerns the whole link.
func (m *Manager) fail(err error) {
	select {
	case m.fatal <- err:
	default:
	}
}

// spawn runs a short task that ends with the manager.
func (m *Manager) spawn(f func(context.Context)) {
	m.run(f)
}

// after calls f once d has passed, unless the manager ends first.
func (m *Manager) after(d time.Duration, f func()) {
	m.spawn(func(ctx context.Context) {
		m.pause(ctx, d)
		if ctx.Err() == nil {
			f()
		}
	})
}

// untilDone repeats a state write until it succeeds, showing the lanes that wait for it as in trouble.
func (m *Manager) untilDone(ctx context.Context, what string, r model.Reason, lanes []*lane, f func(context.Context) error) bool {
	b := newBackoff()
	for {
		err := f(ctx)
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		for _, l := range lanes {
			l.trouble(r, what+": "+err.Error())
		}
		m.pause(ctx, b.step())
	}
}

// every calls f at an interval until ctx ends.
func every(ctx context.Context, d time.Duration, f func(context.Context)) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			f(ctx)
		case <-ctx.Done():
			return
		}
	}
}

func (m *Manager) logState(l *lane, from model.State) {
	attrs := []any{"topic", l.id.Topic, "partition", l.id.Partition, "state", l.state, "was", from,
		"src_next", l.cursor.Src, "dst_next", l.cursor.Dst}
	if l.reason != model.ReasonNone {
		attrs = append(attrs, "reason", l.reason, "detail", l.detail, "remedy", model.Remedy(l.reason, l.id))
	}
	tell := func(level slog.Level, msg string) { m.tell(event{level, msg, "reason", string(l.reason)}, attrs...) }
	switch {
	case l.state == model.StateStopped:
		tell(slog.LevelError, "lane stopped")
	case l.state == model.StateRetrying:
		tell(slog.LevelWarn, "lane in trouble")
	case from == model.StateRetrying:
		tell(slog.LevelInfo, "lane recovered")
	default:
		m.log.Debug("lane state", attrs...)
	}
}
