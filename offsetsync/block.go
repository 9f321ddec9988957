package offsetsync

import (
	"encoding/binary"

	"lockstep/internal/model"
)

// blockLen is how many spans are encoded together: a look-up decodes at most this many.
const blockLen = 128

// block is blockLen spans in a few bytes each: for every span the distance to the end of the one before on both sides,
// then its length. The first begins at (src, dst).
type block struct {
	src, dst int64
	upTo     int64 // records up to its end, as the map that made it counted them
	data     []byte
}

// end returns the offsets behind a span.
func end(s model.Span) (src, dst int64) { return s.Src + s.N, s.Dst + s.N }

// encodeBlock encodes spans that follow each other on both sides; before is the number of records in front of them.
func encodeBlock(spans []model.Span, before int64) block {
	b := block{src: spans[0].Src, dst: spans[0].Dst, upTo: before + countRecords(spans)}
	data := appendSpans(make([]byte, 0, 4*len(spans)), b.src, b.dst, spans)
	b.data = append(make([]byte, 0, len(data)), data...)
	return b
}

// appendSpans appends the encoding of spans, the first one as seen from (src, dst).
func appendSpans(out []byte, src, dst int64, spans []model.Span) []byte {
	for _, s := range spans {
		out = binary.AppendUvarint(out, uint64(s.Src-src))
		out = binary.AppendUvarint(out, uint64(s.Dst-dst))
		out = binary.AppendUvarint(out, uint64(s.N))
		src, dst = end(s)
	}
	return out
}

// spans decodes the block onto the end of buf.
func (b block) spans(buf []model.Span) []model.Span {
	src, dst, data := b.src, b.dst, b.data
	for len(data) > 0 {
		var s model.Span
		s, data = nextSpan(src, dst, data)
		src, dst = end(s)
		buf = append(buf, s)
	}
	return buf
}

// nextSpan decodes one span. The data comes from encodeBlock and is whole.
func nextSpan(src, dst int64, data []byte) (model.Span, []byte) {
	ds, i := binary.Uvarint(data)
	dd, j := binary.Uvarint(data[i:])
	n, k := binary.Uvarint(data[i+j:])
	return model.Span{Src: src + int64(ds), Dst: dst + int64(dd), N: int64(n)}, data[i+j+k:]
}

// first returns the block's first span.
func (b block) first() model.Span {
	s, _ := nextSpan(b.src, b.dst, b.data)
	return s
}
