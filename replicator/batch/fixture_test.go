package batch

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// update rewrites the longhand fixtures: go test -run Golden -update. They are to be kept; see testdata/README.md.
var update = flag.Bool("update", false, "write testdata/longhand anew")

// golden compares got with a file that was reviewed once and is kept for ever.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", "longhand", name+".bin")
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs from what is built longhand", path)
	}
}

func be16(v int16) []byte { return binary.BigEndian.AppendUint16(nil, uint16(v)) }
func be32(v int32) []byte { return binary.BigEndian.AppendUint32(nil, uint32(v)) }
func be64(v int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(v)) }

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// lengthed is a value of the old formats: 32-bit length, -1 for null.
func lengthed(p []byte) []byte {
	if p == nil {
		return be32(-1)
	}
	return join(be32(int32(len(p))), p)
}

// message builds one message of magic 0 or 1, field by field.
func message(magic byte, offset, ts int64, attrs byte, key, value []byte) []byte {
	covered := join([]byte{magic, attrs}, lengthed(key), lengthed(value))
	if magic == 1 {
		covered = join([]byte{magic, attrs}, be64(ts), lengthed(key), lengthed(value))
	}
	sum := binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(covered))
	return join(be64(offset), be32(int32(4+len(covered))), sum, covered)
}

// gzipStored wraps p as gzip without compressing it: header, one stored block, CRC-32, length.
func gzipStored(p []byte) []byte {
	n := uint16(len(p))
	head := []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff}
	block := []byte{1, byte(n), byte(n >> 8), byte(^n), byte(^n >> 8)}
	tail := binary.LittleEndian.AppendUint32(nil, crc32.ChecksumIEEE(p))
	return join(head, block, p, binary.LittleEndian.AppendUint32(tail, uint32(n)))
}

// snappyLiteral is a raw snappy block of one literal: length as varint, tag 61 (two length bytes follow), the bytes.
func snappyLiteral(p []byte) []byte {
	n := len(p) - 1
	return join(binary.AppendUvarint(nil, uint64(len(p))), []byte{61 << 2, byte(n), byte(n >> 8)}, p)
}

// snappyXerial wraps p in two blocks as Java's SnappyOutputStream does.
func snappyXerial(p []byte) []byte {
	first, second := snappyLiteral(p[:10]), snappyLiteral(p[10:])
	head := append([]byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}, join(be32(1), be32(1))...)
	return join(head, be32(int32(len(first))), first, be32(int32(len(second))), second)
}

// lz4Stored wraps p as an LZ4 frame of one uncompressed block. checksum is that of the descriptor 0x60 0x40: 0x82
// by the specification, 0x1a by Kafka's clients before 0.10, which hashed the frame's magic number too.
func lz4Stored(p []byte, checksum byte) []byte {
	head := []byte{0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, checksum}
	size := binary.LittleEndian.AppendUint32(nil, uint32(len(p))|1<<31)
	return join(head, size, p, []byte{0, 0, 0, 0})
}

func varint(v int64) []byte { return binary.AppendVarint(nil, v) }

func varbytes(p []byte) []byte {
	if p == nil {
		return varint(-1)
	}
	return join(varint(int64(len(p))), p)
}

// rawRecord builds one magic 2 record.
func rawRecord(timeDelta, offsetDelta int64, key, value []byte, headers ...RecordHeader) []byte {
	body := join([]byte{0}, varint(timeDelta), varint(offsetDelta), varbytes(key), varbytes(value), varint(int64(len(headers))))
	for _, h := range headers {
		body = join(body, varint(int64(len(h.Key))), h.Key, varbytes(h.Value))
	}
	return join(varint(int64(len(body))), body)
}

// rawBatch builds one magic 2 batch; length, magic and checksum are filled in.
func rawBatch(h Header, records []byte) []byte {
	covered := join(be16(h.Attrs), be32(h.LastOffsetDelta), be64(h.BaseTimestamp), be64(h.MaxTimestamp), be64(h.PID),
		be16(h.Epoch), be32(h.BaseSeq), be32(h.Count), records)
	sum := binary.BigEndian.AppendUint32(nil, crc32.Checksum(covered, crc32.MakeTable(crc32.Castagnoli)))
	return join(be64(h.BaseOffset), be32(int32(9+len(covered))), be32(h.LeaderEpoch), []byte{2}, sum, covered)
}

// plainBatch is a healthy batch of three records at offsets 40, 41, 42, with a producer.
func plainBatch() []byte {
	h := Header{BaseOffset: 40, LeaderEpoch: 3, LastOffsetDelta: 2, BaseTimestamp: 1000, MaxTimestamp: 1002, PID: 7, Epoch: 1, BaseSeq: 5, Count: 3}
	return rawBatch(h, join(
		rawRecord(0, 0, []byte("k0"), []byte("v0")),
		rawRecord(2, 1, nil, []byte("v1")),
		rawRecord(1, 2, []byte("k2"), nil, RecordHeader{Key: []byte("h"), Value: nil}),
	))
}

// markerBatch is a control batch that ends pid's transaction.
func markerBatch(offset, pid int64, epoch int16, commit bool, coordinator int32) []byte {
	kind := int16(0)
	if commit {
		kind = 1
	}
	h := Header{BaseOffset: offset, LeaderEpoch: 3, Attrs: attrTransactional | attrControl, BaseTimestamp: 5, MaxTimestamp: 5, PID: pid, Epoch: epoch, BaseSeq: -1, Count: 1}
	return rawBatch(h, rawRecord(0, 0, join(be16(0), be16(kind)), join(be16(0), be32(coordinator))))
}

// fixCRC makes b's checksum right again after a test changed something below it.
func fixCRC(b []byte) []byte {
	if len(b) >= HeaderSize && b[atMagic] == 2 {
		binary.BigEndian.PutUint32(b[atCRC:], crc32.Checksum(b[atAttrs:], castagnoli()))
	} else if len(b) > atMagic {
		binary.BigEndian.PutUint32(b[atMessageCRC:], crc32.ChecksumIEEE(b[atMagic:]))
	}
	return b
}

func mustParse(t testing.TB, b []byte) Header {
	t.Helper()
	h, err := Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func newCodecs(t testing.TB) *Codecs {
	t.Helper()
	c, err := NewCodecs(64 << 20)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// decodeAll returns all records of b.
func decodeAll(t testing.TB, c *Codecs, b []byte) []Record {
	t.Helper()
	var out []Record
	err := c.Decode(b, func(r Record) error {
		out = append(out, r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// equal takes nil and empty for different.
func equal(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

// diff names the first record in which two lists differ; "" when they do not. go-cmp compares bytes one by one,
// which takes seconds for records of real size.
func diff(want, got []Record) string {
	if len(want) != len(got) {
		return fmt.Sprintf("%d records, want %d", len(got), len(want))
	}
	for i, w := range want {
		g := got[i]
		same := w.Offset == g.Offset && w.Timestamp == g.Timestamp && w.Attrs == g.Attrs && equal(w.Key, g.Key) && equal(w.Value, g.Value)
		if !same || !slices.EqualFunc(w.Headers, g.Headers, func(a, b RecordHeader) bool { return equal(a.Key, b.Key) && equal(a.Value, b.Value) }) {
			return fmt.Sprintf("record %d is %.200q, want %.200q", i, fmt.Sprintf("%+v", g), fmt.Sprintf("%+v", w))
		}
	}
	return ""
}
