package term

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"lockstep/internal/kafka"
)

// askTimeout bounds one question to the leaders.
const askTimeout = 4 * time.Second

// prepare finds out, for each job, the leader, where its log ends now and what the leader knows of the producer id
// that is to be ended. A job that cannot go on gets its error; one from an earlier round is forgotten.
func (s *Sealer) prepare(ctx context.Context, jobs []*job) {
	if len(jobs) == 0 {
		return // no topic names would mean all topics
	}
	for _, j := range jobs {
		j.err, j.silent = nil, nil
	}
	meta, err := s.metadata(ctx, topics(jobs))
	if err != nil {
		fail(jobs, fmt.Errorf("look for leaders: %w", err))
		return
	}
	locate(meta, jobs)
	found := healthy(jobs)
	if len(found) == 0 {
		return
	}
	// A broker that hangs must not hold back the partitions of the others for long.
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { s.askProducers(ctx, found) })
	s.askEnds(ctx, found)
	wg.Wait()
}

// metadata repeats until the cluster answers or ctx ends.
func (s *Sealer) metadata(ctx context.Context, names []string) (kafka.Meta, error) {
	var wait backoff
	for {
		meta, err := s.dst.Metadata(ctx, names...)
		if err == nil {
			return meta, nil
		}
		if cause := wait.wait(ctx); cause != nil {
			return kafka.Meta{}, fmt.Errorf("%w (last answer: %w)", cause, err)
		}
	}
}

// locate sets each job's leader and replicas, or why there is none.
func locate(meta kafka.Meta, jobs []*job) {
	for _, j := range jobs {
		p, err := find(meta, j.Part)
		if err != nil {
			j.err = err
			continue
		}
		j.leader, j.isr, j.replicas = p.Leader, len(p.ISR), len(p.Replicas)
		if p.Leader < 0 {
			j.err = ErrNoLeader
		}
	}
}

// find returns what metadata says of a partition. A topic that was made again under another id is another topic.
func find(meta kafka.Meta, part kafka.Part) (kafka.PartMeta, error) {
	topic, ok := meta.Topics[part.Topic]
	switch {
	case !ok, errors.Is(topic.Err, kerr.UnknownTopicOrPartition):
		return kafka.PartMeta{}, ErrUnknownPartition
	case errors.Is(topic.Err, kerr.TopicAuthorizationFailed):
		return kafka.PartMeta{}, deniedTopic(topic.Err, "Describe", part.Topic)
	case topic.Err != nil:
		return kafka.PartMeta{}, topic.Err
	case !part.ID.IsZero() && !topic.ID.IsZero() && part.ID != topic.ID:
		return kafka.PartMeta{}, fmt.Errorf("%w: the topic has id %s now, not %s", ErrUnknownPartition, topic.ID, part.ID)
	}
	if p, ok := topic.Part(part.Partition); ok {
		return p, nil
	}
	return kafka.PartMeta{}, ErrUnknownPartition
}

// askEnds sets where reading back begins. The marker is appended after this question, so it cannot stand below the end
// that is answered now, and what lies between From and that end need not be read.
func (s *Sealer) askEnds(ctx context.Context, jobs []*job) {
	ends := s.dst.ListOffsets(ctx, parts(jobs), kafka.AtEnd, false)
	for _, j := range jobs {
		end, ok := ends[j.Part]
		switch {
		case ok && end.Err == nil:
			j.search = end.Offset
		default:
			j.silent = fmt.Errorf("ask for the log's end: %w", cmp.Or(end.Err, error(kerr.UnknownServerError)))
			if j.search = j.From; j.From == 0 {
				j.err = j.silent
			}
		}
	}
}

// askProducers sets the coordinator epoch for a direct marker: the one that the leader shows for the producer id, else
// 0 and never a larger one, which would make the id's next transaction hang. A leader that does not say (no permission,
// an older broker) counts as one that knows nobody; if that is wrong, the marker is refused.
func (s *Sealer) askProducers(ctx context.Context, jobs []*job) {
	answers := s.dst.DescribeProducers(ctx, parts(jobs))
	for _, j := range jobs {
		j.coordinator = 0
		p, known := answers[j.Part].Find(j.pid)
		if !known {
			continue
		}
		j.coordinator = max(0, p.CoordinatorEpoch)
		if j.was == nil { // later rounds may already see the marker
			j.was = &p
		}
	}
}
