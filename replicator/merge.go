package replicator

import (
	"lockstep/replicator/batch"
)

const (
	// mergeBelow is the size of a batch from which on joining it with others gains nothing.
	mergeBelow = 128 << 10
	// mergeBytes is about how much is joined into one batch, before compression.
	mergeBytes = 1 << 20
)

// merger collects the records of small neighbouring batches. Where only one batch may be unanswered, because the broker
// may forget the producer of such old records at any moment, throughput is batch size by round trip: so batches are made
// large.
type merger struct {
	records []batch.Record
	header  batch.Header // of the newest batch in it
	size    int
}

// mergeable reports whether a batch should be joined with its neighbours: it is small, and so old that the lane has one
// batch in flight only.
func (w *shaper) mergeable(h batch.Header, size int) bool {
	return size < mergeBelow && h.Magic >= 2 && w.lane.old(h.MaxTimestamp)
}

// merge adds a batch to the collection. Its checksum is verified before it is decoded, so that encoding anew cannot
// launder a flipped bit.
func (w *shaper) merge(h batch.Header, b []byte) {
	if m := &w.merging; len(m.records) > 0 && (m.header.Codec() != h.Codec() || m.size+len(b) > mergeBytes) {
		w.flushMerge()
	}
	if w.refusal != nil {
		return
	}
	rs, err := w.codecs.AppendRecords(w.merging.records, b, w.at.src)
	if err != nil {
		w.flushMerge()
		w.undecodable(h, err)
		return
	}
	w.merging.records, w.merging.header = rs, h
	w.merging.size += len(b)
}

// flushMerge sends on what was collected. A batch that found no neighbour takes the way of any other.
func (w *shaper) flushMerge() {
	m := w.merging
	w.merging = merger{}
	if len(m.records) > 0 {
		w.encode(m.records, m.header, formMerge)
	}
}
