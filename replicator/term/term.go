package term

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/kafka"
	"lockstep/internal/model"
)

const (
	// rotateAt is the epoch from which on Take asks until the coordinator hands out another producer id. Epochs end at
	// 32767; what is left is for the seals that are still to come under this id.
	rotateAt = 30_000
	// txnTimeout is how long the coordinator leaves an unfinished transaction of a seal alone. A sealer that dies in
	// the middle leaves one; when it times out, the coordinator raises the epoch and so fences the living owner, which
	// then takes a new term. Long enough for a slow chunk, short enough not to hold the next Take back for long.
	txnTimeout = 30 * time.Second
)

// TransactionalID returns the transactional id that all terms of a link are taken with.
func TransactionalID(link string) string { return "lockstep." + link }

// OtherID reports whether t was taken from another producer id than last: lanes of last have to be sealed under the
// old id then, which Seal does for every target whose Ends names it.
func OtherID(last, t model.Term) bool { return last.N > 0 && last.PID != t.PID }

// Take asks the target's transaction coordinator for the next term of a link: the term behind last (the zero Term for
// the first), held by owner. From this moment on the coordinator's epoch belongs to the caller, but older terms go on
// writing until their partitions are sealed.
//
// A transaction that hangs (a seal by transaction with a partition below min.insync.replicas) makes the coordinator
// answer CONCURRENT_TRANSACTIONS; Take repeats that, a coordinator that moves and broken connections until ctx ends.
// A term of another producer id than last is no error, see OtherID. Taking a term from epoch 30000 on rotates the
// producer id on purpose. The error wraps ErrDenied when the ACL on the transactional id is missing.
func Take(ctx context.Context, dst *kafka.Cluster, link string, last model.Term, owner string) (model.Term, error) {
	c := newCoordinator(dst, link)
	return take(ctx, c.initProducerID, last, owner)
}

// producer is what InitProducerId hands out.
type producer struct {
	id    int64
	epoch int16
}

// take repeats ask until what it hands out can be a term behind last.
func take(ctx context.Context, ask func(context.Context) (producer, error), last model.Term, owner string) (model.Term, error) {
	var first producer
	for i := 0; ; i++ {
		p, err := ask(ctx)
		if err != nil {
			return model.Term{}, fmt.Errorf("take term %d: %w", last.N+1, err)
		}
		if i == 0 {
			first = p
		}
		if settled(p, first, last) {
			return model.Term{N: last.N + 1, PID: p.id, Epoch: p.epoch, Owner: owner}, nil
		}
	}
}

// settled reports whether p can be a term behind last. Two kinds cannot. An epoch of 30000 or more is rotated away,
// unless this call already sees a second id. And an epoch at or below last's under the same id comes from a
// coordinator that lost its log: partitions would refuse its markers and batches, so the next one is asked for.
func settled(p, first producer, last model.Term) bool {
	if p.epoch >= rotateAt {
		return p.id != first.id
	}
	return last.N == 0 || p.id != last.PID || p.epoch > last.Epoch
}

// TakePlain takes a term without the coordinator, for a target that allows no transactional id (Take answered
// ErrDenied) and then no seal either. It keeps last's producer id and raises the epoch by one: a broker takes any
// higher epoch of a plain producer, and the first batch of it ends the older term on that partition. Without a last
// term, or when epochs run out, a new producer id is asked for. Nothing orders two actors that call it: only the
// claims in the state topic do.
func TakePlain(ctx context.Context, dst *kafka.Cluster, last model.Term, owner string) (model.Term, error) {
	t := model.Term{N: last.N + 1, PID: last.PID, Epoch: last.Epoch + 1, Owner: owner}
	if last.N > 0 && last.Epoch < rotateAt {
		return t, nil
	}
	req := kmsg.NewPtrInitProducerIDRequest()
	req.ProducerID, req.ProducerEpoch = -1, -1
	resp, err := req.RequestWith(ctx, dst.Admin())
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if errors.Is(err, kerr.ClusterAuthorizationFailed) {
		return model.Term{}, denied(err, "IdempotentWrite", "--cluster")
	}
	if err != nil {
		return model.Term{}, fmt.Errorf("take term %d without a transactional id: %w", t.N, err)
	}
	t.PID, t.Epoch = resp.ProducerID, resp.ProducerEpoch
	return t, nil
}
