package main

import (
	"context"
	"maps"
	"slices"
	"time"

	"lockstep/api"
	"lockstep/checkpoint"
	"lockstep/internal/kafka"
	"lockstep/offsetsync"
)

// groupStands tells where groups stand: on the source as the service saw it last, on the target as it is now. A service
// that has not seen the source yet knows what the state topic was told.
func (l *link) groupStands(ctx context.Context, req api.TranslateRequest) ([]stand, error) {
	cfg := l.selection.Load()
	filter, err := cfg.Groups.Filter()
	if err != nil {
		return nil, err
	}
	pass, bases := l.groups.Last(), l.bases.All()
	if req.Reverse {
		known := make(map[string]bool, len(bases))
		for _, r := range pass.Rows {
			known[r.Group] = true
		}
		for name := range bases {
			known[name] = true
		}
		return standsNow(ctx, l.cfg.Name, l.dst, req, slices.Collect(maps.Keys(known)), filter.Target, l.view)
	}
	if pass.At.IsZero() && len(bases) > 0 {
		return standsOfBases(l.cfg.Name, bases, req, filter.Target)
	}
	return standsOfPass(l.cfg.Name, pass, req)
}

// standsNow asks a cluster where groups stand. known are the groups that there are, by their names on the source.
func standsNow(ctx context.Context, link string, c *kafka.Cluster, req api.TranslateRequest, known []string, rename func(string) string,
	view *offsetsync.View) ([]stand, error) {
	names := wantedGroups(req, known)
	there := slices.Clone(names)
	if req.Reverse {
		for i, name := range names {
			there[i] = rename(name)
		}
	}
	at := time.Now()
	return standsOfPicture(link, checkpoint.Reread(ctx, c, there), req, names, rename, linkKeys(view, req.Reverse), at)
}

// groupStands tells where groups stand: on the target as it is now, on the source too if it answers, and else as the state
// topic was told last.
func (o *offline) groupStands(ctx context.Context, name string, l *offlineLink, req api.TranslateRequest) ([]stand, error) {
	cfg := o.linkConfig(name)
	filter, err := cfg.Groups.Filter()
	if err != nil {
		return nil, err
	}
	bases := l.bases.All()
	known := slices.Collect(maps.Keys(bases))
	if req.Reverse {
		return standsNow(ctx, name, l.dst, req, known, filter.Target, l.view)
	}
	if src := o.sourceThatAnswers(ctx, cfg.Source); src != nil {
		return standsNow(ctx, name, src, req, known, filter.Target, l.view)
	}
	return standsOfBases(name, bases, req, filter.Target)
}

// sourcePatience is how long a source may take to say that it is there.
const sourcePatience = 5 * time.Second

// sourceThatAnswers returns the clients of a source, nil when it does not answer.
func (o *offline) sourceThatAnswers(ctx context.Context, cluster string) *kafka.Cluster {
	src, err := o.cluster(cluster)
	if err != nil {
		o.log.Warn("the source cannot be asked", "error", err)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, sourcePatience)
	defer cancel()
	if _, err := src.ID(ctx); err != nil {
		return nil
	}
	return src
}
