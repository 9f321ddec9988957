package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/replicator/batch"
)

// The bare loop's settings, found by trying: with these it is as fast as it gets on two cores.
const (
	floorInFlight     = 5         // produce requests unanswered at a time, at least 3
	floorFetchBytes   = 512 << 10 // of one partition in one fetch
	floorAnswersAhead = 2         // fetch answers that wait for the sender
)

// floor is a copier without any promise: one fetch after the other, a header patch, and produce requests with one batch
// of every partition, several in flight. It stops at the first thing that is not as it expects.
type floor struct {
	src, dst           *kgo.Broker
	srcTopic, dstTopic topic
	follow             bool // go on at the end, until ctx ends; else the source must begin at offset 0
	pid                int64
	epoch              int16

	next []int64    // source offsets to fetch next; the fetcher's
	ends []int64    // where to stop
	out  [][][]byte // batches to send, by partition; the sender's
	seq  []int64    // records sent, by partition; the sender's
}

type topic struct {
	name string
	id   [16]byte
}

// runFloor is the copier process: it copies a topic of a single-node cluster into one that exists and is empty.
func runFloor(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("bench floor", flag.ContinueOnError)
	src, dst := fs.String("src", "", "source broker"), fs.String("dst", "", "target broker")
	from, to := fs.String("topic", "", "source topic"), fs.String("to", "", "target topic")
	follow := fs.Bool("follow", false, "go on at the end of the source")
	if err := fs.Parse(args); err != nil {
		return err
	}
	srcClient, err := floorClient(*src)
	if err != nil {
		return err
	}
	defer srcClient.Close()
	dstClient, err := floorClient(*dst)
	if err != nil {
		return err
	}
	defer dstClient.Close()
	f := &floor{follow: *follow}
	if err := f.prepare(ctx, srcClient, dstClient, *from, *to); err != nil {
		return err
	}
	err = f.copy(ctx)
	if f.follow && ctx.Err() != nil {
		return nil // it was told to stop
	}
	return err
}

func floorClient(broker string) (*kgo.Client, error) {
	return kgo.NewClient(kgo.SeedBrokers(broker), kgo.DisableClientMetrics(), kgo.BrokerMaxReadBytes(1<<30), kgo.ConnIdleTimeout(9*time.Minute))
}

// prepare asks for everything that the loop needs to know.
func (f *floor) prepare(ctx context.Context, src, dst *kgo.Client, from, to string) error {
	if err := f.prepareSource(ctx, src, from); err != nil {
		return err
	}
	var parts int32
	var err error
	if f.dstTopic, parts, err = lookUp(ctx, dst, to); err != nil {
		return err
	}
	if int(parts) != len(f.next) {
		return fmt.Errorf("%s has %d partitions, %s has %d", from, len(f.next), to, parts)
	}
	f.out, f.seq = make([][][]byte, parts), make([]int64, parts)
	resp, err := kmsg.NewPtrInitProducerIDRequest().RequestWith(ctx, dst)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("get producer id: %w", err)
	}
	f.pid, f.epoch = resp.ProducerID, resp.ProducerEpoch
	f.dst, err = onlyBroker(ctx, dst)
	return err
}

// prepareSource is the part of prepare that fetching needs.
func (f *floor) prepareSource(ctx context.Context, src *kgo.Client, from string) error {
	var parts int32
	var err error
	if f.srcTopic, parts, err = lookUp(ctx, src, from); err != nil {
		return err
	}
	if f.next, err = listOffsets(ctx, src, from, parts, -2); err != nil {
		return err
	}
	if f.ends, err = listOffsets(ctx, src, from, parts, -1); err != nil {
		return err
	}
	f.src, err = onlyBroker(ctx, src)
	return err
}

