package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/spf13/cobra"

	"lockstep/api"
	"lockstep/checkpoint"
	"lockstep/config"
	"lockstep/internal/kafka"
	"lockstep/internal/model"
	"lockstep/internal/statelog"
	"lockstep/offsetsync"
	"lockstep/replicator"
)

// backend returns a running service, or with -c and no service there a reader of the targets themselves. done frees
// what it holds.
func (a *app) backend(cmd *cobra.Command, link string) (b api.Backend, done func(), err error) {
	if a.server != "" || a.configFile == "" {
		svc, err := a.service(cmd)
		return svc, func() {}, err
	}
	cfg, err := a.load(cmd)
	if err != nil {
		return nil, nil, err
	}
	svc, err := api.NewClient("http://"+cfg.API.Listen, nil)
	if err != nil {
		return nil, nil, err
	}
	if links, err := svc.Links(cmd.Context()); err == nil && serves(links, cfg, link) {
		return svc, func() {}, nil
	}
	fmt.Fprintln(a.stderr, "no service answers at", cfg.API.Listen+": reading the target itself")
	o := newOffline(cmd.Context(), cfg, newLogger(a.stderr, config.Log{Level: "warn"}))
	return o, o.close, nil
}

// orOffline adds to an error that nobody listens that the target can be read too.
func orOffline(err error) error {
	if errors.Is(err, api.ErrNoService) {
		return fmt.Errorf("%w; with -c FILE the target itself is read", err)
	}
	return err
}

// serves reports whether the service that answered runs the links that are asked for: another one may listen there.
func serves(links []api.Link, cfg *config.Config, only string) bool {
	have := make(map[string]bool)
	for _, l := range links {
		have[l.Name] = true
	}
	for _, l := range cfg.Links {
		if (only == "" || l.Name == only) && !have[l.Name] {
			return false
		}
	}
	return true
}

// offline answers from the targets alone: their state topics and the headers of their logs. It writes nothing.
type offline struct {
	ctx    context.Context
	cancel context.CancelFunc
	cfg    *config.Config
	log    *slog.Logger
	wg     sync.WaitGroup

	mu       sync.Mutex // guards the fields below
	opened   map[string]*offlineLink
	clusters dialled
}

type offlineLink struct {
	dst   *kafka.Cluster
	state *statelog.Log
	view  *offsetsync.View

	bases    *checkpoint.Bases
	history  *checkpoint.History
	journals journals
}

var _ api.Backend = (*offline)(nil)

func newOffline(ctx context.Context, cfg *config.Config, log *slog.Logger) *offline {
	ctx, cancel := context.WithCancel(ctx)
	return &offline{ctx: ctx, cancel: cancel, cfg: cfg, log: log, opened: make(map[string]*offlineLink), clusters: newDialled(cfg, log)}
}

func (o *offline) close() {
	o.cancel()
	o.wg.Wait()
	for _, l := range o.opened {
		l.state.Close()
	}
	o.clusters.close()
}

// open follows the state topic of a link to its present end.
func (o *offline) open(ctx context.Context, name string) (*offlineLink, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if l, ok := o.opened[name]; ok {
		return l, l.view.Barrier(ctx)
	}
	cfg, ok := o.cfg.Link(name)
	if !ok {
		return nil, api.NotFound("the configuration names the links", "no link %q", name)
	}
	return o.openLocked(ctx, cfg)
}

func (o *offline) openLocked(ctx context.Context, cfg config.Link) (*offlineLink, error) {
	dst, err := o.clusters.named(cfg.Target)
	if err != nil {
		return nil, err
	}
	l := &offlineLink{dst: dst, state: statelog.New(dst, cfg.Name, statelog.Options{Logger: o.log})}
	exists, err := l.state.Exists(ctx)
	if err != nil {
		return nil, fmt.Errorf("reach cluster %s: %w", cfg.Target, err)
	}
	if !exists {
		return nil, fmt.Errorf("cluster %s has no topic %s: link %s never copied to it", cfg.Target, l.state.Topic(), cfg.Name)
	}
	l.view = offsetsync.NewView(l.state)
	l.bases, l.history = checkpoint.NewBases(l.view, l.state), checkpoint.NewHistory(l.view, l.state)
	l.journals = newJournals(l.view, l.state)
	failed := make(chan error, 1)
	o.wg.Go(func() { failed <- l.view.Run(o.ctx) })
	read := make(chan error, 1)
	o.wg.Go(func() { read <- l.view.Barrier(o.ctx) })
	select {
	case err = <-failed:
	case err = <-read:
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", l.state.Topic(), err)
	}
	o.opened[cfg.Name] = l
	return l, nil
}

// cluster returns the clients of a cluster. It opens no connection.
func (o *offline) cluster(name string) (*kafka.Cluster, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.clusters.named(name)
}

func (o *offline) Links(context.Context) ([]api.Link, error) {
	var out []api.Link
	for _, l := range o.cfg.Links {
		out = append(out, api.Link{Name: l.Name, Source: l.Source, Target: l.Target, State: api.LinkStateStopped, Seal: "unknown",
			SafeToFailOver: api.SafetyUnknown(), Lanes: api.Counts{ByState: map[string]int{}}, Groups: api.Counts{ByState: map[string]int{}}})
	}
	return out, nil
}

func (o *offline) Lanes(ctx context.Context, name string) ([]api.Lane, error) {
	l, err := o.open(ctx, name)
	if err != nil {
		return nil, err
	}
	var out []api.Lane
	for _, id := range l.view.Lanes() {
		if st, ok := l.view.Lane(id); ok {
			out = append(out, api.NewLane(model.LaneStatus{Lane: id, DstTopic: st.Opening.Identity.DstTopic, State: model.StateClosed,
				Term: st.Opening.Term.N, Opening: st.Opening.N, Cursor: st.Cursor, SrcStart: -1, SrcStable: -1, SrcEnd: -1, Readable: -1, DstEnd: -1}))
		}
	}
	return out, nil
}

func (o *offline) Lane(ctx context.Context, name, topic string, partition int32) (api.LaneDetail, error) {
	lanes, err := o.Lanes(ctx, name)
	if err != nil {
		return api.LaneDetail{}, err
	}
	for _, a := range lanes {
		if a.Topic == topic && a.Partition == partition {
			return laneDetail(a, o.opened[name].view), nil
		}
	}
	return api.LaneDetail{}, api.NotFound("", "no lane %s:%s/%d", name, topic, partition)
}

func (o *offline) Gaps(ctx context.Context, name string) ([]api.Gap, error) {
	l, err := o.open(ctx, name)
	if err != nil {
		return nil, err
	}
	return apiGaps(l.view.Gaps()), nil
}

// Translate joins the stored maps with the headers that landed after the last stored cursor, so that it is exact for
// every record on the target.
func (o *offline) Translate(ctx context.Context, name string, req api.TranslateRequest) ([]api.Offset, error) {
	l, err := o.open(ctx, name)
	if err != nil {
		return nil, err
	}
	var stands []stand
	if req.OfGroups() {
		if stands, err = o.groupStands(ctx, name, l, req); err != nil {
			return nil, err
		}
	}
	settled := make(map[model.Lane]offsetsync.LaneState)
	return translateAll(name, req, stands, func(id model.Lane) (offsetsync.LaneState, bool, error) {
		if st, ok := settled[id]; ok {
			return st, true, nil
		}
		st, ok := l.view.Lane(id)
		if !ok {
			return st, false, nil
		}
		st, err := replicator.Landed(ctx, l.dst, st, id)
		if err != nil {
			return st, false, fmt.Errorf("read what landed on %s/%d: %w", st.Opening.Identity.DstTopic, id.Partition, err)
		}
		settled[id] = st
		return st, true, nil
	})
}

// Order is refused: only the service that owns a link may act on it.
func (o *offline) Order(context.Context, string, model.Order) ([]model.OrderStep, error) {
	return nil, api.Refused("start lockstep run, or name the running one with --server", "no service runs here")
}

func (o *offline) Ready(context.Context) error { return nil }
