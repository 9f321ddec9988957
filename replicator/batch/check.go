package batch

import (
	"encoding/binary"
	"fmt"
	"math"

	"lockstep/internal/model"
)

// Limits are the settings of the target topic that decide what its leader accepts. The zero value of each means
// "not known", and is not checked.
type Limits struct {
	MaxBytes     int32 // max.message.bytes: of a batch as sent, compressed
	SegmentBytes int32 // segment.bytes
	Compacted    bool  // cleanup.policy names compact: every record needs a key
	LogAppend    bool  // message.timestamp.type is LogAppendTime: the broker stamps, and bounds do not apply

	// Now is the present time in ms; without it the bounds below are not checked.
	Now int64
	// BeforeMS and AfterMS are message.timestamp.before.max.ms and message.timestamp.after.max.ms.
	BeforeMS, AfterMS int64
}

// Refusal says that a broker with these limits would refuse the batch or the record.
type Refusal struct {
	Reason model.Reason
	// Offset is the source offset of the record, -1 when the batch as a whole is meant.
	Offset int64
	Detail string // what was found and what is allowed
}

// Error implements error.
func (r *Refusal) Error() string {
	if r.Offset >= 0 {
		return fmt.Sprintf("check record at offset %d: %s (%s)", r.Offset, r.Detail, r.Reason)
	}
	return fmt.Sprintf("check batch: %s (%s)", r.Detail, r.Reason)
}

// Check looks for what a Kafka broker refuses when b, stamped and ready, is produced, in the broker's order. It
// reads the header only: the checksum and the inside of compressed data are the broker's to judge. The error is a
// *[Refusal].
//
// Source of the rules: ProduceRequest.validateRecords, UnifiedLog.analyzeAndValidateRecords and LogValidator in
// Kafka 4.3. A broken rule that [Stamp] or the choice of the form should have kept is [model.ReasonInternal].
func Check(b []byte, l Limits) error {
	if len(b) > atMagic && b[atMagic] < 2 {
		return refuse(model.ReasonInternal, "magic is %d, a producer may only send 2", b[atMagic])
	}
	if len(b) < HeaderSize {
		return refuse(model.ReasonCorrupt, "%d bytes are shorter than a header", len(b))
	}
	if off := offsetOf(b); off != 0 {
		return refuse(model.ReasonInternal, "base offset is %d, a producer may only send 0", off)
	}
	if l.MaxBytes > 0 && len(b) > int(l.MaxBytes) {
		return refuse(model.ReasonTooLarge, "%d bytes, the target's max.message.bytes is %d", len(b), l.MaxBytes)
	}
	if r := checkCounts(b); r != nil {
		return r
	}
	h, err := Parse(b)
	if err != nil {
		return refuse(model.ReasonCorrupt, "%v", err)
	}
	if r := checkHeader(h, l); r != nil {
		return r
	}
	return nil
}

// checkCounts holds the rule that thinned batches break. It comes before Parse, whose own plausibility check would
// call some of these corrupt.
func checkCounts(b []byte) *Refusal {
	last := int32(binary.BigEndian.Uint32(b[atLastDelta:]))
	count := int32(binary.BigEndian.Uint32(b[atCount:]))
	if count <= 0 || int64(last)+1 != int64(count) {
		return refuse(model.ReasonInternal, "%d records, but the last offset delta is %d", count, last)
	}
	return nil
}

func checkHeader(h Header, l Limits) *Refusal {
	switch {
	case h.Control():
		return refuse(model.ReasonInternal, "the control bit is set")
	case h.PID >= 0 && h.BaseSeq < 0:
		return refuse(model.ReasonInternal, "base sequence is %d", h.BaseSeq)
	case h.Transactional():
		return refuse(model.ReasonInternal, "the transactional bit is set")
	case h.DeleteHorizon():
		return refuse(model.ReasonInternal, "the delete-horizon bit is set")
	case h.Codec() > CodecZstd:
		return refuse(model.ReasonCorrupt, "compression codec %d does not exist", h.Codec())
	case h.LogAppend():
		return refuse(model.ReasonInternal, "the batch is marked with log-append time")
	}
	if d := l.outOfBounds(h.MaxTimestamp); d != "" {
		return refuse(model.ReasonTimestampRefused, "newest timestamp %s", d)
	}
	if l.SegmentBytes > 0 && h.Size() > int(l.SegmentBytes) {
		return refuse(model.ReasonTooLarge, "%d bytes, the target's segment.bytes is %d", h.Size(), l.SegmentBytes)
	}
	return nil
}

// Admit reports whether a whole batch may be sent as it came, as far as its size and its newest time stamp tell.
func (l Limits) Admit(h Header) bool {
	return (l.MaxBytes <= 0 || h.Size() <= int(l.MaxBytes)) && l.outOfBounds(h.MaxTimestamp) == ""
}

// CheckRecords looks for what a broker refuses in the records themselves: a missing key on a compacted topic, a
// timestamp out of bounds. It is for records that are decoded anyway. It returns the records before the first such one,
// all when there is none; the error is a *[Refusal] for that record, with its source offset.
func CheckRecords(rs []Record, l Limits) (good []Record, err error) {
	for i := range rs {
		if r := checkRecord(&rs[i], l); r != nil {
			return rs[:i], r
		}
	}
	return rs, nil
}

func checkRecord(r *Record, l Limits) *Refusal {
	if l.Compacted && r.Key == nil {
		return &Refusal{Reason: model.ReasonMissingKey, Offset: r.Offset, Detail: "no key, and the target topic is compacted"}
	}
	if d := l.outOfBounds(r.Timestamp); d != "" {
		return &Refusal{Reason: model.ReasonTimestampRefused, Offset: r.Offset, Detail: "timestamp " + d}
	}
	return nil
}

// outOfBounds describes how ts breaks the target's bounds; "" when it does not, or has none (-1).
func (l Limits) outOfBounds(ts int64) string {
	if ts == -1 || l.Now == 0 || l.LogAppend {
		return ""
	}
	if l.BeforeMS > 0 && ts < l.Now-l.BeforeMS { // BeforeMS ≤ MaxInt64 and Now > 0: no overflow
		return fmt.Sprintf("%d is older than the target's message.timestamp.before.max.ms %d allows", ts, l.BeforeMS)
	}
	if l.AfterMS > 0 && l.AfterMS <= math.MaxInt64-l.Now && ts > l.Now+l.AfterMS {
		return fmt.Sprintf("%d is further ahead than the target's message.timestamp.after.max.ms %d allows", ts, l.AfterMS)
	}
	return ""
}

func refuse(reason model.Reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Offset: -1, Detail: fmt.Sprintf(format, args...)}
}
