package grants

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	topicsPerRequest = 1000
	// validateWait is what a controller may take to look at a request, in milliseconds.
	validateWait = 10_000
)

// topicOperations are those that brokers list of a topic, without CREATE: permission for it may be the cluster's.
var topicOperations = []Operation{Read, Write, Delete, Alter, Describe, DescribeConfigs, AlterConfigs}

// askTopics asks what may be done with topics. Brokers list it also for topics that do not exist, if they may be
// described, which everything but what concerns settings includes.
func (a *asker) askTopics(ctx context.Context, topics []string) error {
	for some := range slices.Chunk(topics, topicsPerRequest) {
		hidden, err := a.listTopics(ctx, some)
		if err == nil {
			err = a.askSettings(ctx, hidden)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// listTopics notes what brokers list and returns the topics that may not be described.
func (a *asker) listTopics(ctx context.Context, topics []string) (hidden []string, err error) {
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation, req.IncludeTopicAuthorizedOperations = false, true
	for _, topic := range topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(topic)
		req.Topics = append(req.Topics, t)
	}
	resp, err := req.RequestWith(ctx, a.c.Admin())
	if err != nil {
		return nil, err
	}
	for _, t := range resp.Topics {
		switch {
		case t.Topic == nil:
		case judge(t.ErrorCode) == isDenied:
			hidden = append(hidden, *t.Topic)
			for _, op := range []Operation{Read, Write, Delete, Alter, Describe} {
				a.note(Topic, *t.Topic, op, isDenied)
			}
		case !a.listed(Topic, *t.Topic, t.AuthorizedOperations, topicOperations...):
			a.note(Topic, *t.Topic, Describe, judge(t.ErrorCode))
		}
	}
	return hidden, nil
}

// askSettings asks what may be done with the settings of topics: to read one, and to change nothing of them.
func (a *asker) askSettings(ctx context.Context, topics []string) error {
	if len(topics) == 0 {
		return nil
	}
	read, write := kmsg.NewPtrDescribeConfigsRequest(), kmsg.NewPtrIncrementalAlterConfigsRequest()
	write.ValidateOnly = true
	for _, topic := range topics {
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName, r.ConfigNames = kmsg.ConfigResourceTypeTopic, topic, []string{"retention.ms"}
		read.Resources = append(read.Resources, r)
		w := kmsg.NewIncrementalAlterConfigsRequestResource()
		w.ResourceType, w.ResourceName = kmsg.ConfigResourceTypeTopic, topic
		write.Resources = append(write.Resources, w)
	}
	got, err := read.RequestWith(ctx, a.c.Admin())
	if err != nil {
		return err
	}
	for _, r := range got.Resources {
		a.note(Topic, r.ResourceName, DescribeConfigs, judge(r.ErrorCode))
	}
	set, err := write.RequestWith(ctx, a.c.Admin())
	if err != nil {
		return err
	}
	for _, r := range set.Resources {
		a.note(Topic, r.ResourceName, AlterConfigs, judge(r.ErrorCode))
	}
	return nil
}

// askCreate has the controller look at requests to make topics without making them. It refuses those that may not be
// made before it finds that they exist.
func (a *asker) askCreate(ctx context.Context, topics []string) error {
	for some := range slices.Chunk(topics, topicsPerRequest) {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.ValidateOnly, req.TimeoutMillis = true, validateWait
		for _, topic := range some {
			t := kmsg.NewCreateTopicsRequestTopic()
			t.Topic, t.NumPartitions, t.ReplicationFactor = topic, 1, 1
			req.Topics = append(req.Topics, t)
		}
		resp, err := req.RequestWith(ctx, a.c.Admin())
		if err != nil {
			return err
		}
		for _, t := range resp.Topics {
			a.note(Topic, t.Topic, Create, judge(t.ErrorCode))
		}
	}
	return nil
}
