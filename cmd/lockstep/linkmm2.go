package main

import (
	"context"
	"time"

	"lockstep/api"
	"lockstep/checkpoint/mm2"
	"lockstep/config"
)

// newMirror prepares what the link writes for readers of MirrorMaker 2; nil when that is not asked for.
func (l *link) newMirror(cfg config.Link) *mm2.Writer {
	if !cfg.MirrorMaker.Topics {
		return nil
	}
	names := mm2.Names{Source: cfg.Source, Target: cfg.Target, Separator: cfg.MirrorMaker.Separator}
	copied := func() bool {
		dst, ok := l.selects(names.Heartbeats())
		return ok && dst == names.RemoteHeartbeats()
	}
	return mm2.New(mm2.Options{
		Names: names, Src: l.src, Dst: l.dst, SyncsOnSource: cfg.MirrorMaker.OffsetSyncs == "source",
		HeartbeatsCopied: copied, Logger: l.log,
	})
}

// keepMirror writes for readers of MirrorMaker 2 until ctx ends.
func (l *link) keepMirror(ctx context.Context) {
	if l.mirror == nil {
		return
	}
	if err := l.mirror.Run(ctx); err != nil {
		l.log.Error("nothing is written for readers of MirrorMaker 2", "error", err)
	}
}

// mirrorProblems are the topics for readers of MirrorMaker 2 that have not been in sync for long.
func (l *link) mirrorProblems(now time.Time) (out []api.TopicProblem) {
	if l.mirror == nil {
		return nil
	}
	for _, s := range l.mirror.Status() {
		if s.Err != nil && now.Sub(s.Since) > waitsLong {
			out = append(out, api.TopicProblem{Topic: s.Topic, State: api.TopicNotInSync, Detail: s.Err.Error(),
				Remedy: "by itself, when the cluster takes writes to it again; missing permissions (create, describe, read, write) are to be given"})
		}
	}
	return out
}
