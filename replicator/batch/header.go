package batch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// HeaderSize is the number of bytes before the first record of a magic 2 batch.
const HeaderSize = 61

// Positions of a magic 2 batch's fields. The checksum covers everything from atAttrs on; base offset, length,
// leader epoch and magic lie outside of it.
// Source of the layout: Kafka's DefaultRecordBatch (KIP-98).
const (
	atBaseOffset  = 0
	atLength      = 8
	atLeaderEpoch = 12
	atMagic       = 16
	atCRC         = 17
	atAttrs       = 21
	atLastDelta   = 23
	atBaseTime    = 27
	atMaxTime     = 35
	atPID         = 43
	atEpoch       = 51
	atBaseSeq     = 53
	atCount       = 57
)

// overhead is what a batch's length field does not count: the base offset and the length itself.
const overhead = 12

// Bits of a batch's attributes.
const (
	attrCodec         = 0x07
	attrLogAppend     = 0x08
	attrTransactional = 0x10
	attrControl       = 0x20
	attrDeleteHorizon = 0x40
)

// Compression codecs, as in the lowest three bits of the attributes.
const (
	CodecNone   int8 = 0
	CodecGzip   int8 = 1
	CodecSnappy int8 = 2
	CodecLZ4    int8 = 3
	CodecZstd   int8 = 4
)

// ErrCorrupt is wrapped by every error that says: these bytes are not what a healthy broker would have sent. The
// lane stops with [model.ReasonCorrupt]; reading the same bytes again may help, sending them on never does.
var ErrCorrupt = errors.New("corrupt batch")

// ErrCut is wrapped by the errors for bytes that end before the batch does. Reading again with room for more
// bytes gives the rest.
var ErrCut = errors.New("batch is cut")

// Header is the fixed front of one batch.
//
// A message of the old formats (Magic 0 and 1) is shown in the same shape: BaseOffset is the message's offset,
// which in a compressed wrapper is that of its last inner message; LastOffsetDelta is 0; Count is 1, or -1 for a
// wrapper, whose number of messages is not known before it is decompressed; both timestamps are the message's, -1
// for magic 0; there is no producer and no leader epoch.
type Header struct {
	BaseOffset      int64
	Length          int32 // of what follows the length field: the whole batch is 12 bytes longer
	LeaderEpoch     int32
	Magic           int8
	CRC             uint32
	Attrs           int16
	LastOffsetDelta int32
	BaseTimestamp   int64
	MaxTimestamp    int64
	PID             int64
	Epoch           int16
	BaseSeq         int32
	Count           int32
}

// Parse reads the header of b, which must hold exactly one whole batch (or one message of magic 0 or 1). It looks
// at the header only. Errors wrap [ErrCut] when b ends too early, else [ErrCorrupt].
func Parse(b []byte) (Header, error) {
	h, err := parseFront(b)
	if err != nil {
		return Header{}, err
	}
	if h.Size() != len(b) {
		return Header{}, fmt.Errorf("parse batch at offset %d: %w: %d bytes follow its end", h.BaseOffset, ErrCorrupt, len(b)-h.Size())
	}
	return h, nil
}

// parseFront reads the header of the batch that b begins with. More may follow it.
func parseFront(b []byte) (Header, error) {
	if len(b) < overhead {
		return Header{}, fmt.Errorf("parse batch: %w: %d bytes are no header", ErrCut, len(b))
	}
	length := int32(binary.BigEndian.Uint32(b[atLength:]))
	if length < messageSizeV0-overhead || length > math.MaxInt32-overhead {
		return Header{}, corruptf(b, "length field is %d", length)
	}
	if len(b) > atMagic && b[atMagic] > 2 {
		return Header{}, corruptf(b, "magic is %d", b[atMagic])
	}
	if need := int(length) + overhead; len(b) < need {
		return Header{}, fmt.Errorf("parse batch at offset %d: %w: %d of %d bytes", offsetOf(b), ErrCut, len(b), need)
	}
	if b[atMagic] < 2 {
		return parseMessage(b)
	}
	return parseV2(b, length)
}

