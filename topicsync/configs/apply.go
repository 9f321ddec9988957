package configs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/kafka"
	"lockstep/topicsync/drift"
)

// topicsPerAlter bounds one IncrementalAlterConfigs request.
const topicsPerAlter = 200

// altering is the changes of one topic, and what became of each.
type altering struct {
	topic   string // on the target
	changes []change
	errs    []error // by change
	send    []int   // changes that are to be sent, by their place
}

// apply changes settings, and returns the keys that the target turned out not to know. A chunk that the target refuses as
// a whole is halved. A broker refuses all changes of a topic for one of them: keys that it does not know are left out of
// all topics and the others sent again, together; the changes of a topic that is refused for anything else are tried one
// by one.
func apply(ctx context.Context, c *kafka.Cluster, as []*altering) map[string]error {
	for _, a := range as {
		a.errs, a.send = make([]error, len(a.changes)), make([]int, len(a.changes))
		for i := range a.send {
			a.send[i] = i
		}
	}
	unknown := make(map[string]error)
	for left := as; len(left) > 0; { // each round takes a key at least out of each topic that goes on
		for chunk := range slices.Chunk(left, topicsPerAlter) {
			applyChunk(ctx, c, chunk)
		}
		left = slices.DeleteFunc(slices.Clone(left), func(a *altering) bool { return !a.learn(unknown) })
		left = slices.DeleteFunc(left, func(a *altering) bool { a.drop(unknown); return len(a.send) == 0 })
	}
	for _, a := range as {
		if len(a.send) > 1 && refused(a.errs[a.send[0]]) {
			a.oneByOne(ctx, c)
		}
	}
	return unknown
}

// learn adds the keys that the target said it does not know, and reports whether there were any.
func (a *altering) learn(unknown map[string]error) bool {
	if len(a.send) == 0 || !refused(a.errs[a.send[0]]) {
		return false
	}
	why := a.errs[a.send[0]]
	if !strings.Contains(strings.ToLower(why.Error()), "unknown") {
		return false
	}
	keys := make([]string, len(a.send))
	for i, n := range a.send {
		keys[i] = a.changes[n].key
	}
	named := Named(why.Error(), keys)
	for _, key := range named {
		unknown[key] = why
	}
	return len(named) > 0
}

// drop leaves out the changes of unknown keys.
func (a *altering) drop(unknown map[string]error) {
	a.send = slices.DeleteFunc(a.send, func(n int) bool {
		err, is := unknown[a.changes[n].key]
		if is {
			a.errs[n] = err
		}
		return is
	})
}

func applyChunk(ctx context.Context, c *kafka.Cluster, as []*altering) {
	errs, err := alter(ctx, c, as)
	if err == nil && len(as) > 1 && !slices.ContainsFunc(as, func(a *altering) bool { return !wholly(errs[a.topic]) }) {
		applyChunk(ctx, c, as[:len(as)/2])
		applyChunk(ctx, c, as[len(as)/2:])
		return
	}
	for _, a := range as {
		for _, n := range a.send {
			a.errs[n] = outcome(errs, a.topic, err)
		}
	}
}

func outcome(errs map[string]error, topic string, err error) error {
	if err != nil {
		return err
	}
	answer, ok := errs[topic]
	if !ok {
		return fmt.Errorf("the broker's answer leaves the topic out: %w", kerr.UnknownServerError)
	}
	return answer
}

func (a *altering) oneByOne(ctx context.Context, c *kafka.Cluster) {
	for _, n := range a.send {
		errs, err := alter(ctx, c, []*altering{{topic: a.topic, changes: a.changes, send: []int{n}}})
		a.errs[n] = outcome(errs, a.topic, err)
	}
}

// refused reports whether a topic was refused for what may be one of its settings.
func refused(err error) bool {
	return errors.Is(err, kerr.InvalidConfig) || errors.Is(err, kerr.PolicyViolation) || errors.Is(err, kerr.InvalidRequest)
}

// wholly reports whether an error may be the fault of another topic in the same request.
func wholly(err error) bool {
	return errors.Is(err, kerr.PolicyViolation) || errors.Is(err, kerr.InvalidRequest)
}

// alter sends one request, and returns the answers by topic.
func alter(ctx context.Context, c *kafka.Cluster, as []*altering) (map[string]error, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	for _, a := range as {
		r := kmsg.NewIncrementalAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, a.topic
		for _, n := range a.send {
			ch := a.changes[n]
			x := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			x.Name, x.Value, x.Op = ch.key, ch.value, kmsg.IncrementalAlterConfigOpSet
			if ch.value == nil {
				x.Op = kmsg.IncrementalAlterConfigOpDelete
			}
			r.Configs = append(r.Configs, x)
		}
		req.Resources = append(req.Resources, r)
	}
	resp, err := req.RequestWith(ctx, c.Admin())
	if err != nil {
		return nil, err
	}
	errs := make(map[string]error, len(resp.Resources))
	for _, r := range resp.Resources {
		errs[r.ResourceName] = drift.BrokerError(r.ErrorCode, r.ErrorMessage)
	}
	return errs, nil
}
