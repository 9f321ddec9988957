package topicsync

import (
	"context"
	"time"

	"lockstep/internal/kafka"
	"lockstep/internal/model"
)

// readyTimeout bounds asking leaders in one pass: a broker that hangs must not hold back new topics on others.
const readyTimeout = 3 * time.Second

// offer hands over every lane that is new or has another identity than before and whose target leader answers. From
// the moment that ListOffsets at the leader answers, produce is accepted there; metadata names a new topic's leader up
// to 0.2 s earlier.
func (s *Syncer) offer(ctx context.Context, l *look) {
	candidates := s.candidates(l)
	if len(candidates) == 0 {
		return
	}
	answering := s.answering(ctx, l, candidates)
	if len(answering) == 0 {
		return
	}
	ready := s.withLimits(ctx, answering)
	if err := s.o.Lanes.Offer(ctx, s.o.Link.Name, ready); err != nil {
		for _, r := range ready {
			l.fail(r.Lane.Topic, err)
		}
		return
	}
	for _, r := range ready {
		s.with(r.Lane.Topic, func(t *topic) { t.offered[r.Lane.Partition] = r.Identity })
	}
	s.log.Debug("offered lanes", "lanes", len(ready))
}

// candidates returns the lanes that both sides have and that were not offered yet, by target partition.
func (s *Syncer) candidates(l *look) map[kafka.Part]Ready {
	out := make(map[kafka.Part]Ready)
	for _, w := range l.wanted {
		id, ok := w.Identity()
		if !ok || w.Src.Err != nil || w.Dst.Err != nil {
			continue
		}
		for _, p := range w.Src.Parts {
			if int(p.Partition) >= len(w.Dst.Parts) || s.wasOffered(w.Src.Name, p.Partition, id) {
				continue
			}
			part := kafka.Part{Topic: w.Dst.Name, ID: w.Dst.ID, Partition: p.Partition}
			born, chosen := s.born(w.Src, p.Partition)
			out[part] = Ready{Lane: s.lane(w, p.Partition), Identity: id, BornAfterStart: born, Chosen: chosen}
		}
	}
	return out
}

func (s *Syncer) wasOffered(name string, partition int32, id model.Identity) (was bool) {
	s.with(name, func(t *topic) { was = t.offered[partition] == id })
	return was
}

// answering returns the candidates whose leader answers ListOffsets, asked by one request per leader, and those that
// this link has copied before: they wait for their leader as lanes, which are seen and counted.
func (s *Syncer) answering(ctx context.Context, l *look, candidates map[kafka.Part]Ready) []Ready {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	parts := make([]kafka.Part, 0, len(candidates))
	for part := range candidates {
		parts = append(parts, part)
	}
	var out []Ready
	for part, end := range s.o.Dst.ListOffsets(ctx, parts, kafka.AtEnd, false) {
		c := candidates[part]
		if end.Err != nil && !s.copiedBefore(c) {
			l.fail(c.Lane.Topic, topicError("ask the leaders of", part.Topic, s.o.Dst.Name(), "Describe", end.Err))
			continue
		}
		out = append(out, c)
	}
	return out
}

// copiedBefore reports whether an earlier run joined the very two topics of a lane.
func (s *Syncer) copiedBefore(r Ready) bool {
	if s.o.Known == nil {
		return false
	}
	id, ok := s.o.Known(r.Lane)
	return ok && id == r.Identity
}

// withLimits adds what the target topics accept. Where that may not be read, the lane goes along without: the broker
// refuses what does not fit.
func (s *Syncer) withLimits(ctx context.Context, ready []Ready) []Ready {
	names := make(map[string]struct{})
	for _, r := range ready {
		names[r.Identity.DstTopic] = struct{}{}
	}
	limits, errs := ReadLimits(ctx, s.o.Dst, sorted(names))
	for name, err := range errs {
		s.log.Warn("limits of target topic not known", "dst_topic", name, "error", err)
	}
	for i := range ready {
		ready[i].Limits = limits[ready[i].Identity.DstTopic]
	}
	return ready
}
