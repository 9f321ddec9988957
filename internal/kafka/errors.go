package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"lockstep/internal/model"
)

// Action is what a loop does about an error.
type Action int

// The actions, from the lightest to the heaviest.
const (
	None    Action = iota // there is no error
	Retry                 // ask the same again, after a short pause
	Refresh               // find the leader (or the brokers' addresses) anew, then ask again
	Reopen                // the position does not hold any more: look at both logs again
	Wait                  // passes when something outside changes; try again every few seconds
	Stop                  // would fail for ever: an operator has to act
)

// String returns the action's name.
func (a Action) String() string {
	switch a {
	case None:
		return "none"
	case Retry:
		return "retry"
	case Refresh:
		return "refresh"
	case Reopen:
		return "reopen"
	case Wait:
		return "wait"
	default:
		return "stop"
	}
}

// ErrRecreated marks the answer that a topic has another id than expected: it was deleted and created again, or the
// broker that answered lags. Only metadata that says so lastingly is proof. It comes with UNKNOWN_TOPIC_ID.
var ErrRecreated = errors.New("the topic has another id")

// Classify says what to do about any error of this package, of a broker or of a connection, and which reason to show.
// It is the only place where the program decides that. The context's own end is Retry: whoever ended it knows.
func Classify(err error) (Action, model.Reason) {
	if err == nil {
		return None, model.ReasonNone
	}
	if errors.Is(err, ErrRecreated) {
		// One lagging broker must not stop a lane; topicsync compares ids and stops it when they differ lastingly.
		return Refresh, model.ReasonRecreated
	}
	if ke, ok := errors.AsType[*kerr.Error](err); ok {
		return classifyBroker(ke)
	}
	return classifyClient(err)
}

// classifyBroker judges an error code of a broker.
func classifyBroker(e *kerr.Error) (Action, model.Reason) {
	for _, judge := range []func(*kerr.Error) (Action, model.Reason){classifyLeader, classifyPosition, classifyAccess, classifyContent, classifyTransient} {
		if action, reason := judge(e); action != None {
			return action, reason
		}
	}
	if e.Retriable {
		return Refresh, model.ReasonLeaderUnavailable // Kafka says that asking again may help; it never harms
	}
	return Stop, model.ReasonRefused // asking the same again gets the same answer
}

// classifyLeader judges errors that say that another broker should be asked.
func classifyLeader(e *kerr.Error) (Action, model.Reason) {
	switch e {
	case kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.FencedLeaderEpoch, kerr.ReplicaNotAvailable,
		kerr.NotController, kerr.NotCoordinator, kerr.BrokerNotAvailable, kerr.ListenerNotFound, kerr.BrokerIDNotRegistered,
		kerr.StaleBrokerEpoch, kerr.RebootstrapRequired, kerr.InconsistentClusterID:
		return Refresh, model.ReasonLeaderUnavailable // an election has been, or is on its way
	case kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.InconsistentTopicID:
		// A new topic's leader says so for 200 ms, a broker that lags for longer. Whether the topic is really gone, or
		// was created again, is for those to say who watch topics.
		return Refresh, model.ReasonLeaderUnavailable
	case kerr.KafkaStorageError:
		return Refresh, model.ReasonLeaderUnavailable // that broker's disk failed: another one takes over
	case kerr.UnknownLeaderEpoch, kerr.OffsetNotAvailable:
		return Retry, model.ReasonLeaderUnavailable // the right broker, which has not caught up with its own election
	case kerr.PreferredLeaderNotAvailable, kerr.EligibleLeadersNotAvailable:
		return Wait, model.ReasonLeaderUnavailable // no replica that could lead is alive
	case kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend:
		return Wait, model.ReasonLeaderUnavailable // too few replicas are alive for acks=all
	}
	return None, model.ReasonNone
}

// classifyPosition judges errors that say that offset, sequence or epoch are not what we think.
func classifyPosition(e *kerr.Error) (Action, model.Reason) {
	switch e {
	case kerr.OffsetOutOfRange:
		return Reopen, model.ReasonGap // below the start, or beyond the end: both ends have to be asked for
	case kerr.OffsetMovedToTieredStorage:
		return Retry, model.ReasonLeaderUnavailable
	case kerr.OutOfOrderSequenceNumber, kerr.DuplicateSequenceNumber, kerr.UnknownProducerID:
		// Never by resetting the sequence: the target's headers say what is there.
		return Reopen, model.ReasonDiverged
	case kerr.InvalidProducerEpoch, kerr.ProducerFenced, kerr.InvalidProducerIDMapping, kerr.InvalidTxnState,
		kerr.TransactionCoordinatorFenced, kerr.TransactionAbortable:
		return Reopen, model.ReasonSuperseded // a newer term stands in the log; the state topic says whose
	}
	return None, model.ReasonNone
}

