package batch

import (
	"errors"
	"testing"
)

func TestParseMarker(t *testing.T) {
	t.Parallel()
	for _, want := range []Marker{{}, {Commit: true}, {Commit: true, CoordinatorEpoch: 1<<31 - 1}, {CoordinatorEpoch: -1}} {
		b := markerBatch(99, 7, 2, want.Commit, want.CoordinatorEpoch)
		if got, err := ParseMarker(mustParse(t, b), b); err != nil || got != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
}

func TestParseMarker_RefusesOthers(t *testing.T) {
	t.Parallel()
	control := func(key, value []byte) []byte {
		return rawBatch(Header{Attrs: attrControl, Count: 1}, rawRecord(0, 0, key, value))
	}
	flipped := markerBatch(99, 7, 2, true, 0)
	flipped[len(flipped)-1] ^= 1
	for name, b := range map[string][]byte{
		"data":              plainBatch(),
		"message":           message(1, 1, 1, 0, nil, nil),
		"no record":         rawBatch(Header{Attrs: attrControl}, nil),
		"record cut":        rawBatch(Header{Attrs: attrControl, Count: 1}, []byte{60, 0}),
		"no key":            control(nil, make([]byte, 6)),
		"short key":         control(make([]byte, 3), make([]byte, 6)),
		"no value":          control(make([]byte, 4), nil),
		"short value":       control(make([]byte, 4), make([]byte, 5)),
		"of the controller": control([]byte{0, 0, 0, 2}, make([]byte, 6)),
		"checksum":          flipped,
	} {
		if m, err := ParseMarker(mustParse(t, b), b); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v, %v", name, m, err)
		}
	}
}
