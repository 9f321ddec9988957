package replicator

import (
	"encoding/binary"
	"hash/crc32"
	"slices"

	"lockstep/replicator/batch"
)

// rec is a record of the simulated world: its offset in the log that holds it, and a number that no other record has.
type rec struct{ off, id int64 }

// stored is a batch as a simulated log holds it.
type stored struct {
	batch.Header
	recs []rec
	raw  []byte
}

// Bits of a batch's attributes.
const (
	txnBit     = 0x10
	controlBit = 0x20
)

// seal encodes the batch: bytes that a broker would serve, with holes where records are missing.
func (b *stored) seal() {
	out := make([]byte, batch.HeaderSize, batch.HeaderSize+len(b.recs)*24+32)
	if b.Control() {
		kind := int16(0)
		if b.recs != nil {
			kind = 1 // commit
		}
		key := binary.BigEndian.AppendUint16(make([]byte, 2, 4), uint16(kind))
		out = appendRec(out, 0, key, make([]byte, 6))
		b.Count = 1
	} else {
		for _, r := range b.recs {
			out = appendRec(out, r.off-b.BaseOffset, nil, binary.BigEndian.AppendUint64(nil, uint64(r.id)))
		}
		b.Count = int32(len(b.recs))
	}
	be := binary.BigEndian
	be.PutUint64(out, uint64(b.BaseOffset))
	be.PutUint32(out[8:], uint32(len(out)-12))
	be.PutUint32(out[12:], uint32(b.LeaderEpoch))
	out[16] = 2
	be.PutUint16(out[21:], uint16(b.Attrs))
	be.PutUint32(out[23:], uint32(b.LastOffsetDelta))
	be.PutUint64(out[27:], uint64(b.MaxTimestamp))
	be.PutUint64(out[35:], uint64(b.MaxTimestamp))
	be.PutUint64(out[43:], uint64(b.PID))
	be.PutUint16(out[51:], uint16(b.Epoch))
	be.PutUint32(out[53:], uint32(b.BaseSeq))
	be.PutUint32(out[57:], uint32(b.Count))
	be.PutUint32(out[17:], crc32.Checksum(out[21:], crc32.MakeTable(crc32.Castagnoli)))
	b.Magic, b.raw = 2, out
}

func appendRec(out []byte, delta int64, key, value []byte) []byte {
	body := binary.AppendVarint([]byte{0, 0}, delta)
	for _, field := range [][]byte{key, value} {
		if field == nil {
			body = binary.AppendVarint(body, -1)
			continue
		}
		body = append(binary.AppendVarint(body, int64(len(field))), field...)
	}
	body = append(body, 0)
	return append(binary.AppendVarint(out, int64(len(body))), body...)
}

// thin removes the records for which drop says so, as compaction does, and reports whether any are left.
func (b *stored) thin(drop func(rec) bool) bool {
	b.recs = slices.DeleteFunc(slices.Clone(b.recs), drop)
	b.seal()
	return len(b.recs) > 0
}

// served joins the bytes of the batches from the one that holds offset from on, as a fetch answer does.
func served(log []stored, from, below int64, most int) (raw []byte) {
	for i := range log {
		if b := &log[i]; b.Next() > from && b.BaseOffset < below && most > 0 {
			raw = append(raw, b.raw...)
			most--
		}
	}
	return raw
}
