package mm2

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"lockstep/checkpoint"
	"lockstep/internal/kafka"
)

// Options are what a Writer needs. Beat and Logger may be left out.
type Options struct {
	Names         Names
	Src, Dst      *kafka.Cluster
	SyncsOnSource bool // offset syncs go to the source; else nothing is written there
	// HeartbeatsCopied is asked before each heartbeat whether the link itself copies the source's heartbeats to
	// Names.RemoteHeartbeats, which then is not ours to write to. Nil: it does not.
	HeartbeatsCopied func() bool
	Beat             time.Duration // between heartbeats; a second when 0
	Logger           *slog.Logger
}

// retryEvery is the pause before what failed is tried again.
const retryEvery = 2 * time.Second

// Status is what one of the topics looks like from here.
type Status struct {
	Topic string
	Err   error     // why it is not in sync; nil when it is
	Since time.Time // since when it is not
}

// Writer keeps MirrorMaker 2's topics of one link. It implements checkpoint.Listener.
type Writer struct {
	opts        Options
	log         *slog.Logger
	checkpoints *checkpoints
	syncs       *offsetSyncs
	beats       []*beat
	passes      []inbox // one for each keeper

	mu     sync.Mutex        // guards the fields below
	order  []string          // topics
	status map[string]Status // by topic; one that was not tried yet is missing
}

// New prepares a writer. It asks no broker.
func New(o Options) *Writer {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Beat = cmp.Or(o.Beat, time.Second)
	w := &Writer{opts: o, log: o.Logger, status: map[string]Status{}, passes: []inbox{newInbox(), newInbox()}}
	syncsOn := o.Dst
	if o.SyncsOnSource {
		syncsOn = o.Src
	}
	w.checkpoints = &checkpoints{board: w.board(o.Names.Checkpoints(), o.Dst)}
	w.syncs = &offsetSyncs{board: w.board(o.Names.OffsetSyncs(o.SyncsOnSource), syncsOn)}
	w.beats = []*beat{
		{board: w.board(o.Names.Heartbeats(), o.Dst), names: o.Names},
		{board: w.board(o.Names.RemoteHeartbeats(), o.Dst), names: o.Names, copied: o.HeartbeatsCopied},
	}
	return w
}

func (w *Writer) board(topic string, c *kafka.Cluster) *board {
	w.order = append(w.order, topic)
	return &board{topic: topic, cluster: c, log: w.log.With("topic", topic)}
}

// Passed implements checkpoint.Listener: it hands the pass over and returns. A pass that nobody has looked at yet gives way
// to the newer one.
func (w *Writer) Passed(p checkpoint.Pass) {
	for _, in := range w.passes {
		in.put(p)
	}
}

// Status returns what each topic looks like. Before Run has tried them, all are in sync.
func (w *Writer) Status() []Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]Status, len(w.order))
	for i, topic := range w.order {
		out[i] = w.status[topic]
		out[i].Topic = topic
	}
	return out
}

// Run keeps the topics until ctx ends; what fails is repeated. It fails only when it cannot make a client.
func (w *Writer) Run(ctx context.Context) error {
	for _, c := range []*kafka.Cluster{w.opts.Dst, w.opts.Src} {
		if c != w.opts.Dst && !w.opts.SyncsOnSource {
			continue
		}
		cl, err := newWriter(c)
		if err != nil {
			return err
		}
		defer cl.Close()
		w.use(cl, c)
	}
	var wg sync.WaitGroup
	wg.Go(func() { w.keep(ctx, w.checkpoints, w.checkpoints.board, w.passes[0]) })
	wg.Go(func() { w.keep(ctx, w.syncs, w.syncs.board, w.passes[1]) })
	for _, b := range w.beats {
		wg.Go(func() { b.run(ctx, w.opts.Beat, func(err error) { w.note(b.board, err) }) })
	}
	wg.Wait()
	return nil
}

// use gives the client to all boards of its cluster.
func (w *Writer) use(cl *kgo.Client, c *kafka.Cluster) {
	boards := []*board{w.checkpoints.board, w.syncs.board}
	for _, b := range w.beats {
		boards = append(boards, b.board)
	}
	for _, b := range boards {
		if b.cluster == c {
			b.writer = cl
		}
	}
}

// keeper is a topic that follows the passes.
type keeper interface {
	ensure(context.Context) error
	load(context.Context) error // what stands in the topic; nothing is taken before
	// take writes what is new. faults are about what MirrorMaker's formats cannot hold; err is that the topic may not be as
	// it was loaded.
	take(context.Context, checkpoint.Pass) (faults, err error)
}

// keep loads what stands in a topic and then lets it follow the newest pass. After a failure it begins anew: somebody may
// have deleted the topic.
func (w *Writer) keep(ctx context.Context, k keeper, b *board, in inbox) {
	var pass *checkpoint.Pass
	loaded := false
	for ctx.Err() == nil {
		faults, err := w.turn(ctx, k, loaded, pass)
		loaded = err == nil
		var again <-chan time.Time
		if err != nil {
			again = time.After(retryEvery)
		} else {
			pass = nil
		}
		if ctx.Err() == nil {
			w.note(b, errors.Join(faults, err))
		}
		select {
		case p := <-in:
			pass = &p
		case <-again:
		case <-ctx.Done():
		}
	}
}

func (w *Writer) turn(ctx context.Context, k keeper, loaded bool, pass *checkpoint.Pass) (faults, err error) {
	if !loaded {
		if err := k.ensure(ctx); err != nil {
			return nil, err
		}
		if err := k.load(ctx); err != nil {
			return nil, err
		}
	}
	if pass == nil {
		return nil, nil
	}
	return k.take(ctx, *pass)
}

// note remembers what became of a topic, and logs when that changes.
func (w *Writer) note(b *board, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	was := w.status[b.topic]
	now := Status{Topic: b.topic, Err: err, Since: was.Since}
	switch {
	case err == nil:
		now.Since = time.Time{}
	case was.Err == nil:
		now.Since = time.Now()
	}
	w.status[b.topic] = now
	switch {
	case err != nil && (was.Err == nil || was.Err.Error() != err.Error()):
		b.log.Warn("topic for readers of MirrorMaker 2 is not in sync", "error", err)
	case err == nil && was.Err != nil:
		b.log.Info("topic for readers of MirrorMaker 2 is in sync again")
	}
}

// inbox holds the newest pass until somebody takes it.
type inbox chan checkpoint.Pass

func newInbox() inbox { return make(inbox, 1) }

// put replaces what nobody took yet. One puts at a time.
func (in inbox) put(p checkpoint.Pass) {
	for {
		select {
		case in <- p:
			return
		default:
		}
		select {
		case <-in:
		default:
		}
	}
}