// classifyAccess judges errors of authentication and authorisation. All of them wait: a grant, a renewed secret or
// certificate is seen by the next try, and a broker that is just starting refuses for a moment too.
func classifyAccess(e *kerr.Error) (Action, model.Reason) {
	switch e {
	case kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.ClusterAuthorizationFailed,
		kerr.TransactionalIDAuthorizationFailed, kerr.DelegationTokenAuthorizationFailed,
		kerr.SaslAuthenticationFailed, kerr.UnsupportedSaslMechanism, kerr.IllegalSaslState, kerr.SecurityDisabled:
		return Wait, model.ReasonNotAuthorized
	}
	return None, model.ReasonNone
}

// classifyContent judges errors about the records themselves: the same bytes would be refused again.
func classifyContent(e *kerr.Error) (Action, model.Reason) {
	switch e {
	case kerr.MessageTooLarge, kerr.RecordListTooLarge:
		return Stop, model.ReasonTooLarge
	case kerr.InvalidTimestamp:
		return Stop, model.ReasonTimestampRefused
	case kerr.CorruptMessage:
		return Stop, model.ReasonCorrupt // Kafka calls it retriable; the batch we hold does not mend itself
	case kerr.InvalidRecord, kerr.UnsupportedCompressionType, kerr.UnsupportedForMessageFormat, kerr.PolicyViolation,
		kerr.InvalidTopicException, kerr.InvalidRequiredAcks, kerr.InvalidRequest, kerr.UnsupportedVersion:
		return Stop, model.ReasonRefused
	}
	return None, model.ReasonNone
}

// classifyTransient judges errors that pass by themselves.
func classifyTransient(e *kerr.Error) (Action, model.Reason) {
	switch e {
	case kerr.RequestTimedOut, kerr.NetworkException:
		return Refresh, model.ReasonNetwork // the broker is cut off from the others: perhaps it does not lead any more
	case kerr.FetchSessionIDNotFound, kerr.InvalidFetchSessionEpoch, kerr.FetchSessionTopicIDError:
		return Retry, model.ReasonNetwork // Session's next request repairs it
	case kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable, kerr.ConcurrentTransactions,
		kerr.UnstableOffsetCommit, kerr.RebalanceInProgress, kerr.ReassignmentInProgress, kerr.OperationNotAttempted:
		return Retry, model.ReasonLeaderUnavailable
	case kerr.ThrottlingQuotaExceeded:
		return Wait, model.ReasonThrottled
	case kerr.UnknownServerError:
		return Wait, model.ReasonRefused // a fault of the broker: it may pass, and hammering does not help it
	}
	return None, model.ReasonNone
}

// classifyClient judges errors that no broker sent.
func classifyClient(err error) (Action, model.Reason) {
	if isSecurityErr(err) {
		return Wait, model.ReasonNotAuthorized // files and secrets are read again for the next connection
	}
	if errors.Is(err, errNoAnswer) {
		return Refresh, model.ReasonNetwork // before the context's own end, which it comes with
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, ErrNotSent) || errors.Is(err, kgo.ErrClientClosed) {
		return Retry, model.ReasonNetwork // a loop, a pipeline or a client was ended; the next one goes on
	}
	// What is left: a refused or timed-out dial, a connection that was cut, a broker that the client does not know
	// (any more), an answer that cannot be read, a partition left out. Most of these errors cannot be told apart, the
	// library exports few of them. All are answered by looking again who leads and where: that is cheap and never wrong.
	return Refresh, model.ReasonNetwork
}

// isSecurityErr finds failures to prove who we are or who the broker is.
func isSecurityErr(err error) bool {
	if _, ok := errors.AsType[*secretError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*certError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "remote error" {
		return true // a TLS alert: the broker's word on our certificate or version
	}
	var (
		authority x509.UnknownAuthorityError
		host      x509.HostnameError
		invalid   x509.CertificateInvalidError
	)
	return errors.As(err, &authority) || errors.As(err, &host) || errors.As(err, &invalid)
}
