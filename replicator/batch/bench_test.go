package batch

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"testing"
)

// jsonRecords are about n bytes of records as applications write them.
func jsonRecords(n int) []Record {
	var rs []Record
	for i, size := int64(0), 0; size < n; i++ {
		value := fmt.Appendf(nil, `{"id":%d,"customer":"c-%04d","amount":%d.%02d,"state":"paid","note":"%x"}`, 1_000_000+i, i*7919%10_000, i%900, i%100, noise(40, uint64(i)))
		rs = append(rs, Record{Offset: i, Timestamp: 1_700_000_000_000 + i, Key: fmt.Appendf(nil, "c-%04d", i*7919%10_000), Value: value})
		size += len(value) + 20
	}
	return rs
}

var codecNames = []string{"none", "gzip", "snappy", "lz4", "zstd"}

// BenchmarkPass is all that is done to a batch that passes through.
func BenchmarkPass(b *testing.B) {
	for _, size := range []int{1 << 10, 50 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			raw := rawBatch(Header{LastOffsetDelta: 49, Count: 50}, noise(size, 1))
			limits := Limits{MaxBytes: 2 << 20, Now: 1, AfterMS: 1000}
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				h, err := Parse(raw)
				if err != nil || !h.Passable(0) {
					b.Fatal(err)
				}
				Stamp(raw, 7, 1, int32(i))
				if err := Check(raw, limits); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkStamp50KiB(b *testing.B) {
	raw := rawBatch(Header{LastOffsetDelta: 49, Count: 50}, noise(50<<10, 1))
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		Stamp(raw, 7, 1, int32(i))
	}
}

// BenchmarkRecompute50KiB is what Stamp saves.
func BenchmarkRecompute50KiB(b *testing.B) {
	raw := rawBatch(Header{LastOffsetDelta: 49, Count: 50}, noise(50<<10, 1))
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		binary.BigEndian.PutUint32(raw[atCRC:], crc32.Checksum(raw[atAttrs:], castagnoli()))
	}
}

func BenchmarkSplit(b *testing.B) {
	var raw []byte
	for i := range int64(64) {
		raw = append(raw, rawBatch(Header{BaseOffset: i * 50, LastOffsetDelta: 49, Count: 50}, noise(8<<10, 1))...)
	}
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		for range Split(raw) {
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	c := newCodecs(b)
	rs := jsonRecords(256 << 10)
	for codec, name := range codecNames {
		b.Run(name, func(b *testing.B) {
			built, err := c.Encode(rs, int8(codec), 0)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(256 << 10)
			b.ReportAllocs()
			var out []Record
			for b.Loop() {
				if out, err = c.AppendRecords(out[:0], built[0].Bytes, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRebuild decodes and encodes: the way of a thinned batch. Bytes are those before compression.
func BenchmarkRebuild(b *testing.B) {
	c := newCodecs(b)
	rs := jsonRecords(256 << 10)
	for codec, name := range codecNames {
		b.Run(name, func(b *testing.B) {
			built, err := c.Encode(rs, int8(codec), 0)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(256 << 10)
			b.ReportAllocs()
			var out []Record
			for b.Loop() {
				if out, err = c.AppendRecords(out[:0], built[0].Bytes, 0); err != nil {
					b.Fatal(err)
				}
				if _, err = c.Encode(out, int8(codec), 1<<20); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
