package batch

import (
	"errors"
	"iter"
)

// Split yields the batches of a fetch answer in their order, each with its bytes, which point into raw. Messages of
// magic 0 and 1 come as one element each. A batch that is cut at the end is left out, as brokers cut answers at a
// number of bytes. The sequence ends early where bytes cannot be parsed: use [SplitErr] to learn of it.
func Split(raw []byte) iter.Seq2[Header, []byte] { return SplitErr(raw, nil) }

// SplitErr is [Split], and stores in fault why the sequence ended before the end of raw: nil for a regular end or a
// batch cut behind whole ones, an error wrapping [ErrCorrupt] for bytes that are no batch, an error wrapping
// [ErrCut] when not even the first batch is whole, so that more room must be asked for (or its length field is
// damaged). fault is set to nil when the iteration starts, and is final when the loop has run to its end.
func SplitErr(raw []byte, fault *error) iter.Seq2[Header, []byte] {
	return func(yield func(Header, []byte) bool) {
		report(fault, nil)
		for rest := raw; len(rest) > 0; {
			h, err := parseFront(rest)
			if err != nil {
				if !errors.Is(err, ErrCut) || len(rest) == len(raw) {
					report(fault, err)
				}
				return
			}
			n := h.Size()
			// The capacity ends with the batch: an append to it cannot reach the next one.
			if !yield(h, rest[:n:n]) {
				return
			}
			rest = rest[n:]
		}
	}
}

func report(fault *error, err error) {
	if fault != nil {
		*fault = err
	}
}
