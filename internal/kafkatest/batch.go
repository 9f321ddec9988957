package kafkatest

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Attribute bits of a record batch (magic 2); the codec is in the lowest three.
const (
	AttrLogAppend     int16 = 1 << 3
	AttrTransactional int16 = 1 << 4
	AttrControl       int16 = 1 << 5
	AttrDeleteHorizon int16 = 1 << 6
)

// batchHeader is the size of a batch without its records.
const batchHeader = 61

// Batch is a record batch (magic 2) written longhand, wrong ones included: what the product's own code would refuse
// to build, a broker must be shown too.
type Batch struct {
	BaseOffset      int64
	LeaderEpoch     int32
	Attrs           int16
	LastOffsetDelta int32
	BaseTimestamp   int64 // milliseconds
	MaxTimestamp    int64
	PID             int64
	Epoch           int16
	BaseSeq         int32
	Count           int32
	Records         []BatchRecord // none in a batch that came from ParseBatch with a codec
}

// BatchRecord is one record of a Batch.
type BatchRecord struct {
	OffsetDelta    int32
	TimestampDelta int64
	Key, Value     []byte // nil is null
	Headers        []kgo.RecordHeader
}

// NewBatch returns a good batch of n small records with the present time; pid −1 means no producer.
func NewBatch(pid int64, epoch int16, seq int32, n int) Batch {
	now := time.Now().UnixMilli()
	b := Batch{LeaderEpoch: -1, LastOffsetDelta: int32(n - 1), BaseTimestamp: now, MaxTimestamp: now, PID: pid, Epoch: epoch, BaseSeq: seq, Count: int32(n)}
	if pid < 0 {
		b.Epoch, b.BaseSeq = -1, -1
	}
	for i := range n {
		b.Records = append(b.Records, BatchRecord{OffsetDelta: int32(i), Key: []byte("k"), Value: fmt.Appendf(nil, "%d/%d/%d", pid, epoch, int(seq)+i)})
	}
	return b
}

// At returns the batch with all its records at a time in milliseconds.
func (b Batch) At(ms int64) Batch {
	b.BaseTimestamp, b.MaxTimestamp = ms, ms
	return b
}

// LastOffset returns the offset of the last record that the batch ever held.
func (b Batch) LastOffset() int64 { return b.BaseOffset + int64(b.LastOffsetDelta) }

// Control reports whether it is a transaction marker.
func (b Batch) Control() bool { return b.Attrs&AttrControl != 0 }

// Bytes returns the batch as it is sent, uncompressed, with the right length and CRC.
func (b Batch) Bytes() []byte {
	var records []byte
	for _, r := range b.Records {
		body := r.bytes()
		records = binary.AppendVarint(records, int64(len(body)))
		records = append(records, body...)
	}
	out := make([]byte, batchHeader, batchHeader+len(records))
	b.putHeader(out)
	out = append(out, records...)
	binary.BigEndian.PutUint32(out[8:], uint32(len(out)-12))
	Reseal(out)
	return out
}

func (b Batch) putHeader(out []byte) {
	be := binary.BigEndian
	be.PutUint64(out, uint64(b.BaseOffset))
	be.PutUint32(out[12:], uint32(b.LeaderEpoch))
	out[16] = 2
	be.PutUint16(out[21:], uint16(b.Attrs))
	be.PutUint32(out[23:], uint32(b.LastOffsetDelta))
	be.PutUint64(out[27:], uint64(b.BaseTimestamp))
	be.PutUint64(out[35:], uint64(b.MaxTimestamp))
	be.PutUint64(out[43:], uint64(b.PID))
	be.PutUint16(out[51:], uint16(b.Epoch))
	be.PutUint32(out[53:], uint32(b.BaseSeq))
	be.PutUint32(out[57:], uint32(b.Count))
}

// bytes returns the record without its length.
func (r BatchRecord) bytes() []byte {
	out := []byte{0} // attributes
	out = binary.AppendVarint(out, r.TimestampDelta)
	out = binary.AppendVarint(out, int64(r.OffsetDelta))
	out = appendNullable(out, r.Key)
	out = appendNullable(out, r.Value)
	out = binary.AppendVarint(out, int64(len(r.Headers)))
	for _, h := range r.Headers {
		out = appendNullable(out, []byte(h.Key))
		out = appendNullable(out, h.Value)
	}
	return out
}

func appendNullable(out, b []byte) []byte {
	if b == nil {
		return binary.AppendVarint(out, -1)
	}
	return append(binary.AppendVarint(out, int64(len(b))), b...)
}

// Restamp rewrites the header of a batch in place, records untouched, as a copier does; the CRC is computed anew.
func Restamp(raw []byte, baseOffset, pid int64, epoch int16, seq int32) {
	binary.BigEndian.PutUint64(raw, uint64(baseOffset))
	binary.BigEndian.PutUint64(raw[43:], uint64(pid))
	binary.BigEndian.PutUint16(raw[51:], uint16(epoch))
	binary.BigEndian.PutUint32(raw[53:], uint32(seq))
	Reseal(raw)
}

// Reseal computes the CRC of a batch after a change.
func Reseal(raw []byte) {
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
}

// ParseBatches splits what a Fetch answered into whole batches: their headers and their bytes. The records are not
// decoded. A batch cut at the end is left out.
func ParseBatches(raw []byte) (headers []Batch, bytes [][]byte) {
	be := binary.BigEndian
	for len(raw) >= batchHeader {
		size := int(be.Uint32(raw[8:])) + 12
		if size > len(raw) {
			break
		}
		b := raw[:size]
		headers = append(headers, Batch{
			BaseOffset: int64(be.Uint64(b)), LeaderEpoch: int32(be.Uint32(b[12:])), Attrs: int16(be.Uint16(b[21:])),
			LastOffsetDelta: int32(be.Uint32(b[23:])), BaseTimestamp: int64(be.Uint64(b[27:])), MaxTimestamp: int64(be.Uint64(b[35:])),
			PID: int64(be.Uint64(b[43:])), Epoch: int16(be.Uint16(b[51:])), BaseSeq: int32(be.Uint32(b[53:])), Count: int32(be.Uint32(b[57:])),
		})
		bytes = append(bytes, b)
		raw = raw[size:]
	}
	return headers, bytes
}

// Headers returns the header of every batch of a partition from an offset to the end, markers included.
func Headers(t testing.TB, c Target, topic string, partition int32, from int64) []Batch {
	t.Helper()
	end := End(t, c, topic, partition)
	var out []Batch
	for next := max(from, LogStart(t, c, topic, partition)); next < end; {
		hs, _ := ParseBatches(FetchRaw(t, c, topic, partition, next, false).RecordBatches)
		if len(hs) == 0 {
			t.Fatalf("read headers of %s/%d: nothing at %d, before the end at %d", topic, partition, next, end)
		}
		out = append(out, hs...)
		next = hs[len(hs)-1].LastOffset() + 1
	}
	return out
}
