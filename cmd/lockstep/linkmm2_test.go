package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/api"
	"lockstep/config"
	"lockstep/internal/kafka"
	"lockstep/internal/kafkatest"
)

func mirrorTopicsOf(m config.MirrorMaker) []string {
	l := &link{log: slog.New(slog.DiscardHandler)}
	w := l.newMirror(config.Link{Source: "primary", Target: "backup", MirrorMaker: m})
	if w == nil {
		return nil
	}
	var topics []string
	for _, s := range w.Status() {
		topics = append(topics, s.Topic)
	}
	return topics
}

func TestMirror_TopicsByTheConfiguration(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		conf config.MirrorMaker
		want []string
	}{
		{config.MirrorMaker{OffsetSyncs: "target", Separator: "."}, nil},
		{config.MirrorMaker{Topics: true, OffsetSyncs: "target", Separator: "."},
			[]string{"primary.checkpoints.internal", "mm2-offset-syncs.primary.internal", "heartbeats", "primary.heartbeats"}},
		{config.MirrorMaker{Topics: true, OffsetSyncs: "source", Separator: "_"},
			[]string{"primary_checkpoints_internal", "mm2-offset-syncs_backup_internal", "heartbeats", "primary_heartbeats"}},
	} {
		if diff := cmp.Diff(c.want, mirrorTopicsOf(c.conf)); diff != "" {
			t.Errorf("%+v: %s", c.conf, diff)
		}
	}
}

// What cannot be written shows as a problem of the link, once it lasts.
func TestMirror_ProblemsShow(t *testing.T) {
	t.Parallel()
	dead, err := kafka.Dial(config.Cluster{Name: "backup", Brokers: []string{"127.0.0.1:1"}}, kafka.Options{Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer dead.Close()
	l := &link{log: slog.New(slog.DiscardHandler), src: dead, dst: dead}
	cfg := config.Link{Source: "primary", Target: "backup", MirrorMaker: config.MirrorMaker{Topics: true}}
	l.setSelection(cfg)
	l.mirror = l.newMirror(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); l.keepMirror(ctx) }()
	defer func() { cancel(); <-done }()
	kafkatest.Eventually(t, 30*time.Second, func() (bool, string) {
		ps := l.mirrorProblems(time.Now().Add(2 * waitsLong))
		bad := slices.ContainsFunc(ps, func(p api.TopicProblem) bool {
			return p.State != api.TopicNotInSync || p.Detail == "" || p.Remedy == ""
		})
		return len(ps) == 4 && !bad, fmt.Sprintf("%+v", ps)
	})
	if ps := l.mirrorProblems(time.Now().Add(-waitsLong)); len(ps) > 0 {
		t.Errorf("what is only young shows: %+v", ps)
	}
}
