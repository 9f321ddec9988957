package statelog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/kafka"
)

const (
	// maxReplication is the replication factor where the target has that many brokers.
	maxReplication = 3
	// answerWait bounds one request, adminWait what a broker may take for it.
	answerWait = 30 * time.Second
	adminWait  = 15 * time.Second
)

// Ensure creates the state topic, or checks the one that is there. A topic whose settings would lose state is refused
// with a [*SettingsError]; settings that only cost time or space are repaired, or warned about where that is not allowed.
func (l *Log) Ensure(ctx context.Context) error {
	t, ok, err := l.describe(ctx)
	if err != nil {
		return err
	}
	if !ok {
		if t, err = l.create(ctx); err != nil {
			return err
		}
	}
	return l.check(ctx, t)
}

// found is what the target says about the state topic.
type found struct {
	kafka.TopicMeta
	brokers int    // how many there are
	address string // for hints
}

// describe looks the topic up; false means that it does not exist.
func (l *Log) describe(ctx context.Context) (found, bool, error) {
	meta, err := l.dst.Metadata(ctx, l.topic)
	if err != nil {
		return found{}, false, l.errorf("look up", err)
	}
	f := found{TopicMeta: meta.Topics[l.topic], brokers: len(meta.Brokers), address: l.bootstrap(meta)}
	switch {
	case errors.Is(f.Err, kerr.UnknownTopicOrPartition):
		return f, false, nil
	case f.Err != nil:
		return f, false, l.errorf("look up", f.Err)
	case len(f.Parts) == 0:
		return f, false, nil
	}
	return f, true, nil
}

// bootstrap is the address that hints name.
func (l *Log) bootstrap(meta kafka.Meta) string {
	if l.opts.Bootstrap != "" {
		return l.opts.Bootstrap
	}
	addrs := slices.Sorted(maps.Values(meta.Brokers))
	return cmp.Or(strings.Join(addrs[:min(len(addrs), maxReplication)], ","), "HOST:PORT")
}

// create makes the topic and waits until brokers know it. Losing the race against another instance is success.
func (l *Log) create(ctx context.Context) (found, error) {
	f, _, err := l.describe(ctx)
	if err != nil {
		return f, err
	}
	replication := max(1, min(maxReplication, f.brokers))
	err = l.createOnce(ctx, replication)
	switch {
	case err == nil, errors.Is(err, kerr.TopicAlreadyExists):
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed), errors.Is(err, kerr.PolicyViolation):
		return f, l.errorf("create", fmt.Errorf("%w; make it by hand: %s", err, createLine(f.address, l.topic, replication)))
	default:
		return f, l.errorf("create", err)
	}
	return l.awaitTopic(ctx)
}

func (l *Log) createOnce(ctx context.Context, replication int) error {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = l.topic, Partitions, int16(replication)
	for _, s := range settingsFor(replication) {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = s.name, kmsg.StringPtr(s.want)
		t.Configs = append(t.Configs, c)
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = int32(adminWait.Milliseconds())
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, l.dst.Admin())
	if err != nil {
		return err
	}
	for _, t := range resp.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return withMessage(err, t.ErrorMessage)
		}
	}
	l.log.Info("state topic created", "replication_factor", replication, "partitions", Partitions)
	return nil
}

// awaitTopic asks until the topic is known with all of its partitions.
func (l *Log) awaitTopic(ctx context.Context) (found, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	for {
		f, ok, err := l.describe(ctx)
		if ok && err == nil {
			err = l.answering(ctx)
		}
		if ok && err == nil {
			return f, nil
		}
		if perr := pause(ctx, metadataAge); perr != nil {
			return f, cmp.Or(err, l.errorf("create", errors.New("it was created, but no broker names it yet; start again")))
		}
	}
}

// answering asks every leader for its log's end: a new partition's leader refuses everything until it answers that.
func (l *Log) answering(ctx context.Context) error {
	for p, o := range l.dst.ListOffsets(ctx, l.parts(), kafka.AtEnd, false) {
		if o.Err != nil {
			return l.errorf("wait for", fmt.Errorf("partition %d: %w", p.Partition, o.Err))
		}
	}
	return nil
}

