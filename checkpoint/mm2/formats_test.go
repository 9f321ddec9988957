package mm2

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep/checkpoint"
)

// sample is a record and what it says.
type sample struct {
	name       string
	key, value string // hex
	says       interface {
		Encode() (key, value []byte, err error)
	}
	decode func(key, value []byte) (any, error)
}

func samples() []sample {
	orders := func(topic string) checkpoint.Key { return checkpoint.Key{Topic: topic, Partition: 3} }
	return []sample{
		{"offset sync", "00066f726465727300000003", "00000000000003e800000000000003b6", OffsetSync{orders("orders"), 1000, 950}, anyOf(DecodeOffsetSync)},
		{"checkpoint", "0004617070310008412e6f726465727300000003", "000000000000000003e800000000000003b70000",
			Checkpoint{"app1", orders("A.orders"), 1000, 951, ""}, anyOf(DecodeCheckpoint)},
		{"checkpoint with metadata", "00026772000174ffffffff", "0000ffffffffffffffff80000000000000000002c3a9",
			Checkpoint{"gr", checkpoint.Key{Topic: "t", Partition: -1}, -1, -1 << 63, "é"}, anyOf(DecodeCheckpoint)},
		{"heartbeat", "000141000142", "00000000018bcfe56800", Heartbeat{"A", "B", 1700000000000}, anyOf(DecodeHeartbeat)},
	}
}

func anyOf[T any](decode func(key, value []byte) (T, error)) func(key, value []byte) (any, error) {
	return func(key, value []byte) (any, error) { return decode(key, value) }
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestFormats_Golden(t *testing.T) {
	t.Parallel()
	for _, s := range samples() {
		key, value, err := s.says.Encode()
		if err != nil || hex.EncodeToString(key) != s.key || hex.EncodeToString(value) != s.value {
			t.Errorf("%s: encoded as %x, %x (%v), want %s, %s", s.name, key, value, err, s.key, s.value)
		}
		got, err := s.decode(unhex(t, s.key), unhex(t, s.value))
		if diff := cmp.Diff(any(s.says), got); err != nil || diff != "" {
			t.Errorf("%s: decoded with %v\n%s", s.name, err, diff)
		}
	}
}

func TestFormats_BytesBehindTheLastFieldAreLeftAlone(t *testing.T) {
	t.Parallel()
	for _, s := range samples() {
		got, err := s.decode(append(unhex(t, s.key), 1, 2), append(unhex(t, s.value), 0xff))
		if diff := cmp.Diff(any(s.says), got); err != nil || diff != "" {
			t.Errorf("%s: decoded with %v\n%s", s.name, err, diff)
		}
	}
}

func TestFormats_ShortNullAndOtherVersionsAreRefused(t *testing.T) {
	t.Parallel()
	for _, s := range samples() {
		key, value := unhex(t, s.key), unhex(t, s.value)
		refused := func(what string, key, value []byte) {
			t.Helper()
			if got, err := s.decode(key, value); !errors.Is(err, ErrMalformed) {
				t.Errorf("%s, %s: got %+v, %v; want an error that wraps ErrMalformed", s.name, what, got, err)
			}
		}
		for n := range key {
			refused("short key", key[:n], value)
		}
		for n := range value {
			refused("short value", key, value[:n])
		}
		refused("null key", nil, value)
		refused("null value", key, nil)
		refused("negative length", append([]byte{0xff, 0xff}, key[2:]...), value)
		if s.name != "offset sync" { // which has no version
			refused("version 1", key, append([]byte{0, 1}, value[2:]...))
		}
	}
	_, err := DecodeCheckpoint(unhex(t, samples()[1].key), []byte{0, 7})
	if err == nil || !strings.Contains(err.Error(), `group "app1", A.orders/3: value: malformed: version is 7, only 0 is known`) {
		t.Errorf("the error does not say whose record it is and what is wrong with it: %v", err)
	}
}

func TestFormats_TooLongTextsAreRefused(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxString+1)
	for _, s := range []interface {
		Encode() (key, value []byte, err error)
	}{Checkpoint{Group: long}, Checkpoint{Metadata: long}, OffsetSync{Key: checkpoint.Key{Topic: long}}, Heartbeat{Source: long}} {
		if _, _, err := s.Encode(); err == nil {
			t.Errorf("%T with a text of %d bytes was encoded", s, len(long))
		}
	}
	if _, _, err := (Checkpoint{Group: long[1:]}).Encode(); err != nil {
		t.Errorf("a text of %d bytes was refused: %v", maxString, err)
	}
}

// Whatever is decoded is encoded to the same bytes, but for what stood behind the last field.
func FuzzFormats(f *testing.F) {
	for _, s := range samples() {
		key, _ := hex.DecodeString(s.key)
		value, _ := hex.DecodeString(s.value)
		f.Add(key, value)
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		same := func(k, v []byte, err error) {
			if err != nil || !bytes.HasPrefix(key, k) || !bytes.HasPrefix(value, v) {
				t.Errorf("%x, %x comes back as %x, %x (%v)", key, value, k, v, err)
			}
		}
		if c, err := DecodeCheckpoint(key, value); err == nil {
			same(c.Encode())
		}
		if s, err := DecodeOffsetSync(key, value); err == nil {
			same(s.Encode())
		}
		if h, err := DecodeHeartbeat(key, value); err == nil {
			same(h.Encode())
		}
	})
}
