package batch

import (
	"fmt"
	"hash/crc32"
	"sync"
)

// poly is the CRC-32C polynomial, bit-reflected: bit 31 is the coefficient of x^0.
const poly = 0x82f63b78

// castagnoli returns the table of CRC-32C, of which the standard library keeps one copy.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// VerifyCRC checks the checksum of b, whose header is h: CRC-32C over everything from the attributes on for magic
// 2, CRC-32 from the magic on for magic 0 and 1. The error wraps [ErrCorrupt].
func VerifyCRC(h Header, b []byte) error {
	if len(b) != h.Size() || len(b) < messageSizeV0 || h.Magic == 2 && len(b) < HeaderSize {
		return fmt.Errorf("verify batch at offset %d: %w: %d bytes, the header says %d", h.BaseOffset, ErrCorrupt, len(b), h.Size())
	}
	var sum uint32
	if h.Magic == 2 {
		sum = crc32.Checksum(b[atAttrs:], castagnoli())
	} else {
		sum = crc32.ChecksumIEEE(b[atMagic:])
	}
	if sum != h.CRC {
		return fmt.Errorf("verify batch at offset %d: %w: checksum is %08x, the header says %08x", h.BaseOffset, ErrCorrupt, sum, h.CRC)
	}
	return nil
}

// patchCRC returns the checksum of a batch whose checksum was crc before delta was XORed into the bytes that lie
// tail bytes before its end.
//
// A CRC is linear apart from its fixed start and end values: for messages of equal length,
// crc(a) XOR crc(a XOR d) = L(d), where L starts at 0 and ends without inversion. d is delta followed by tail zero
// bytes, and a zero byte multiplies by x^8, so that L(d) = L(delta)·x^(8·tail) mod P. Nothing behind delta is read:
// a checksum that was wrong before is wrong afterwards.
func patchCRC(crc uint32, delta []byte, tail int) uint32 {
	// Bytewise: crc32.Update would make delta escape to the heap.
	table, l := castagnoli(), uint32(0)
	for _, d := range delta {
		l = table[byte(l)^d] ^ l>>8
	}
	return crc ^ shiftZeros(l, uint32(tail))
}

// shiftTable holds x^(8·d·256^i) mod P at [i][d]: what d·256^i zero bytes do to a CRC.
type shiftTable [4][256]uint32

// shifts builds the table once (4 KiB, about a thousand multiplications) and never changes it.
var shifts = sync.OnceValue(func() *shiftTable {
	t := new(shiftTable)
	step := uint32(1) << (31 - 8) // x^8
	for i := range t {
		t[i][0] = 1 << 31 // x^0
		for d := 1; d < 256; d++ {
			t[i][d] = mulMod(t[i][d-1], step)
		}
		step = mulMod(t[i][255], step)
	}
	return t
})

// shiftZeros returns c·x^(8·n) mod P with one multiplication for each byte of n that is not 0: at most four.
func shiftZeros(c, n uint32) uint32 {
	t := shifts()
	for i := 0; n != 0; i, n = i+1, n>>8 {
		if d := n & 0xff; d != 0 {
			c = mulMod(c, t[i][d])
		}
	}
	return c
}

// mulMod returns a·b mod P in the reflected representation.
func mulMod(a, b uint32) uint32 {
	var sum uint32
	for ; a != 0; a <<= 1 {
		sum ^= b & -(a >> 31)
		b = b>>1 ^ poly&-(b&1)
	}
	return sum
}
