package replicator

import (
	"context"
	"errors"
	"fmt"

	"lockstep/internal/model"
)

// stretch is a range [from, to) of target offsets that somebody else took, and what the lane was when it met them.
type stretch struct {
	from, to int64
	was      held
}

// inspect looks into target offsets [from, to) that appeared between two of our batches: a marker of ours is expected,
// data of ours, of whichever term, means that the lane is not what it believes, and so does something else in the place
// of the batch before. Everything else came from a foreign writer. The lane goes on meanwhile: its landing has the true
// offsets. One look is under way at a time, and the next one takes all that came up since: a foreign writer may write as
// fast as we do. The caller holds l.mu.
func (m *Manager) inspect(l *lane, from, to int64) {
	l.strange = append(l.strange, stretch{from, to, held{l.cursor, l.term, l.marker}})
	if l.inspecting {
		return
	}
	l.inspecting = true
	m.spawn(func(ctx context.Context) {
		for {
			ranges := l.takeStrange()
			if len(ranges) == 0 || ctx.Err() != nil {
				return
			}
			m.look(ctx, l, ranges)
		}
	})
}

// takeStrange hands out what is to be inspected, in order.
func (l *lane) takeStrange() []stretch {
	l.mu.Lock()
	defer l.mu.Unlock()
	ranges := l.strange
	l.strange, l.inspecting = nil, len(ranges) > 0
	return ranges
}

func (m *Manager) look(ctx context.Context, l *lane, ranges []stretch) {
	foreign, err := m.between(ctx, l, ranges)
	if err != nil {
		l.astray(ranges[0].was.term, err)
		return
	}
	if foreign > 0 {
		m.foreign(l, ranges[0].from, ranges[len(ranges)-1].to, foreign)
	}
}

// astray stops the lane because its log is not what it believes, unless it was opened in another term meanwhile: that began
// by reading the log.
func (l *lane) astray(t model.Term, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.term == t {
		l.stopLocked(model.ReasonDiverged, err.Error())
	}
}

// between counts other writers' records in ranges of the target log, which are in order.
func (m *Manager) between(ctx context.Context, l *lane, ranges []stretch) (foreign int64, err error) {
	if err := ranges[0].was.check(ctx, m.dst, l.dstPart(), ranges[0].to); errors.Is(err, errGone) {
		return 0, err
	}
	ours := m.producers(ranges[0].was.term)
	rest := ranges
	for h, err := range Headers(ctx, m.dst, l.dstPart(), ranges[0].from, ranges[len(ranges)-1].to) {
		if err != nil {
			m.log.Debug("inspect target log", "lane", l.id.String(), "error", err)
			for _, r := range rest {
				foreign += r.to - r.from // unknown: rather reported than passed over
			}
			return foreign, nil
		}
		for len(rest) > 0 && rest[0].to <= h.BaseOffset {
			rest = rest[1:]
		}
		switch {
		case len(rest) == 0:
		case h.Next() == rest[0].from: // the batch before the next stretch
			if err := rest[0].was.judge(h); err != nil {
				return 0, err
			}
		case h.BaseOffset < rest[0].from, h.Control():
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
		m.log.Warn("foreign writer on a mirror topic", "topic", l.dstPart().Topic, "partition", l.id.Partition,
			"dst_from", from, "dst_to", to, "records", records)
	}
}
