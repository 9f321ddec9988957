package batch

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"lockstep/internal/model"
)

func stamped() []byte {
	b := plainBatch()
	Stamp(b, 9, 2, 100)
	return b
}

func attrs(bit byte) func([]byte) []byte {
	return func(b []byte) []byte {
		b[22] |= bit
		return b
	}
}

func put32(at int, v int32) func([]byte) []byte {
	return func(b []byte) []byte {
		binary.BigEndian.PutUint32(b[at:], uint32(v))
		return b
	}
}

func put64(at int, v int64) func([]byte) []byte {
	return func(b []byte) []byte {
		binary.BigEndian.PutUint64(b[at:], uint64(v))
		return b
	}
}

// Each line is a row of the broker's content checks (producer protocol, 1.5).
func TestCheck_BrokerRules(t *testing.T) {
	t.Parallel()
	size := int32(len(stamped()))
	bounds := Limits{Now: 10_000, BeforeMS: 9_000, AfterMS: 3_000}
	for name, c := range map[string]struct {
		change func([]byte) []byte
		limits Limits
		want   model.Reason
	}{
		"healthy":                      {attrs(0), Limits{}, ""},
		"no bytes":                     {func(b []byte) []byte { return nil }, Limits{}, model.ReasonCorrupt},
		"magic 0":                      {func(b []byte) []byte { return message(0, 0, 0, 0, nil, nil) }, Limits{}, model.ReasonInternal},
		"magic 1":                      {func(b []byte) []byte { return message(1, 0, 0, 0, nil, nil) }, Limits{}, model.ReasonInternal},
		"magic 3":                      {func(b []byte) []byte { b[16] = 3; return b }, Limits{}, model.ReasonCorrupt},
		"two batches":                  {func(b []byte) []byte { return join(b, b) }, Limits{}, model.ReasonCorrupt},
		"base offset":                  {put64(0, 1), Limits{}, model.ReasonInternal},
		"at max.message.bytes":         {attrs(0), Limits{MaxBytes: size}, ""},
		"above max.message.bytes":      {attrs(0), Limits{MaxBytes: size - 1}, model.ReasonTooLarge},
		"shorter than its header":      {func(b []byte) []byte { return b[:60] }, Limits{}, model.ReasonCorrupt},
		"cut":                          {func(b []byte) []byte { return b[:len(b)-1] }, Limits{}, model.ReasonCorrupt},
		"hole: delta larger":           {put32(23, 3), Limits{}, model.ReasonInternal},
		"hole: count larger":           {put32(57, 4), Limits{}, model.ReasonInternal},
		"no records":                   {func(b []byte) []byte { return put32(57, 0)(put32(23, -1)(b)) }, Limits{}, model.ReasonInternal},
		"negative count":               {func(b []byte) []byte { return put32(57, -1)(put32(23, -2)(b)) }, Limits{}, model.ReasonInternal},
		"delta wraps":                  {func(b []byte) []byte { return put32(57, math.MinInt32)(put32(23, math.MaxInt32)(b)) }, Limits{}, model.ReasonInternal},
		"control":                      {attrs(attrControl), Limits{}, model.ReasonInternal},
		"negative sequence":            {put32(53, -1), Limits{}, model.ReasonInternal},
		"no producer, no sequence":     {func(b []byte) []byte { return put32(53, -1)(put64(43, -1)(b)) }, Limits{}, ""},
		"transactional":                {attrs(attrTransactional), Limits{}, model.ReasonInternal},
		"delete horizon":               {attrs(attrDeleteHorizon), Limits{}, model.ReasonInternal},
		"append time":                  {attrs(attrLogAppend), Limits{}, model.ReasonInternal},
		"zstd":                         {attrs(4), Limits{}, ""},
		"codec 5":                      {attrs(5), Limits{}, model.ReasonCorrupt},
		"codec 7":                      {attrs(7), Limits{}, model.ReasonCorrupt},
		"oldest allowed":               {put64(35, 1_000), bounds, ""},
		"too old":                      {put64(35, 999), bounds, model.ReasonTimestampRefused},
		"newest allowed":               {put64(35, 13_000), bounds, ""},
		"in the future":                {put64(35, 13_001), bounds, model.ReasonTimestampRefused},
		"far in the future":            {put64(35, math.MaxInt64), bounds, model.ReasonTimestampRefused},
		"long before 1970":             {put64(35, math.MinInt64), bounds, model.ReasonTimestampRefused},
		"no timestamp":                 {put64(35, -1), bounds, ""},
		"the target stamps":            {put64(35, 999), Limits{Now: 10_000, BeforeMS: 1, AfterMS: 1, LogAppend: true}, ""},
		"bounds without a clock":       {put64(35, 1<<60), Limits{BeforeMS: 1, AfterMS: 1}, ""},
		"no bounds":                    {put64(35, 1<<60), Limits{Now: 10_000}, ""},
		"unlimited bounds":             {put64(35, 1<<60), Limits{Now: 10_000, BeforeMS: math.MaxInt64, AfterMS: math.MaxInt64}, ""},
		"unlimited bounds, before era": {put64(35, -5), Limits{Now: 10_000, BeforeMS: math.MaxInt64, AfterMS: math.MaxInt64}, ""},
		"at segment.bytes":             {attrs(0), Limits{SegmentBytes: size}, ""},
		"above segment.bytes":          {attrs(0), Limits{SegmentBytes: size - 1}, model.ReasonTooLarge},
		"compacted, not looked into":   {attrs(0), Limits{Compacted: true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantRefusal(t, Check(c.change(stamped()), c.limits), c.want, -1)
		})
	}
}

