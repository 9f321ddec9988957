package topicsync

import "context"

// Look makes a pass that changes nothing and offers nothing: Topics and Scope tell afterwards what both sides have. Lanes
// that Options.Known knows with the topics that stand there now count as offered.
func (s *Syncer) Look(ctx context.Context) error {
	l, err := s.observe(ctx)
	if err != nil {
		return err
	}
	for _, w := range l.wanted {
		id, ok := w.Identity()
		if !ok || s.o.Known == nil {
			continue
		}
		for _, p := range w.Src.Parts {
			if was, ok := s.o.Known(s.lane(w, p.Partition)); ok && was == id {
				s.with(w.Src.Name, func(t *topic) { t.offered[p.Partition] = id })
			}
		}
	}
	s.keepScope(l)
	s.publish(l)
	return nil
}