// parseV2 reads a magic 2 header. The caller has seen that the whole batch is there.
func parseV2(b []byte, length int32) (Header, error) {
	if length < HeaderSize-overhead {
		return Header{}, corruptf(b, "length field is %d", length)
	}
	be := binary.BigEndian
	_ = b[HeaderSize-1]
	h := Header{
		BaseOffset:      int64(be.Uint64(b[atBaseOffset:])),
		Length:          length,
		LeaderEpoch:     int32(be.Uint32(b[atLeaderEpoch:])),
		Magic:           2,
		CRC:             be.Uint32(b[atCRC:]),
		Attrs:           int16(be.Uint16(b[atAttrs:])),
		LastOffsetDelta: int32(be.Uint32(b[atLastDelta:])),
		BaseTimestamp:   int64(be.Uint64(b[atBaseTime:])),
		MaxTimestamp:    int64(be.Uint64(b[atMaxTime:])),
		PID:             int64(be.Uint64(b[atPID:])),
		Epoch:           int16(be.Uint16(b[atEpoch:])),
		BaseSeq:         int32(be.Uint32(b[atBaseSeq:])),
		Count:           int32(be.Uint32(b[atCount:])),
	}
	return h, h.plausible(b)
}

// plausible refuses numbers that no batch of a log can have, so that offsets computed from them are safe to use.
func (h Header) plausible(b []byte) error {
	switch {
	case h.BaseOffset < 0 || h.BaseOffset > math.MaxInt64-math.MaxInt32-1:
		return corruptf(b, "base offset is %d", h.BaseOffset)
	case h.LastOffsetDelta < 0:
		return corruptf(b, "last offset delta is %d", h.LastOffsetDelta)
	case h.Count < 0 || int64(h.Count) > int64(h.LastOffsetDelta)+1:
		return corruptf(b, "%d records on %d offsets", h.Count, int64(h.LastOffsetDelta)+1)
	}
	return nil
}

// Size returns the number of bytes of the whole batch.
func (h Header) Size() int { return int(h.Length) + overhead }

// LastOffset returns the last offset that the batch takes, whether or not a record is left there.
func (h Header) LastOffset() int64 { return h.BaseOffset + int64(h.LastOffsetDelta) }

// Next returns the first offset behind the batch.
func (h Header) Next() int64 { return h.LastOffset() + 1 }

// Dense reports whether each of the batch's offsets holds a record, which a broker demands of a produced batch.
// Compaction thins batches out without changing their last offset.
func (h Header) Dense() bool {
	return h.Magic == 2 && h.Count > 0 && int64(h.Count) == int64(h.LastOffsetDelta)+1
}

// Control reports whether the batch holds a transaction marker and no data.
func (h Header) Control() bool { return h.Attrs&attrControl != 0 }

// Transactional reports whether the batch belongs to a transaction.
func (h Header) Transactional() bool { return h.Attrs&attrTransactional != 0 }

// LogAppend reports whether the records bear the time of their append, which is MaxTimestamp for all of them.
func (h Header) LogAppend() bool { return h.Attrs&attrLogAppend != 0 }

// DeleteHorizon reports whether BaseTimestamp is the time at which the cleaner may drop the batch's tombstones.
func (h Header) DeleteHorizon() bool { return h.Attrs&attrDeleteHorizon != 0 }

// Codec returns the compression codec. Values above [CodecZstd] are not known to any broker.
func (h Header) Codec() int8 { return int8(h.Attrs & attrCodec) }

// Passable reports whether the batch may go to the target without being decoded, when the next source offset to
// copy is from: it is of magic 2, holds a record on each of its offsets, begins at or behind from, is no control
// batch, and its timestamps mean on any topic what they mean here (create time, no delete horizon).
func (h Header) Passable(from int64) bool {
	const never = attrControl | attrLogAppend | attrDeleteHorizon
	return h.Dense() && h.BaseOffset >= from && h.Attrs&never == 0
}

// offsetOf returns the first field of b. The caller has seen 8 bytes.
func offsetOf(b []byte) int64 { return int64(binary.BigEndian.Uint64(b)) }

// corruptf says what is wrong with the batch that b begins with. The caller has seen 8 bytes.
func corruptf(b []byte, format string, args ...any) error {
	return fmt.Errorf("parse batch at offset %d: %w: %s", offsetOf(b), ErrCorrupt, fmt.Sprintf(format, args...))
}
