package batch

import "encoding/binary"

// Stamp makes b, one whole magic 2 batch, ready for the target, in place: base offset 0 and leader epoch -1, as a
// produced batch must have, the given producer id, epoch and base sequence, and the transactional, control and
// delete-horizon bits cleared. The checksum follows by arithmetic over the 36 changed bytes; the records are not
// touched, so that damage done to them before or after is still found by the broker.
//
// It may be repeated with other numbers. b must have been parsed as magic 2: Stamp panics on anything shorter than
// a header, and writes the same positions whatever the bytes are.
func Stamp(b []byte, pid int64, epoch int16, seq int32) {
	const from, to = atAttrs, atCount
	_ = b[HeaderSize-1]
	var delta [to - from]byte
	copy(delta[:], b[from:to])

	be := binary.BigEndian
	be.PutUint64(b[atBaseOffset:], 0)
	be.PutUint32(b[atLeaderEpoch:], ^uint32(0))
	const cleared = attrTransactional | attrControl | attrDeleteHorizon
	be.PutUint16(b[atAttrs:], be.Uint16(b[atAttrs:])&^uint16(cleared))
	be.PutUint64(b[atPID:], uint64(pid))
	be.PutUint16(b[atEpoch:], uint16(epoch))
	be.PutUint32(b[atBaseSeq:], uint32(seq))

	for i, old := range delta {
		delta[i] = old ^ b[from+i]
	}
	be.PutUint32(b[atCRC:], patchCRC(be.Uint32(b[atCRC:]), delta[:], len(b)-to))
}
