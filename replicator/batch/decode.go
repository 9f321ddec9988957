package batch

import (
	"errors"
	"fmt"
	"slices"
)

// ErrControl is returned for the attempt to decode a control batch: it holds no data, and its marker must never be
// taken for a record. [ParseMarker] reads it.
var ErrControl = errors.New("control batch holds no records")

// minRecord is the size of the smallest magic 2 record: length, attributes, two deltas, null key, null value, no
// headers.
const minRecord = 7

// Decode verifies the checksum of b, one whole batch of any magic, and calls fn for each record in order. Offsets
// are absolute, also inside compressed messages of magic 1, whose bytes hold relative ones. Timestamps are those
// that a consumer sees: the append time where the batch says so, -1 for magic 0.
//
// Keys, values and headers point into b or into memory made for this call: they stay valid as long as they are
// held and b is not overwritten. Errors of fn end the call and are returned as they are; others wrap [ErrCorrupt],
// [ErrTooBig] or [ErrControl]. fn may have been called before damage further on is found.
func (c *Codecs) Decode(b []byte, fn func(Record) error) error {
	h, body, err := c.open(b)
	if err != nil {
		return err
	}
	return decodeBody(h, body, fn)
}

// AppendRecords appends the records of b at source offsets from on to rs. It is Decode into a slice; on an error
// rs is returned as it was.
func (c *Codecs) AppendRecords(rs []Record, b []byte, from int64) ([]Record, error) {
	h, body, err := c.open(b)
	if err != nil {
		return rs, err
	}
	grown := slices.Grow(rs, min(max(int(h.Count), 0), len(body)/minRecord))
	err = decodeBody(h, body, func(r Record) error {
		if r.Offset >= from {
			grown = append(grown, r)
		}
		return nil
	})
	if err != nil {
		return rs, err
	}
	return grown, nil
}

// open verifies b and returns its header and decompressed body: records for magic 2, messages for a wrapper, the
// bytes behind the message's header for a plain message.
func (c *Codecs) open(b []byte) (Header, []byte, error) {
	h, err := Parse(b)
	if err != nil {
		return h, nil, err
	}
	if err := VerifyCRC(h, b); err != nil {
		return h, nil, err
	}
	if h.Control() {
		return h, nil, fmt.Errorf("decode batch at offset %d: %w", h.BaseOffset, ErrControl)
	}
	if h.Codec() > CodecZstd || h.Magic < 2 && h.Codec() == CodecZstd {
		return h, nil, decodef(h, "codec %d does not exist in format %d", h.Codec(), h.Magic)
	}
	packed, err := packedBody(h, b)
	if err != nil || h.Count == 0 && len(packed) == 0 {
		return h, nil, err // compaction leaves a producer's last batch without records
	}
	body, err := c.inflate(h, packed)
	return h, body, err
}

// packedBody returns the part of b that may be compressed.
func packedBody(h Header, b []byte) ([]byte, error) {
	if h.Magic < 2 {
		return messageBody(h, b)
	}
	return b[HeaderSize:], nil
}

func decodeBody(h Header, body []byte, fn func(Record) error) error {
	if h.Magic == 2 {
		return decodeRecords(h, body, fn)
	}
	if h.Codec() == CodecNone {
		return decodeMessage(h, h.BaseOffset, h, body, fn)
	}
	return decodeWrapped(h, body, fn)
}

// decodeRecords walks the records of a magic 2 batch. Offsets must rise and stay inside of the batch: a lane that
// believed others would plan offsets that its header denies.
func decodeRecords(h Header, body []byte, fn func(Record) error) error {
	d := recordDecoder{reader: reader{b: body}, h: h}
	last := h.BaseOffset - 1
	for i := range h.Count {
		var rec Record
		if !d.next(&rec) {
			return decodef(h, "record %d of %d cannot be read", i+1, h.Count)
		}
		if rec.Offset <= last || rec.Offset > h.LastOffset() {
			return decodef(h, "record %d of %d has offset %d behind %d", i+1, h.Count, rec.Offset, last)
		}
		last = rec.Offset
		if err := fn(rec); err != nil {
			return err
		}
	}
	if len(d.b) > 0 {
		return decodef(h, "%d bytes follow the last of %d records", len(d.b), h.Count)
	}
	return nil
}

// recordDecoder reads magic 2 records one behind the other.
type recordDecoder struct {
	reader
	h    Header
	slab []RecordHeader // cut into the records' header lists, so that few lists cost an allocation
}

// next reads one record; false when the bytes do not hold one that fills its declared length exactly.
func (d *recordDecoder) next(rec *Record) bool {
	body := reader{b: d.take(d.varint())}
	attrs := body.take(1)
	if d.bad || body.bad {
		return false
	}
	rec.Attrs = int8(attrs[0])
	rec.Timestamp = d.h.BaseTimestamp + body.varlong()
	if d.h.LogAppend() {
		rec.Timestamp = d.h.MaxTimestamp
	}
	rec.Offset = d.h.BaseOffset + int64(body.varint())
	rec.Key = body.varbytes()
	rec.Value = body.varbytes()
	rec.Headers = d.headers(&body)
	return !body.bad && len(body.b) == 0
}

func (d *recordDecoder) headers(body *reader) []RecordHeader {
	n := body.varint()
	if n < 0 || n > len(body.b)/2 { // each header takes two bytes or more
		body.fail()
	}
	if n == 0 || body.bad {
		return nil
	}
	if n > len(d.slab) {
		d.slab = make([]RecordHeader, max(n, 32))
	}
	hs := d.slab[:n:n]
	d.slab = d.slab[n:]
	for i := range hs {
		hs[i].Key = body.take(body.varint()) // null is not allowed here
		hs[i].Value = body.varbytes()
	}
	return hs
}

// decodef says what is wrong inside of the batch with header h.
func decodef(h Header, format string, args ...any) error {
	return fmt.Errorf("decode batch at offset %d: %w: %s", h.BaseOffset, ErrCorrupt, fmt.Sprintf(format, args...))
}
