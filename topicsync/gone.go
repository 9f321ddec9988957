package topicsync

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"lockstep/internal/kafka"
	"lockstep/internal/model"
)

// goneAfter is how many answers in a row have to lack a topic before its lanes end.
const goneAfter = 2

// gone ends the lanes of topics that are gone on the source or on the target.
func (s *Syncer) gone(ctx context.Context, l *look) {
	s.endLanes(ctx, s.o.Src, s.srcMissing(l), model.ReasonSourceDeleted)
	s.endLanes(ctx, s.o.Dst, s.dstMissing(l), model.ReasonTargetLost)
}

// srcMissing returns offered topics that the source's answer lacks, by themselves. Those that it has count anew.
func (s *Syncer) srcMissing(l *look) map[string]string {
	missing := make(map[string]string)
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, t := range s.topics {
		if src, ok := l.src.Topics[name]; ok && !errors.Is(src.Err, kerr.UnknownTopicOrPartition) {
			t.srcMissing = 0
		} else if len(t.offered) > 0 || t.status.State != TopicSourceDeleted {
			missing[name] = name
		}
	}
	return missing
}

// dstMissing returns offered topics that the target's answer lacks, by their source name.
func (s *Syncer) dstMissing(l *look) map[string]string {
	missing := make(map[string]string)
	for _, w := range l.wanted {
		s.with(w.Src.Name, func(t *topic) {
			if w.Exists {
				t.dstMissing = 0
			} else if len(t.offered) > 0 {
				missing[w.Dst.Name] = w.Src.Name
			}
		})
	}
	return missing
}

// endLanes counts topics that a cluster lacks, and ends their lanes when it lacked them often enough. Keys of missing
// are the cluster's names, values the source's.
func (s *Syncer) endLanes(ctx context.Context, c *kafka.Cluster, missing map[string]string, why model.Reason) {
	var lanes []model.Lane
	for _, name := range unknown(ctx, c, sorted(missing)) {
		lanes = append(lanes, s.countMissing(missing[name], why)...)
	}
	if len(lanes) == 0 {
		return
	}
	slices.SortFunc(lanes, model.Lane.Compare)
	s.log.Warn("topics are gone", "cluster", c.Name(), "lanes", len(lanes), "reason", why)
	s.o.Lanes.Gone(ctx, lanes, why)
}

// unknown returns those of the names of which the cluster says that they do not exist. An answer with all topics is not
// enough: it leaves out those that a client may not describe any more.
func unknown(ctx context.Context, c *kafka.Cluster, names []string) []string {
	if len(names) == 0 {
		return nil // would ask for all
	}
	meta, err := c.Metadata(ctx, names...)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(names, func(name string) bool {
		return !errors.Is(meta.Topics[name].Err, kerr.UnknownTopicOrPartition)
	})
}

// countMissing counts one more answer without a topic, and returns the lanes that end by it.
func (s *Syncer) countMissing(name string, why model.Reason) (lanes []model.Lane) {
	s.with(name, func(t *topic) {
		count := &t.srcMissing
		if why == model.ReasonTargetLost {
			count = &t.dstMissing
		}
		if *count++; *count < goneAfter {
			return
		}
		for p := range t.offered {
			lanes = append(lanes, model.Lane{Link: s.o.Link.Name, Topic: name, Partition: p})
		}
		clear(t.offered)
		if why == model.ReasonTargetLost {
			t.lost = true
			return
		}
		if t.status.State == TopicSkipped || len(lanes) == 0 {
			delete(s.topics, name)
			return
		}
		t.status.State, t.status.Since = TopicSourceDeleted, time.Now()
		t.status.Ready, t.status.Err, t.status.Detail = 0, nil, "the source topic is gone; the target keeps its copy"
		t.status.Remedy = ""
	})
	return lanes
}

// sorted returns a map's keys in order.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
