package batch

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"lockstep/internal/model"
)

// reread checks all that is promised about built batches and returns their records at their source offsets.
func reread(t testing.TB, c *Codecs, built []Built, codec int8, maxBytes int32) []Record {
	t.Helper()
	var out []Record
	for _, b := range built {
		h := mustParse(t, b.Bytes)
		if h.BaseOffset != 0 || !h.Passable(0) || h.PID != -1 || h.Codec() != codec || int64(h.Count) != b.Count() || h.MaxTimestamp != b.MaxTimestamp {
			t.Errorf("header %+v of %d records", h, b.Count())
		}
		err := Check(b.Bytes, Limits{MaxBytes: maxBytes})
		var r *Refusal
		tooLarge := errors.As(err, &r) && r.Reason == model.ReasonTooLarge
		if tooLarge != b.TooLarge || err != nil && !tooLarge || b.TooLarge && b.Count() != 1 {
			t.Errorf("too large: %v, check: %v, %d records", b.TooLarge, err, b.Count())
		}
		rs := decodeAll(t, c, b.Bytes)
		i := 0
		for _, run := range b.Runs {
			for k := range run.N {
				if rs[i].Offset != int64(i) {
					t.Errorf("record %d has offset %d", i, rs[i].Offset)
				}
				rs[i].Offset = run.Src + k
				i++
			}
		}
		out = append(out, rs...)
	}
	return out
}

func anyBytes(t *rapid.T, name string) []byte {
	if rapid.Bool().Draw(t, name+" null") {
		return nil
	}
	return append([]byte{}, rapid.SliceOfN(rapid.Byte(), 0, 70).Draw(t, name)...)
}

func anyRecords(t *rapid.T) []Record {
	edge := rapid.SampledFrom([]int64{-1, 0, 1, -5, math.MaxInt64, math.MinInt64, 1_700_000_000_000, 1_700_000_000_000_000_000})
	times := rapid.OneOf(edge, rapid.Int64(), rapid.Int64Range(0, 1000))
	next := rapid.Int64Range(0, 1<<40).Draw(t, "first offset")
	rs := make([]Record, rapid.IntRange(0, 60).Draw(t, "records"))
	for i := range rs {
		r := &rs[i]
		next += rapid.Int64Range(0, 2).Draw(t, "hole")
		r.Offset = next
		next++
		r.Timestamp = times.Draw(t, "time")
		r.Key, r.Value = anyBytes(t, "key"), anyBytes(t, "value")
		r.Attrs = rapid.Int8().Draw(t, "attributes")
		for range rapid.IntRange(0, 3).Draw(t, "headers") {
			key := append([]byte{}, rapid.SliceOfN(rapid.Byte(), 0, 3).Draw(t, "header")...)
			r.Headers = append(r.Headers, RecordHeader{Key: key, Value: anyBytes(t, "header value")})
		}
	}
	return rs
}

func TestEncode_DecodesToTheSame(t *testing.T) {
	t.Parallel()
	c := newCodecs(t)
	rapid.Check(t, func(rt *rapid.T) {
		rs := anyRecords(rt)
		codec := int8(rapid.IntRange(0, 4).Draw(rt, "codec"))
		maxBytes := int32(rapid.OneOf(rapid.IntRange(0, 2000), rapid.IntRange(0, 100_000)).Draw(rt, "max bytes"))
		built, err := c.Encode(rs, codec, maxBytes)
		if err != nil {
			rt.Fatal(err)
		}
		got := reread(t, c, built, codec, maxBytes)
		if d := diff(rs, got); d != "" {
			rt.Fatal(d)
		}
	})
}

// franz-go is a second reader of what is written here.
func TestEncode_FranzReadsTheSame(t *testing.T) {
	t.Parallel()
	c := newCodecs(t)
	rapid.Check(t, func(rt *rapid.T) {
		rs := anyRecords(rt)
		codec := int8(rapid.IntRange(0, 4).Draw(rt, "codec"))
		built, err := c.Encode(rs, codec, 0)
		if err != nil {
			rt.Fatal(err)
		}
		for _, b := range built {
			rs = rs[franzReads(rt, b.Bytes, rs):]
		}
	})
}

// franzReads compares a batch with the records that it was made of, and returns their number.
func franzReads(t *rapid.T, b []byte, want []Record) int {
	p := &kmsg.FetchResponseTopicPartition{RecordBatches: b}
	got, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{}, p, kgo.DefaultDecompressor(), nil)
	if got.Err != nil {
		t.Fatal(got.Err)
	}
	for i, g := range got.Records {
		w := want[i]
		// franz-go counts nanoseconds in 64 bits, which do not reach beyond the year 2262.
		inRange := w.Timestamp > -9e12 && w.Timestamp < 9e12
		same := (!inRange || g.Timestamp.UnixMilli() == w.Timestamp) && equal(g.Key, w.Key) && equal(g.Value, w.Value) && len(g.Headers) == len(w.Headers)
		for k := range w.Headers {
			same = same && g.Headers[k].Key == string(w.Headers[k].Key) && equal(g.Headers[k].Value, w.Headers[k].Value)
		}
		if !same {
			t.Fatalf("record %d: franz-go reads %+v, written was %+v", i, g, w)
		}
	}
	return len(got.Records)
}

