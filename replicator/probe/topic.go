package probe

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/grants"
	"lockstep/internal/kafka"
	"lockstep/internal/pause"
)

// TopicPrefix is how the names of all scratch topics begin.
const TopicPrefix = "lockstep.probe."

const (
	maxReplication = 3
	adminTimeout   = 15 * time.Second
	// leftover is how old a scratch topic must be before another probe takes it for one whose probe was killed.
	leftover = 15 * time.Minute
	lookEach = 50 * time.Millisecond
)

// newID returns what follows the prefix: the time, by which leftovers are known, and something random.
func newID(now time.Time) string {
	return strconv.FormatInt(now.Unix(), 36) + "." + strconv.FormatUint(uint64(rand.Uint32()), 36)
}

// madeAt tells when a scratch topic was made; false for a topic that is none.
func madeAt(topic string) (time.Time, bool) {
	id, ok := strings.CutPrefix(topic, TopicPrefix)
	stamp, _, cut := strings.Cut(id, ".")
	sec, err := strconv.ParseInt(stamp, 36, 64)
	return time.Unix(sec, 0), ok && cut && err == nil
}

// removeLeftovers deletes scratch topics of probes that were killed. Failing to is no fault: the report names them.
func (p *prober) removeLeftovers(ctx context.Context) {
	meta, err := p.dst.Metadata(ctx)
	if err != nil {
		return // making the topic will tell
	}
	for topic := range meta.Topics {
		if at, ok := madeAt(topic); ok && time.Since(at) > leftover {
			p.report.Leftovers = append(p.report.Leftovers, topic)
		}
	}
	slices.Sort(p.report.Leftovers)
	for _, topic := range p.report.Leftovers {
		p.opt.Progress("deleting " + topic + ", left over from an older probe")
		if p.deleteTopic(ctx, topic) == nil {
			p.report.Removed = append(p.report.Removed, topic)
		}
	}
}

// makeTopic makes the scratch topic and waits until its leader answers.
func (p *prober) makeTopic(ctx context.Context) error {
	meta, err := p.dst.Metadata(ctx, p.report.Topic)
	if err != nil {
		return err
	}
	p.replication = int16(max(1, min(maxReplication, len(meta.Brokers))))
	err = p.create(ctx, p.report.Topic, p.replication, nil, false)
	if errors.Is(err, kerr.InvalidReplicationFactor) || errors.Is(err, kerr.PolicyViolation) {
		err = p.create(ctx, p.report.Topic, -1, nil, false) // the cluster's own default
	}
	switch {
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed):
		return fmt.Errorf("make scratch topic %s on cluster %s: %w; nothing was tried. Grant it: %s", p.report.Topic, p.dst.Name(), err,
			grants.Hint("All", grants.Named(grants.Topic, grants.Name{Text: TopicPrefix, Prefixed: true})))
	case err != nil:
		return fmt.Errorf("make scratch topic %s on cluster %s: %w", p.report.Topic, p.dst.Name(), err)
	}
	p.made = true
	return p.awaitLeader(ctx)
}

func (p *prober) create(ctx context.Context, topic string, replication int16, settings map[string]string, onlyAsk bool) error {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, 1, replication
	for name, value := range settings {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = name, kmsg.StringPtr(value)
		t.Configs = append(t.Configs, c)
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis, req.ValidateOnly = int32(adminTimeout.Milliseconds()), onlyAsk
	req.Topics = append(req.Topics, t)
	ctx, cancel := context.WithTimeout(ctx, 2*adminTimeout)
	defer cancel()
	resp, err := req.RequestWith(ctx, p.dst.Admin())
	if err != nil {
		return err
	}
	for _, t := range resp.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return withText(err, t.ErrorMessage)
		}
	}
	return nil
}

// awaitLeader waits until the leader answers for the log's end: until then it refuses everything.
func (p *prober) awaitLeader(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	for {
		err := p.findLeader(ctx)
		if err == nil {
			return nil
		}
		if errors.Is(err, kerr.TopicAuthorizationFailed) || !pause.For(ctx, lookEach) {
			return fmt.Errorf("wait for the leader of %s: %w", p.report.Topic, err)
		}
	}
}

func (p *prober) findLeader(ctx context.Context) error {
	meta, err := p.dst.Metadata(ctx, p.report.Topic)
	if err != nil {
		return err
	}
	topic := meta.Topics[p.report.Topic]
	part, ok := topic.Part(0)
	switch {
	case topic.Err != nil:
		return topic.Err
	case !ok || part.Leader < 0:
		return kerr.LeaderNotAvailable
	}
	p.part, p.leader = kafka.Part{Topic: p.report.Topic, ID: topic.ID}, part.Leader
	end, err := p.logEnd(ctx)
	p.end = end
	return err
}

func (p *prober) logEnd(ctx context.Context) (int64, error) {
	o := p.dst.ListOffsets(ctx, []kafka.Part{p.part}, kafka.AtEnd, false)[p.part]
	return o.Offset, o.Err
}

// deleteTopic deletes a scratch topic; one that is not there is deleted already.
func (p *prober) deleteTopic(ctx context.Context, topic string) error {
	t := kmsg.NewDeleteTopicsRequestTopic()
	t.Topic = kmsg.StringPtr(topic)
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis = int32(adminTimeout.Milliseconds())
	req.TopicNames, req.Topics = []string{topic}, []kmsg.DeleteTopicsRequestTopic{t}
	resp, err := req.RequestWith(ctx, p.dst.Admin())
	if err == nil && len(resp.Topics) > 0 {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	if err == nil || errors.Is(err, kerr.UnknownTopicOrPartition) || p.neverMade(topic, err) {
		return nil
	}
	return fmt.Errorf("delete scratch topic %s on cluster %s: %w; delete it by hand: kafka-topics.sh --delete --topic %s", topic, p.dst.Name(), err, topic)
}

// neverMade: who may neither make nor describe a topic cannot be told that it is not there.
func (p *prober) neverMade(topic string, err error) bool {
	return topic == p.report.Topic && !p.made && errors.Is(err, kerr.TopicAuthorizationFailed)
}

// settings reads effective settings of the scratch topic.
func (p *prober) settings(ctx context.Context) (map[string]string, error) {
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, p.report.Topic
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Resources = append(req.Resources, r)
	resp, err := req.RequestWith(ctx, p.dst.Admin())
	if err != nil {
		return nil, err
	}
	out := make(map[string]string)
	for _, r := range resp.Resources {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			return nil, withText(err, r.ErrorMessage)
		}
		for _, c := range r.Configs {
			if c.Value != nil {
				out[c.Name] = *c.Value
			}
		}
	}
	return out, nil
}

func withText(err error, text *string) error {
	if text == nil || *text == "" {
		return err
	}
	return fmt.Errorf("%w (%s)", err, *text)
}
