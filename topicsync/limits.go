package topicsync

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"lockstep/replicator/batch"
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
	return []string{keyMaxMessage, keySegment, keyCleanup, keyTimestampType, keyBeforeMax, keyAfterMax}
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
		Cleanup:         strings.ReplaceAll(effective[keyCleanup], " ", ""),
		TimestampType:   effective[keyTimestampType],
		BeforeMax:       number(keyBeforeMax),
		AfterMax:        number(keyAfterMax),
	}
}
