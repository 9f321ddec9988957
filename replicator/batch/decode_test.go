package batch

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDecode_Batch(t *testing.T) {
	t.Parallel()
	want := []Record{
		{Offset: 40, Timestamp: 1000, Key: []byte("k0"), Value: []byte("v0")},
		{Offset: 41, Timestamp: 1002, Value: []byte("v1")},
		{Offset: 42, Timestamp: 1001, Key: []byte("k2"), Headers: []RecordHeader{{Key: []byte("h")}}},
	}
	b := plainBatch()
	before := bytes.Clone(b)
	got := decodeAll(t, newCodecs(t), b)
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for _, r := range got { // an append to one value must not run into the next record
		_ = append(r.Value, "overwritten"...)
		_ = append(r.Headers, RecordHeader{})
	}
	if !bytes.Equal(before, b) {
		t.Error("the batch changed")
	}
}

// Values null, empty and not, times keys null, empty and not; header values null and empty.
func TestDecode_NullIsNotEmpty(t *testing.T) {
	t.Parallel()
	forms := [][]byte{nil, {}, []byte("x")}
	var records []byte
	var want []Record
	for _, key := range forms {
		for _, value := range forms {
			h := []RecordHeader{{Key: []byte{}, Value: nil}, {Key: []byte("a"), Value: []byte{}}, {Key: []byte("a"), Value: []byte("x")}}
			records = append(records, rawRecord(0, int64(len(want)), key, value, h...)...)
			want = append(want, Record{Offset: int64(len(want)), Key: key, Value: value, Headers: h})
		}
	}
	b := rawBatch(Header{LastOffsetDelta: 8, Count: 9}, records)
	if d := cmp.Diff(want, decodeAll(t, newCodecs(t), b)); d != "" {
		t.Error(d)
	}
}

func TestDecode_Timestamps(t *testing.T) {
	t.Parallel()
	records := join(rawRecord(0, 0, nil, nil), rawRecord(-5, 1, nil, nil))
	for name, c := range map[string]struct {
		h    Header
		want []int64
	}{
		"create time":      {Header{BaseTimestamp: 1000, MaxTimestamp: 5000}, []int64{1000, 995}},
		"append time":      {Header{BaseTimestamp: 1000, MaxTimestamp: 5000, Attrs: attrLogAppend}, []int64{5000, 5000}},
		"delete horizon":   {Header{BaseTimestamp: 9000, MaxTimestamp: 9000, Attrs: attrDeleteHorizon}, []int64{9000, 8995}},
		"none":             {Header{BaseTimestamp: -1, MaxTimestamp: -1}, []int64{-1, -6}},
		"past the integer": {Header{BaseTimestamp: math.MinInt64}, []int64{math.MinInt64, math.MaxInt64 - 4}},
	} {
		c.h.LastOffsetDelta, c.h.Count = 1, 2
		var got []int64
		for _, r := range decodeAll(t, newCodecs(t), rawBatch(c.h, records)) {
			got = append(got, r.Timestamp)
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Error(name, d)
		}
	}
}

