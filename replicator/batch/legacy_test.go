package batch

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// inner is a set of three messages: null key, null value, both empty. Offset 1 was compacted away.
func inner(magic byte, first int64) []byte {
	return join(
		message(magic, first, 1000, 0, nil, []byte("v0")),
		message(magic, first+2, -1, 0, []byte("k2"), nil),
		message(magic, first+3, 0, 0, []byte{}, []byte{}),
	)
}

// innerRecords is what inner holds, for a set that begins at source offset first.
func innerRecords(magic byte, first int64) []Record {
	rs := []Record{
		{Offset: first, Timestamp: 1000, Value: []byte("v0")},
		{Offset: first + 2, Timestamp: -1, Key: []byte("k2")},
		{Offset: first + 3, Timestamp: 0, Key: []byte{}, Value: []byte{}},
	}
	for i := range rs {
		if magic == 0 {
			rs[i].Timestamp = -1
		}
	}
	return rs
}

// longhand lists the fixtures of testdata/longhand. In a wrapper of magic 1 inner offsets are relative to its first
// message, in magic 0 they are absolute; the wrapper's own offset is that of the last message.
func longhand() map[string][]byte {
	const gzip, snappy, lz4, appendTime = 1, 2, 3, 0x08
	return map[string][]byte{
		"v0-none":        inner(0, 100),
		"v0-gzip":        message(0, 103, 0, gzip, nil, gzipStored(inner(0, 100))),
		"v0-snappy":      message(0, 103, 0, snappy, nil, snappyXerial(inner(0, 100))),
		"v0-snappy-raw":  message(0, 103, 0, snappy, nil, snappyLiteral(inner(0, 100))),
		"v0-lz4":         message(0, 103, 0, lz4, nil, lz4Stored(inner(0, 100), 0x1a)),
		"v0-lz4-right":   message(0, 103, 0, lz4, nil, lz4Stored(inner(0, 100), 0x82)),
		"v1-none":        inner(1, 100),
		"v1-gzip":        message(1, 103, 1000, gzip, nil, gzipStored(inner(1, 0))),
		"v1-snappy":      message(1, 103, 1000, snappy, nil, snappyXerial(inner(1, 0))),
		"v1-lz4":         message(1, 103, 1000, lz4, nil, lz4Stored(inner(1, 0), 0x82)),
		"v1-gzip-append": message(1, 103, 5000, gzip|appendTime, nil, gzipStored(inner(1, 0))),
		// Compaction may take the first messages of a set: relative offsets then do not begin at 0.
		"v1-lz4-headless": message(1, 103, 1000, lz4, nil, lz4Stored(inner(1, 7), 0x82)),
		// Messages of magic 0 may stand in a set of magic 1 when a broker kept them as they came.
		"v1-gzip-of-v0": message(1, 103, 5000, gzip|appendTime, nil, gzipStored(inner(0, 0))),
	}
}

