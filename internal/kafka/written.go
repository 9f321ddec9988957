package kafka

import (
	"errors"
	"fmt"
	"net"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Certainty is what an answer to produce, or the lack of one, says about a batch.
type Certainty int

// The zero value is OutcomeUnknown, so that what nobody thought of is never taken for certain.
const (
	OutcomeUnknown    Certainty = iota // it may stand in the log, now or soon
	OutcomeNotWritten                  // this request wrote nothing
	OutcomeWritten                     // it stands in the leader's log, replicated as acks asked
)

// String returns the certainty's name.
func (c Certainty) String() string {
	switch c {
	case OutcomeNotWritten:
		return "not written"
	case OutcomeWritten:
		return "written"
	default:
		return "unknown"
	}
}

// RefusedError is what a broker answered to produce for one partition.
type RefusedError struct {
	Err  *kerr.Error
	Base int64  // the answer's base offset: -1 when the batch was refused before anything was written
	Text string // the broker's own words, "" for none
}

// Error implements error.
func (e *RefusedError) Error() string {
	if e.Text == "" {
		return e.Err.Error()
	}
	return e.Err.Error() + ": " + e.Text
}

// Unwrap gives the kerr error.
func (e *RefusedError) Unwrap() error { return e.Err }

// ProduceError returns the error of one partition in a produce answer with all that the broker said about it, nil for
// none. The error knows whether the batch was written: see Outcome.
func ProduceError(p *kmsg.ProduceResponseTopicPartition) error {
	if p.ErrorCode == 0 {
		return nil
	}
	e := &RefusedError{Err: kerr.TypedErrorForCode(p.ErrorCode), Base: p.BaseOffset}
	if p.ErrorMessage != nil {
		e.Text = *p.ErrorMessage
	}
	for _, r := range p.ErrorRecords {
		if r.ErrorMessage != nil {
			e.Text = fmt.Sprintf("record %d: %s", r.RelativeOffset, *r.ErrorMessage)
			break // the first tells enough
		}
	}
	return e
}

// Outcome says whether the batch of a produce request stands in the log. Err is of ProduceError, or why there was no
// answer.
//
// A leader that appended and then lost its leadership, or its disk, while it waited for the replicas answers
// NOT_LEADER_FOR_PARTITION, UNKNOWN_TOPIC_OR_PARTITION or KAFKA_STORAGE_ERROR just as one that refused at once; only
// the base offset that it had given tells them apart (kafka.server.DelayedProduce). So these are OutcomeNotWritten only
// in an error of ProduceError.
func Outcome(err error) Certainty {
	if err == nil {
		return OutcomeWritten
	}
	ke, ok := errors.AsType[*kerr.Error](err)
	if !ok {
		return neverSent(err)
	}
	if ke == kerr.DuplicateSequenceNumber {
		return OutcomeWritten
	}
	refusal, told := errors.AsType[*RefusedError](err)
	if told && refusal.Base >= 0 {
		return OutcomeUnknown // appended, but not known to be replicated
	}
	if refusedBeforeAppend(ke) || told && refusedByLeadership(ke) {
		return OutcomeNotWritten
	}
	return OutcomeUnknown
}

// neverSent finds the failures that are certain: there was no connection, or no attempt to write.
func neverSent(err error) Certainty {
	if errors.Is(err, ErrNotSent) {
		return OutcomeNotWritten
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return OutcomeNotWritten
	}
	return OutcomeUnknown
}

// refusedByLeadership lists what a broker answers when it does not lead, before it writes or after.
func refusedByLeadership(e *kerr.Error) bool {
	switch e {
	case kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.UnknownTopicOrPartition, kerr.UnknownTopicID,
		kerr.InconsistentTopicID, kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch, kerr.ReplicaNotAvailable:
		return true
	}
	return false
}

// refusedBeforeAppend lists what a leader checks before it writes anything, and only then.
func refusedBeforeAppend(e *kerr.Error) bool {
	switch e {
	case kerr.NotEnoughReplicas: // checked before; its sister NOT_ENOUGH_REPLICAS_AFTER_APPEND is not here
		return true
	case kerr.OutOfOrderSequenceNumber, kerr.InvalidProducerEpoch, kerr.ProducerFenced, kerr.UnknownProducerID,
		kerr.InvalidProducerIDMapping, kerr.InvalidTxnState, kerr.TransactionCoordinatorFenced: // who writes
		return true
	case kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.TransactionalIDAuthorizationFailed,
		kerr.SaslAuthenticationFailed, kerr.IllegalSaslState, kerr.SecurityDisabled: // who asks
		return true
	case kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidTimestamp, kerr.InvalidRecord, kerr.CorruptMessage,
		kerr.UnsupportedCompressionType, kerr.UnsupportedForMessageFormat, kerr.InvalidTopicException,
		kerr.PolicyViolation, kerr.InvalidRequiredAcks, kerr.InvalidRequest, kerr.UnsupportedVersion: // what is written
		return true
	}
	return false
}
