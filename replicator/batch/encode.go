package batch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"lockstep/internal/model"
)

// Built is one encoded batch, ready for [Stamp].
type Built struct {
	Bytes        []byte
	Runs         []model.Run // source offsets of its records, in order
	MaxTimestamp int64       // ms, -1 for none
	// TooLarge says that a single record does not fit into maxBytes, however it is compressed. [Check] names the
	// sizes.
	TooLarge bool
}

// Count returns the number of records.
func (b Built) Count() int64 {
	var n int64
	for _, r := range b.Runs {
		n += r.N
	}
	return n
}

// Encode writes records into batches of magic 2 with create time, base offset 0 and dense offset deltas, without
// producer. rs must be in order of source offsets; keys, values, headers (null, empty, order, repeats) and
// timestamps are kept. A batch takes at most maxBytes bytes as sent, 0 for no limit: where they do not suffice, rs
// is cut into several batches, and a record that does not even fit alone gives a batch of its own with TooLarge
// set. Built.Bytes is fresh memory; rs is not kept.
//
// The codec is used as asked, never exchanged for another one. The error, for a codec that does not exist, records
// out of order or more than 2 GiB of them in one, is a mistake of the caller.
func (c *Codecs) Encode(rs []Record, codec int8, maxBytes int32) ([]Built, error) {
	if codec < CodecNone || codec > CodecZstd {
		return nil, fmt.Errorf("encode records: codec %d does not exist", codec)
	}
	if err := checkOrder(rs); err != nil {
		return nil, err
	}
	limit := math.MaxInt32
	if maxBytes > 0 {
		limit = int(maxBytes)
	}
	s := c.scratch.Get().(*scratch)
	defer c.scratch.Put(s)
	e := encoder{codecs: c, codec: codec, limit: limit, rawLimit: min(c.maxInflated, maxRaw), scratch: s}
	if codec == CodecNone {
		e.rawLimit = min(limit-HeaderSize, maxRaw)
	}
	return e.all(rs)
}

func checkOrder(rs []Record) error {
	for i := 1; i < len(rs); i++ {
		if rs[i].Offset <= rs[i-1].Offset {
			return fmt.Errorf("encode records: offset %d follows %d", rs[i].Offset, rs[i-1].Offset)
		}
	}
	return nil
}

// maxRaw is the size of all records that a batch's length field allows, where nothing else limits it.
const maxRaw = math.MaxInt32 - HeaderSize

// encoder cuts records into batches of at most limit bytes.
type encoder struct {
	codecs   *Codecs
	codec    int8
	limit    int // bytes of a whole batch, compressed
	rawLimit int // bytes of a batch's records before compression; shrinks when compression gives less than hoped
	scratch  *scratch
}

// all encodes as many records at a time as may fit. The size is only known after compression: when it is too large,
// the same records are tried again with fewer of them, in proportion, and the smaller aim is kept for what follows.
func (e *encoder) all(rs []Record) ([]Built, error) {
	var out []Built
	for len(rs) > 0 {
		raw, n, err := appendRecords(e.scratch.raw[:0], rs, e.rawLimit)
		e.scratch.raw = raw
		if err != nil {
			return nil, err
		}
		packed, err := e.pack(raw, n)
		if err != nil {
			return nil, err
		}
		size := HeaderSize + len(packed)
		if size > e.limit && n > 1 {
			e.rawLimit = int(int64(len(raw)) * int64(e.limit) / int64(size) * 9 / 10)
			continue
		}
		out = append(out, finish(rs[:n], packed, e.codec, size > e.limit))
		rs = rs[n:]
	}
	return out, nil
}

// pack compresses the n records in raw. A record that came in a batch of a better compression level must not grow
// too large on its way: alone, it gets a second, slower try, unless it is more than twice too large, which no level
// makes up for.
func (e *encoder) pack(raw []byte, n int) ([]byte, error) {
	if len(raw) > maxRaw {
		return nil, errLong
	}
	packed, err := deflate(e.codecs.fast[e.codec], e.codec, e.scratch, raw)
	size := HeaderSize + len(packed)
	if err != nil || n > 1 || size <= e.limit || size/2 > e.limit {
		return packed, err
	}
	return deflate(e.codecs.best[e.codec], e.codec, e.scratch, raw)
}

