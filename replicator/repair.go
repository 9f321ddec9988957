package replicator

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"lockstep/internal/kafka"
	"lockstep/internal/model"
	"lockstep/replicator/batch"
)

// repair finds out what became of batches without a clear answer, for a group of lanes of one target broker. The lane
// still holds their bytes: what the log has is settled, the rest is sent again byte for byte, so that a late first copy
// and its repetition are one to the broker.
func (m *Manager) repair(ctx context.Context, lanes []*lane) {
	parts := make([]kafka.Part, len(lanes))
	for i, l := range lanes {
		parts[i] = l.dstPart()
	}
	ask, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	ends := m.dst.ListOffsets(ask, parts, kafka.AtEnd, false)
	for i, l := range lanes {
		end := ends[parts[i]]
		if end.Err != nil {
			m.laterErr(l, "ask the target leader for the log's end", end.Err)
			continue
		}
		m.repairLane(ctx, l, parts[i], end.Offset)
	}
}

func (m *Manager) repairLane(ctx context.Context, l *lane, p kafka.Part, end int64) {
	from, mine := l.mended()
	for h, err := range Headers(ctx, m.dst, p, from, end) {
		if errors.Is(err, kerr.OffsetOutOfRange) {
			l.resume(err) // what stood there was deleted: only an opening finds the position then
			return
		}
		if err != nil {
			m.laterErr(l, "read what landed", err)
			return
		}
		if err := l.mend(h, mine); err != nil {
			l.resume(err)
			return
		}
	}
	l.resume(nil)
}

// mended returns where a repair has to read from, and in which term the lane writes.
func (l *lane) mended() (int64, model.Term) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cursor.Dst, l.term
}

var (
	errEnded    = errors.New("the lane does not wait for this repair any more")
	errOutrun   = errors.New("a newer epoch stands in the target log")
	errNotOurs  = errors.New("the target holds other batches of this term than were sent")
	errMismatch = errors.New("source and target hold different records")
)

// mend settles the lane's oldest unsettled batch if h is it. Batches of others, and markers, only move offsets. A lane that
// was stopped and opened again while its log was read has other batches by now, which may look like those of before.
func (l *lane) mend(h batch.Header, t model.Term) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.PID != t.PID || h.Epoch < t.Epoch {
		return nil
	}
	if h.Epoch > t.Epoch {
		return errOutrun
	}
	if h.Control() {
		return nil
	}
	if l.verdict != mending || l.term != t {
		return errEnded
	}
	if len(l.out) == 0 || h.BaseSeq != model.Seq(l.out[0].count) || int64(h.Count) != l.out[0].n {
		return fmt.Errorf("%w: at target offset %d, sequence %d", errNotOurs, h.BaseOffset, h.BaseSeq)
	}
	o := l.out[0]
	l.out[0] = nil
	l.out = l.out[1:]
	l.landLocked(o, h.BaseOffset)
	return nil
}

// resume ends a repair: the lane sends on with a window of one, or needs a new term.
func (l *lane) resume(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.verdict != mending {
		return // stopped or drained meanwhile
	}
	l.verdict, l.proven = goOn, false
	switch {
	case errors.Is(err, errOutrun):
		l.verdict = fenced
	case err != nil:
		l.m.log.Warn("target log disagrees", "lane", l.id.String(), "error", err)
		l.verdict = reopen
	}
	l.m.wakeSender(l)
	l.turnLocked()
}
