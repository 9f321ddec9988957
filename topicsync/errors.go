package topicsync

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"lockstep/topicsync/drift"
)

// ErrClusterChanged says that a cluster answers with another id than before: it was replaced, and nothing of what was
// seen so far holds.
var ErrClusterChanged = errors.New("another cluster answers under this name than before")

// errTargetLost says that a target topic that existed is gone. It is not created again silently.
var errTargetLost = errors.New("the target topic existed and is gone; it is not created again by itself")

// errTargetSmaller says that a target topic was made anew by somebody else, too small. It does not grow by itself.
var errTargetSmaller = fmt.Errorf("%w: the one that stands there now is another, with fewer partitions", errTargetLost)

// TopicError is what is wrong with one topic, with what an operator can do.
type TopicError struct {
	Op      string // create, grow, describe, read settings of, ask the leaders of
	Topic   string // as the cluster calls it
	Cluster string
	Hint    string // a command or setting; "" when it is expected to pass by itself
	Err     error
}

// Error implements error.
func (e *TopicError) Error() string {
	s := fmt.Sprintf("%s topic %q on cluster %s: %v", e.Op, e.Topic, e.Cluster, e.Err)
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

// Unwrap returns the broker's error.
func (e *TopicError) Unwrap() error { return e.Err }

// topicError wraps a broker's error, with the missing grant where that is what is wrong.
func topicError(op, topic, cluster, operation string, err error) *TopicError {
	return &TopicError{Op: op, Topic: topic, Cluster: cluster, Hint: hint(topic, operation, err), Err: err}
}

func hint(topic, operation string, err error) string {
	switch {
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return drift.Grant(operation, "--topic "+topic)
	case errors.Is(err, kerr.ClusterAuthorizationFailed):
		return drift.Grant(operation, "--cluster")
	case errors.Is(err, kerr.InvalidReplicationFactor):
		return "start more brokers on the target, or set the link's replication_factor"
	case errors.Is(err, kerr.InvalidTopicException):
		return "the target may have a topic whose name differs only in '.' and '_'; give the copy another name with topics.rename"
	}
	return ""
}
