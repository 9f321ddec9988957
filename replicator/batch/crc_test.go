package batch

import (
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"testing"
)

func TestShiftZeros_EqualsHashingZeros(t *testing.T) {
	t.Parallel()
	raw := func(p []byte) uint32 { return ^crc32.Update(^uint32(0), castagnoli(), p) }
	delta := []byte{1, 0, 0xff, 7}
	for _, n := range []int{0, 1, 2, 255, 256, 257, 4095, 65535, 65536, 65537, 1 << 20, 1<<24 - 1, 1<<24 + 3} {
		want := raw(append(delta[:4:4], make([]byte, n)...))
		if got := shiftZeros(raw(delta), uint32(n)); got != want {
			t.Errorf("%d zero bytes: %08x, want %08x", n, got, want)
		}
	}
}

// The largest batch has 2^31 bytes; hashing that many zeros in a test takes too long, but powers add up.
func TestShiftZeros_LargeShiftsAddUp(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		c, a, b := rng.Uint32(), rng.Uint32N(1<<31), rng.Uint32N(1<<31)
		if one, two := shiftZeros(c, a+b), shiftZeros(shiftZeros(c, a), b); one != two {
			t.Fatalf("%08x by %d and %d: %08x, %08x", c, a, b, one, two)
		}
	}
}

func TestVerifyCRC(t *testing.T) {
	t.Parallel()
	for name, b := range map[string][]byte{
		"magic 2": plainBatch(),
		"magic 1": message(1, 4, 5, 0, []byte("k"), []byte("v")),
		"magic 0": message(0, 4, 0, 0, []byte("k"), []byte("v")),
	} {
		h := mustParse(t, b)
		if err := VerifyCRC(h, b); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, at := range []int{len(b) - 1, atAttrs} {
			b[at] ^= 1
			if err := VerifyCRC(h, b); !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s, bit flipped at %d: %v", name, at, err)
			}
			b[at] ^= 1
		}
		if err := VerifyCRC(h, b[:len(b)-1]); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s, other length: %v", name, err)
		}
	}
	if err := VerifyCRC(Header{Magic: 2, Length: 1}, make([]byte, 13)); !errors.Is(err, ErrCorrupt) {
		t.Error(err)
	}
}
