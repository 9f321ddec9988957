package batch

import "encoding/binary"

// reader takes Kafka's primitives off the front of b. The first thing that is not there sets bad, and everything
// read after that is zero: callers look at bad once.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) fail() {
	r.b, r.bad = nil, true
}

// take returns the next n bytes, capped so that an append cannot run into what follows. n = 0 gives an empty
// slice, not nil.
func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.fail()
		return nil
	}
	p := r.b[:n:n]
	r.b = r.b[n:]
	return p
}

// varlong reads a zigzag varint of 64 bits.
func (r *reader) varlong() int64 {
	if len(r.b) > 0 && r.b[0] < 0x80 {
		v := int64(r.b[0]>>1) ^ -int64(r.b[0]&1)
		r.b = r.b[1:]
		return v
	}
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

// varint reads a zigzag varint of 32 bits.
func (r *reader) varint() int {
	v := r.varlong()
	if v != int64(int32(v)) {
		r.fail()
		return 0
	}
	return int(v)
}

// varbytes reads a length and as many bytes. Any negative length means null, as in Kafka.
func (r *reader) varbytes() []byte {
	n := r.varint()
	if n < 0 {
		return nil
	}
	return r.take(n)
}

// bytes32 reads bytes behind a 32-bit length, of which a negative one means null.
func (r *reader) bytes32() []byte {
	p := r.take(4)
	if r.bad {
		return nil
	}
	n := int32(binary.BigEndian.Uint32(p))
	if n < 0 {
		return nil
	}
	return r.take(int(n))
}
