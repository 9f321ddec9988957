package topicsync

import (
	"context"

	"lockstep/topicsync/drift"
)

// Look asks both clusters once, as a pass does, and changes nothing. It returns what the link copies and both sides have,
// and every source topic; a topic counts as copied as far as Known tells lanes that joined its present topics. The error
// says that a cluster could not be asked. Of o, Lanes, Journal and Open are not used.
func Look(ctx context.Context, o Options) (drift.Scope, []TopicStatus, error) {
	s := New(o)
	l, err := s.observe(ctx)
	if err != nil {
		return drift.Scope{}, nil, err
	}
	for _, w := range l.wanted {
		if !w.Exists && s.existed(w) {
			l.fail(w.Src.Name, errTargetLost)
		}
		s.with(w.Src.Name, func(t *topic) {
			id, ok := w.Identity()
			for _, p := range w.Src.Parts {
				if known, joined := s.o.Known(s.lane(w, p.Partition)); ok && joined && known == id {
					t.offered[p.Partition] = id
				}
			}
		})
	}
	s.publish(l)
	return scopeOf(l), s.Topics(), nil
}
