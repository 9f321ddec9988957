package batch

import (
	"encoding/binary"
	"fmt"
)

// Marker is the end of a transaction, or a seal, as it stands in a partition's log.
type Marker struct {
	Commit           bool  // else abort
	CoordinatorEpoch int32 // of the transaction coordinator, 0 for a marker written directly
}

// Types of control records (Kafka's ControlRecordType). Others belong to the controllers' own log.
const (
	controlAbort  = 0
	controlCommit = 1
)

// ParseMarker reads the marker in control batch b, whose header is h, after verifying its checksum. The producer
// that it ends is h.PID, h.Epoch. Errors wrap [ErrCorrupt].
func ParseMarker(h Header, b []byte) (Marker, error) {
	if err := VerifyCRC(h, b); err != nil {
		return Marker{}, err
	}
	if h.Magic != 2 || !h.Control() || h.Count < 1 || h.Codec() != CodecNone {
		return Marker{}, decodef(h, "no transaction marker")
	}
	d := recordDecoder{reader: reader{b: b[HeaderSize:]}, h: h}
	var rec Record
	if !d.next(&rec) || len(rec.Key) < 4 {
		return Marker{}, decodef(h, "marker cannot be read")
	}
	return parseMarker(h, rec)
}

// parseMarker reads key {version, type} and value {version, coordinator epoch}. Later versions only add fields.
func parseMarker(h Header, rec Record) (Marker, error) {
	be := binary.BigEndian
	kind := int16(be.Uint16(rec.Key[2:]))
	if kind != controlAbort && kind != controlCommit {
		return Marker{}, decodef(h, "control record of type %d is no transaction marker", kind)
	}
	if len(rec.Value) < 6 {
		return Marker{}, decodef(h, "marker's value has %d bytes", len(rec.Value))
	}
	return Marker{Commit: kind == controlCommit, CoordinatorEpoch: int32(be.Uint32(rec.Value[2:]))}, nil
}

// String implements fmt.Stringer.
func (m Marker) String() string {
	kind := "abort"
	if m.Commit {
		kind = "commit"
	}
	return fmt.Sprintf("%s by coordinator epoch %d", kind, m.CoordinatorEpoch)
}
