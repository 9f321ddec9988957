package replicator

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"lockstep/internal/kafka"
	"lockstep/replicator/batch"
)

// headersFetch is how much one read of headers brings.
const headersFetch = 1 << 20

// Headers yields the headers of the batches from offset from up to, but not including, offset to, control batches and
// uncommitted ones included. It ends early at the log's end, and after an error, which it yields last.
func Headers(ctx context.Context, c cluster, p kafka.Part, from, to int64) iter.Seq2[batch.Header, error] {
	return func(yield func(batch.Header, error) bool) {
		for h, b := range Batches(ctx, c, p, from, to) {
			if b.Err != nil {
				yield(h, b.Err)
				return
			}
			if !yield(h, nil) {
				return
			}
		}
	}
}

// Bytes is a batch as a log holds it, or why it could not be read.
type Bytes struct {
	Raw []byte
	Err error
}

// Batches is Headers with the batches' bytes.
func Batches(ctx context.Context, c cluster, p kafka.Part, from, to int64) iter.Seq2[batch.Header, Bytes] {
	return func(yield func(batch.Header, Bytes) bool) {
		for size := int32(headersFetch); from < to; {
			raw, end, err := readChunk(ctx, c, p, from, size)
			if err != nil {
				yield(batch.Header{}, Bytes{Err: fmt.Errorf("read %s/%d at %d: %w", p.Topic, p.Partition, from, err)})
				return
			}
			next, more := yieldBatches(raw, from, to, yield)
			switch {
			case !more || len(raw) == 0 && end <= from:
				return
			case next > from:
				from = next
			case len(raw) == 0:
				return // nothing below the high watermark
			default:
				size = min(size*2, 1<<29) // one batch larger than the read
			}
		}
	}
}

// readChunk reads once. While quotas make reads late it asks again for the same, or a start that has much to read would
// begin anew each time and never get through.
func readChunk(ctx context.Context, c cluster, p kafka.Part, from int64, size int32) ([]byte, int64, error) {
	for {
		began := time.Now()
		raw, end, err := readOnce(ctx, c, p, from, size)
		if err == nil || ctx.Err() != nil || !c.ThrottledSince(began) {
			return raw, end, err
		}
		if action, _ := kafka.Classify(err); action != kafka.Refresh && action != kafka.Retry {
			return raw, end, err
		}
	}
}

func readOnce(ctx context.Context, c cluster, p kafka.Part, from int64, size int32) ([]byte, int64, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	got, err := c.ReadAt(ctx, p, from, size, false)
	if err == nil {
		err = kerr.ErrorForCode(got.ErrorCode)
	}
	if err != nil {
		return nil, 0, err
	}
	return got.RecordBatches, got.HighWatermark, nil
}

// yieldBatches hands out the whole batches of one read and returns the offset behind them, and false when the consumer
// has had enough or the range is done.
func yieldBatches(raw []byte, from, to int64, yield func(batch.Header, Bytes) bool) (int64, bool) {
	var fault error
	next := from
	for h, b := range batch.SplitErr(raw, &fault) {
		if h.Next() <= from {
			continue
		}
		if h.BaseOffset >= to {
			return next, false
		}
		if !yield(h, Bytes{Raw: b}) {
			return next, false
		}
		next = h.Next()
	}
	if fault != nil && !errors.Is(fault, batch.ErrCut) {
		yield(batch.Header{}, Bytes{Err: fault})
		return next, false
	}
	return next, true
}
