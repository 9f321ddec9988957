package configs

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/kafka"
	"lockstep/topicsync/drift"
)

const (
	// topicsPerDescribe bounds one DescribeConfigs request: about 3 KB of answer per topic.
	topicsPerDescribe = 250
	// requestTimeout bounds one request; the client repeats it until then.
	requestTimeout = 15 * time.Second
)

// Settings are what DescribeConfigs said of one topic. Secret settings are left out.
type Settings struct {
	Explicit map[string]string // set on the topic itself, neither secret nor read-only
	// Effective are all that were asked for, brokers' defaults included; nil when only explicit ones were wanted.
	Effective map[string]string
	Err       error // the broker's own; then there is nothing else
}

// Read asks for the settings of topics, in few requests. keys nil means all of them. Every topic is in the answer.
func Read(ctx context.Context, c *kafka.Cluster, topics, keys []string, effective bool) map[string]Settings {
	out := make(map[string]Settings, len(topics))
	for chunk := range slices.Chunk(topics, topicsPerDescribe) {
		resp, err := readOnce(ctx, c, chunk, keys)
		if err != nil {
			for _, topic := range chunk {
				out[topic] = Settings{Err: err}
			}
			continue
		}
		for _, r := range resp.Resources {
			out[r.ResourceName] = settingsOf(r, effective)
		}
		for _, topic := range chunk {
			if _, ok := out[topic]; !ok {
				out[topic] = Settings{Err: errors.New("the broker's answer leaves the topic out")}
			}
		}
	}
	return out
}

func readOnce(ctx context.Context, c *kafka.Cluster, topics, keys []string) (*kmsg.DescribeConfigsResponse, error) {
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

func settingsOf(r kmsg.DescribeConfigsResponseResource, effective bool) Settings {
	if err := drift.BrokerError(r.ErrorCode, r.ErrorMessage); err != nil {
		return Settings{Err: err}
	}
	s := Settings{Explicit: make(map[string]string)}
	if effective {
		s.Effective = make(map[string]string, len(r.Configs))
	}
	for _, c := range r.Configs {
		if c.Value == nil || c.IsSensitive {
			continue
		}
		if effective {
			s.Effective[c.Name] = *c.Value
		}
		if c.Source == kmsg.ConfigSourceDynamicTopicConfig && !c.ReadOnly {
			s.Explicit[c.Name] = *c.Value
		}
	}
	return s
}