func lookUp(ctx context.Context, cl *kgo.Client, name string) (topic, int32, error) {
	req := kmsg.NewPtrMetadataRequest()
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = &name
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return topic{}, 0, fmt.Errorf("look up topic %s: %w", name, err)
	}
	t := resp.Topics[0]
	if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
		return topic{}, 0, fmt.Errorf("look up topic %s: %w", name, err)
	}
	return topic{name: name, id: t.TopicID}, int32(len(t.Partitions)), nil
}

// copy runs fetcher, sender and settler until all is copied, ctx ends, or one of them fails.
func (f *floor) copy(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	answers := make(chan *kmsg.FetchResponse, floorAnswersAhead)
	sent := make(chan *sending, floorInFlight-2) // one more is being sent, and one settled
	settled := make(chan struct{})
	// Only one request is unanswered until the first answer, since a partition that does not know the producer id takes
	// any first sequence.
	first := make(chan struct{}, 1)
	go func() {
		defer close(answers)
		if err := f.fetchAll(ctx, answers); err != nil {
			cancel(err)
		}
	}()
	go func() {
		defer close(settled)
		for s := range sent {
			if err := s.settle(ctx); err != nil {
				cancel(err)
			}
			select {
			case first <- struct{}{}:
			default:
			}
		}
	}()
	err := f.sendAll(ctx, answers, sent, first)
	close(sent)
	<-settled
	for range answers { // until the fetcher has ended
	}
	return errors.Join(err, context.Cause(ctx))
}

// fetchAll fetches until every end is reached.
func (f *floor) fetchAll(ctx context.Context, answers chan<- *kmsg.FetchResponse) error {
	for f.follow || f.remaining() {
		resp, err := f.src.Request(ctx, f.fetchRequest())
		if err != nil {
			return fmt.Errorf("fetch: %w", err)
		}
		r := resp.(*kmsg.FetchResponse)
		if err := f.advance(r); err != nil {
			return err
		}
		select {
		case answers <- r:
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

func (f *floor) remaining() bool {
	for p := range f.next {
		if f.next[p] < f.ends[p] {
			return true
		}
	}
	return false
}

func (f *floor) fetchRequest() *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.MinBytes, req.MaxWaitMillis, req.MaxBytes, req.IsolationLevel = -1, 1, 500, 16<<20, 1
	req.SessionEpoch = -1
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic, rt.TopicID = f.srcTopic.name, f.srcTopic.id
	for p := range f.next {
		if !f.follow && f.next[p] >= f.ends[p] {
			continue
		}
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = int32(p), f.next[p], floorFetchBytes
		rt.Partitions = append(rt.Partitions, rp)
	}
	req.Topics = append(req.Topics, rt)
	return req
}

// advance moves the positions behind what an answer holds.
func (f *floor) advance(r *kmsg.FetchResponse) error {
	if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
		return fmt.Errorf("fetch: %w", err)
	}
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return fmt.Errorf("fetch partition %d: %w", p.Partition, err)
			}
			eachBatch(p.RecordBatches, func(b []byte) { f.next[p.Partition] = baseOffset(b) + count(b) })
		}
	}
	return nil
}

// sendAll sends what the answers hold, one batch of each partition in a request. It asks for the next answer as soon as
// a partition has nothing left, so that requests stay full.
func (f *floor) sendAll(ctx context.Context, answers <-chan *kmsg.FetchResponse, sent chan<- *sending, first <-chan struct{}) error {
	for n := 0; ; n++ {
		f.gather(answers)
		s := f.nextRequest()
		if s == nil {
			return nil
		}
		if n == 1 {
			select {
			case <-first:
			case <-ctx.Done():
				return nil
			}
		}
		if err := s.start(ctx, f.dst); err != nil {
			return err
		}
		select {
		case sent <- s:
		case <-ctx.Done():
			return nil
		}
	}
}

// gather takes answers until every partition that has data ahead has a batch; in follow mode it waits only when there
// is nothing at all to send. When it leaves nothing to send, all is sent or the fetcher has ended.
func (f *floor) gather(answers <-chan *kmsg.FetchResponse) {
	for f.wants() {
		r, ok := <-answers
		if !ok {
			return
		}
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				eachBatch(p.RecordBatches, func(b []byte) { f.out[p.Partition] = append(f.out[p.Partition], b) })
			}
		}
	}
}

