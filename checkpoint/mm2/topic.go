package mm2

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/kafka"
)

const (
	maxReplication = 3                // replicas of a topic, where the cluster has that many brokers
	adminWait      = 15 * time.Second // for a topic to be made, and for its settings
	leaderPoll     = 50 * time.Millisecond
	policyKey      = "cleanup.policy"
	compact        = "compact"
)

// ensure makes the topic when it is missing. One that is there is left as it is.
func (b *board) ensure(ctx context.Context) error {
	meta, err := b.cluster.Metadata(ctx, b.topic)
	if err == nil {
		err = meta.Topics[b.topic].Err
	}
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		err = b.create(ctx, max(1, min(maxReplication, len(meta.Brokers))))
		if err == nil {
			err = b.awaitLeader(ctx)
		}
	}
	if err != nil {
		return fmt.Errorf("make sure that there is topic %s: %w", b.topic, err)
	}
	b.checkPolicy(ctx)
	return nil
}

// settings are those of a topic that is made. Java's readers read a topic from its start each time, and give up silently when
// that takes long: small segments, cleaned early, keep it short.
func settings() [][2]string {
	return [][2]string{{policyKey, compact}, {"segment.bytes", "16777216"}, {"segment.ms", "600000"}, {"min.cleanable.dirty.ratio", "0.1"}}
}

// create makes the topic; where a cluster does not allow its settings, with the one that has to be.
func (b *board) create(ctx context.Context, replicas int) error {
	all := settings()
	err := b.createWith(ctx, replicas, all)
	if errors.Is(err, kerr.InvalidConfig) || errors.Is(err, kerr.PolicyViolation) {
		err = b.createWith(ctx, replicas, all[:1])
	}
	return err
}

func (b *board) createWith(ctx context.Context, replicas int, settings [][2]string) error {
	ctx, cancel := context.WithTimeout(ctx, adminWait)
	defer cancel()
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = b.topic, 1, int16(replicas)
	for _, s := range settings {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = s[0], kmsg.StringPtr(s[1])
		t.Configs = append(t.Configs, c)
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis, req.Topics = int32(adminWait.Milliseconds()), append(req.Topics, t)
	resp, err := req.RequestWith(ctx, b.cluster.Admin())
	if err != nil {
		return err
	}
	for _, t := range resp.Topics {
		err := kerr.ErrorForCode(t.ErrorCode)
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return err
		}
		if err == nil {
			b.log.Info("topic created for readers of MirrorMaker 2", "replication_factor", replicas)
		}
	}
	return nil
}

// awaitLeader waits until the leader of a topic that was just made answers: before that, everything is refused.
func (b *board) awaitLeader(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, adminWait)
	defer cancel()
	tick := time.NewTicker(leaderPoll)
	defer tick.Stop()
	for {
		_, err := b.end(ctx, kafka.AtEnd)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}

// checkPolicy warns once of a topic that is not compacted, as one is that a broker made by itself when a reader asked for it:
// it would forget what did not change for long. Where its settings may not be read, nothing is said.
func (b *board) checkPolicy(ctx context.Context) {
	if b.checked {
		return
	}
	policy, err := b.policy(ctx)
	if err != nil {
		return
	}
	b.checked = true
	if !strings.Contains(policy, compact) {
		b.log.Warn("topic for readers of MirrorMaker 2 is not compacted: it loses what did not change for long; set cleanup.policy=compact", "policy", policy)
	}
}

func (b *board) policy(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, adminWait)
	defer cancel()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName, r.ConfigNames = kmsg.ConfigResourceTypeTopic, b.topic, []string{policyKey}
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Resources = append(req.Resources, r)
	resp, err := req.RequestWith(ctx, b.cluster.Admin())
	if err != nil {
		return "", err
	}
	for _, r := range resp.Resources {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			return "", err
		}
		for _, c := range r.Configs {
			if c.Name == policyKey && c.Value != nil {
				return *c.Value, nil
			}
		}
	}
	return "", fmt.Errorf("the answer has no %s of topic %s", policyKey, b.topic)
}
