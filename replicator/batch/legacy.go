package batch

import (
	"encoding/binary"
	"errors"
	"math"
)

// Messages of magic 0 and 1 (Kafka before 0.11): offset 8, length 4, CRC-32 4, magic 1, attributes 1, in magic 1
// timestamp 8, then key and value, each behind a 32-bit length. A compressed set is a message whose value holds the
// inner messages; its own key is null.
// Source: Kafka's LegacyRecord and AbstractLegacyRecordBatch.DeepRecordsIterator.
const (
	messageSizeV0 = 26 // with empty or null key and value
	messageSizeV1 = 34

	atMessageCRC   = 12
	atMessageAttrs = 17
	atMessageTime  = 18
)

// parseMessage reads a message as a [Header]. The caller has seen the whole message, at least messageSizeV0 bytes.
func parseMessage(b []byte) (Header, error) {
	be := binary.BigEndian
	h := Header{
		BaseOffset:    offsetOf(b),
		Length:        int32(be.Uint32(b[atLength:])),
		LeaderEpoch:   -1,
		Magic:         int8(b[atMagic]),
		CRC:           be.Uint32(b[atMessageCRC:]),
		Attrs:         int16(b[atMessageAttrs] & attrCodec),
		BaseTimestamp: -1,
		MaxTimestamp:  -1,
		PID:           -1,
		Epoch:         -1,
		BaseSeq:       -1,
		Count:         1,
	}
	if h.Magic == 1 {
		if h.Size() < messageSizeV1 {
			return Header{}, corruptf(b, "length field is %d", h.Length)
		}
		h.Attrs = int16(b[atMessageAttrs] & (attrCodec | attrLogAppend))
		h.BaseTimestamp = int64(be.Uint64(b[atMessageTime:]))
		h.MaxTimestamp = h.BaseTimestamp
	}
	if h.Codec() != CodecNone {
		h.Count = -1
	}
	if h.BaseOffset < 0 || h.BaseOffset == math.MaxInt64 {
		return Header{}, corruptf(b, "offset is %d", h.BaseOffset)
	}
	return h, nil
}

// messageBody returns what decoding needs of message b: key and value as they stand, or in a wrapper the value,
// still compressed.
func messageBody(h Header, b []byte) ([]byte, error) {
	at := messageSizeV0 - 8 // the two lengths
	if h.Magic == 1 {
		at = messageSizeV1 - 8
	}
	body := b[at:]
	if h.Codec() == CodecNone {
		return body, nil
	}
	r := reader{b: body}
	r.bytes32()
	value := r.bytes32()
	if r.bad || len(r.b) > 0 || value == nil {
		return nil, decodef(h, "compressed message without a readable value")
	}
	return value, nil
}

// decodeMessage reads key and value of one plain message at the given absolute offset. wrapper is the message it
// came in, or the message itself.
func decodeMessage(h Header, offset int64, wrapper Header, body []byte, fn func(Record) error) error {
	r := reader{b: body}
	rec := Record{Offset: offset, Timestamp: h.MaxTimestamp, Key: r.bytes32(), Value: r.bytes32()}
	if r.bad || len(r.b) > 0 {
		return decodef(wrapper, "message at offset %d cannot be read", offset)
	}
	// A broker that stamps with append time stamps the wrapper only.
	if wrapper.LogAppend() && h.Magic == 1 {
		rec.Timestamp = wrapper.MaxTimestamp
	}
	return fn(rec)
}

// decodeWrapped reads the messages of a decompressed set. In a wrapper of magic 1 their offsets are relative, and
// the wrapper's offset is that of the last one (KIP-31); in magic 0 they are absolute.
func decodeWrapped(wrapper Header, set []byte, fn func(Record) error) error {
	last, err := lastInner(wrapper, set)
	if err != nil {
		return err
	}
	var base int64
	if wrapper.Magic == 1 {
		base = wrapper.BaseOffset - last
	}
	if base < 0 || base+last > wrapper.BaseOffset {
		return decodef(wrapper, "inner offsets reach %d, behind the wrapper's own", last)
	}
	for len(set) > 0 {
		h, _ := parseFront(set) // lastInner has parsed it
		body, err := messageBody(h, set[:h.Size()])
		if err != nil {
			return err
		}
		if err := decodeMessage(h, base+h.BaseOffset, wrapper, body, fn); err != nil {
			return err
		}
		set = set[h.Size():]
	}
	return nil
}

// lastInner checks all messages of a set, and returns the offset field of the last one.
func lastInner(wrapper Header, set []byte) (int64, error) {
	last := int64(-1)
	if len(set) == 0 {
		return 0, decodef(wrapper, "compressed message holds no messages")
	}
	for len(set) > 0 {
		h, err := parseInner(set)
		if err != nil {
			return 0, decodef(wrapper, "inner message behind offset %d: %v", last, err)
		}
		if h.BaseOffset <= last {
			return 0, decodef(wrapper, "inner offset %d follows %d", h.BaseOffset, last)
		}
		last = h.BaseOffset
		set = set[h.Size():]
	}
	return last, nil
}

var (
	errInnerMagic = errors.New("a set of messages holds a batch")
	errInnerCodec = errors.New("it is compressed a second time")
)

func parseInner(set []byte) (Header, error) {
	h, err := parseFront(set)
	if err != nil {
		return h, err
	}
	if h.Magic > 1 {
		return h, errInnerMagic
	}
	if h.Codec() != CodecNone {
		return h, errInnerCodec
	}
	return h, VerifyCRC(h, set[:h.Size()])
}
