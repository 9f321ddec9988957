package replicator

import (
	"context"
	"fmt"

	"lockstep/internal/model"
)

// stretch is a range [from, to) of target offsets that somebody else took while the lane wrote in a term.
type stretch struct {
	from, to int64
	term     model.Term
}

// inspect looks into target offsets [from, to) that appeared between two of our batches: a marker of ours is expected,
// data of ours means that the lane is not what it believes, and everything else came from a foreign writer. The lane
// goes on meanwhile: its landing has the true offsets. One look is under way at a time, and the next one takes all that
// came up since: a foreign writer may write as fast as we do. The caller holds l.mu.
func (m *Manager) inspect(l *lane, from, to int64) {
	l.strange = append(l.strange, stretch{from, to, l.term})
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
		l.stop(model.ReasonDiverged, err.Error())
		return
	}
	if foreign > 0 {
		m.foreign(l, ranges[0].from, ranges[len(ranges)-1].to, foreign)
	}
}

// between counts other writers' records in ranges of the target log, which are in order.
func (m *Manager) between(ctx context.Context, l *lane, ranges []stretch) (foreign int64, err error) {
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
		case len(rest) == 0 || h.BaseOffset < rest[0].from, h.Control(): // a batch that was answered, or a marker
		case h.PID == rest[0].term.PID && h.Epoch == rest[0].term.Epoch:
			return 0, fmt.Errorf("target offset %d holds a batch of this term (sequence %d) that was never answered", h.BaseOffset, h.BaseSeq)
		default:
			foreign += int64(h.Count)
		}
	}
	return foreign, nil
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
