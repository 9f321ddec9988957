package configs

import (
	"context"
	"errors"
	"fmt"
	"slices"

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
}

// apply changes settings. A chunk that the target refuses as a whole is halved; the changes of a topic that is refused
// are tried one by one, since a broker refuses all of a topic for one of them.
func apply(ctx context.Context, c *kafka.Cluster, as []*altering) {
	for _, a := range as {
		a.errs = make([]error, len(a.changes))
	}
	for chunk := range slices.Chunk(as, topicsPerAlter) {
		applyChunk(ctx, c, chunk)
	}
	for _, a := range as {
		if len(a.changes) > 1 && refused(a.errs[0]) {
			a.oneByOne(ctx, c)
		}
	}
}

func applyChunk(ctx context.Context, c *kafka.Cluster, as []*altering) {
	errs, err := alter(ctx, c, as)
	if err == nil && len(as) > 1 && !slices.ContainsFunc(as, func(a *altering) bool { return !wholly(errs[a.topic]) }) {
		applyChunk(ctx, c, as[:len(as)/2])
		applyChunk(ctx, c, as[len(as)/2:])
		return
	}
	for _, a := range as {
		for i := range a.errs {
			a.errs[i] = outcome(errs, a.topic, err)
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
	for i, ch := range a.changes {
		one := &altering{topic: a.topic, changes: []change{ch}}
		errs, err := alter(ctx, c, []*altering{one})
		a.errs[i] = outcome(errs, a.topic, err)
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
		for _, ch := range a.changes {
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
