package replicator

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/failpoint"
	"lockstep/internal/kafka"
)

const (
	// fetcherLanes is how many lanes share a fetch session: brokers spend time per session partition on every poll.
	fetcherLanes = 256
	// longPoll and shortPoll are the waits of a fetch. A poll cannot be woken, so it is short while a lane is only
	// left out for the moment.
	longPoll  = 500 * time.Millisecond
	shortPoll = 5 * time.Millisecond
	// fetchBytes bounds one fetch answer.
	fetchBytes = 16 << 20
	// fetchFloor is asked for even when the budget is nearly used up.
	fetchFloor = 64 << 10
)

// fetcher reads from one source broker for up to 256 lanes, over a connection of its own: a broker serves one request
// of a connection at a time.
type fetcher struct {
	m      *Manager
	broker int32
	client *kgo.Client // of the run loop alone, as is session

	mu    sync.Mutex // guards lanes
	lanes map[*lane]struct{}

	wake    chan struct{}
	session *kafka.Session
	stale   atomic.Bool // client and session bring nothing any more
	held    atomic.Bool // it waits for memory, or for the link's limit: nothing can come meanwhile

	throttle throttle
}

func (f *fetcher) add(l *lane) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.lanes) >= fetcherLanes {
		return false
	}
	f.lanes[l] = struct{}{}
	f.signal()
	return true
}

func (f *fetcher) remove(l *lane) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.lanes, l)
}

func (f *fetcher) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func (f *fetcher) run(ctx context.Context) {
	defer func() { f.client.Close() }()
	backoff := newBackoff()
	known := make(map[kafka.Part]*lane)
	for ctx.Err() == nil {
		if f.stale.Swap(false) {
			f.renew("lanes are behind and get nothing")
		}
		gens, hold := f.arrange(known)
		if len(gens) == 0 {
			f.rest(ctx, hold)
			continue
		}
		resp, err := f.poll(ctx, len(gens), hold)
		if aerr := f.session.Answer(resp, err); err == nil {
			err = aerr
		}
		if err != nil {
			f.failed(ctx, err, gens, backoff)
			continue
		}
		backoff.reset()
		f.answered(ctx, resp, gens)
		failpoint.Pass("after_fetch")
	}
}

// wanted is a lane that takes part in a poll.
type wanted struct {
	lane  *lane
	gen   uint32
	off   int64
	epoch int32 // of the last record before off, -1 when not known
}

// arrange brings the session in line with what the lanes want now.
func (f *fetcher) arrange(known map[kafka.Part]*lane) (gens map[kafka.Part]wanted, hold bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	gens = make(map[kafka.Part]wanted, len(f.lanes))
	for p, l := range known {
		if _, ok := f.lanes[l]; !ok {
			f.session.Forget(p)
			delete(known, p)
		}
	}
	for l := range f.lanes {
		pos, gen, ok, later := l.position()
		p := l.srcPart()
		hold = hold || later
		if !ok {
			f.session.Forget(p)
			continue
		}
		known[p] = l
		f.session.Set(p, pos)
		gens[p] = wanted{lane: l, gen: gen, off: pos.Offset, epoch: pos.LastEpoch}
	}
	return gens, hold
}

// rest waits while no lane wants anything: shortly if one will soon, else until one is added.
func (f *fetcher) rest(ctx context.Context, hold bool) {
	wait := longPoll
	if hold {
		wait = shortPoll
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-f.wake:
	case <-ctx.Done():
	}
}

func (f *fetcher) poll(ctx context.Context, lanes int, hold bool) (*kmsg.FetchResponse, error) {
	f.held.Store(true)
	room, ok := f.m.budget.room(ctx)
	f.held.Store(false)
	if !ok {
		return nil, ctx.Err()
	}
	wait := longPoll
	if hold {
		wait = shortPoll
	}
	share := room / int64(max(1, f.m.fetcherCount()))
	limit := int32(min(fetchBytes, max(fetchFloor, share)))
	req := f.session.Next(wait, limit, !f.m.opt.ReadUncommitted, f.m.opt.Rack)
	ask, cancel := context.WithTimeout(ctx, f.m.fetchPatience)
	defer cancel()
	resp, err := f.client.Broker(int(f.broker)).Request(ask, req)
	if err != nil {
		f.stale.Store(ask.Err() != nil && ctx.Err() == nil)
		return nil, err
	}
	fr, ok := resp.(*kmsg.FetchResponse)
	if !ok {
		return nil, errors.New("fetch: unexpected answer type")
	}
	return fr, nil
}

// failed handles a fetch that brought no usable answer.
func (f *fetcher) failed(ctx context.Context, err error, gens map[kafka.Part]wanted, b *backoff) {
	if ctx.Err() != nil {
		return
	}
	_, reason := kafka.Classify(err)
	for _, w := range gens {
		w.lane.sourceTrouble(reason, "fetch from source broker: "+err.Error())
		f.m.srcLeaders.Stale(w.lane.srcPart(), -1)
	}
	f.m.log.Debug("fetch failed", "broker", f.broker, "error", err)
	b.wait(ctx)
}

// answered hands each partition's share to its lane. All shares point into one array, which counts until the last of
// its batches is settled.
func (f *fetcher) answered(ctx context.Context, resp *kmsg.FetchResponse, gens map[kafka.Part]wanted) {
	size := int64(0)
	for _, p := range f.session.Parts(resp) {
		size += int64(len(p.RecordBatches))
	}
	buf := newBuffer(f.m.budget, size)
	defer buf.release()
	for part, p := range f.session.Parts(resp) {
		w, ok := gens[part]
		if !ok {
			continue
		}
		if kafka.Answered(p) {
			delete(gens, part)
		}
		f.deliver(w, p, buf)
	}
	if size == 0 {
		for _, w := range gens {
			w.lane.idle(w.off)
		}
	}
	f.m.throttled(sideSource, &f.throttle, resp.ThrottleMillis)
	f.held.Store(true)
	f.m.limit(ctx, size)
	f.held.Store(false)
}

func (f *fetcher) deliver(w wanted, p *kmsg.FetchResponseTopicPartition, buf *buffer) {
	err := kerr.ErrorForCode(p.ErrorCode)
	switch {
	case err != nil:
		f.m.fetchError(w.lane, w, err)
	case kafka.Diverged(p):
		f.m.readFrom(w.lane, -1)
		f.m.lookAt(w.lane, w)
	case p.PreferredReadReplica >= 0:
		f.m.readFrom(w.lane, p.PreferredReadReplica)
	default:
		w.lane.observe(p.LogStartOffset, p.LastStableOffset, p.HighWatermark, f.m.now())
		if len(p.RecordBatches) > 0 {
			w.lane.accept(chunk{gen: w.gen, from: w.off, raw: p.RecordBatches, aborted: p.AbortedTransactions, buf: buf.hold(), at: f.m.now()})
		}
	}
}
