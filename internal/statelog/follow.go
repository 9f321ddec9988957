package statelog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"lockstep/internal/kafka"
	"lockstep/internal/model"
)

// ErrFollowed is returned by Follow while another Follow of the same Log runs.
var ErrFollowed = errors.New("state log is already being followed")

// ErrNoTopic is returned by Follow when there is no state topic.
var ErrNoTopic = errors.New("the topic does not exist")

// ErrLost is wrapped by the errors of Follow that say: what has been delivered is not what the log holds, because the
// topic was deleted, emptied, or lost its end in an unclean election. Whoever holds a picture has to build it anew.
var ErrLost = errors.New("what was read before is no longer in the log")

const (
	metadataAge = 100 * time.Millisecond // between two looks at the leaders
	maxBackoff  = 2 * time.Second
)

// Follow reads the whole log from its start and then what is added, until ctx ends. It calls fn from one goroutine with
// entries of one or more partitions; those of one partition come in the order of the log, each once. Keys that were
// compacted away are left out, so that on the way to the end newer facts of a partition may come before older ones are
// complete. Entries may be kept; their values share memory.
//
// It returns why ctx ended, or an error that stands for itself: [ErrNoTopic], [ErrLost], a missing permission, or bytes
// that cannot be read. Brokers that are away are waited for.
func (l *Log) Follow(ctx context.Context, fn func([]Entry)) error {
	if !l.follow.begin() {
		return ErrFollowed
	}
	err := l.followOnce(ctx, fn)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	l.follow.end(err)
	return err
}

func (l *Log) followOnce(ctx context.Context, fn func([]Entry)) error {
	cl, err := l.dst.NewClient("state-follow")
	if err != nil {
		return l.errorf("follow", err)
	}
	defer cl.Close()
	ctx, cancel := context.WithCancel(ctx)
	r := &reader{l: l, cl: cl, fn: fn, events: make(chan event), busy: map[int32]bool{}}
	err = r.run(ctx)
	cancel()
	r.drain()
	if err != nil {
		return l.errorf("follow", err)
	}
	return nil
}

// reader is one Follow. All of it belongs to the goroutine that runs it; fetches and look-ups run in short goroutines
// that only send an event.
type reader struct {
	l  *Log
	cl *kgo.Client
	fn func([]Entry)

	id          model.TopicID
	parts       []part
	busy        map[int32]bool // brokers with an outstanding fetch
	events      chan event
	outstanding int
	looking     bool // a metadata request is outstanding
	backoff     time.Duration
	warned      bool // the present fault has been logged
}

// part is where the reader stands in one partition.
type part struct {
	pos       int64 // next offset to deliver
	first     int64 // pos at the beginning: nothing has been delivered while they are equal
	leader    int32 // -1: to be looked up
	epoch     int32 // of the leader, -1 unknown
	lastEpoch int32 // of the batch before pos, -1 unknown
	fetching  bool
	end       int64 // high watermark as last seen, -1 unknown
}

// event is the end of one outstanding request.
type event struct {
	broker int32
	fetch  *fetched
	meta   *kafka.Meta
	err    error
}

