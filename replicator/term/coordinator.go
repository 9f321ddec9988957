package term

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/kafka"
)

// maxEndTxn is the highest EndTxn version that is used: from version 5 on (Kafka 4) ending a transaction raises the
// epoch, so that one seal of several chunks would use several epochs, and the marker would be newer than the term.
// maxAddPartitions is the last version that clients, not brokers, may use.
const (
	maxEndTxn        = 4
	maxAddPartitions = 3
)

// attemptTimeout bounds one request to one broker.
const attemptTimeout = 5 * time.Second

// coordinator talks to the broker that coordinates a link's transactional id.
type coordinator struct {
	cl    *kgo.Client
	txnID string
	node  int32 // -1: not known
}

func newCoordinator(dst *kafka.Cluster, link string) *coordinator {
	return &coordinator{cl: dst.Admin(), txnID: TransactionalID(link), node: -1}
}

// initProducerID asks for the next epoch.
func (c *coordinator) initProducerID(ctx context.Context) (producer, error) {
	var p producer
	err := c.repeat(ctx, func(ctx context.Context) error {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionalID = kmsg.StringPtr(c.txnID)
		req.TransactionTimeoutMillis = int32(txnTimeout.Milliseconds())
		req.ProducerID, req.ProducerEpoch = -1, -1
		resp, err := ask[*kmsg.InitProducerIDResponse](ctx, c, req)
		if err != nil {
			return err
		}
		p = producer{resp.ProducerID, resp.ProducerEpoch}
		return kerr.ErrorForCode(resp.ErrorCode)
	})
	return p, err
}

// addPartitions adds partitions to the transaction of p and returns the error of each: nil for all of them, or for
// none, since one refused partition leaves the others OPERATION_NOT_ATTEMPTED.
func (c *coordinator) addPartitions(ctx context.Context, p producer, parts []partition) (map[partition]error, error) {
	var errs map[partition]error
	err := c.repeat(ctx, func(ctx context.Context) error {
		resp, err := ask[*kmsg.AddPartitionsToTxnResponse](ctx, c, c.addRequest(p, parts))
		if err != nil {
			return err
		}
		var again error
		errs, again = addErrors(resp)
		return again
	})
	return errs, err
}

// addRequest is built anew for each try: a client fills in parts of it that depend on the version.
func (c *coordinator) addRequest(p producer, parts []partition) kmsg.Request {
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = c.txnID, p.id, p.epoch
	for topic, ps := range byTopic(parts) {
		t := kmsg.NewAddPartitionsToTxnRequestTopic()
		t.Topic, t.Partitions = topic, ps
		req.Topics = append(req.Topics, t)
	}
	return kafka.Pinned{Request: req, Max: maxAddPartitions}
}

// addErrors returns each partition's error, and the error that concerns the coordinator or the whole transaction and
// is to be repeated, if there is one.
func addErrors(resp *kmsg.AddPartitionsToTxnResponse) (map[partition]error, error) {
	errs := make(map[partition]error)
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			err := kerr.ErrorForCode(p.ErrorCode)
			if passing(err) {
				return nil, err
			}
			errs[partition{t.Topic, p.Partition}] = err
		}
	}
	return errs, nil
}

// abort ends the transaction of p. Its answer proves nothing about markers.
func (c *coordinator) abort(ctx context.Context, p producer) error {
	return c.repeat(ctx, func(ctx context.Context) error {
		req := kmsg.NewPtrEndTxnRequest()
		req.TransactionalID, req.ProducerID, req.ProducerEpoch = c.txnID, p.id, p.epoch
		resp, err := ask[*kmsg.EndTxnResponse](ctx, c, kafka.Pinned{Request: req, Max: maxEndTxn})
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(resp.ErrorCode)
	})
}

// ask sends a request to the coordinator, which it looks up when it is not known.
func ask[R kmsg.Response](ctx context.Context, c *coordinator, req kmsg.Request) (R, error) {
	var none R
	if c.node < 0 {
		node, err := c.find(ctx)
		if err != nil {
			return none, err
		}
		c.node = node
	}
	resp, err := c.cl.Broker(int(c.node)).Request(ctx, req)
	if err != nil {
		return none, fmt.Errorf("ask broker %d: %w", c.node, err)
	}
	return resp.(R), nil
}

// find asks any broker who coordinates the transactional id.
func (c *coordinator) find(ctx context.Context) (int32, error) {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorType = 1
	req.CoordinatorKey, req.CoordinatorKeys = c.txnID, []string{c.txnID}
	resp, err := req.RequestWith(ctx, c.cl)
	if err != nil {
		return -1, fmt.Errorf("find coordinator of %q: %w", c.txnID, err)
	}
	node, code := resp.NodeID, resp.ErrorCode
	if len(resp.Coordinators) > 0 {
		node, code = resp.Coordinators[0].NodeID, resp.Coordinators[0].ErrorCode
	}
	if err := kerr.ErrorForCode(code); err != nil {
		return -1, fmt.Errorf("find coordinator of %q: %w", c.txnID, err)
	}
	return node, nil
}

// repeat calls fn until it answers something final or ctx ends; then the error tells both what was last seen and why
// the waiting ended. It forgets the coordinator's node before each new try.
func (c *coordinator) repeat(ctx context.Context, fn func(context.Context) error) error {
	var wait backoff
	for {
		err := attempt(ctx, fn)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, kerr.TransactionalIDAuthorizationFailed):
			return deniedID(err, c.txnID)
		case !passing(err):
			return err
		}
		c.node = -1
		if cause := wait.wait(ctx); cause != nil {
			return fmt.Errorf("%w (last answer: %w)", cause, err)
		}
	}
}

// attempt bounds one try, so that a broker that hangs does not use up the caller's time.
func attempt(ctx context.Context, fn func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	return fn(ctx)
}

// passing reports whether a coordinator's error is expected to go away by asking again.
func passing(err error) bool {
	switch {
	case err == nil:
		return false
	case errors.Is(err, kerr.ConcurrentTransactions), // the transaction before is not written out yet
		errors.Is(err, kerr.CoordinatorLoadInProgress),
		errors.Is(err, kerr.CoordinatorNotAvailable),
		errors.Is(err, kerr.NotCoordinator),
		errors.Is(err, kerr.RequestTimedOut):
		return true
	}
	// Any other answer of a broker is final. What is not a broker's answer is a broken connection, a slow answer or an
	// unknown broker, and InitProducerId, AddPartitionsToTxn and an abort may all be repeated without harm.
	var answer *kerr.Error
	return !errors.As(err, &answer) && !errors.Is(err, kgo.ErrClientClosed)
}
