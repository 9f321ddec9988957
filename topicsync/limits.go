package topicsync

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"

	"lockstep/internal/kafka"
	"lockstep/replicator/batch"
	"lockstep/topicsync/configs"
)

const (
	keyMaxMessage = "max.message.bytes"
	keySegment    = "segment.bytes"
)

// TopicLimits is what a target topic accepts. The zero value means that nothing is known.
type TopicLimits struct {
	MaxMessageBytes int32  // effective max.message.bytes, of a whole batch as it is sent; 0: not known
	SegmentBytes    int32  // segment.bytes; 0: not known
	Cleanup         string // cleanup.policy: delete, compact or both; "": not known
	TimestampType   string // CreateTime or LogAppendTime; "": not known
	// BeforeMax and AfterMax bound a record's time against the target's clock, in milliseconds; 0: not known, or a
	// target that has no such bound.
	BeforeMax, AfterMax int64
}

// Compacted reports whether every record needs a key.
func (l TopicLimits) Compacted() bool {
	return slices.Contains(strings.Split(l.Cleanup, ","), "compact")
}

// Batch returns the limits as the check of batches takes them. Now is the caller's to set.
func (l TopicLimits) Batch() batch.Limits {
	return batch.Limits{
		MaxBytes: l.MaxMessageBytes, SegmentBytes: l.SegmentBytes,
		Compacted: l.Compacted(), LogAppend: l.TimestampType == "LogAppendTime",
		BeforeMS: l.BeforeMax, AfterMS: l.AfterMax,
	}
}

// limitKeys are the settings that make up TopicLimits.
func limitKeys() []string {
	return []string{keyMaxMessage, keySegment, configs.KeyCleanup, configs.KeyTimestampType, configs.KeyBeforeMax, configs.KeyAfterMax}
}

// limitsOf reads limits from effective settings.
func limitsOf(effective map[string]string) TopicLimits {
	number := func(key string) int64 {
		n, err := strconv.ParseInt(effective[key], 10, 64)
		if err != nil {
			return 0
		}
		return n
	}
	return TopicLimits{
		MaxMessageBytes: int32(min(number(keyMaxMessage), math.MaxInt32)),
		SegmentBytes:    int32(min(number(keySegment), math.MaxInt32)),
		Cleanup:         strings.ReplaceAll(effective[configs.KeyCleanup], " ", ""),
		TimestampType:   effective[configs.KeyTimestampType],
		BeforeMax:       number(configs.KeyBeforeMax),
		AfterMax:        number(configs.KeyAfterMax),
	}
}

// ReadLimits returns what topics accept, from their effective settings. A topic that cannot be read has an error.
func ReadLimits(ctx context.Context, c *kafka.Cluster, topics []string) (map[string]TopicLimits, map[string]error) {
	limits, errs := make(map[string]TopicLimits, len(topics)), make(map[string]error)
	for topic, s := range configs.Read(ctx, c, topics, limitKeys(), true) {
		if s.Err != nil {
			errs[topic] = topicError("read settings of", topic, c.Name(), "DescribeConfigs", s.Err)
			continue
		}
		limits[topic] = limitsOf(s.Effective)
	}
	return limits, errs
}

// readExplicit returns the explicit settings of topics. A topic that cannot be read has an error.
func readExplicit(ctx context.Context, c *kafka.Cluster, topics []string) (map[string]map[string]string, map[string]error) {
	explicit, errs := make(map[string]map[string]string, len(topics)), make(map[string]error)
	for topic, s := range configs.Read(ctx, c, topics, nil, false) {
		if s.Err != nil {
			errs[topic] = topicError("read settings of", topic, c.Name(), "DescribeConfigs", s.Err)
			continue
		}
		explicit[topic] = s.Explicit
	}
	return explicit, errs
}
