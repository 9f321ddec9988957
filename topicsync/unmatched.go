package topicsync

import (
	"lockstep/config"
)

// unmatchedAfter is how many passes in a row a pattern has to match nothing before it is shown: topics come and go.
const unmatchedAfter = 2

// noteUnmatched counts the patterns of topics.include that match nothing in this pass.
func (s *Syncer) noteUnmatched(l *look) {
	misses := l.link.Unmatched(sorted(l.src.Topics))
	s.mu.Lock()
	defer s.mu.Unlock()
	now := make(map[string]int, len(misses))
	s.misses = nil
	for _, m := range misses {
		if now[m.Pattern] = s.nothing[m.Pattern] + 1; now[m.Pattern] >= unmatchedAfter {
			s.misses = append(s.misses, m)
		}
	}
	s.nothing = now
}

// Unmatched returns patterns of topics.include that match no topic of the source, with what they may have been meant for.
func (s *Syncer) Unmatched() []config.Unmatched {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.misses
}
