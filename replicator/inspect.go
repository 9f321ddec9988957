package replicator

import (
	"context"
	"errors"
	"fmt"

	"lockstep/internal/model"
)

// inspect looks into target offsets [from, to) that appeared between two of our batches: a marker of ours is expected,
// data of ours, of whichever term, means that the lane is not what it believes, and so does something else in the place
// of the batch before. Everything else came from a foreign writer. The lane goes on meanwhile: its landing has the true
// offsets. The caller holds l.mu.
func (m *Manager) inspect(l *lane, from, to int64) {
	was := held{l.cursor, l.term, l.marker}
	m.spawn(func(ctx context.Context) {
		foreign, err := m.between(ctx, l, was, from, to)
		if err != nil {
			l.stop(model.ReasonDiverged, err.Error())
			return
		}
		if foreign > 0 {
			m.foreign(l, from, to, foreign)
		}
	})
}

// between counts other writers' records in a range of the target log.
func (m *Manager) between(ctx context.Context, l *lane, was held, from, to int64) (foreign int64, err error) {
	if err := was.check(ctx, m.opt.Target, l.dstPart(), to); errors.Is(err, errGone) {
		return 0, err
	}
	ours := m.producers(was.term)
	for h, err := range Headers(ctx, m.opt.Target, l.dstPart(), from, to) {
		switch {
		case err != nil:
			m.log.Debug("inspect target log", "lane", l.id.String(), "error", err)
			return to - from, nil // unknown: rather reported than passed over
		case h.Control():
		case ours[h.PID]:
			return 0, fmt.Errorf("target offset %d holds a batch of this link's producer %d, epoch %d, sequence %d, that this term did not send",
				h.BaseOffset, h.PID, h.Epoch, h.BaseSeq)
		default:
			foreign += int64(h.Count)
		}
	}
	return foreign, nil
}

// producers are the ids that this link is known to have written with.
func (m *Manager) producers(ts ...model.Term) map[int64]bool {
	ids := make(map[int64]bool)
	for _, t := range append(ts, m.view.Terms()...) {
		ids[t.PID] = true
	}
	return ids
}

// foreign reports records that somebody else wrote into a mirror partition: counted always, logged once per lane.
func (m *Manager) foreign(l *lane, from, to, records int64) {
	m.metrics.foreign.WithLabelValues(m.opt.Link, l.id.Topic).Add(float64(records))
	l.mu.Lock()
	first := !l.foreignSeen
	l.foreignSeen = true
	l.mu.Unlock()
	if first {
		m.log.Warn("foreign writer on a mirror topic", "topic", l.ident.DstTopic, "partition", l.id.Partition,
			"dst_from", from, "dst_to", to, "records", records)
	}
}
