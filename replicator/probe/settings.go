package probe

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

func (p *prober) keepsTimes(ctx context.Context) (string, error) {
	s, err := p.settings(ctx)
	if err != nil {
		return "", err
	}
	if kind := s["message.timestamp.type"]; kind != "" && kind != "CreateTime" {
		return "", fmt.Errorf("new topics have message.timestamp.type=%s: set log.message.timestamp.type=CreateTime on the target", kind)
	}
	return "message.timestamp.type is CreateTime", nil
}

func (p *prober) largestBatch(ctx context.Context) (string, error) {
	s, err := p.settings(ctx)
	if err != nil {
		return "", err
	}
	return "max.message.bytes of new topics is " + s["max.message.bytes"] + "; larger batches are split, a larger record stops its lane", nil
}

// takesCompacted only asks, since it makes nothing: state topics are compacted.
func (p *prober) takesCompacted(ctx context.Context) (string, error) {
	return "asked, not made", p.create(ctx, TopicPrefix+p.id+".state", p.replication, map[string]string{"cleanup.policy": "compact"}, true)
}

func (p *prober) forgetsProducers(ctx context.Context) (string, error) {
	d, text, err := p.expiration(ctx, "producer.id.expiration.ms")
	if err != nil || d == 0 {
		return text, err
	}
	return fmt.Sprintf("producer.id.expiration.ms is %v: on partitions whose newest record is older, sequences and seals do not protect", d), nil
}

func (p *prober) forgetsTransactions(ctx context.Context) (string, error) {
	d, text, err := p.expiration(ctx, "transactional.id.expiration.ms")
	if err != nil || d == 0 {
		return text, err
	}
	if d < 48*time.Hour {
		return "", fmt.Errorf("transactional.id.expiration.ms is %v: a link takes a term each day to keep its id, 48h is the least that is safe", d)
	}
	return fmt.Sprintf("transactional.id.expiration.ms is %v; a link takes a term each day", d), nil
}

// expiration reads a broker's setting in milliseconds; 0 with a text when it is not told.
func (p *prober) expiration(ctx context.Context, name string) (time.Duration, string, error) {
	value, ok, err := p.dst.BrokerConfig(ctx, name)
	if err != nil {
		return 0, "", fmt.Errorf("%w: lockstep takes the default, and DESCRIBE_CONFIGS on the cluster would tell", err)
	}
	if !ok {
		return 0, "the broker has no " + name, nil
	}
	ms, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return 0, "", fmt.Errorf("%s: %w", name, err)
	}
	return time.Duration(ms) * time.Millisecond, "", nil
}
