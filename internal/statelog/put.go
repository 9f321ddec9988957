package statelog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// ErrClosed is returned by Put after Close.
var ErrClosed = errors.New("state log is closed")

// ErrBacklog is returned by Put while so many earlier entries wait for an answer that more would only fill memory: the
// target cannot be written at present.
var ErrBacklog = errors.New("too many state entries wait for the target's answer")

// Put writes entries and returns when all in-sync replicas hold them. Entries of one call for one partition stand in
// the log in the given order, and behind those of every Put that had queued its entries before; different partitions
// have no order between them. On an error some of the entries may have been written or, if ctx ended, may still be: the
// caller has to treat their fate as unknown.
func (l *Log) Put(ctx context.Context, entries ...Entry) error {
	wait, err := l.Queue(ctx, entries...)
	if err != nil {
		return err
	}
	return wait(ctx)
}

// Queue puts entries in line for writing and returns at once; the order of calls is the order in the log. The returned
// function waits until they are durable, or ctx ends, with Put's result; calling it is not needed for the writing.
func (l *Log) Queue(ctx context.Context, entries ...Entry) (wait func(context.Context) error, err error) {
	for _, e := range entries {
		if e.Partition < 0 || e.Partition >= Partitions {
			return nil, fmt.Errorf("write state entry %s: partition %d does not exist", e.Key, e.Partition)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	cl, err := l.producerLocked()
	if err != nil {
		return nil, err
	}
	if cl.BufferedProduceRecords() > l.backlog {
		return nil, l.errorf("write to", ErrBacklog)
	}
	b := &pending{left: len(entries), done: make(chan struct{})}
	if len(entries) == 0 {
		close(b.done)
	}
	for _, e := range entries {
		// Without the caller's context: the library gives up a whole batch for one record whose context ended, and
		// with it the entries of other callers.
		cl.Produce(context.WithoutCancel(ctx), l.record(e), func(r *kgo.Record, err error) { b.settle(string(r.Key), err) })
	}
	return func(ctx context.Context) error { return l.wait(ctx, cl, b) }, nil
}

func (l *Log) record(e Entry) *kgo.Record {
	return &kgo.Record{Topic: l.topic, Partition: e.Partition, Key: []byte(e.Key), Value: e.Value}
}

// pending is one call's entries that are not answered yet.
type pending struct {
	mu   sync.Mutex // guards left, err
	left int
	err  error
	done chan struct{}
}

func (b *pending) settle(key string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil && b.err == nil {
		b.err = fmt.Errorf("entry %s: %w", key, err)
	}
	if b.left--; b.left == 0 {
		close(b.done)
	}
}

func (l *Log) wait(ctx context.Context, cl *kgo.Client, b *pending) error {
	select {
	case <-b.done:
	case <-ctx.Done():
		return l.errorf("write to", fmt.Errorf("no answer yet: %w", context.Cause(ctx)))
	}
	if b.err == nil {
		return nil
	}
	if producerIsOver(b.err) {
		l.discard(cl)
	}
	return l.errorf("write to", b.err)
}

// producerIsOver says that this client's producer id will never write again. It is given up instead of letting the
// library go on under a new id by itself, because that may write a record twice: the later copy of an opening or a
// claim would survive compaction in a place where it loses against a rival.
func producerIsOver(err error) bool {
	return errors.Is(err, kerr.OutOfOrderSequenceNumber) || errors.Is(err, kerr.UnknownProducerID) ||
		errors.Is(err, kerr.InvalidProducerEpoch) || errors.Is(err, kerr.InvalidProducerIDMapping) ||
		errors.Is(err, kerr.ProducerFenced)
}

func (l *Log) discard(cl *kgo.Client) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.producer == cl {
		l.producer = nil
	}
	cl.Close()
}

// producerLocked returns the producing client. mu is held.
func (l *Log) producerLocked() (*kgo.Client, error) {
	if l.closed {
		return nil, ErrClosed
	}
	if l.producer != nil {
		return l.producer, nil
	}
	cl, err := l.dst.NewClient("state",
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(0),
		// A frozen leader keeps its connection: the sooner it is given up, the sooner the new one is asked.
		kgo.ProduceRequestTimeout(produceWait),
		kgo.RequestTimeoutOverhead(produceOverhead),
		kgo.StopProducerOnDataLossDetected(),
		kgo.MaxBufferedRecords(maxBuffered),
		kgo.MetadataMinAge(metadataAge),
	)
	if err != nil {
		return nil, l.errorf("open", err)
	}
	l.producer = cl
	return cl, nil
}

// How long a leader may wait for its replicas, and how much longer its answer may take.
const (
	produceWait     = 5 * time.Second
	produceOverhead = 3 * time.Second
)

// A Put is refused when maxBacklog entries are outstanding, so that the library's own limit is never reached: at that
// limit queueing would block, with the lock held.
const (
	maxBacklog  = 1 << 18
	maxBuffered = 1 << 24
)