func (r *reader) run(ctx context.Context) error {
	if err := r.locate(ctx); err != nil {
		return err
	}
	for {
		r.launch(ctx)
		select {
		case e := <-r.events:
			r.outstanding--
			if err := r.handle(ctx, e); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// drain waits for the goroutines. Their context has ended.
func (r *reader) drain() {
	for ; r.outstanding > 0; r.outstanding-- {
		<-r.events
	}
}

func (r *reader) goDo(do func() event) {
	r.outstanding++
	go func() { r.events <- do() }()
}

// locate finds the topic and the start of each partition. It asks until all have answered.
func (r *reader) locate(ctx context.Context) error {
	for {
		err := r.locateOnce(ctx)
		if err == nil || errors.Is(err, ErrNoTopic) || ctx.Err() != nil || stands(err) {
			return err
		}
		r.fault(err)
		if err := pause(ctx, r.backoff); err != nil {
			return err
		}
	}
}

func (r *reader) locateOnce(ctx context.Context) error {
	t, ok, err := r.l.describe(ctx)
	if err != nil {
		return err
	}
	if !ok {
		return ErrNoTopic
	}
	if n := len(t.Parts); n != Partitions {
		return &SettingsError{Topic: r.l.topic, Cluster: r.l.dst.Name(), Wrong: []Wrong{partitionsWrong(t.address, r.l.topic, n)}}
	}
	starts, err := r.l.offsets(ctx, kafka.AtStart)
	if err != nil {
		return err
	}
	r.id, r.parts = t.ID, make([]part, Partitions)
	for p := range r.parts {
		r.parts[p] = part{pos: starts[p], first: starts[p], leader: -1, epoch: -1, lastEpoch: -1, end: -1}
		r.l.follow.deliver(int32(p), starts[p])
	}
	r.l.follow.announce()
	return nil
}

// offsets asks for the start or the end of every partition.
func (l *Log) offsets(ctx context.Context, at int64) ([]int64, error) {
	out := make([]int64, Partitions)
	for p, o := range l.dst.ListOffsets(ctx, l.parts(), at, false) {
		if o.Err != nil {
			return nil, o.Err
		}
		out[p.Partition] = o.Offset
	}
	return out, nil
}

// launch sends what can be sent: a fetch to each broker that has none outstanding, and a look-up of lost leaders.
func (r *reader) launch(ctx context.Context) {
	byBroker := map[int32][]int32{}
	lost := false
	for p := range r.parts {
		switch pt := &r.parts[p]; {
		case pt.fetching:
		case pt.leader < 0:
			lost = true
		case !r.busy[pt.leader]:
			byBroker[pt.leader] = append(byBroker[pt.leader], int32(p))
		}
	}
	for broker, ps := range byBroker {
		r.busy[broker] = true
		req := r.request(ps)
		r.goDo(func() event { return r.fetch(ctx, broker, req, ps) })
	}
	if lost && !r.looking {
		r.looking = true
		wait := r.backoff
		r.goDo(func() event { return r.look(ctx, wait) })
	}
}

// look asks for the leaders, after a pause when something went wrong before. It asks with the reader's own client, which
// so learns the brokers' present addresses.
func (r *reader) look(ctx context.Context, wait time.Duration) event {
	if wait > 0 {
		if err := pause(ctx, wait); err != nil {
			return event{err: err, meta: &kafka.Meta{}}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	meta, err := r.l.leaders(ctx, r.cl)
	return event{meta: &meta, err: err}
}

func (r *reader) handle(ctx context.Context, e event) error {
	if e.meta != nil {
		r.looking = false
		return r.found(e)
	}
	delete(r.busy, e.broker)
	for _, p := range e.fetch.parts {
		r.parts[p].fetching = false
	}
	if e.err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r.fault(fmt.Errorf("fetch from broker %d: %w", e.broker, e.err))
		for _, p := range e.fetch.parts {
			r.parts[p].leader = -1
		}
		return nil
	}
	return r.take(e.fetch)
}

// found takes over the leaders that metadata names.
func (r *reader) found(e event) error {
	if e.err != nil {
		if stands(e.err) {
			return e.err
		}
		r.fault(e.err)
		return nil
	}
	t := e.meta.Topics[r.l.topic]
	if !t.ID.IsZero() && !r.id.IsZero() && t.ID != r.id {
		return fmt.Errorf("the topic was created again: %w", ErrLost)
	}
	if t.Err != nil && stands(t.Err) {
		return t.Err
	}
	for p := range r.parts {
		if r.parts[p].leader >= 0 {
			continue
		}
		pm, ok := t.Part(int32(p))
		if !ok || pm.Leader < 0 {
			r.fault(fmt.Errorf("partition %d has no leader", p))
			continue
		}
		r.parts[p].leader, r.parts[p].epoch = pm.Leader, pm.Epoch
	}
	return nil
}

// fault makes the next look-up wait longer, and logs the first of a row of faults.
func (r *reader) fault(err error) {
	if !r.warned {
		r.warned = true
		r.l.log.Warn("the state topic cannot be read completely at present", "error", err)
	}
	r.backoff = min(max(2*r.backoff, metadataAge), maxBackoff)
}

// healthy ends a row of faults.
func (r *reader) healthy() {
	if r.warned {
		r.l.log.Info("the state topic can be read again")
	}
	r.warned, r.backoff = false, 0
}

// stands reports whether an error does not go away by waiting for brokers.
func stands(err error) bool {
	var s *SettingsError
	return errors.As(err, &s) || errors.Is(err, ErrLost) || errors.Is(err, kerr.TopicAuthorizationFailed) ||
		errors.Is(err, kerr.ClusterAuthorizationFailed) || errors.Is(err, kerr.SaslAuthenticationFailed) ||
		errors.Is(err, kerr.UnsupportedVersion)
}