// Where several rules are broken, the answer is the one that the broker would give: a lane that splits too large a
// batch must not first be told of something else.
func TestCheck_BrokersOrder(t *testing.T) {
	t.Parallel()
	steps := []struct {
		repair func([]byte) []byte
		limits Limits
		want   string
	}{
		{attrs(0), Limits{MaxBytes: 1}, "base offset is 1"},
		{put64(0, 0), Limits{MaxBytes: 1}, "max.message.bytes"},
		{attrs(0), Limits{}, "last offset delta"},
		{put32(57, 3), Limits{}, "control bit"},
		{func(b []byte) []byte { b[22] = 0; return b }, Limits{}, "base sequence"},
	}
	b := put32(53, -1)(put64(0, 1)(put32(57, 1)(attrs(attrControl)(stamped()))))
	for _, s := range steps {
		b = s.repair(b)
		if err := Check(b, s.limits); err == nil || !strings.Contains(err.Error(), s.want) {
			t.Errorf("got %v, want one naming %q", err, s.want)
		}
	}
}

func TestCheckRecords(t *testing.T) {
	t.Parallel()
	bounds := Limits{Now: 10_000, BeforeMS: 9_000, AfterMS: 3_000, Compacted: true}
	key := []byte{}
	for name, c := range map[string]struct {
		bad    Record
		limits Limits
		want   model.Reason
	}{
		"tombstone":                {Record{Key: key, Timestamp: 5_000}, bounds, ""},
		"no key":                   {Record{Timestamp: 5_000, Value: key}, bounds, model.ReasonMissingKey},
		"no key, not compacted":    {Record{Timestamp: 5_000}, Limits{}, ""},
		"too old":                  {Record{Key: key, Timestamp: 0}, bounds, model.ReasonTimestampRefused},
		"before 1970":              {Record{Key: key, Timestamp: -2}, bounds, model.ReasonTimestampRefused},
		"in the future":            {Record{Key: key, Timestamp: 13_001}, bounds, model.ReasonTimestampRefused},
		"nanoseconds for a moment": {Record{Key: key, Timestamp: 1_700_000_000_000_000_000}, bounds, model.ReasonTimestampRefused},
		"none":                     {Record{Key: key, Timestamp: -1}, bounds, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.bad.Offset = 77
			good := Record{Offset: 70, Key: key, Timestamp: 5_000}
			rs := []Record{good, c.bad, good}
			fine, err := CheckRecords(rs, c.limits)
			wantRefusal(t, err, c.want, 77)
			if n := len(fine); err != nil && n != 1 || err == nil && n != len(rs) {
				t.Errorf("%d of 3 records are good, %v", n, err)
			}
		})
	}
}

func wantRefusal(t *testing.T, err error, reason model.Reason, offset int64) {
	t.Helper()
	if reason == "" {
		if err != nil {
			t.Errorf("refused: %v", err)
		}
		return
	}
	var r *Refusal
	if !errors.As(err, &r) || r.Reason != reason || r.Offset != offset {
		t.Errorf("got %v, want %s at %d", err, reason, offset)
	}
}
