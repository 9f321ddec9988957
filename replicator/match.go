package replicator

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
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
	_, err := m.matched(ctx, e, tail)
	return err
}

// matched is match, and reports whether there were two records to compare.
func (m *Manager) matched(ctx context.Context, e *entry, tail offsetsync.Tailed) (compared bool, err error) {
	if tail.Cursor.Count <= e.state.Opening.Origin.Count {
		return false, nil
	}
	srcOff := offsetsync.PlanSrc(e.state.Plan, e.state.Opening.Origin, tail.Cursor.Count-1)
	dstOff := tail.Cursor.Dst - 1
	same, compared, err := m.same(ctx, e, srcOff, dstOff)
	if err == nil && compared && !same {
		err = fmt.Errorf("%w: source offset %d and target offset %d", errMismatch, srcOff, dstOff)
	}
	return compared, err
}

// same reports whether a source and a target record are the same. Where a log does not have its record any more, nothing
// can be compared.
func (m *Manager) same(ctx context.Context, e *entry, srcOff, dstOff int64) (same, compared bool, err error) {
	src, ok, err := m.recordAt(ctx, m.src, e.lane.srcPart(), srcOff)
	if err != nil || !ok {
		return false, errors.Is(err, errMarker), but(err, errMarker)
	}
	dst, ok, err := m.recordAt(ctx, m.dst, e.part, dstOff)
	if err != nil || !ok {
		return false, false, but(err, errMarker) // the record was trimmed away, and its term ended
	}
	return sameRecord(src, dst), true, nil
}

// errMarker says that a marker stands where a record was looked for: on this branch of the log there never was one.
var errMarker = errors.New("a marker stands there")

// but returns an error unless it is the given one.
func but(err, not error) error {
	if errors.Is(err, not) {
		return nil
	}
	return err
}

// recordAt reads one record, if the log still has it. Where a marker stands it returns errMarker.
func (m *Manager) recordAt(ctx context.Context, c cluster, p kafka.Part, off int64) (rec batch.Record, found bool, err error) {
	for h, b := range Batches(ctx, c, p, off, off+1) {
		switch {
		case errors.Is(b.Err, kerr.OffsetOutOfRange):
			return rec, false, nil
		case b.Err != nil:
			return rec, false, b.Err
		case h.Control() && h.BaseOffset == off:
			return rec, false, errMarker
		case h.Control():
			return rec, false, nil
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

// digest stands for a record's key, value and headers.
type digest [sha256.Size]byte

// digests reads the records of a log in [from, to), by offset. A log that begins inside a batch still shows the whole of
// it; where the records below its start stood may have been guessed, so nothing is compared with them.
func (m *Manager) digests(ctx context.Context, c cluster, p kafka.Part, from, to int64) (map[int64]digest, error) {
	out := make(map[int64]digest)
	for h, b := range Batches(ctx, c, p, from, to) {
		if b.Err != nil {
			return out, b.Err
		}
		if h.Control() {
			continue
		}
		err := m.digestBatch(b.Raw, func(off int64, d digest) {
			if from <= off && off < to {
				out[off] = d
			}
		})
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

func (m *Manager) digestBatch(raw []byte, each func(int64, digest)) error {
	return m.codecs.Decode(raw, func(r batch.Record) error {
		each(r.Offset, digestOf(r))
		return nil
	})
}

func digestOf(r batch.Record) digest {
	var b []byte
	add := func(part []byte) {
		n := int64(len(part))
		if part == nil {
			n = -1
		}
		b = append(binary.BigEndian.AppendUint64(b, uint64(n)), part...)
	}
	add(r.Key)
	add(r.Value)
	for _, h := range r.Headers {
		add(h.Key)
		add(h.Value)
	}
	return sha256.Sum256(b)
}