// finish puts the header before the packed records.
func finish(rs []Record, packed []byte, codec int8, tooLarge bool) Built {
	b := make([]byte, HeaderSize+len(packed))
	copy(b[HeaderSize:], packed)
	newest := maxTimestamp(rs)

	be := binary.BigEndian
	be.PutUint32(b[atLength:], uint32(len(b)-overhead))
	be.PutUint32(b[atLeaderEpoch:], ^uint32(0))
	b[atMagic] = 2
	be.PutUint16(b[atAttrs:], uint16(codec))
	be.PutUint32(b[atLastDelta:], uint32(len(rs)-1))
	be.PutUint64(b[atBaseTime:], uint64(rs[0].Timestamp))
	be.PutUint64(b[atMaxTime:], uint64(newest))
	be.PutUint64(b[atPID:], ^uint64(0))
	be.PutUint16(b[atEpoch:], ^uint16(0))
	be.PutUint32(b[atBaseSeq:], ^uint32(0))
	be.PutUint32(b[atCount:], uint32(len(rs)))
	be.PutUint32(b[atCRC:], crc32.Checksum(b[atAttrs:], castagnoli()))
	return Built{Bytes: b, Runs: runs(rs), MaxTimestamp: newest, TooLarge: tooLarge}
}

// maxTimestamp starts at -1, as Kafka does: batches whose records are all older say "none".
func maxTimestamp(rs []Record) int64 {
	newest := int64(-1)
	for i := range rs {
		newest = max(newest, rs[i].Timestamp)
	}
	return newest
}

// runs joins neighbouring source offsets.
func runs(rs []Record) []model.Run {
	n := 1
	for i := 1; i < len(rs); i++ {
		if rs[i].Offset != rs[i-1].Offset+1 {
			n++
		}
	}
	out := make([]model.Run, 0, n)
	for i := range rs {
		if i > 0 && rs[i].Offset == rs[i-1].Offset+1 {
			out[len(out)-1].N++
			continue
		}
		out = append(out, model.Run{Src: rs[i].Offset, N: 1})
	}
	return out
}

var errLong = errors.New("encode records: a record is longer than 2 GiB")

// appendRecords appends as many of rs as take at most limit bytes together, but at least one. Timestamp deltas
// wrap around for timestamps that lie more than 2^63 ms apart, and wrap back on reading.
func appendRecords(dst []byte, rs []Record, limit int) ([]byte, int, error) {
	start := len(dst)
	for i := range rs {
		r := &rs[i]
		delta := r.Timestamp - rs[0].Timestamp
		n := bodySize(r, delta, int64(i))
		if n > math.MaxInt32 {
			return dst, i, errLong
		}
		if i > 0 && len(dst)-start+varintSize(int64(n))+n > limit {
			return dst, i, nil
		}
		dst = appendRecord(binary.AppendVarint(dst, int64(n)), r, delta, int64(i))
	}
	return dst, len(rs), nil
}

func appendRecord(dst []byte, r *Record, timeDelta, offsetDelta int64) []byte {
	dst = append(dst, byte(r.Attrs))
	dst = binary.AppendVarint(dst, timeDelta)
	dst = binary.AppendVarint(dst, offsetDelta)
	dst = appendVarbytes(dst, r.Key)
	dst = appendVarbytes(dst, r.Value)
	dst = binary.AppendVarint(dst, int64(len(r.Headers)))
	for i := range r.Headers {
		dst = binary.AppendVarint(dst, int64(len(r.Headers[i].Key)))
		dst = append(dst, r.Headers[i].Key...)
		dst = appendVarbytes(dst, r.Headers[i].Value)
	}
	return dst
}

// bodySize is the length of what appendRecord writes.
func bodySize(r *Record, timeDelta, offsetDelta int64) int {
	n := 1 + varintSize(timeDelta) + varintSize(offsetDelta) + varbytesSize(r.Key) + varbytesSize(r.Value)
	n += varintSize(int64(len(r.Headers)))
	for i := range r.Headers {
		n += varintSize(int64(len(r.Headers[i].Key))) + len(r.Headers[i].Key) + varbytesSize(r.Headers[i].Value)
	}
	return n
}

func appendVarbytes(dst, p []byte) []byte {
	if p == nil {
		return append(dst, 1) // -1
	}
	return append(binary.AppendVarint(dst, int64(len(p))), p...)
}

func varbytesSize(p []byte) int {
	if p == nil {
		return 1
	}
	return varintSize(int64(len(p))) + len(p)
}

// varintSize is the length of v as a zigzag varint.
func varintSize(v int64) int {
	n := 1
	for u := uint64(v)<<1 ^ uint64(v>>63); u >= 0x80; u >>= 7 {
		n++
	}
	return n
}
