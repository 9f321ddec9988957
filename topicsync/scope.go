package topicsync

import (
	"maps"
	"slices"
	"strings"

	"lockstep/internal/kafka"
	"lockstep/topicsync/drift"
)

// Scope returns what the newest pass saw of the topics that the link copies, for those who look after more than their
// names; false before the first pass.
func (s *Syncer) Scope() (drift.Scope, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		return drift.Scope{}, false
	}
	out := *s.seen
	out.Link = s.link
	return out, true
}

// scopeOf takes a scope out of a look.
func scopeOf(l *look) drift.Scope {
	s := drift.Scope{Link: l.link}
	ours := make(map[string]bool, len(l.wanted))
	for _, w := range l.wanted {
		ours[w.Dst.Name] = true
		if !w.Exists || w.Src.Err != nil || w.Dst.Err != nil || l.errs[w.Src.Name] != nil {
			continue
		}
		s.Topics = append(s.Topics, drift.Topic{Src: w.Src.Name, Dst: w.Dst.Name, SrcID: w.Src.ID, DstID: w.Dst.ID,
			Partitions: len(w.Src.Parts), DstPartitions: len(w.Dst.Parts), Replicas: replicas(w.Src), DstReplicas: replicas(w.Dst)})
	}
	for _, name := range slices.Sorted(maps.Keys(l.dst.Topics)) {
		if !ours[name] && !own(l.dst.Topics[name]) {
			s.Foreign = append(s.Foreign, name)
		}
	}
	return s
}

// own reports whether a topic is the brokers', lockstep's or MirrorMaker 2's.
func own(t kafka.TopicMeta) bool {
	return t.Internal || strings.HasPrefix(t.Name, "__") || strings.HasPrefix(t.Name, "lockstep.") || strings.HasPrefix(t.Name, "mm2-") ||
		strings.HasSuffix(t.Name, ".internal") || strings.HasSuffix(t.Name, "heartbeats")
}
