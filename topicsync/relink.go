package topicsync

import (
	"context"
	"fmt"
	"slices"

	"lockstep/config"
)

// Narrow takes back what the link will not select after a change: it returns when the lanes of those topics have ended.
// Until SetLink, only topics are copied that both the present link and next select, so that a topic that moves from one
// link to another is never copied by both. The error says that a pass was still under way when ctx ended; the next
// pass ends the lanes then.
func (s *Syncer) Narrow(ctx context.Context, next config.Link) error {
	s.mu.Lock()
	s.next, s.changed = &next, true
	s.mu.Unlock()
	select {
	case s.pass <- struct{}{}:
		defer func() { <-s.pass }()
	case <-ctx.Done():
		return fmt.Errorf("wait for a pass over the topics: %w", context.Cause(ctx))
	}
	s.leave(ctx)
	return nil
}

// SetLink takes over a changed link, and what all links are now. Name, source, target, isolation and renaming stay as they
// are. A pass begins at once, and asks again for what the target refused before.
func (s *Syncer) SetLink(link config.Link, links []config.Link) {
	s.mu.Lock()
	if s.before == nil { // else no pass has seen the link that is replaced now
		was := s.link
		s.before = &was
	}
	s.link, s.links, s.next, s.changed = link, slices.Clone(links), nil, true
	for _, t := range s.topics {
		t.retry = retry{}
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// newLook begins a pass with the settings of this moment.
func (s *Syncer) newLook() *look {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &look{link: s.link, links: s.links, next: s.next, errs: make(map[string]error)}
}

// leave ends the lanes of topics that are not selected any more.
func (s *Syncer) leave(ctx context.Context) {
	topics := s.leaving()
	if len(topics) == 0 {
		return
	}
	s.log.Info("topics are not selected any more", "topics", len(topics))
	s.o.Lanes.Leave(ctx, topics)
}

// leaving returns the topics with lanes that are not selected any more, and forgets what was known of their copies.
func (s *Syncer) leaving() (topics []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.changed {
		return nil
	}
	s.changed = false
	for name, t := range s.topics {
		has := len(t.offered) > 0 || t.lost || t.status.State == TopicSourceDeleted
		if !has || selects(s.link, name) && (s.next == nil || selects(*s.next, name)) {
			continue
		}
		clear(t.offered)
		t.lost, t.retry = false, retry{}
		t.status = TopicStatus{}
		topics = append(topics, name)
	}
	slices.Sort(topics)
	return topics
}

func selects(link config.Link, topic string) bool {
	ok, _ := link.Selects(topic)
	return ok
}
