package replicator

import (
	"context"
	"errors"
	"time"

	"lockstep/internal/kafka"
	"lockstep/internal/model"
)

// Start is where lanes begin that were never copied: at the log's start, at its end, or at the first record that is
// not older than a moment. Partitions that appear later begin at their start in any case.
type Start struct {
	Latest bool
	At     time.Time // used when not zero
}

// offset returns the special offset or the time stamp that asks a leader for the start position.
func (s Start) offset(born bool) int64 {
	switch {
	case born:
		return kafka.AtStart
	case s.Latest:
		return kafka.AtEnd
	case !s.At.IsZero():
		return s.At.UnixMilli()
	}
	return kafka.AtStart
}

// startOffsets asks the source's leaders where new lanes begin.
func (m *Manager) startOffsets(ctx context.Context, es []*entry) map[model.Lane]kafka.Offset {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	ask := make(map[int64][]*entry)
	from := m.tuning().Start
	for _, e := range es {
		at := from.offset(e.born)
		ask[at] = append(ask[at], e)
	}
	out := make(map[model.Lane]kafka.Offset, len(es))
	for at, group := range ask {
		parts := make([]kafka.Part, len(group))
		for i, e := range group {
			parts[i] = e.lane.srcPart()
		}
		got := m.src.ListOffsets(ctx, parts, at, !m.opt.ReadUncommitted)
		for i, e := range group {
			out[e.lane.id] = got[parts[i]]
		}
		if at >= 0 {
			m.behindTheEnd(ctx, group, out)
		}
	}
	return out
}

// behindTheEnd replaces "no record is that young" by the log's end.
func (m *Manager) behindTheEnd(ctx context.Context, es []*entry, out map[model.Lane]kafka.Offset) {
	for _, e := range es {
		if o := out[e.lane.id]; o.Err == nil && o.Offset < 0 {
			p := e.lane.srcPart()
			got, ok := m.src.ListOffsets(ctx, []kafka.Part{p}, kafka.AtEnd, !m.opt.ReadUncommitted)[p]
			if !ok {
				got.Err = errors.New("no answer")
			}
			out[e.lane.id] = got
		}
	}
}