func noise(n int, seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 0))
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(rng.Uint32())
	}
	return p
}

func text(n int) []byte { return []byte(strings.Repeat("the same words again, ", n/22+1))[:n] }

// 72 records that fit and one that does not: the neighbours go in batches of their own, each record once.
func TestEncode_TooLargeStandsAlone(t *testing.T) {
	t.Parallel()
	var rs []Record
	for i := range int64(73) {
		rs = append(rs, Record{Offset: 500 + i, Value: noise(1000, uint64(i))})
	}
	rs[40].Value = noise(50_000, 1)
	c := newCodecs(t)
	for codec := CodecNone; codec <= CodecZstd; codec++ {
		built, err := c.Encode(rs, codec, 20_000)
		if err != nil {
			t.Fatal(err)
		}
		got := reread(t, c, built, codec, 20_000)
		if d := diff(rs, got); d != "" {
			t.Errorf("codec %d: %s", codec, d)
		}
		large := slices.DeleteFunc(slices.Clone(built), func(b Built) bool { return !b.TooLarge })
		if len(large) != 1 || large[0].Runs[0].Src != 540 {
			t.Errorf("codec %d: %d too large", codec, len(large))
		}
	}
}

// A record may be larger than the limit before compression: only what is sent counts.
func TestEncode_SizeCountsCompressed(t *testing.T) {
	t.Parallel()
	c := newCodecs(t)
	rs := []Record{{Offset: 1, Value: text(1_700_000)}, {Offset: 2, Value: text(1_700_000)}}
	for codec := CodecGzip; codec <= CodecZstd; codec++ {
		built, err := c.Encode(rs, codec, 1<<20)
		if err != nil || len(built) != 1 || built[0].TooLarge {
			t.Errorf("codec %d: %d batches, %v", codec, len(built), err)
		}
	}
	if built, _ := c.Encode(rs, CodecNone, 1<<20); len(built) != 2 || !built[0].TooLarge || !built[1].TooLarge {
		t.Errorf("uncompressed: %+v", built)
	}
}

// The cut follows the compressed size, and batches come out well filled.
func TestEncode_SplitFillsBatches(t *testing.T) {
	t.Parallel()
	var rs []Record
	for i := range int64(800) {
		rs = append(rs, Record{Offset: i, Value: append(noise(200, uint64(i)), text(800)...)})
	}
	c := newCodecs(t)
	for codec := CodecNone; codec <= CodecZstd; codec++ {
		whole, err := c.Encode(rs, codec, 0)
		if err != nil || len(whole) != 1 {
			t.Fatal(len(whole), err)
		}
		const limit = 50_000
		built, err := c.Encode(rs, codec, limit)
		if err != nil {
			t.Fatal(err)
		}
		if got := reread(t, c, built, codec, limit); diff(rs, got) != "" {
			t.Errorf("codec %d: records differ", codec)
		}
		if least := len(whole[0].Bytes) / limit; len(built) > least*3/2+1 {
			t.Errorf("codec %d: %d batches where %d could do", codec, len(built), least)
		}
	}
}

// Nothing is written that could not be read again under the same limit.
func TestEncode_StaysUnderTheDecompressionLimit(t *testing.T) {
	t.Parallel()
	c, err := NewCodecs(100_000)
	if err != nil {
		t.Fatal(err)
	}
	var rs []Record
	for i := range int64(40) {
		rs = append(rs, Record{Offset: i, Value: text(10_000)})
	}
	for codec := CodecGzip; codec <= CodecZstd; codec++ {
		built, err := c.Encode(rs, codec, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := reread(t, c, built, codec, 0); diff(rs, got) != "" {
			t.Errorf("codec %d: records differ", codec)
		}
	}
}

// A record from a batch of a high compression level must not become too large by being written anew.
func TestEncode_SecondTryForOneRecord(t *testing.T) {
	t.Parallel()
	c := newCodecs(t)
	rng := rand.New(rand.NewPCG(3, 4))
	var words bytes.Buffer
	for words.Len() < 100_000 {
		words.WriteString([]string{"alpha ", "beta ", "gamma ", "delta ", "epsilon "}[rng.IntN(5)])
	}
	rs := []Record{{Offset: 9, Value: words.Bytes()}}
	for _, codec := range []int8{CodecGzip, CodecLZ4, CodecZstd} {
		fast, err := c.Encode(rs, codec, 0)
		if err != nil {
			t.Fatal(err)
		}
		limit := int32(len(fast[0].Bytes) - 1)
		built, err := c.Encode(rs, codec, limit)
		if err != nil || built[0].TooLarge {
			t.Errorf("codec %d: limit %d, %d bytes, %v", codec, limit, len(built[0].Bytes), err)
		}
		reread(t, c, built, codec, limit)
	}
}

func TestEncode_Runs(t *testing.T) {
	t.Parallel()
	var rs []Record
	for _, off := range []int64{3, 4, 5, 9, 11, 12} {
		rs = append(rs, Record{Offset: off})
	}
	built, err := newCodecs(t).Encode(rs, CodecNone, 0)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]model.Run{{Src: 3, N: 3}, {Src: 9, N: 1}, {Src: 11, N: 2}}, built[0].Runs); d != "" {
		t.Error(d)
	}
}

