package batch

import (
	"cmp"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Aborted tells committed from aborted data in one partition's part of one fetch answer. The broker's list names
// producer and first offset of each aborted transaction; its end is the producer's next marker.
type Aborted struct {
	waiting []kmsg.FetchResponseTopicPartitionAbortedTransaction // by first offset
	open    map[int64]struct{}                                   // producers inside of an aborted transaction
}

// NewAborted takes the list of one answer. The order of the list does not matter: Redpanda's is not sorted. An
// empty list, as in read_uncommitted answers, leaves only control batches to drop.
func NewAborted(txns []kmsg.FetchResponseTopicPartitionAbortedTransaction) *Aborted {
	if len(txns) == 0 {
		return new(Aborted)
	}
	waiting := slices.Clone(txns)
	slices.SortStableFunc(waiting, func(a, b kmsg.FetchResponseTopicPartitionAbortedTransaction) int {
		return cmp.Compare(a.FirstOffset, b.FirstOffset)
	})
	return &Aborted{waiting: waiting, open: make(map[int64]struct{})}
}

// Keep reports whether batch b with header h holds data to copy. It must see all batches of the answer in their
// order. Control batches end their producer's transaction and are not kept; batches of aborted transactions are not
// kept.
//
// A batch to be dropped whose checksum fails is kept all the same: one flipped bit must not make data vanish, and
// whoever decodes or sends the batch meets the fault.
func (a *Aborted) Keep(h Header, b []byte) bool {
	if h.Magic < 2 {
		return true
	}
	for len(a.waiting) > 0 && a.waiting[0].FirstOffset <= h.LastOffset() {
		a.open[a.waiting[0].ProducerID] = struct{}{}
		a.waiting = a.waiting[1:]
	}
	_, aborted := a.open[h.PID]
	if !h.Control() && !(aborted && h.Transactional()) {
		return true
	}
	if VerifyCRC(h, b) != nil {
		return true
	}
	if h.Control() {
		delete(a.open, h.PID)
	}
	return false
}
