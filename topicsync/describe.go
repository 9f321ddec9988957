package topicsync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/kafka"
)

const (
	// topicsPerDescribe bounds one DescribeConfigs request: about 3 KB of answer per topic.
	topicsPerDescribe = 250
	// requestTimeout bounds one request; the client repeats it until then.
	requestTimeout = 15 * time.Second
)

// described is what DescribeConfigs said of one topic.
type described struct {
	settings map[string]string
	err      error
}

// ReadExplicit returns the explicit settings of topics: those set on the topic itself, not inherited from brokers or
// defaults, and neither secret nor read-only. A topic that cannot be read has an error.
func ReadExplicit(ctx context.Context, c *kafka.Cluster, topics []string) (map[string]map[string]string, map[string]error) {
	return split(c, describe(ctx, c, topics, nil, func(s kmsg.DescribeConfigsResponseResourceConfig) bool {
		return s.Source == kmsg.ConfigSourceDynamicTopicConfig && !s.ReadOnly && !s.IsSensitive
	}))
}

// ReadLimits returns what topics accept, from their effective settings. A topic that cannot be read has an error.
func ReadLimits(ctx context.Context, c *kafka.Cluster, topics []string) (map[string]TopicLimits, map[string]error) {
	every := func(kmsg.DescribeConfigsResponseResourceConfig) bool { return true }
	settings, errs := split(c, describe(ctx, c, topics, limitKeys(), every))
	limits := make(map[string]TopicLimits, len(settings))
	for topic, s := range settings {
		limits[topic] = limitsOf(s)
	}
	return limits, errs
}

func split(c *kafka.Cluster, all map[string]described) (map[string]map[string]string, map[string]error) {
	settings, errs := make(map[string]map[string]string), make(map[string]error)
	for topic, d := range all {
		if d.err != nil {
			errs[topic] = topicError("read settings of", topic, c.Name(), "DescribeConfigs", d.err)
			continue
		}
		settings[topic] = d.settings
	}
	return settings, errs
}

// describe asks for the settings of topics, in few requests. keys nil means all of them.
func describe(ctx context.Context, c *kafka.Cluster, topics, keys []string, keep func(kmsg.DescribeConfigsResponseResourceConfig) bool) map[string]described {
	out := make(map[string]described, len(topics))
	for chunk := range slices.Chunk(topics, topicsPerDescribe) {
		resp, err := describeOnce(ctx, c, chunk, keys)
		if err != nil {
			for _, topic := range chunk {
				out[topic] = described{err: err}
			}
			continue
		}
		for _, r := range resp.Resources {
			out[r.ResourceName] = readResource(r, keep)
		}
		for _, topic := range chunk {
			if _, ok := out[topic]; !ok {
				out[topic] = described{err: errors.New("the broker's answer leaves the topic out")}
			}
		}
	}
	return out
}

func describeOnce(ctx context.Context, c *kafka.Cluster, topics, keys []string) (*kmsg.DescribeConfigsResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req := kmsg.NewPtrDescribeConfigsRequest()
	for _, topic := range topics {
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName, r.ConfigNames = kmsg.ConfigResourceTypeTopic, topic, keys
		req.Resources = append(req.Resources, r)
	}
	return req.RequestWith(ctx, c.Admin())
}

func readResource(r kmsg.DescribeConfigsResponseResource, keep func(kmsg.DescribeConfigsResponseResourceConfig) bool) described {
	if err := brokerError(r.ErrorCode, r.ErrorMessage); err != nil {
		return described{err: err}
	}
	settings := make(map[string]string)
	for _, s := range r.Configs {
		if s.Value != nil && keep(s) {
			settings[s.Name] = *s.Value
		}
	}
	return described{settings: settings}
}

// brokerError returns a broker's error with its own words, nil for code 0.
func brokerError(code int16, message *string) error {
	err := kerr.ErrorForCode(code)
	if err == nil || message == nil || *message == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, *message)
}
