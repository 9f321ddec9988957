package replicator

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/failpoint"
	"lockstep/internal/kafka"
	"lockstep/internal/model"
)

const (
	// sendBytes and sendParts bound one produce request: many ready partitions share it, since a request per batch
	// loses against every rival on small batches.
	sendBytes = 1 << 20
	sendParts = 64
	// sendWindow is how many requests are under way on one connection. The broker works on them in order.
	sendWindow = 4
	// produceTimeout is how long a leader waits for its followers.
	produceTimeout = 30 * time.Second
)

// sender produces to one target broker, several requests in flight in a fixed order.
type sender struct {
	m      *Manager
	broker int32
	ready  *queue
	pipe   *kafka.Pipeline
	cancel context.CancelFunc

	throttle throttle
}

// run sends until ctx ends. Requests without an answer then count as lost, and lanes that wait are woken for whoever
// comes next.
func (s *sender) run(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.pipe.Run(ctx)
	}()
	unsent, err := s.loop(ctx)
	<-done
	if unsent != nil {
		s.answered(unsent, nil, err) // only now: answers come in the order of sending
	}
	if s.m.work.Err() == nil {
		s.m.wakeSender(s.ready.drain()...)
	}
}

// loop sends until ctx ends. It returns the batches that it could not send any more, if there are such, and why.
func (s *sender) loop(ctx context.Context) (unsent *round, err error) {
	for {
		l, ok := s.ready.wait(ctx)
		if !ok {
			return nil, nil
		}
		if !s.m.pulse.await(ctx) {
			s.ready.push(l)
			return nil, nil
		}
		r := s.gather(l)
		if r == nil {
			continue
		}
		if err := s.send(ctx, r); err != nil {
			return r, err
		}
	}
}

// round is one produce request and the batches in it, in order.
type round struct {
	batches []*outgoing
	size    int
}

// gather takes one batch of each ready lane, up to a request's bounds. A lane may come up twice meanwhile, since every
// answer wakes it; its second batch has to wait for the next request, as a broker refuses two for one partition.
func (s *sender) gather(first *lane) *round {
	r := &round{}
	var again []*lane
	for l := first; l != nil; l = s.next(r) {
		if slices.ContainsFunc(r.batches, func(o *outgoing) bool { return o.lane == l }) {
			again = append(again, l)
			continue
		}
		o := l.take(s)
		if o == nil {
			continue
		}
		r.batches = append(r.batches, o)
		r.size += len(o.raw)
		if l.sendable() {
			again = append(again, l)
		}
	}
	s.ready.push(again...)
	if len(r.batches) == 0 {
		return nil
	}
	return r
}

// next returns the next lane for a request, nil when it is full or nobody waits.
func (s *sender) next(r *round) *lane {
	if r.size >= sendBytes || len(r.batches) >= sendParts {
		return nil
	}
	l, _ := s.ready.pop()
	return l
}

// send puts a request on its way. An error means that it was not sent, because the pipeline has ended.
func (s *sender) send(ctx context.Context, r *round) error {
	failpoint.Pass("before_send")
	err := s.pipe.Send(ctx, s.request(r), func(resp kmsg.Response, err error) {
		failpoint.Pass("before_answer")
		s.answered(r, resp, err)
	})
	failpoint.Pass("after_send")
	return err
}

func (s *sender) request(r *round) kmsg.Request {
	req := kmsg.NewPtrProduceRequest()
	req.Acks = -1
	req.TimeoutMillis = int32(produceTimeout.Milliseconds())
	index := make(map[string]int)
	for _, o := range r.batches {
		p := o.lane.dstPart()
		i, ok := index[p.Topic]
		if !ok {
			i = len(req.Topics)
			index[p.Topic] = i
			t := kmsg.NewProduceRequestTopic()
			t.Topic, t.TopicID = p.Topic, p.ID
			req.Topics = append(req.Topics, t)
		}
		part := kmsg.NewProduceRequestTopicPartition()
		part.Partition, part.Records = p.Partition, o.raw
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, part)
	}
	return req
}

// errUnanswered is the outcome of a batch that the broker's answer does not mention.
var errUnanswered = errors.New("the answer does not name the partition")

// answer is what a broker says of one partition: by the topic's id from version 13 of produce on, else by its name.
type answer struct {
	topic     string
	id        model.TopicID
	partition int32
	base      int64
	err       error
}

func (s *sender) answered(r *round, resp kmsg.Response, err error) {
	var answers []answer
	if pr, ok := resp.(*kmsg.ProduceResponse); ok && err == nil {
		s.m.throttled(sideTarget, &s.throttle, pr.ThrottleMillis)
		answers = collect(pr)
	}
	lanes := make([]*lane, len(r.batches))
	for i, o := range r.batches {
		lanes[i] = o.lane
		a := answer{err: err}
		if err == nil {
			a = find(answers, o.lane.dstPart(), i)
		}
		o.lane.settle(o, a.base, a.err)
	}
	// All at once, so that the next request is filled with all of them.
	s.m.wakeSender(lanes...)
}

func collect(pr *kmsg.ProduceResponse) (answers []answer) {
	for i := range pr.Topics {
		t := &pr.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			answers = append(answers, answer{t.Topic, t.TopicID, p.Partition, p.BaseOffset, kafka.ProduceError(p)})
		}
	}
	return answers
}

// find looks for a partition's answer, first where it usually stands.
func find(answers []answer, p kafka.Part, usually int) answer {
	for i := range answers {
		a := &answers[(usually+i)%len(answers)]
		if a.partition == p.Partition && (a.id == p.ID && a.topic == "" || a.topic == p.Topic) {
			return *a
		}
	}
	return answer{err: errUnanswered}
}
