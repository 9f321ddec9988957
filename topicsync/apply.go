package topicsync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/kafka"
	"lockstep/internal/model"
	"lockstep/topicsync/drift"
)

const (
	// topicsPerRequest bounds one CreateTopics or CreatePartitions request.
	topicsPerRequest = 200
	// requestTimeout bounds one request; the client repeats it until then.
	requestTimeout = 15 * time.Second
)

// Result is what became of an action. Its Left has what the target refused on top of the plan's.
type Result struct {
	Action
	// Existed says that somebody else created the topic first, with partitions and settings of their own.
	Existed bool
	// ID is that of the topic that was created; zero where the target does not tell.
	ID model.TopicID
	// Refused are settings that the target does not take, in the order in which it said so.
	Refused []string
	// Unknown are setting names that the target does not know, with its own words.
	Unknown map[string]string
	Err     error // a *TopicError
}

// Apply carries out a plan and returns one result per action, in their order. A chunk that a broker refuses as a whole
// is halved until the culprits stand alone; a topic whose settings are refused is created without those settings. One
// topic's error does not hold back the others.
//
// batch is how many topics the target takes in one request; what is found out about that is kept in it.
func Apply(ctx context.Context, dst *kafka.Cluster, actions []Action, batch *int) []Result {
	results := make([]Result, len(actions))
	var creates, grows []*Result
	for i, a := range actions {
		results[i].Action = a
		if a.Kind == Create {
			creates = append(creates, &results[i])
		} else {
			grows = append(grows, &results[i])
		}
	}
	createAll(ctx, dst, creates, batch)
	for chunk := range slices.Chunk(grows, *batch) {
		halving(chunk, batch, func(rs []*Result) { growOnce(ctx, dst, rs) })
	}
	for i := range results {
		results[i].finish(dst.Name())
	}
	return results
}

// finish gives an error its operation and hint, and forgives what is no error.
func (r *Result) finish(cluster string) {
	if r.Err == nil && r.Strict && len(r.Refused) > 0 {
		r.Err = &TopicError{Op: "create", Topic: r.DstTopic, Cluster: cluster, Hint: "leave them out with configs.exclude, or set configs.strict to false",
			Err: fmt.Errorf("%w: the target refuses %s, and configs.strict is set", kerr.InvalidConfig, strings.Join(r.Refused, ", "))}
		return
	}
	switch {
	case errors.Is(r.Err, kerr.TopicAlreadyExists):
		r.Existed, r.Err = true, nil
	case r.Err != nil && r.Kind == Create:
		r.Err = topicError("create", r.DstTopic, cluster, "Create", r.Err)
	case r.Err != nil:
		r.Err = topicError("grow", r.DstTopic, cluster, "Alter", r.Err)
	}
}

// halving sends a chunk, and its halves when a broker refused all of it: some limit the topics of one request, and do
// not say to how many. It returns false when the target refused every topic, alone too. A size that it takes where it
// refused twice as many is the batch from then on.
func halving(rs []*Result, batch *int, send func([]*Result)) bool {
	send(rs)
	if !slices.Equal(rs, withErr(rs, refusedWhole)) {
		return true
	}
	if len(rs) < 2 {
		return false
	}
	half := len(rs) / 2
	taken := halving(rs[:half], batch, send)
	taken = halving(rs[half:], batch, send) || taken
	if taken {
		*batch = min(*batch, half)
	}
	return taken
}

// refusedWhole reports whether an error may be the fault of another topic in the same request.
func refusedWhole(err error) bool {
	return errors.Is(err, kerr.PolicyViolation) || errors.Is(err, kerr.InvalidRequest)
}

// withErr returns the results whose error is of that kind.
func withErr(rs []*Result, is func(error) bool) []*Result {
	return slices.DeleteFunc(slices.Clone(rs), func(r *Result) bool { return r.Err == nil || !is(r.Err) })
}

func growOnce(ctx context.Context, dst *kafka.Cluster, rs []*Result) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.TimeoutMillis = int32(requestTimeout.Milliseconds())
	for _, r := range rs {
		t := kmsg.NewCreatePartitionsRequestTopic()
		t.Topic, t.Count = r.DstTopic, r.Partitions
		req.Topics = append(req.Topics, t)
	}
	resp, err := req.RequestWith(ctx, dst.Admin())
	errs := make(map[string]error)
	if err == nil {
		for _, t := range resp.Topics {
			errs[t.Topic] = drift.BrokerError(t.ErrorCode, t.ErrorMessage)
		}
	}
	settle(rs, errs, err)
}

// settle gives each result its topic's answer, or the error of the whole request.
func settle(rs []*Result, errs map[string]error, err error) {
	for _, r := range rs {
		answer, ok := errs[r.DstTopic]
		switch {
		case err != nil:
			r.Err = err
		case !ok:
			r.Err = fmt.Errorf("the broker's answer leaves the topic out: %w", kerr.UnknownServerError)
		default:
			r.Err = answer
		}
	}
}
