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
	return *s.seen, true
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
		switch {
		case ours[name]:
		case own(l.dst.Topics[name]):
			s.Own = append(s.Own, name)
		default:
			s.Foreign = append(s.Foreign, name)
		}
	}
	return s
}

// own reports whether a topic is the brokers' or lockstep's.
func own(t kafka.TopicMeta) bool {
	return t.Internal || strings.HasPrefix(t.Name, "__") || strings.HasPrefix(t.Name, "lockstep.")
}