func TestDecode_LonghandGolden(t *testing.T) {
	t.Parallel()
	c := newCodecs(t)
	for name, raw := range longhand() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			golden(t, name, raw)
			want := innerRecords(name[1]-'0', 100)
			if name == "v1-gzip-append" {
				for i := range want {
					want[i].Timestamp = 5000
				}
			}
			if name == "v1-gzip-of-v0" {
				want = innerRecords(0, 100)
			}
			var got []Record
			var err error
			for h, b := range Split(raw) {
				if got, err = c.AppendRecords(got, b, 0); err != nil {
					t.Fatal(err)
				}
				if last := got[len(got)-1].Offset; last != h.LastOffset() {
					t.Errorf("header says %d, the last record %d", h.LastOffset(), last)
				}
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// One answer of three formats: nothing is lost, magic 0 has no time at all.
func TestDecode_MixedAnswer(t *testing.T) {
	t.Parallel()
	v0 := message(0, 2, 0, 1, nil, gzipStored(join(message(0, 0, 0, 0, nil, []byte("a")), message(0, 1, 0, 0, nil, []byte("b")), message(0, 2, 0, 0, nil, []byte("c")))))
	v1 := join(message(1, 3, 7, 0, nil, []byte("d")), message(1, 4, 8, 0, nil, []byte("e")), message(1, 5, 9, 0, nil, []byte("f")))
	v2 := rawBatch(Header{BaseOffset: 6, LastOffsetDelta: 2, Count: 3, BaseTimestamp: 10},
		join(rawRecord(0, 0, nil, []byte("g")), rawRecord(1, 1, nil, []byte("h")), rawRecord(2, 2, nil, []byte("i"))))
	c := newCodecs(t)
	var values strings.Builder
	var times []int64
	next := int64(0)
	for _, b := range Split(join(v0, v1, v2)) {
		for _, r := range decodeAll(t, c, b) {
			if r.Offset != next {
				t.Errorf("offset %d, want %d", r.Offset, next)
			}
			next++
			values.Write(r.Value)
			times = append(times, r.Timestamp)
		}
	}
	if d := cmp.Diff([]int64{-1, -1, -1, 7, 8, 9, 10, 11, 12}, times); d != "" || values.String() != "abcdefghi" {
		t.Error(values.String(), d)
	}
}

func TestDecode_LegacyDamage(t *testing.T) {
	t.Parallel()
	codecs := newCodecs(t)
	gzip := func(set []byte) []byte { return message(1, 103, 0, 1, nil, gzipStored(set)) }
	flipped := inner(1, 0)
	flipped[len(flipped)-1] ^= 1
	long := message(1, 5, 0, 0, []byte("k"), []byte("v"))
	long[29] = 9 // key length
	for name, b := range map[string][]byte{
		"key reaches out":          fixCRC(long),
		"bytes behind the value":   withTail(message(0, 5, 0, 0, nil, nil)),
		"bytes behind the wrapper": withTail(gzip(inner(1, 0))),
		"wrapper without value":    message(1, 5, 0, 1, nil, nil),
		"wrapper of nothing":       gzip(nil),
		"not gzip":                 message(1, 103, 0, 1, nil, inner(1, 0)),
		"not lz4":                  message(0, 103, 0, 3, nil, inner(1, 0)),
		"zstd in an old format":    message(1, 103, 0, 4, nil, inner(1, 0)),
		"inner message cut":        gzip(inner(1, 0)[:100]),
		"inner checksum":           gzip(flipped),
		"inner offsets fall":       gzip(join(message(1, 3, 0, 0, nil, nil), message(1, 2, 0, 0, nil, nil))),
		"inner offset repeated":    gzip(join(message(1, 3, 0, 0, nil, nil), message(1, 3, 0, 0, nil, nil))),
		"inner wrapper":            gzip(gzip(inner(1, 0))),
		"inner batch":              gzip(plainBatch()),
		"inner offsets too high":   message(1, 2, 0, 1, nil, gzipStored(inner(1, 0))),
		"absolute, too high":       message(0, 102, 0, 1, nil, gzipStored(inner(0, 100))),
		"inner offset overflows":   gzip(message(1, math.MaxInt64-1, 0, 0, nil, nil)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := codecs.Decode(b, func(Record) error { return nil })
			if !errors.Is(err, ErrCorrupt) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// withTail adds a byte inside of a message, with length and checksum right.
func withTail(b []byte) []byte {
	b = append(b, 0)
	b[11]++
	return fixCRC(b)
}

func TestRepairLZ4(t *testing.T) {
	t.Parallel()
	frames := map[string][]byte{
		"plain":        {0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82, 0, 0, 0, 0},
		"content size": {0x04, 0x22, 0x4d, 0x18, 0x68, 0x40, 5, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0x80, 1, 2, 3, 4, 5, 0, 0, 0, 0},
	}
	frames["content size"][14] = byte(xxh32(frames["content size"][4:14]) >> 8)
	c := newCodecs(t)
	for name, f := range frames {
		at := 6
		if name == "content size" {
			at = 14
		}
		for wrong := range 256 {
			f := append([]byte{}, f...)
			f[at] = byte(wrong)
			if _, err := c.inflater.Decompress(repairLZ4(f), 3); err != nil {
				t.Fatalf("%s with checksum %#x: %v", name, wrong, err)
			}
			if f[at] != byte(wrong) {
				t.Fatalf("%s: the input changed", name)
			}
		}
	}
	for _, short := range [][]byte{nil, {1}, frames["plain"][:6], frames["content size"][:14], []byte("no frame")} {
		if got := repairLZ4(short); len(got) != len(short) {
			t.Errorf("%x became %x", short, got)
		}
	}
}
