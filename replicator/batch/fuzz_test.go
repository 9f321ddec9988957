package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"
)

// seed adds all fixtures and a few batches built here.
func seed(f *testing.F) {
	f.Helper()
	files, err := filepath.Glob("testdata/*/*.bin")
	if err != nil || len(files) == 0 {
		f.Fatal(len(files), err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add(plainBatch())
	f.Add(markerBatch(9, 7, 1, true, 3))
	f.Add(join(plainBatch(), message(1, 43, 5, 0, nil, nil), markerBatch(44, 7, 1, false, 0)))
	f.Add([]byte{})
}

func FuzzParse(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := Parse(b)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrCut) {
				t.Fatalf("error of no kind: %v", err)
			}
			return
		}
		if h.Size() != len(b) || h.Next() <= h.BaseOffset || h.BaseOffset < 0 || h.Magic < 0 || h.Magic > 2 {
			t.Fatalf("header %+v of %d bytes", h, len(b))
		}
		_ = VerifyCRC(h, b)
		_ = Check(b, Limits{MaxBytes: 1 << 20, Now: 1, BeforeMS: 1, AfterMS: 1})
	})
}

func FuzzSplit(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		var fault error
		n := 0
		aborted := NewAborted([]abortedTxn{{ProducerID: 7, FirstOffset: 0}})
		for h, b := range SplitErr(raw, &fault) {
			if p, err := Parse(b); err != nil || p != h {
				t.Fatalf("split gives %+v, parse %+v, %v", h, p, err)
			}
			if !bytes.Equal(raw[n:n+len(b)], b) {
				t.Fatal("bytes are left out")
			}
			n += len(b)
			aborted.Keep(h, b)
		}
		if fault == nil && n == 0 && len(raw) > 0 {
			t.Fatal("nothing came, and nothing was said")
		}
		if errors.Is(fault, ErrCut) && n > 0 {
			t.Fatal("a batch cut at the end is no fault")
		}
	})
}

// repaired makes length and checksum of b right, so that fuzzing reaches what lies behind them.
func repaired(b []byte) []byte {
	if len(b) < messageSizeV0 {
		return b
	}
	b = bytes.Clone(b)
	binary.BigEndian.PutUint32(b[atLength:], uint32(len(b)-overhead))
	return fixCRC(b)
}

func FuzzDecode(f *testing.F) {
	seed(f)
	c, err := NewCodecs(1 << 20)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		b = repaired(b)
		before := bytes.Clone(b)
		last := int64(-1)
		var rs []Record
		err := c.Decode(b, func(r Record) error {
			if r.Offset <= last {
				t.Fatalf("offset %d follows %d", r.Offset, last)
			}
			last = r.Offset
			rs = append(rs, r)
			return nil
		})
		if !bytes.Equal(before, b) {
			t.Fatal("the batch changed")
		}
		if err != nil {
			return
		}
		h := mustParse(t, b)
		if last > h.LastOffset() {
			t.Fatalf("record at %d, the batch ends at %d", last, h.LastOffset())
		}
		built, err := c.Encode(rs, h.Codec(), 0)
		if err != nil {
			t.Fatal(err)
		}
		if d := diff(rs, reread(t, c, built, h.Codec(), 0)); d != "" {
			t.Fatal(d)
		}
	})
}

func FuzzParseMarker(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		b = repaired(b)
		h, err := Parse(b)
		if err != nil {
			return
		}
		if _, err := ParseMarker(h, b); err != nil && !errors.Is(err, ErrCorrupt) {
			t.Fatalf("error of no kind: %v", err)
		}
	})
}

func FuzzStamp(f *testing.F) {
	f.Add(make([]byte, 40), uint16(0x7f), int64(7), int16(3), int32(1<<31-1), uint32(0))
	f.Add([]byte{}, uint16(0), int64(-1), int16(-1), int32(-1), uint32(1))
	f.Add(bytes.Repeat([]byte{7}, 70_000), uint16(0x10), int64(1)<<62, int16(1), int32(0), uint32(1)<<31)
	f.Fuzz(func(t *testing.T, rest []byte, attrs uint16, pid int64, epoch int16, seq int32, damage uint32) {
		front := make([]byte, 36)
		copy(front[10:], rest) // what stood there before is arbitrary too
		b := rawBatch(Header{Attrs: int16(attrs), LastOffsetDelta: 1, Count: 2, PID: int64(len(rest)), Epoch: int16(attrs)}, join(front, rest))
		sum := binary.BigEndian.Uint32(b[atCRC:])
		binary.BigEndian.PutUint32(b[atCRC:], sum^damage)
		for range 2 {
			Stamp(b, pid, epoch, seq)
			want := crc32.Checksum(b[atAttrs:], castagnoli()) ^ damage
			if got := binary.BigEndian.Uint32(b[atCRC:]); got != want {
				t.Fatalf("checksum by arithmetic is %08x, computed anew %08x", got, want)
			}
			pid, epoch, seq = pid+1, epoch+1, seq+1
		}
	})
}

func FuzzEncode(f *testing.F) {
	f.Add([]byte("k"), []byte("v"), []byte("h"), int64(1000), int64(-1), int8(0), int32(100), uint8(0))
	f.Add([]byte{}, bytes.Repeat([]byte("ab"), 3000), []byte{}, int64(0), int64(1)<<62, int8(4), int32(0), uint8(0xff))
	f.Add(bytes.Repeat([]byte{0}, 300), []byte{}, []byte{1}, int64(-1), int64(-1)<<63, int8(2), int32(65), uint8(0x55))
	c, err := NewCodecs(1 << 20)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, key, value, header []byte, t0, t1 int64, codec int8, maxBytes int32, nulls uint8) {
		codec &= 7
		rs := fuzzRecords(key, value, header, t0, t1, nulls)
		built, err := c.Encode(rs, codec, maxBytes)
		if codec > CodecZstd {
			if err == nil {
				t.Fatal("a codec that does not exist is taken")
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if d := diff(rs, reread(t, c, built, codec, max(maxBytes, 0))); d != "" {
			t.Fatal(d)
		}
	})
}

// fuzzRecords makes three records; bits of nulls say what is null in them.
func fuzzRecords(key, value, header []byte, t0, t1 int64, nulls uint8) []Record {
	null := func(bit int, p []byte) []byte {
		if nulls>>bit&1 != 0 {
			return nil
		}
		return append([]byte{}, p...)
	}
	h := []RecordHeader{{Key: append([]byte{}, header...), Value: null(0, value)}, {Key: []byte{}, Value: null(1, key)}}
	return []Record{
		{Offset: 0, Timestamp: t0, Key: null(2, key), Value: null(3, value)},
		{Offset: 1, Timestamp: t1, Key: null(4, value), Value: null(5, key), Headers: h},
		{Offset: 5, Timestamp: t0 - t1, Key: null(6, header), Value: null(7, header), Attrs: int8(nulls)},
	}
}