func (f *floor) wants() bool {
	empty, full := 0, 0
	for p := range f.out {
		switch {
		case len(f.out[p]) > 0:
			full++
		case f.follow || f.seq[p] < f.ends[p]:
			empty++
		}
	}
	return empty > 0 && (full == 0 || !f.follow)
}

// sending is one produce request under way. Its wrapper tells when it has been serialised: the next one is given to the
// client only then, which keeps them in order on the connection.
type sending struct {
	*kmsg.ProduceRequest
	serialised chan struct{}
	answered   chan struct{}
	closed     bool
	resp       kmsg.Response
	err        error
	want       map[int32]int64 // expected base offset, by partition
}

// AppendTo is called again when nothing of the first try was written.
func (s *sending) AppendTo(dst []byte) []byte {
	dst = s.ProduceRequest.AppendTo(dst)
	if !s.closed {
		s.closed = true
		close(s.serialised)
	}
	return dst
}

// nextRequest takes one batch of each partition, numbers and patches it; nil when there is none.
func (f *floor) nextRequest() *sending {
	s := &sending{ProduceRequest: kmsg.NewPtrProduceRequest(), serialised: make(chan struct{}), answered: make(chan struct{}), want: map[int32]int64{}}
	s.Acks, s.TimeoutMillis = -1, 30_000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic, rt.TopicID = f.dstTopic.name, f.dstTopic.id
	for p, queue := range f.out {
		if len(queue) == 0 {
			continue
		}
		b := queue[0]
		queue[0] = nil
		f.out[p] = queue[1:]
		batch.Stamp(b, f.pid, f.epoch, int32(f.seq[p]&0x7fffffff))
		s.want[int32(p)] = f.seq[p]
		f.seq[p] += count(b)
		rp := kmsg.NewProduceRequestTopicPartition()
		rp.Partition, rp.Records = int32(p), b
		rt.Partitions = append(rt.Partitions, rp)
	}
	if len(rt.Partitions) == 0 {
		return nil
	}
	s.Topics = append(s.Topics, rt)
	return s
}

// start gives the request to the client and returns when it has been serialised.
func (s *sending) start(ctx context.Context, dst *kgo.Broker) error {
	go func() {
		s.resp, s.err = dst.Request(ctx, s)
		close(s.answered)
	}()
	select {
	case <-s.serialised:
	case <-s.answered:
		return s.err
	}
	return nil
}

// settle waits for the answer and checks that every batch stands where it should.
func (s *sending) settle(ctx context.Context) error {
	select {
	case <-s.answered:
	case <-ctx.Done():
		return nil
	}
	if s.err != nil {
		return fmt.Errorf("produce: %w", s.err)
	}
	for _, t := range s.resp.(*kmsg.ProduceResponse).Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return fmt.Errorf("produce to partition %d: %w", p.Partition, err)
			}
			if p.BaseOffset != s.want[p.Partition] {
				return fmt.Errorf("produce to partition %d: stands at %d instead of %d", p.Partition, p.BaseOffset, s.want[p.Partition])
			}
		}
	}
	return nil
}

// eachBatch calls fn for every whole batch of a fetch answer's partition.
func eachBatch(raw []byte, fn func(b []byte)) {
	const head = 12 // base offset and length
	for len(raw) > head {
		n := head + int(binary.BigEndian.Uint32(raw[8:]))
		if n > len(raw) {
			return
		}
		fn(raw[:n:n])
		raw = raw[n:]
	}
}

func baseOffset(b []byte) int64 { return int64(binary.BigEndian.Uint64(b)) }

// count is the number of records of a batch without holes; the benchmark's topics have no others.
func count(b []byte) int64 { return int64(binary.BigEndian.Uint32(b[57:])) }
