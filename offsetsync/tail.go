package offsetsync

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"lockstep/internal/model"
	"lockstep/replicator/batch"
)

// ErrDiverged is wrapped by the error of Tail when the target's log holds what this lane cannot have written in this
// way: its text names both positions.
var ErrDiverged = errors.New("the target's log and the stored state disagree")

// HeaderReader reads the headers of the batches that stand in a target partition at offsets [from, to), in order, whatever
// their writer; with to -1 up to the log's end. A batch that begins before from may come first. Control batches are
// included. It ends with an error when it cannot read on.
type HeaderReader func(ctx context.Context, from, to int64) iter.Seq2[batch.Header, error]

// Tailed is what the headers behind a stored cursor say.
type Tailed struct {
	// Cursor is behind the last record of the lane: Src by the plan, Dst behind that record or, if reading ended at the
	// marker, behind the marker. SrcEpoch is -1 unless nothing was found.
	Cursor model.Cursor
	// Landings are the entries to add to the stored ones; from the first of them on they replace what is stored.
	Landings []model.Landing
	Foreign  int64 // records of other writers
	Records  int64 // records of the lane behind the stored cursor
	End      int64 // offset behind everything that was read
	Stopped  bool  // stop said that this is the marker; else the headers ended
}

// Tail joins the headers of the target's log from st.Cursor.Dst on with the plan of st's opening. Batches of pid and epoch
// are the lane's own: their sequences count its records. It ends when stop says of a control batch that it is the marker.
//
// Other data is a foreign writer's: it is counted, and the lane's next record stands behind it. Records that compaction
// or retention removed leave offsets without a header; as many of the lane's as the sequences say are taken to have stood
// in the last of these before the next batch. Errors wrap [ErrDiverged], or are those of the headers; the result then tells how far it
// came.
func Tail(headers iter.Seq2[batch.Header, error], pid int64, epoch int16, st LaneState, stop func(batch.Header) bool) (Tailed, error) {
	t := newTailer(pid, epoch, st)
	for h, err := range headers {
		if err != nil {
			return t.result(), err
		}
		if h.Next() <= t.next { // before the cursor
			if h.Control() && stop != nil && stop(h) {
				return t.result(), fmt.Errorf("%w: the target's log ends at offset %d, where the marker stands; records were stored up to offset %d", ErrDiverged, h.Next(), st.Cursor.Dst)
			}
			continue
		}
		if h.Control() {
			if t.pass(h); stop != nil && stop(h) {
				t.stopped = true
				break
			}
			continue
		}
		if err := t.take(h); err != nil {
			return t.result(), err
		}
	}
	return t.result(), nil
}

// tailer is a Tail on its way.
type tailer struct {
	pid   int64
	epoch int16
	st    LaneState

	count    int64       // records of the lane so far
	next     int64       // offset behind what was read
	unknown  []model.Run // target offsets since the lane's last record that no header tells about
	ownEnd   int64       // offset behind the lane's last record, or the stored cursor's
	landings []model.Landing
	base     []model.Landing // the stored entries that count
	restate  bool            // stored entries lie at or behind the cursor: what is found replaces them
	foreign  int64
	stopped  bool
}

func newTailer(pid int64, epoch int16, st LaneState) *tailer {
	t := &tailer{pid: pid, epoch: epoch, st: st, count: st.Cursor.Count, next: st.Cursor.Dst, ownEnd: st.Cursor.Dst}
	i := lastAtOrBelow(st.Landings, t.count-1, func(l model.Landing) int64 { return l.Count })
	t.base, t.restate = st.Landings[:i+1], i+1 < len(st.Landings)
	return t
}

// pass moves behind a batch that is not the lane's.
func (t *tailer) pass(h batch.Header) {
	t.missing(h.BaseOffset)
	t.next = h.Next()
}

// missing notes that no header tells about the offsets up to base.
func (t *tailer) missing(base int64) {
	if base > t.next {
		t.unknown = append(t.unknown, model.Run{Src: t.next, N: base - t.next})
	}
}

func (t *tailer) take(h batch.Header) error {
	if h.PID != t.pid {
		t.pass(h)
		t.foreign += max(int64(h.Count), 0)
		return nil
	}
	if h.Epoch != t.epoch {
		return fmt.Errorf("%w: offset %d holds a batch of epoch %d of this link's producer %d, opening %d writes in epoch %d", ErrDiverged, h.BaseOffset, h.Epoch, h.PID, t.st.Opening.N, t.epoch)
	}
	return t.own(h)
}

// own takes a batch of the lane. After compaction it may hold fewer records than it takes offsets and sequences.
func (t *tailer) own(h batch.Header) error {
	first, base, n := model.Unwrap(h.BaseSeq, t.count), h.BaseOffset, int64(h.LastOffsetDelta)+1
	if d := t.next - base; d > 0 { // it begins before the cursor
		first, base, n = first+d, base+d, n-d
	}
	t.missing(base)
	if !t.place(first - t.count) {
		return fmt.Errorf("%w: the batch at target offset %d is record %d of opening %d, expected record %d at offset %d or behind", ErrDiverged, h.BaseOffset, first, t.st.Opening.N, t.count, t.ownEnd)
	}
	t.land(first, base)
	t.count, t.next, t.ownEnd, t.unknown = first+n, h.Next(), h.Next(), nil
	return nil
}

// place says where the next records of the lane stood whose headers compaction or retention removed: in the last offsets that
// no header tells about. Where strangers' records were removed too there are more such offsets than records, and which is
// which cannot be told. It reports false when there are too few.
func (t *tailer) place(lost int64) bool {
	spare := -lost
	for _, r := range t.unknown {
		spare += r.N
	}
	if lost < 0 || spare < 0 {
		return false
	}
	for _, r := range t.unknown {
		skip := min(spare, r.N)
		spare -= skip
		if r.N > skip {
			t.land(t.count, r.Src+skip)
			t.count += r.N - skip
		}
	}
	return true
}

// land notes where a record stands, unless the line so far says the same.
func (t *tailer) land(count, dst int64) {
	line := t.base
	if len(t.landings) > 0 {
		line = t.landings
	}
	if LandDst(line, t.st.Opening.Origin, count) == dst && !t.restate {
		return
	}
	t.restate = false
	t.landings = append(t.landings, model.Landing{Count: count, Dst: dst})
}

func (t *tailer) result() Tailed {
	dst := t.ownEnd
	if t.stopped {
		dst = t.next
	}
	return Tailed{
		Cursor: t.st.At(t.count, dst), Landings: t.landings, Foreign: t.foreign,
		Records: t.count - t.st.Cursor.Count, End: t.next, Stopped: t.stopped,
	}
}
