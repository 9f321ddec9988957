package topicsync

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/kafka"
	"lockstep/internal/model"
	"lockstep/topicsync/configs"
	"lockstep/topicsync/drift"
)

// createAll creates topics. What the target refuses of a topic's settings is left out, or with Action.Strict is all that is
// found out.
func createAll(ctx context.Context, dst *kafka.Cluster, rs []*Result, batch *int) {
	var now, strict []*Result
	for _, r := range rs {
		if r.Strict {
			strict = append(strict, r)
		} else {
			now = append(now, r)
		}
	}
	createWithout(ctx, dst, strict, true, batch)
	for _, r := range strict {
		if r.Err == nil && len(r.Refused) == 0 {
			now = append(now, r)
		}
	}
	createWithout(ctx, dst, now, false, batch)
}

// createWithout creates topics, or with onlyValidate asks whether they would be. A target names one setting at a time that
// it refuses, so those that were refused are sent again without it, all together, until each topic is created or refused
// for something else.
func createWithout(ctx context.Context, dst *kafka.Cluster, rs []*Result, onlyValidate bool, batch *int) {
	for len(rs) > 0 {
		for chunk := range slices.Chunk(rs, *batch) {
			halving(chunk, batch, func(rs []*Result) { createOnce(ctx, dst, rs, onlyValidate) })
		}
		unknown := make(map[string]string)
		var again []*Result
		for _, r := range withErr(rs, settingsRefused) {
			if r.dropNamed(unknown) || r.dropTried(ctx, dst) {
				again = append(again, r)
			}
		}
		for _, r := range again {
			for key, why := range unknown { // what one topic learnt spares the others a round
				r.drop(key, why)
			}
		}
		rs = again
	}
}

// settingsRefused reports whether a topic was refused for what may be one of its settings.
func settingsRefused(err error) bool {
	return errors.Is(err, kerr.InvalidConfig) || errors.Is(err, kerr.PolicyViolation)
}

// dropNamed takes out the settings that the refusal names, and notes those that the target does not know at all.
func (r *Result) dropNamed(unknown map[string]string) bool {
	why := r.Err.Error()
	keys := configs.Named(why, keysOf(r.Settings))
	for _, key := range keys {
		if strings.Contains(strings.ToLower(why), "unknown") {
			unknown[key] = why
		}
		r.drop(key, why)
	}
	return len(keys) > 0
}

// dropTried finds the settings that the target refuses by asking it about each alone, without creating anything, for a
// target that does not name them. It returns false when none is to blame: then the topic is refused without any too.
func (r *Result) dropTried(ctx context.Context, dst *kafka.Cluster) bool {
	if len(r.Settings) == 0 || r.refusedWith(ctx, dst) != nil {
		return false
	}
	dropped := false
	for _, s := range slices.Clone(r.Settings) {
		if err := r.refusedWith(ctx, dst, s); err != nil {
			r.drop(s.Key, err.Error())
			dropped = true
		}
	}
	return dropped
}

// refusedWith asks whether the topic would be refused with these settings only, and returns the target's words.
func (r *Result) refusedWith(ctx context.Context, dst *kafka.Cluster, settings ...Setting) error {
	probe := &Result{Action: r.Action}
	probe.Settings = settings
	createOnce(ctx, dst, []*Result{probe}, true)
	if probe.Err == nil || !settingsRefused(probe.Err) {
		return nil
	}
	return probe.Err
}

// drop takes a setting out. What lockstep added by itself is not missed on a target that does not know it.
func (r *Result) drop(key, why string) {
	i := slices.IndexFunc(r.Settings, func(s Setting) bool { return s.Key == key })
	if i < 0 {
		return
	}
	s := r.Settings[i]
	r.Settings = slices.Delete(slices.Clone(r.Settings), i, i+1)
	own := key == configs.KeyBeforeMax || key == configs.KeyAfterMax
	if !own {
		r.Refused = append(r.Refused, key)
	}
	if unknown := strings.Contains(strings.ToLower(why), "unknown"); unknown {
		if r.Unknown == nil {
			r.Unknown = make(map[string]string)
		}
		r.Unknown[key] = why
		if own {
			return
		}
	}
	r.Left = append(slices.Clone(r.Left), configs.Left{Key: s.Key, Value: s.Value, Why: "the target refuses it: " + why})
}

func createOnce(ctx context.Context, dst *kafka.Cluster, rs []*Result, onlyValidate bool) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis, req.ValidateOnly = int32(requestTimeout.Milliseconds()), onlyValidate
	for _, r := range rs {
		req.Topics = append(req.Topics, createTopic(r.Action))
	}
	resp, err := req.RequestWith(ctx, dst.Admin())
	errs, ids := make(map[string]error), make(map[string]model.TopicID)
	if err == nil {
		for _, t := range resp.Topics {
			errs[t.Topic], ids[t.Topic] = drift.BrokerError(t.ErrorCode, t.ErrorMessage), t.TopicID
		}
	}
	settle(rs, errs, err)
	for _, r := range rs {
		r.ID = ids[r.DstTopic]
	}
}

func createTopic(a Action) kmsg.CreateTopicsRequestTopic {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = a.DstTopic, a.Partitions, a.Replication
	for _, s := range a.Settings {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = s.Key, kmsg.StringPtr(s.Value)
		t.Configs = append(t.Configs, c)
	}
	return t
}
