package term

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/model"
)

const (
	// partitionsPerTxn bounds one transaction: 1,000 partitions are complete after 0.3 to 5 s.
	partitionsPerTxn = 1000
	// abortTimeout bounds ending a transaction after the caller's context ended. It must not be left open: the
	// coordinator would abort it at its timeout under a higher epoch, which fences the link's living owner.
	abortTimeout = 5 * time.Second
	// prepareRounds is how often leaders are looked for once more.
	prepareRounds = 3
)

// byTransaction seals jobs by empty aborted transactions of t, in chunks, the healthiest partitions first. Afterwards
// every job has an error or is worth reading back. The error is what stopped the whole.
func (s *Sealer) byTransaction(ctx context.Context, t model.Term, jobs []*job) error {
	pending := healthy(jobs)
	if len(pending) == 0 {
		return nil
	}
	for _, j := range pending {
		j.way = WayTransaction
	}
	s.leaveOutWeak(ctx, pending)
	pending = healthy(pending)
	slices.SortStableFunc(pending, func(a, b *job) int { return cmp.Compare(a.replicas-a.isr, b.replicas-b.isr) })
	c := newCoordinator(s.dst, s.link)
	for chunk := range slices.Chunk(pending, s.perTxn) {
		if err := s.alone(ctx, func() error { return sealChunk(ctx, c, producer{t.PID, t.Epoch}, chunk) }); err != nil {
			fail(slices.DeleteFunc(pending, func(j *job) bool { return j.written }), err)
			return err
		}
	}
	return nil
}

// alone runs fn while no other transaction of the link is open.
func (s *Sealer) alone(ctx context.Context, fn func() error) error {
	select {
	case s.txn <- struct{}{}:
		defer func() { <-s.txn }()
		return fn()
	case <-ctx.Done():
		return fmt.Errorf("wait for another seal of the link: %w", context.Cause(ctx))
	}
}

// prepareAgain repeats the questions for partitions whose leader may be on its way.
func (s *Sealer) prepareAgain(ctx context.Context, jobs []*job) {
	var wait backoff
	for range prepareRounds {
		jobs = slices.DeleteFunc(slices.Clone(jobs), func(j *job) bool { return !again(j.err) })
		if len(jobs) == 0 || wait.wait(ctx) != nil {
			return
		}
		s.prepare(ctx, jobs)
	}
}

// sealChunk runs one transaction. Partitions that the coordinator refuses (they are gone, or an ACL is missing) make it
// attempt none, so they are taken out and the others are tried again.
func sealChunk(ctx context.Context, c *coordinator, p producer, jobs []*job) error {
	for len(jobs) > 0 {
		errs, err := c.addPartitions(ctx, p, partitions(jobs))
		if err != nil {
			// Whether they were added is not known: an abort settles it, and harms nothing when they were not.
			_ = finish(ctx, c, p)
			return fenced(fmt.Errorf("add partitions to the seal's transaction: %w", err))
		}
		rest, err := refuse(c.txnID, jobs, errs)
		if err != nil {
			return err
		}
		if len(rest) == len(jobs) {
			break
		}
		jobs = rest
	}
	if len(jobs) == 0 {
		return nil
	}
	if err := finish(ctx, c, p); err != nil {
		return fenced(fmt.Errorf("end the seal's transaction: %w", err))
	}
	for _, j := range jobs {
		j.written = true
	}
	return nil
}

// refuse gives each refused job its error and returns the others. It fails when the answers concern the whole.
func refuse(txnID string, jobs []*job, errs map[partition]error) ([]*job, error) {
	var rest []*job
	refused := 0
	for _, j := range jobs {
		err, ok := errs[j.part()]
		switch {
		case !ok:
			err = kerr.UnknownServerError
		case err == nil, errors.Is(err, kerr.OperationNotAttempted):
			rest = append(rest, j)
			continue
		case errors.Is(err, kerr.TransactionalIDAuthorizationFailed):
			return nil, deniedID(err, txnID)
		case stale(err):
			return nil, fenced(err)
		case errors.Is(err, kerr.TopicAuthorizationFailed):
			err = deniedTopic(err, "Write", j.Topic)
		case errors.Is(err, kerr.UnknownTopicOrPartition):
			err = ErrUnknownPartition
		}
		j.err, refused = err, refused+1
	}
	if refused == 0 && slices.ContainsFunc(rest, func(j *job) bool { return errs[j.part()] != nil }) {
		return nil, fmt.Errorf("add partitions to the seal's transaction: %w", kerr.OperationNotAttempted)
	}
	return rest, nil
}

// finish aborts the transaction, also when ctx has ended already.
func finish(ctx context.Context, c *coordinator, p producer) error {
	if ctx.Err() == nil {
		if err := c.abort(ctx, p); err == nil || ctx.Err() == nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	return c.abort(ctx, p)
}

// stale reports whether a coordinator says that the term is not the newest any more.
func stale(err error) bool {
	return errors.Is(err, kerr.InvalidProducerEpoch) || errors.Is(err, kerr.ProducerFenced) ||
		errors.Is(err, kerr.InvalidProducerIDMapping)
}

// fenced marks an error of a term that is not the newest any more as such.
func fenced(err error) error {
	if stale(err) {
		return fmt.Errorf("%w: %w", ErrSuperseded, err)
	}
	return err
}

// leaveOutWeak gives an error to partitions whose leader did not answer just now, and to those below
// min.insync.replicas. One of them in a transaction holds it in PrepareAbort, and every later transaction and
// InitProducerId of the link answers CONCURRENT_TRANSACTIONS until it heals.
func (s *Sealer) leaveOutWeak(ctx context.Context, jobs []*job) {
	mins := s.minISR(ctx, topics(jobs))
	for _, j := range jobs {
		if j.silent != nil {
			j.err = j.silent
			continue
		}
		least, ok := mins[j.Topic]
		if !ok {
			least = j.replicas/2 + 1 // not allowed to see it: the usual setting
		}
		if j.isr < least {
			j.err = fmt.Errorf("%w: %d of %d replicas, %d needed", ErrBelowMinISR, j.isr, j.replicas, least)
		}
	}
}

// minISR reads the topics' effective min.insync.replicas. Topics whose settings cannot be read are left out.
func (s *Sealer) minISR(ctx context.Context, names []string) map[string]int {
	req := kmsg.NewPtrDescribeConfigsRequest()
	for _, name := range names {
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName, r.ConfigNames = kmsg.ConfigResourceTypeTopic, name, []string{"min.insync.replicas"}
		req.Resources = append(req.Resources, r)
	}
	mins := make(map[string]int)
	_ = attempt(ctx, func(ctx context.Context) error {
		resp, err := req.RequestWith(ctx, s.dst.Admin())
		if err != nil {
			return err
		}
		for _, r := range resp.Resources {
			for _, c := range r.Configs {
				if c.Name != "min.insync.replicas" || c.Value == nil {
					continue
				}
				if n, err := strconv.Atoi(*c.Value); err == nil {
					mins[r.ResourceName] = n
				}
			}
		}
		return nil
	})
	return mins
}
