package batch

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse_ReadsEveryField(t *testing.T) {
	t.Parallel()
	want := Header{
		BaseOffset: 1 << 40, Length: 49, LeaderEpoch: 12, Magic: 2, Attrs: 0x71, LastOffsetDelta: 9,
		BaseTimestamp: -3, MaxTimestamp: 1 << 50, PID: 1<<62 + 1, Epoch: 77, BaseSeq: math.MaxInt32, Count: 4,
	}
	b := rawBatch(want, nil)
	want.CRC = binary.BigEndian.Uint32(b[17:])
	got, err := Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if got.Size() != 61 || got.LastOffset() != 1<<40+9 || got.Next() != 1<<40+10 || got.Codec() != CodecGzip {
		t.Errorf("size %d, last %d, next %d, codec %d", got.Size(), got.LastOffset(), got.Next(), got.Codec())
	}
	if !got.Transactional() || !got.Control() || !got.DeleteHorizon() || got.LogAppend() || got.Dense() {
		t.Errorf("bits of %#x are read wrongly", got.Attrs)
	}
}

func TestParse_ReadsMessages(t *testing.T) {
	t.Parallel()
	v0 := mustParse(t, message(0, 17, 0, 0xf8, nil, nil)) // bits that magic 0 does not define mean nothing
	if v0.BaseOffset != 17 || v0.Next() != 18 || v0.Count != 1 || v0.MaxTimestamp != -1 || v0.Attrs != 0 || v0.PID != -1 || v0.LeaderEpoch != -1 {
		t.Errorf("magic 0: %+v", v0)
	}
	v1 := mustParse(t, message(1, 17, 99, 0xf9, nil, []byte{}))
	if v1.MaxTimestamp != 99 || !v1.LogAppend() || v1.Codec() != CodecGzip || v1.Count != -1 || v1.Control() || v1.Dense() {
		t.Errorf("magic 1: %+v", v1)
	}
}

func TestParse_RefusesWhatNoLogHolds(t *testing.T) {
	t.Parallel()
	put32 := func(at int, v int32) func([]byte) []byte {
		return func(b []byte) []byte {
			binary.BigEndian.PutUint32(b[at:], uint32(v))
			return b
		}
	}
	for name, c := range map[string]struct {
		change func([]byte) []byte
		want   error
	}{
		"empty":             {func(b []byte) []byte { return nil }, ErrCut},
		"no length":         {func(b []byte) []byte { return b[:11] }, ErrCut},
		"header only":       {func(b []byte) []byte { return b[:61] }, ErrCut},
		"last byte missing": {func(b []byte) []byte { return b[:len(b)-1] }, ErrCut},
		"one byte more":     {func(b []byte) []byte { return append(b, 0) }, ErrCorrupt},
		"length negative":   {put32(8, -1), ErrCorrupt},
		"length of nothing": {put32(8, 13), ErrCorrupt},
		"length overflows":  {put32(8, math.MaxInt32), ErrCorrupt},
		"length too short":  {func(b []byte) []byte { return put32(8, 48)(b)[:60] }, ErrCorrupt},
		"magic 3":           {func(b []byte) []byte { b[16] = 3; return b }, ErrCorrupt},
		"magic -1":          {func(b []byte) []byte { b[16] = 255; return b }, ErrCorrupt},
		"offset negative":   {func(b []byte) []byte { b[0] = 0x80; return b }, ErrCorrupt},
		"offset overflows":  {func(b []byte) []byte { copy(b, be64(math.MaxInt64-1)); return b }, ErrCorrupt},
		"delta negative":    {put32(23, -1), ErrCorrupt},
		"count negative":    {put32(57, -1), ErrCorrupt},
		"too many records":  {put32(57, 4), ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := Parse(c.change(plainBatch())); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
	short := message(1, 1, 1, 0, nil, nil)
	short = append(be64(1), append(be32(21), short[12:33]...)...)
	if _, err := Parse(short); !errors.Is(err, ErrCorrupt) {
		t.Errorf("magic 1 in the size of magic 0: %v", err)
	}
	if _, err := Parse(message(0, math.MaxInt64, 0, 0, nil, nil)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("message at the last offset of all: %v", err)
	}
}

func TestHeader_Passable(t *testing.T) {
	t.Parallel()
	pass := Header{Magic: 2, BaseOffset: 40, LastOffsetDelta: 2, Count: 3, Attrs: int16(CodecZstd) | attrTransactional}
	for name, c := range map[string]struct {
		change func(*Header)
		want   bool
	}{
		"committed transaction": {func(h *Header) {}, true},
		"at the cursor":         {func(h *Header) { h.BaseOffset = 39 }, true},
		"begins before":         {func(h *Header) { h.BaseOffset = 38 }, false},
		"magic 1":               {func(h *Header) { h.Magic = 1 }, false},
		"thinned":               {func(h *Header) { h.Count = 2 }, false},
		"no records":            {func(h *Header) { h.Count, h.LastOffsetDelta = 0, -1 }, false},
		"control":               {func(h *Header) { h.Attrs |= attrControl }, false},
		"append time":           {func(h *Header) { h.Attrs |= attrLogAppend }, false},
		"delete horizon":        {func(h *Header) { h.Attrs |= attrDeleteHorizon }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := pass
			c.change(&h)
			if got := h.Passable(39); got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