func TestEncode_MistakesOfTheCaller(t *testing.T) {
	t.Parallel()
	c := newCodecs(t)
	for _, codec := range []int8{-1, 5, 7} {
		if _, err := c.Encode([]Record{{}}, codec, 0); err == nil {
			t.Errorf("codec %d is taken", codec)
		}
	}
	for _, second := range []int64{7, 6} {
		if _, err := c.Encode([]Record{{Offset: 7}, {Offset: second}}, CodecNone, 0); err == nil {
			t.Errorf("offset %d behind 7 is taken", second)
		}
	}
	if built, err := c.Encode(nil, CodecZstd, 0); err != nil || len(built) != 0 {
		t.Error(built, err)
	}
}

// wrongCompressor answers with another codec than asked, as kgo's does for an old broker.
type wrongCompressor struct{}

func (wrongCompressor) Compress(_ *bytes.Buffer, src []byte, _ ...kgo.CompressFlag) ([]byte, kgo.CompressionCodecType) {
	return src, kgo.CodecNone
}

func TestEncode_NeverFallsBackSilently(t *testing.T) {
	t.Parallel()
	c := newCodecs(t)
	c.fast[CodecZstd] = wrongCompressor{}
	if built, err := c.Encode([]Record{{}}, CodecZstd, 0); err == nil {
		t.Error(built)
	}
}

// 0, 1 and 50 headers, repeats among them, and one of 300 kB.
func TestEncode_ManyAndLargeHeaders(t *testing.T) {
	t.Parallel()
	rs := []Record{{Offset: 1}, {Offset: 2, Headers: []RecordHeader{{Key: []byte("big"), Value: noise(300_000, 5)}}}, {Offset: 3}}
	for i := range 50 {
		rs[2].Headers = append(rs[2].Headers, RecordHeader{Key: []byte{byte('a' + i%7)}, Value: []byte{byte(i)}})
	}
	c := newCodecs(t)
	for codec := CodecNone; codec <= CodecZstd; codec++ {
		built, err := c.Encode(rs, codec, 0)
		if err != nil {
			t.Fatal(err)
		}
		if d := diff(rs, reread(t, c, built, codec, 0)); d != "" {
			t.Errorf("codec %d: %s", codec, d)
		}
	}
}

func TestVarintSize(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		v := rapid.Int64().Draw(rt, "v") >> rapid.IntRange(0, 63).Draw(rt, "shift")
		if got := varintSize(v); got != len(varint(v)) {
			rt.Fatalf("%d: %d bytes, not %d", v, len(varint(v)), got)
		}
	})
}

func TestTrim(t *testing.T) {
	t.Parallel()
	c := newCodecs(t)
	for name, b := range map[string][]byte{
		"transactional": func() []byte { b := plainBatch(); b[22] |= attrTransactional; return fixCRC(b) }(),
		"append time":   func() []byte { b := plainBatch(); b[22] |= attrLogAppend; return fixCRC(b) }(),
		"horizon":       func() []byte { b := plainBatch(); b[22] |= attrDeleteHorizon; return fixCRC(b) }(),
		"old":           message(0, 42, 0, 2, nil, snappyXerial(join(message(0, 40, 0, 0, nil, nil), message(0, 41, 0, 0, nil, []byte{}), message(0, 42, 0, 0, []byte("k"), nil)))),
	} {
		want, err := c.AppendRecords(nil, b, 41)
		if err != nil || len(want) != 2 {
			t.Fatal(name, want, err)
		}
		built, err := c.Trim(b, 41, 1<<20)
		if err != nil || len(built) != 1 {
			t.Fatal(name, built, err)
		}
		if d := diff(want, reread(t, c, built, mustParse(t, b).Codec(), 1<<20)); d != "" {
			t.Error(name, d)
		}
	}
	if built, err := c.Trim(plainBatch(), 43, 0); err != nil || len(built) != 0 {
		t.Error(built, err)
	}
	if _, err := c.Trim(markerBatch(1, 1, 1, true, 0), 0, 0); !errors.Is(err, ErrControl) {
		t.Error(err)
	}
	if _, err := c.Trim(nil, 0, 0); !errors.Is(err, ErrCut) {
		t.Error(err)
	}
}