// Check is Ensure for those who may not write: it neither creates nor repairs anything, and a topic that is not there is
// no fault.
func (l *Log) Check(ctx context.Context) error {
	t, ok, err := l.describe(ctx)
	if err != nil || !ok {
		return err
	}
	_, err = l.judge(ctx, t)
	return err
}

// check refuses the topic, or brings its lesser settings in order.
func (l *Log) check(ctx context.Context, t found) error {
	lesser, err := l.judge(ctx, t)
	if err != nil {
		return err
	}
	is, want := len(t.Parts[0].Replicas), max(1, min(maxReplication, t.brokers))
	if is < want {
		l.log.Warn("the state topic has fewer replicas than it should", "is", is, "want", want)
	}
	l.repair(ctx, t, lesser)
	return nil
}

// judge compares the topic with what it must be. It returns a SettingsError for what would lose state, and the settings
// that should be otherwise.
func (l *Log) judge(ctx context.Context, t found) (lesser []Wrong, err error) {
	is, err := l.configs(ctx)
	if errors.Is(err, kerr.TopicAuthorizationFailed) {
		l.log.Warn("the state topic's settings cannot be checked: DESCRIBE_CONFIGS on it is missing", "error", err)
	} else if err != nil {
		return nil, l.errorf("read settings of", err)
	}
	vital, lesser := compare(settingsFor(len(t.Parts[0].Replicas)), is)
	for i, w := range vital {
		vital[i].Repair = alterConfigLine(t.address, l.topic, w.Setting, w.Want)
	}
	if n := len(t.Parts); n != Partitions {
		vital = append(vital, partitionsWrong(t.address, l.topic, n))
	}
	if len(vital) > 0 {
		return lesser, &SettingsError{Topic: l.topic, Cluster: l.dst.Name(), Wrong: vital}
	}
	return lesser, nil
}

// configs reads the topic's effective settings.
func (l *Log) configs(ctx context.Context) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	req := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, l.topic
	req.Resources = append(req.Resources, r)
	resp, err := req.RequestWith(ctx, l.dst.Admin())
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, r := range resp.Resources {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			return nil, withMessage(err, r.ErrorMessage)
		}
		for _, c := range r.Configs {
			if c.Value != nil {
				out[c.Name] = *c.Value
			}
		}
	}
	return out, nil
}

// repair sets the lesser settings right. That it may not is worth a warning, not a stop.
func (l *Log) repair(ctx context.Context, t found, lesser []Wrong) {
	if len(lesser) == 0 {
		return
	}
	err := l.alter(ctx, lesser)
	for _, w := range lesser {
		log := l.log.With("setting", w.Setting, "is", w.Is, "want", w.Want)
		if err != nil {
			log.Warn("a setting of the state topic differs and could not be changed", "error", err,
				"repair", alterConfigLine(t.address, l.topic, w.Setting, w.Want))
			continue
		}
		log.Info("a setting of the state topic was changed")
	}
}

func (l *Log) alter(ctx context.Context, lesser []Wrong) error {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, l.topic
	for _, w := range lesser {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Op, c.Value = w.Setting, kmsg.IncrementalAlterConfigOpSet, kmsg.StringPtr(w.Want)
		r.Configs = append(r.Configs, c)
	}
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = append(req.Resources, r)
	resp, err := req.RequestWith(ctx, l.dst.Admin())
	if err != nil {
		return err
	}
	for _, r := range resp.Resources {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			return withMessage(err, r.ErrorMessage)
		}
	}
	return nil
}

// withMessage adds the broker's own words to its error code.
func withMessage(err error, msg *string) error {
	if msg == nil || *msg == "" {
		return err
	}
	return fmt.Errorf("%w (%s)", err, *msg)
}

// pause waits, or returns why it could not.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