func TestDecode_Damage(t *testing.T) {
	t.Parallel()
	codecs := newCodecs(t)
	two := Header{BaseOffset: 5, LastOffsetDelta: 4, Count: 2}
	ok := rawRecord(0, 0, nil, nil)
	flipped := plainBatch()
	flipped[70] ^= 1
	for name, c := range map[string]struct {
		b    []byte
		want error
	}{
		"checksum":              {flipped, ErrCorrupt},
		"no header":             {nil, ErrCut},
		"a record missing":      {rawBatch(two, ok), ErrCorrupt},
		"a record more":         {rawBatch(two, join(ok, rawRecord(0, 1, nil, nil), rawRecord(0, 2, nil, nil))), ErrCorrupt},
		"offset repeated":       {rawBatch(two, join(ok, ok)), ErrCorrupt},
		"offset behind the end": {rawBatch(two, join(ok, rawRecord(0, 5, nil, nil))), ErrCorrupt},
		"offset negative":       {rawBatch(two, join(rawRecord(0, -1, nil, nil), ok)), ErrCorrupt},
		"length too large":      {rawBatch(two, join(ok, []byte{100, 0, 0})), ErrCorrupt},
		"length negative":       {rawBatch(two, join(ok, []byte{1, 0, 0})), ErrCorrupt},
		"length without end":    {rawBatch(two, join(ok, bytes.Repeat([]byte{0xff}, 12))), ErrCorrupt},
		"record too short":      {rawBatch(two, join(ok, []byte{10, 0, 0, 2, 1, 1, 0, 0})), ErrCorrupt},
		"empty record":          {rawBatch(two, join(ok, []byte{0})), ErrCorrupt},
		"key reaches out":       {rawBatch(two, join(ok, []byte{12, 0, 0, 2, 20, 1, 0})), ErrCorrupt},
		"headers negative":      {rawBatch(two, join(ok, []byte{12, 0, 0, 2, 1, 1, 1})), ErrCorrupt},
		"headers without end":   {rawBatch(two, join(ok, []byte{20, 0, 0, 2, 1, 1, 0xfe, 0xff, 0xff, 0xff, 0x0f})), ErrCorrupt},
		"header key null":       {rawBatch(two, join(ok, []byte{16, 0, 0, 2, 1, 1, 2, 1, 1})), ErrCorrupt},
		"integer too wide":      {rawBatch(two, join(ok, []byte{22, 0, 0, 0x80, 0x80, 0x80, 0x80, 0x10, 1, 1, 0, 0})), ErrCorrupt},
		"count without bytes":   {rawBatch(two, nil), ErrCorrupt},
		"bytes without count":   {rawBatch(Header{}, ok), ErrCorrupt},
		"codec 5":               {rawBatch(Header{Attrs: 5, Count: 1}, ok), ErrCorrupt},
		"codec 6, no records":   {rawBatch(Header{Attrs: 6}, nil), ErrCorrupt},
		"not compressed":        {rawBatch(Header{Attrs: 1, Count: 1}, ok), ErrCorrupt},
		"compressed, no bytes":  {rawBatch(Header{Attrs: 4, Count: 1}, nil), ErrCorrupt},
		"marker":                {markerBatch(4, 7, 1, true, 0), ErrControl},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := codecs.Decode(c.b, func(Record) error { return nil })
			if !errors.Is(err, c.want) {
				t.Errorf("got %v", err)
			}
			if rs, err := codecs.AppendRecords([]Record{{Offset: 3}}, c.b, 0); err == nil || len(rs) != 1 {
				t.Errorf("%d records, %v", len(rs), err)
			}
		})
	}
}

// What compaction leaves of a producer's last batch holds nothing, with or without a codec.
func TestDecode_EmptyBatch(t *testing.T) {
	t.Parallel()
	for _, codec := range []int16{0, 1, 2, 3, 4} {
		b := rawBatch(Header{BaseOffset: 5, LastOffsetDelta: 4, Attrs: codec}, nil)
		if got := decodeAll(t, newCodecs(t), b); len(got) != 0 {
			t.Error(got)
		}
	}
}

func TestDecode_ErrorOfTheCaller(t *testing.T) {
	t.Parallel()
	stop := errors.New("enough")
	for _, b := range [][]byte{plainBatch(), message(1, 1, 1, 0, nil, nil), longhand()["v1-gzip"]} {
		n := 0
		err := newCodecs(t).Decode(b, func(Record) error { n++; return stop })
		if !errors.Is(err, stop) || n != 1 {
			t.Errorf("%v after %d records", err, n)
		}
	}
}

func TestAppendRecords_FromAnOffset(t *testing.T) {
	t.Parallel()
	c := newCodecs(t)
	rs, err := c.AppendRecords([]Record{{Offset: 1}}, plainBatch(), 41)
	if err != nil || len(rs) != 3 || rs[1].Offset != 41 || rs[2].Offset != 42 {
		t.Error(rs, err)
	}
	if rs, err = c.AppendRecords(nil, plainBatch(), 43); err != nil || len(rs) != 0 {
		t.Error(rs, err)
	}
}

func TestDecode_StopsAtTheLimit(t *testing.T) {
	t.Parallel()
	small, err := NewCodecs(100_000)
	if err != nil {
		t.Fatal(err)
	}
	bomb := []Record{{Value: make([]byte, 200_000)}}
	for codec := CodecGzip; codec <= CodecZstd; codec++ {
		built, err := newCodecs(t).Encode(bomb, codec, 0)
		if err != nil {
			t.Fatal(err)
		}
		err = small.Decode(built[0].Bytes, func(Record) error { return nil })
		if !errors.Is(err, ErrTooBig) || errors.Is(err, ErrCorrupt) {
			t.Errorf("codec %d: %v", codec, err)
		}
	}
}

// A frame that asks for more memory than allowed is too big, not corrupt: a larger limit would read it.
func TestDecode_ZstdWindowAboveTheLimit(t *testing.T) {
	t.Parallel()
	// Magic, no content size, a window of 2^(10+20) bytes, one raw block of a byte.
	frame := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 20 << 3, 1<<3 | 1, 0, 0, 'x'}
	b := rawBatch(Header{Attrs: int16(CodecZstd), Count: 1}, frame)
	if err := newCodecs(t).Decode(b, func(Record) error { return nil }); !errors.Is(err, ErrTooBig) {
		t.Error(err)
	}
}
