package replicator

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"lockstep/internal/kafka"
	"lockstep/offsetsync"
	"lockstep/replicator/batch"
)

// match compares the last record that a recovery found on the target with the source's, when both logs still have it.
// It is a check of the whole chain of plan, headers and landing against the records themselves; a difference stops the
// lane as diverged.
func (m *Manager) match(ctx context.Context, e *entry, tail offsetsync.Tailed) error {
	if tail.Cursor.Count <= e.state.Opening.Origin.Count {
		return nil
	}
	srcOff := offsetsync.PlanSrc(e.state.Plan, e.state.Opening.Origin, tail.Cursor.Count-1)
	dstOff := tail.Cursor.Dst - 1
	src, ok, err := m.recordAt(ctx, m.src, e.lane.srcPart(), srcOff)
	if err != nil || !ok {
		return err
	}
	dst, ok, err := m.recordAt(ctx, m.dst, e.part, dstOff)
	if err != nil || !ok {
		return err
	}
	if !sameRecord(src, dst) {
		return fmt.Errorf("%w: source offset %d and target offset %d", errMismatch, srcOff, dstOff)
	}
	return nil
}

// recordAt reads one record, if the log still has it.
func (m *Manager) recordAt(ctx context.Context, c cluster, p kafka.Part, off int64) (rec batch.Record, found bool, err error) {
	for _, b := range Batches(ctx, c, p, off, off+1) {
		if errors.Is(b.Err, kerr.OffsetOutOfRange) {
			return rec, false, nil
		}
		if b.Err != nil {
			return rec, false, b.Err
		}
		err = m.codecs.Decode(b.Raw, func(r batch.Record) error {
			if r.Offset == off {
				rec, found = r, true
			}
			return nil
		})
		return rec, found, err
	}
	return rec, false, nil
}

func sameRecord(a, b batch.Record) bool {
	if !sameBytes(a.Key, b.Key) || !sameBytes(a.Value, b.Value) || len(a.Headers) != len(b.Headers) {
		return false
	}
	for i := range a.Headers {
		if !bytes.Equal(a.Headers[i].Key, b.Headers[i].Key) || !sameBytes(a.Headers[i].Value, b.Headers[i].Value) {
			return false
		}
	}
	return true
}

// sameBytes tells null from empty.
func sameBytes(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }
