package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/checkpoint"
	"lockstep/checkpoint/mm2"
	"lockstep/config"
	"lockstep/internal/kafka"
	"lockstep/internal/model"
	"lockstep/internal/pause"
	"lockstep/internal/statelog"
	"lockstep/internal/when"
	"lockstep/offsetsync"
	"lockstep/replicator"
	"lockstep/replicator/batch"
	"lockstep/topicsync"
	"lockstep/topicsync/configs"
	"lockstep/topicsync/trim"
)

// link is one configured link of a running node.
type link struct {
	cfg      config.Link // as it began; what may change while it runs is kept by who uses it
	log      *slog.Logger
	src, dst *kafka.Cluster
	clients  *clients
	state    *statelog.Log
	view     *offsetsync.View
	manager  *replicator.Manager
	syncer   *topicsync.Syncer
	configs  *configs.Part
	keeper   *topicsync.Keeper
	trimmer  *trim.Trimmer
	groups   *checkpoint.Syncer
	mirror   *mm2.Writer // nil: nothing is written for readers of MirrorMaker 2
	bases    *checkpoint.Bases
	history  *checkpoint.History
	alarms   *checkpoint.Alarms
	young    bool                   // the link existed before this process: topics that appear now are younger than it
	ready    atomic.Bool            // the first pass over the topics is done
	waits    atomic.Pointer[string] // why it is not, as far as that is known

	selection atomic.Pointer[config.Link] // which topics are selected now
}

// newLink prepares a link of a configuration. It asks no broker.
func (n *node) newLink(cfg config.Link, all *config.Config, how runMode) (_ *link, err error) {
	l := &link{cfg: cfg, log: n.log.With("link", cfg.Name), clients: n.clients}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	if l.src, err = n.clients.take(all.Clusters[cfg.Source]); err != nil {
		return nil, err
	}
	if l.dst, err = n.clients.take(all.Clusters[cfg.Target]); err != nil {
		return nil, err
	}
	tuning, err := tuningOf(cfg)
	if err != nil {
		return nil, err
	}
	l.state = statelog.New(l.dst, cfg.Name, statelog.Options{Logger: n.log})
	l.view = offsetsync.NewView(l.state)
	l.manager, err = replicator.New(replicator.Options{
		Link: cfg.Name, Source: l.src, Target: l.dst, Log: l.state, View: l.view, Owner: n.home.ID, Process: n.process,
		Budget: n.budget, Metrics: n.metrics, ReadUncommitted: cfg.Isolation == "read_uncommitted",
		Limits: l.limits, Remake: l.remake, Tuning: tuning, Rack: l.src.Rack(), Logger: n.log,
		TakeOver: how.takeOver, Wait: how.wait,
	})
	if err != nil {
		return nil, err
	}
	if err := l.newGroups(cfg); err != nil {
		return nil, err
	}
	l.newTopics(cfg, all, n.log)
	return l, nil
}

// retune takes over settings that change while lanes copy.
func (l *link) retune(cfg config.Link, all []config.Link) error {
	tuning, err := tuningOf(cfg)
	if err != nil {
		return err
	}
	if err := l.retuneGroups(cfg); err != nil {
		return err
	}
	l.manager.Tune(tuning)
	l.syncer.SetLink(cfg, all)
	l.configs.Forget()
	l.keeper.Wake()
	return nil
}

func tuningOf(cfg config.Link) (replicator.Tuning, error) {
	start, err := startOf(cfg.Start)
	return replicator.Tuning{Start: start, PauseOnGap: cfg.OnGap == "pause", BytesPerSecond: cfg.Limits.BytesPerSecond}, err
}

func startOf(s string) (replicator.Start, error) {
	switch s {
	case "", "earliest":
		return replicator.Start{}, nil
	case "latest":
		return replicator.Start{Latest: true}, nil
	}
	at, err := when.Parse(s, time.Now())
	if err != nil {
		return replicator.Start{}, fmt.Errorf("parse start: %w", err)
	}
	return replicator.Start{At: at}, nil
}

// close frees what the link holds, also one that was made in part only.
func (l *link) close() {
	if l.state != nil {
		l.state.Close()
	}
	l.clients.give(l.src)
	l.clients.give(l.dst)
}

// run reads the state, takes the link and copies until ctx ends.
func (l *link) run(ctx, hard context.Context, once bool) error {
	if err := l.prepare(ctx, once); err != nil || ctx.Err() != nil {
		return l.wrap(err)
	}
	// The view ends after the copying, which needs it to the last. Without it the copying ends: whoever does not see the
	// state topic does not see either that the link became another one's.
	following, stopFollowing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopFollowing()
	copying, stopCopying := context.WithCancel(ctx)
	defer stopCopying()
	var g errgroup.Group
	g.Go(func() error {
		defer stopCopying()
		if err := l.view.Run(following); following.Err() == nil {
			return fmt.Errorf("follow the state topic: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		defer stopFollowing()
		return l.copy(copying, hard, once)
	})
	return l.wrap(g.Wait())
}

// prepare checks both clusters and the state topic. A service waits for clusters that do not answer; with once it gives
// up.
func (l *link) prepare(ctx context.Context, once bool) error {
	for said := ""; ; {
		err := l.check(ctx)
		if err == nil {
			err = refusedState(l.state.Ensure(ctx))
		}
		if action, _ := kafka.Classify(err); err == nil || once || isRefusal(err) || action == kafka.Stop {
			return err
		}
		if err.Error() != said && ctx.Err() == nil {
			said = err.Error()
			l.log.Warn("link cannot start yet", "error", err)
		}
		l.waits.Store(&said)
		if !pause.For(ctx, retryEvery) {
			return nil
		}
	}
}

// retryEvery is the pause between two looks at a cluster that does not answer.
const retryEvery = 2 * time.Second

func isRefusal(err error) bool {
	var e *exitError
	return errors.As(err, &e) && e.code == exitRefused
}

func (l *link) wrap(err error) error {
	var owned *replicator.OwnedError
	if err == nil || errors.As(err, &owned) { // which names the link
		return err
	}
	return fmt.Errorf("link %s: %w", l.cfg.Name, err)
}

// copy runs the copy plane and the topics side by side.
func (l *link) copy(until, hard context.Context, once bool) error {
	if err := l.view.Barrier(until); err != nil {
		if until.Err() != nil {
			return nil // stopped before it began
		}
		return fmt.Errorf("read the state topic: %w", err)
	}
	_, claimed := l.view.Claim()
	l.young = claimed
	until, stop := context.WithCancel(until)
	defer stop()
	var g errgroup.Group
	g.Go(func() error {
		defer stop()
		err := l.manager.Run(until, hard)
		if errors.Is(err, context.Canceled) && until.Err() != nil {
			return nil // stopped before the link was ours
		}
		return ownership(err)
	})
	g.Go(func() error {
		select {
		case <-l.manager.Owned():
		case <-until.Done():
			return nil
		}
		if once {
			defer stop()
			return l.copyOnceFrom(until)
		}
		var groups sync.WaitGroup
		defer groups.Wait()
		groups.Go(func() { l.keepGroups(until) })
		groups.Go(func() { l.keepMirror(until) })
		groups.Go(func() { l.keepSettings(until) })
		groups.Go(func() { l.trimMirrors(until) })
		err := l.keepTopics(until)
		if err != nil {
			stop() // copying without anybody who watches the topics would look well, whatever became of them
		}
		return clusterChanged(err)
	})
	return g.Wait()
}

// clusterChanged gives the end of a link whose clusters are not those that it began with its exit code.
func clusterChanged(err error) error {
	if errors.Is(err, topicsync.ErrClusterChanged) {
		return refused(fmt.Errorf("%w; the next start looks at both sides anew", err))
	}
	return err
}

// ownership gives a refusal to run its exit code.
func ownership(err error) error {
	var owned *replicator.OwnedError
	if errors.As(err, &owned) {
		return refused(err)
	}
	return err
}

func refusedState(err error) error {
	var wrong *statelog.SettingsError
	if errors.As(err, &wrong) {
		return refused(err)
	}
	return err
}

// check makes sure that both sides answer and are two clusters.
func (l *link) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	src, err := l.src.ID(ctx)
	if err != nil {
		return fmt.Errorf("reach cluster %s: %w", l.cfg.Source, err)
	}
	dst, err := l.dst.ID(ctx)
	if err != nil {
		return fmt.Errorf("reach cluster %s: %w", l.cfg.Target, err)
	}
	if src == dst {
		return refused(fmt.Errorf("clusters %s and %s are one and the same cluster (%s): check their brokers, and what the brokers advertise",
			l.cfg.Source, l.cfg.Target, src))
	}
	return errors.Join(supports(ctx, l.src, kafka.SourceNeeds()), supports(ctx, l.dst, kafka.TargetNeeds()))
}

// supports refuses a cluster with a broker that is too old, before anything of it is used.
func supports(ctx context.Context, c *kafka.Cluster, needs []kafka.Need) error {
	err := c.Supports(ctx, needs)
	var old *kafka.UnsupportedBrokerError
	if errors.As(err, &old) {
		return refused(err)
	}
	return err
}

// Offer implements topicsync.Lanes.
func (l *link) Offer(_ context.Context, _ string, ready []topicsync.Ready) error {
	as := make([]replicator.Assignment, len(ready))
	for i, r := range ready {
		as[i] = replicator.Assignment{Lane: r.Lane, Identity: r.Identity, Limits: r.Limits.Batch(), Born: r.BornAfterStart || l.young && !r.Chosen}
	}
	l.manager.Offer(as)
	l.keeper.Wake() // what belongs to new topics follows at once
	return nil
}

// Gone implements topicsync.Lanes.
func (l *link) Gone(_ context.Context, lanes []model.Lane, why model.Reason) {
	l.manager.Gone(lanes, why)
}

// leaveTime bounds how long lanes may take to end.
const leaveTime = 20 * time.Second

// Leave implements topicsync.Lanes.
func (l *link) Leave(ctx context.Context, topics []string) {
	ctx, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	var lanes []model.Lane
	for _, s := range l.manager.Status().Lanes {
		if slices.Contains(topics, s.Topic) && s.State != model.StateClosed {
			lanes = append(lanes, s.Lane)
		}
	}
	l.manager.Release(ctx, lanes, model.StateClosed, model.ReasonNone)
}

// limits reads what a target topic accepts now.
func (l *link) limits(ctx context.Context, topic string) (batch.Limits, error) {
	limits, errs := topicsync.ReadLimits(ctx, l.dst, []string{topic})
	return limits[topic].Batch(), errs[topic]
}

// remake has a target topic made again for an operator's order.
func (l *link) remake(topic string) { l.syncer.Remake(topic) }

// knownBy tells topicsync which topics a lane joined before, by what the state topic holds.
func knownBy(view *offsetsync.View) func(model.Lane) (model.Identity, bool) {
	return func(id model.Lane) (model.Identity, bool) {
		st, ok := view.Lane(id)
		return st.Opening.Identity, ok
	}
}
