package batch

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// Flags of an LZ4 frame descriptor that make it longer.
const (
	lz4ContentSize = 0x08
	lz4DictID      = 0x01
)

// lz4Magic begins an LZ4 frame (0x184d2204, least significant byte first).
const lz4Magic = "\x04\x22\x4d\x18"

// repairLZ4 returns an LZ4 frame with the right descriptor checksum. Kafka's clients before 0.10 hashed the frame's
// magic number too, and brokers kept that for magic 0 (KAFKA-3160), so that a strict reader refuses the frame. src
// is not changed; bytes that are no frame are returned as they are.
func repairLZ4(src []byte) []byte {
	if len(src) < 7 || string(src[:4]) != lz4Magic {
		return src
	}
	end := 6
	if src[4]&lz4ContentSize != 0 {
		end += 8
	}
	if src[4]&lz4DictID != 0 {
		end += 4
	}
	if len(src) <= end {
		return src
	}
	sum := byte(xxh32(src[4:end]) >> 8)
	if src[end] == sum {
		return src
	}
	fixed := bytes.Clone(src)
	fixed[end] = sum
	return fixed
}

// xxh32 is xxHash32 with seed 0 for inputs under 16 bytes, which a frame descriptor always is.
func xxh32(p []byte) uint32 {
	const (
		prime1 = 2654435761
		prime2 = 2246822519
		prime3 = 3266489917
		prime4 = 668265263
		prime5 = 374761393
	)
	h := uint32(prime5) + uint32(len(p))
	for ; len(p) >= 4; p = p[4:] {
		h += binary.LittleEndian.Uint32(p) * prime3
		h = bits.RotateLeft32(h, 17) * prime4
	}
	for _, b := range p {
		h += uint32(b) * prime5
		h = bits.RotateLeft32(h, 11) * prime1
	}
	h ^= h >> 15
	h *= prime2
	h ^= h >> 13
	h *= prime3
	return h ^ h>>16
}
