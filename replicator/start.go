package replicator

import (
	"context"
	"errors"
	"maps"
	"time"

	"lockstep/internal/kafka"
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

// positions asks the source's leaders for offsets of its logs as this link may read them: at[i], a special offset or a time
// stamp, is for parts[i]. A time behind every record gives the log's end.
func (m *Manager) positions(ctx context.Context, parts []kafka.Part, at []int64) map[kafka.Part]kafka.Offset {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	alike := make(map[int64][]kafka.Part)
	out := make(map[kafka.Part]kafka.Offset, len(parts))
	for i, p := range parts {
		alike[at[i]] = append(alike[at[i]], p)
		out[p] = kafka.Offset{Offset: -1, Err: errors.New("no answer")}
	}
	var behind []kafka.Part
	for at, parts := range alike {
		for p, o := range m.src.ListOffsets(ctx, parts, at, !m.opt.ReadUncommitted) {
			if out[p] = o; o.Err == nil && o.Offset < 0 {
				behind = append(behind, p)
			}
		}
	}
	if len(behind) > 0 {
		maps.Copy(out, m.src.ListOffsets(ctx, behind, kafka.AtEnd, !m.opt.ReadUncommitted))
	}
	return out
}
