package e2e

import (
	"encoding/binary"
	"testing"

	"lockstep/internal/kafkatest"
)

// rawBatch is what a test wants to know of a batch as it stands in a log.
type rawBatch struct {
	base          int64
	last          int64
	size          int
	codec         int
	count         int32
	control       bool
	transactional bool
	logAppend     bool
	producer      int64
	epoch         int16
	sequence      int32
}

// rawBatches reads the batches of a partition from its start to its end, uncommitted ones too.
func rawBatches(t testing.TB, c kafkatest.Target, topic string, partition int32) (out []rawBatch) {
	t.Helper()
	eachRaw(t, c, topic, partition, func(r rawBatch, _ []byte) { out = append(out, r) })
	return out
}

// eachRaw calls fn for each batch of a partition, with its bytes.
func eachRaw(t testing.TB, c kafkatest.Target, topic string, partition int32, fn func(rawBatch, []byte)) {
	t.Helper()
	next, end := kafkatest.LogStart(t, c, topic, partition), kafkatest.End(t, c, topic, partition)
	for next < end {
		b := kafkatest.FetchRaw(t, c, topic, partition, next, false).RecordBatches
		was := next
		for len(b) >= 61 {
			size := int(binary.BigEndian.Uint32(b[8:])) + 12
			if len(b) < size {
				break
			}
			if r := parseBatch(b[:size]); r.last >= next {
				fn(r, b[:size])
				next = r.last + 1
			}
			b = b[size:]
		}
		if next == was {
			t.Fatalf("%s/%d: no batch at offset %d, end %d", topic, partition, next, end)
		}
	}
}

func parseBatch(b []byte) rawBatch {
	be := binary.BigEndian
	attrs := be.Uint16(b[21:])
	base := int64(be.Uint64(b))
	return rawBatch{
		base: base, last: base + int64(be.Uint32(b[23:])), size: len(b), codec: int(attrs & 7),
		logAppend: attrs&8 != 0, transactional: attrs&16 != 0, control: attrs&32 != 0,
		producer: int64(be.Uint64(b[43:])), epoch: int16(be.Uint16(b[51:])), sequence: int32(be.Uint32(b[53:])),
		count: int32(be.Uint32(b[57:])),
	}
}

// batchCodecs returns the codecs of a partition's data batches, in order.
func batchCodecs(t testing.TB, c kafkatest.Target, topic string, partition int32) []int {
	t.Helper()
	var codecs []int
	for _, b := range rawBatches(t, c, topic, partition) {
		if !b.control {
			codecs = append(codecs, b.codec)
		}
	}
	return codecs
}

// markers counts the control batches of a partition.
func markers(t testing.TB, c kafkatest.Target, topic string, partition int32) (n int) {
	t.Helper()
	for _, b := range rawBatches(t, c, topic, partition) {
		if b.control {
			n++
		}
	}
	return n
}
