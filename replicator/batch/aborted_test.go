package batch

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type abortedTxn = kmsg.FetchResponseTopicPartitionAbortedTransaction

// data is a batch of n records of a producer.
func data(offset, pid int64, n int32, attrs int16) []byte {
	var records []byte
	for i := range n {
		records = append(records, rawRecord(0, int64(i), nil, []byte("v"))...)
	}
	return rawBatch(Header{BaseOffset: offset, PID: pid, Attrs: attrs, LastOffsetDelta: n - 1, Count: n}, records)
}

// kept returns the offsets of the batches that are kept.
func kept(txns []abortedTxn, raw []byte) []int64 {
	var out []int64
	a := NewAborted(txns)
	for h, b := range Split(raw) {
		if a.Keep(h, b) {
			out = append(out, h.BaseOffset)
		}
	}
	return out
}

const txn = attrTransactional

func TestAborted_Keep(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		txns []abortedTxn
		raw  []byte
		want []int64
	}{
		// Two producers, interleaved: transaction of 1 commits, of 2 aborts, and a plain record in between.
		"interleaved": {
			[]abortedTxn{{ProducerID: 2, FirstOffset: 2}},
			join(data(0, 1, 2, txn), data(2, 2, 1, txn), data(3, -1, 1, 0), data(4, 1, 1, txn), data(5, 2, 2, txn),
				markerBatch(7, 1, 0, true, 0), markerBatch(8, 2, 0, false, 0)),
			[]int64{0, 3, 4},
		},
		"producer goes on after its abort": {
			[]abortedTxn{{ProducerID: 1, FirstOffset: 0}},
			join(data(0, 1, 2, txn), markerBatch(2, 1, 0, false, 0), data(3, 1, 2, txn), markerBatch(5, 1, 0, true, 0)),
			[]int64{3},
		},
		"commits, then aborts": {
			[]abortedTxn{{ProducerID: 1, FirstOffset: 3}},
			join(data(0, 1, 2, txn), markerBatch(2, 1, 0, true, 0), data(3, 1, 2, txn), markerBatch(5, 1, 0, false, 0)),
			[]int64{0},
		},
		"aborts twice, list not sorted": {
			[]abortedTxn{{ProducerID: 1, FirstOffset: 5}, {ProducerID: 1, FirstOffset: 0}},
			join(data(0, 1, 2, txn), markerBatch(2, 1, 0, false, 0), data(3, 1, 1, txn), markerBatch(4, 1, 0, true, 0),
				data(5, 1, 1, txn), markerBatch(6, 1, 0, false, 0), data(7, 1, 1, txn)),
			[]int64{3, 7},
		},
		"began before the fetched offset": {
			[]abortedTxn{{ProducerID: 1, FirstOffset: 10}},
			join(data(50, 1, 2, txn), markerBatch(52, 1, 0, false, 0), data(53, 1, 1, txn)),
			[]int64{53},
		},
		"plain batch of a producer that aborted": {
			[]abortedTxn{{ProducerID: 1, FirstOffset: 0}},
			join(data(0, 1, 2, 0), data(2, 1, 1, txn)),
			[]int64{0},
		},
		"read uncommitted: markers only are dropped": {
			nil,
			join(data(0, 1, 2, txn), markerBatch(2, 1, 0, false, 0), data(3, 1, 1, txn)),
			[]int64{0, 3},
		},
		"old formats": {
			[]abortedTxn{{ProducerID: -1, FirstOffset: 0}},
			join(message(0, 0, 0, 0, nil, nil), message(1, 1, 0, 0, nil, nil)),
			[]int64{0, 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if d := cmp.Diff(c.want, kept(c.txns, c.raw)); d != "" {
				t.Error(d)
			}
		})
	}
}

// A data batch whose control bit flips must not vanish as a marker would.
func TestAborted_DamagedBatchIsNotDropped(t *testing.T) {
	t.Parallel()
	control, aborted := data(0, 1, 2, 0), data(0, 1, 2, txn)
	control[22] |= attrControl
	aborted[len(aborted)-1] ^= 1
	for name, b := range map[string][]byte{"control": control, "aborted": aborted} {
		if got := kept([]abortedTxn{{ProducerID: 1, FirstOffset: 0}}, b); len(got) != 1 {
			t.Errorf("%s: dropped", name)
		}
		if _, err := newCodecs(t).AppendRecords(nil, b, 0); err == nil {
			t.Errorf("%s: decoded", name)
		}
	}
}
