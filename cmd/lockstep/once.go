package main

import (
	"context"
	"fmt"
	"time"

	"lockstep/internal/kafka"
	"lockstep/internal/model"
	"lockstep/topicsync"
)

// copyOnce copies what the source holds now: the ends are taken after every lane is known, and it returns when all of
// them have been reached. Lanes that cannot be copied make it partly done.
func (l *link) copyOnce(ctx context.Context) error {
	if err := l.syncer.Once(ctx); err != nil {
		return err
	}
	l.ready.Store(true)
	if err := l.keeper.Once(ctx); err != nil {
		return err
	}
	ends, err := l.presentEnds(ctx)
	if err != nil {
		return err
	}
	failed := l.failedTopics()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		done, stopped := l.manager.Reached(ends)
		if done {
			if err := l.syncGroupsOnce(ctx); err != nil {
				return &exitError{exitPartly, err}
			}
			if n := len(stopped) + failed; n > 0 {
				return &exitError{exitPartly, fmt.Errorf("%d lanes or topics could not be copied: lockstep's log and status name them", n)}
			}
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return &exitError{exitPartly, fmt.Errorf("interrupted before everything was copied")}
		}
	}
}

// presentEnds asks the source's leaders how far each lane can be read now.
func (l *link) presentEnds(ctx context.Context) (map[model.Lane]int64, error) {
	var parts []kafka.Part
	for _, s := range l.manager.Status().Lanes {
		parts = append(parts, kafka.Part{Topic: s.Topic, Partition: s.Partition})
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	ends := make(map[model.Lane]int64, len(parts))
	for p, o := range l.src.ListOffsets(ctx, parts, kafka.AtEnd, l.cfg.Isolation != "read_uncommitted") {
		if o.Err != nil {
			return nil, fmt.Errorf("ask the end of %s: %w", p, o.Err)
		}
		ends[model.Lane{Link: l.cfg.Name, Topic: p.Topic, Partition: p.Partition}] = o.Offset
	}
	return ends, nil
}

// failedTopics counts topics that should be copied and are not.
func (l *link) failedTopics() (n int) {
	for _, t := range l.syncer.Topics() {
		switch t.State {
		case topicsync.TopicFailed, topicsync.TopicWaiting, topicsync.TopicTargetLost:
			l.log.Error("topic not copied", "topic", t.Topic, "state", t.State, "detail", t.Detail, "remedy", t.Remedy)
			n++
		case topicsync.TopicCopied, topicsync.TopicSkipped, topicsync.TopicSourceDeleted:
		}
	}
	return n
}
