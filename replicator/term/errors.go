package term

import (
	"errors"
	"fmt"

	"lockstep/internal/grants"
)

var (
	// ErrDenied says that an ACL is missing; the error that wraps it is a *DeniedError with the line that grants it.
	ErrDenied = errors.New("not authorized")
	// ErrSuperseded says that a newer term's marker stands in the partition: the term that was to be sealed has ended,
	// and so has the sealer's own.
	ErrSuperseded = errors.New("a newer term has sealed the partition")
	// ErrNoLeader says that a partition has no leader now: nobody can seal it before one is back.
	ErrNoLeader = errors.New("partition has no leader")
	// ErrUnknownPartition says that the target does not have the partition, or not that topic id any more.
	ErrUnknownPartition = errors.New("target does not have the partition")
	// ErrBelowMinISR says that a seal by transaction leaves the partition out: it has too few replicas in sync, and the
	// transaction would hang there and hold back every later term of the link.
	ErrBelowMinISR = errors.New("too few replicas in sync")
	// ErrNoMarker says that the marker was not seen in the partition's log before the time was over. It may still come.
	ErrNoMarker = errors.New("marker not found in the partition's log")
	// ErrOldID says that a lane was written under a producer id that the coordinator forgot, and that only a direct
	// marker can end it.
	ErrOldID = errors.New("only a direct marker ends a term of a forgotten producer id")
)

// DeniedError is a missing permission with the command that grants it. It wraps ErrDenied and the broker's error.
type DeniedError struct {
	Operation string // as kafka-acls.sh spells it, for example "Alter"
	Resource  string // the options of kafka-acls.sh that name the resource, for example "--cluster"
	Err       error
}

func deniedTopic(err error, operation, topic string) *DeniedError {
	return denied(err, operation, grants.Named(grants.Topic, grants.Name{Text: topic}))
}

func denied(err error, operation, resource string) *DeniedError {
	return &DeniedError{Operation: operation, Resource: resource, Err: err}
}

// deniedID is the refusal of a transactional id.
func deniedID(err error, txnID string) *DeniedError {
	return denied(err, "Write", grants.Named(grants.TransactionalID, grants.Name{Text: txnID}))
}

// Error implements error.
func (e *DeniedError) Error() string {
	return fmt.Sprintf("%s on %s is missing on the target (%v); grant it: %s", e.Operation, e.Resource, e.Err, e.Grant())
}

// Unwrap lets errors.Is find both ErrDenied and the broker's error.
func (e *DeniedError) Unwrap() []error { return []error{ErrDenied, e.Err} }

// Grant returns the kafka-acls.sh command that adds the permission. The server and the principal are the operator's
// to fill in: a client does not know the principal that the broker took it for.
func (e *DeniedError) Grant() string { return grants.Hint(e.Operation, e.Resource) }
