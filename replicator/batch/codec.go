package batch

import (
	"bytes"
	"errors"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kgo"
)

// ErrTooBig is wrapped by the errors for batches whose records decompress to more than the limit given to
// [NewCodecs]. The batch may be whole and passable; only decoding it is refused.
var ErrTooBig = errors.New("batch decompresses to more than the limit")

// Codecs decompresses and compresses with franz-go's codecs. It is safe for use by many goroutines, and holds
// nothing that must be closed.
type Codecs struct {
	inflater    kgo.Decompressor
	maxInflated int
	fast        [CodecZstd + 1]kgo.Compressor // nil for CodecNone
	best        [CodecZstd + 1]kgo.Compressor // slower, for a record that does not fit otherwise
	scratch     sync.Pool                     // of *scratch
}

// scratch is the working memory of one Encode.
type scratch struct {
	raw []byte
	out bytes.Buffer
}

// NewCodecs prepares the codecs. No batch is decompressed to more than maxDecompressed bytes, and none is encoded
// from more, so that what was written can be read again. zstd asks for a window that the producer's level decides,
// 128 MiB for the highest, however small the batch is: with a lower limit such batches are not decoded.
func NewCodecs(maxDecompressed int32) (*Codecs, error) {
	inflater, err := cappedDecompressor(int(maxDecompressed))
	if err != nil {
		return nil, err
	}
	c := &Codecs{inflater: inflater, maxInflated: int(maxDecompressed)}
	c.scratch.New = func() any { return new(scratch) }
	// The levels are those of the libraries behind kgo: gzip.BestCompression, lz4.Level9 and
	// zstd.SpeedBetterCompression, as zstd's best keeps tables of 34 MB. Snappy has none.
	fast := []kgo.CompressionCodec{kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}
	level := []int{9, 0, 1 << 17, 3}
	for i, codec := range fast {
		if c.fast[i+1], err = kgo.DefaultCompressor(codec); err != nil {
			return nil, fmt.Errorf("prepare codec %d: %w", i+1, err)
		}
		if c.best[i+1], err = kgo.DefaultCompressor(codec.WithLevel(level[i])); err != nil {
			return nil, fmt.Errorf("prepare codec %d: %w", i+1, err)
		}
	}
	return c, nil
}

// cappedDecompressor returns the decompressor of a client that never connects: kgo's exported one alone does not
// take a limit and would follow a damaged or hostile batch to 2 GiB.
func cappedDecompressor(limit int) (kgo.Decompressor, error) {
	cl, err := kgo.NewClient(kgo.MaxDecompressBatchBytes(limit), kgo.DisableClientMetrics())
	if err != nil {
		return nil, fmt.Errorf("prepare decompressor: %w", err)
	}
	defer cl.Close()
	d, ok := cl.OptValue(kgo.WithDecompressor).(kgo.Decompressor)
	if !ok || d == nil {
		return nil, errors.New("prepare decompressor: the client has none")
	}
	return d, nil
}

// inflate returns the decompressed form of src. Without compression that is src itself, else fresh memory.
func (c *Codecs) inflate(h Header, src []byte) ([]byte, error) {
	codec := h.Codec()
	if codec == CodecNone {
		return src, nil
	}
	if h.Magic == 0 && codec == CodecLZ4 {
		src = repairLZ4(src)
	}
	out, err := c.inflater.Decompress(src, kgo.CompressionCodecType(codec))
	// A zstd window above the limit is refused before anything is known of the size.
	if errors.Is(err, kgo.ErrMaxDecompress) || errors.Is(err, zstd.ErrWindowSizeExceeded) {
		return nil, fmt.Errorf("decompress batch at offset %d: %w of %d bytes", h.BaseOffset, ErrTooBig, c.maxInflated)
	}
	if err != nil {
		return nil, fmt.Errorf("decompress batch at offset %d: %w: %w", h.BaseOffset, ErrCorrupt, err)
	}
	return out, nil
}

// deflate compresses raw into s.out; the result is valid until s is used again. The codec is the one asked for, or
// there is an error: a target that cannot take it must be handled where that is known.
func deflate(by kgo.Compressor, codec int8, s *scratch, raw []byte) ([]byte, error) {
	if codec == CodecNone {
		return raw, nil
	}
	s.out.Reset()
	out, used := by.Compress(&s.out, raw)
	if used != kgo.CompressionCodecType(codec) {
		return nil, fmt.Errorf("compress %d bytes: codec %d answered as %d", len(raw), codec, used)
	}
	return out, nil
}
