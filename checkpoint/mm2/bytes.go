package mm2

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// ErrMalformed is wrapped when bytes are not what MirrorMaker 2 writes: too short, or of another version.
var ErrMalformed = errors.New("malformed")

// version is the only one there is, of checkpoints and heartbeats; Java's readers take no other.
const version = 0

// maxString is the length, in bytes, that the protocol's texts can have.
const maxString = math.MaxInt16

// appendString appends the protocol's STRING: its length in 16 bits, then UTF-8.
func appendString(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

func appendInt64(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }
func appendInt32(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }

// fits refuses texts that the format has no room for.
func fits(texts ...string) error {
	for _, s := range texts {
		if len(s) > maxString {
			return fmt.Errorf("a text of %d bytes is longer than the %d that the format has room for", len(s), maxString)
		}
	}
	return nil
}

// parser takes fields off bytes. After the first field that is missing every further one is zero; err says which it was.
// What follows the last field is left alone, as Java's readers do.
type parser struct {
	rest []byte
	err  error
}

// parse starts a parser of a key or value. Nil is refused: it is a tombstone, or a record without key.
func parse(what string, b []byte) *parser {
	p := &parser{rest: b}
	if b == nil {
		p.fail("%s is null", what)
	}
	return p
}

func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("%w: "+format, append([]any{ErrMalformed}, args...)...)
	}
	p.rest = nil
}

func (p *parser) take(what string, n int) []byte {
	if p.err == nil && len(p.rest) < n {
		p.fail("%s needs %d bytes, %d are there", what, n, len(p.rest))
	}
	if p.err != nil {
		return make([]byte, n)
	}
	b := p.rest[:n]
	p.rest = p.rest[n:]
	return b
}

func (p *parser) int16(what string) int16 { return int16(binary.BigEndian.Uint16(p.take(what, 2))) }
func (p *parser) int32(what string) int32 { return int32(binary.BigEndian.Uint32(p.take(what, 4))) }
func (p *parser) int64(what string) int64 { return int64(binary.BigEndian.Uint64(p.take(what, 8))) }

func (p *parser) string(what string) string {
	n := p.int16("length of " + what)
	if n < 0 {
		p.fail("length of %s is %d", what, n)
	}
	if p.err != nil {
		return ""
	}
	return string(p.take(what, int(n)))
}

// version takes the version off and refuses all but ours: what follows another one is not known.
func (p *parser) version() {
	if v := p.int16("version"); p.err == nil && v != version {
		p.fail("version is %d, only %d is known", v, version)
	}
}
