package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"lockstep/api"
	"lockstep/checkpoint"
	"lockstep/cluster"
	"lockstep/config"
	"lockstep/replicator"
	"lockstep/topicsync"
)

// node is one running process: its clients, its links and its listeners.
type node struct {
	cfg      *config.Config // as it started; the reloader knows what is in force
	log      *slog.Logger
	level    *slog.LevelVar
	home     *cluster.Home
	clients  *clients
	links    *links
	reload   *reloader
	registry *prometheus.Registry
	budget   *replicator.Budget
	metrics  *replicator.Metrics
	process  string
}

// newNode takes the data directory. It asks no broker.
func newNode(set *settings, log *slog.Logger, level *slog.LevelVar) (*node, error) {
	cfg := set.first
	home, err := cluster.Open(cfg.Node.DataDir)
	if err != nil {
		if errors.Is(err, cluster.ErrInUse) {
			return nil, refused(err)
		}
		return nil, err
	}
	n := &node{cfg: cfg, log: log, level: level, home: home, registry: prometheus.NewRegistry(), process: uuid.NewString()[:8],
		clients: newClients(log), budget: replicator.NewBudget(cfg.Limits.BufferBytes)}
	n.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), buildInfo(), n.bufferGauge())
	n.metrics = replicator.NewMetrics(n.registry)
	n.links = newLinks(n)
	n.registry.MustRegister(replicator.NewCollector(cfg.Metrics.PerLane, n.links.status))
	n.registry.MustRegister(checkpoint.NewCollector(n.links.groups), topicsync.NewCollector(n.links.topics))
	n.reload = newReloader(set, n.apply, n.registry, log)
	return n, nil
}

func buildInfo() prometheus.Collector {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "lockstep_build_info", Help: "Always 1; the version is a label.",
		ConstLabels: prometheus.Labels{"version": buildVersion()}})
	g.Set(1)
	return g
}

func (n *node) bufferGauge() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "lockstep_buffer_bytes", Help: "Bytes of fetch answers held now; limits.buffer_bytes bounds them."},
		func() float64 { return float64(n.budget.Used()) })
}

func (n *node) close() error {
	n.links.close()
	return n.home.Close()
}

// start opens the listeners and prepares every link. Nothing is copied yet.
func (n *node) start(ctx context.Context, how runMode) (listeners, error) {
	ls, err := n.listen(ctx)
	if err != nil {
		return ls, err
	}
	if err := n.links.make(n.cfg, how); err != nil {
		return ls, errors.Join(err, ls.close())
	}
	return ls, nil
}

// apply puts a changed configuration in force; it returns when every link has taken it over, or ctx has ended.
func (n *node) apply(ctx context.Context, next *config.Config, what []config.Change) error {
	n.level.Set(levelOf(next.Log))
	n.budget.SetLimit(next.Limits.BufferBytes)
	c := &renewal{cfg: next, what: what, done: make(chan struct{})}
	select {
	case n.links.changes <- c:
	case <-ctx.Done():
		return ctx.Err()
	}
	<-c.done
	return nil
}

// listeners are the open ports of a node.
type listeners struct{ api, metrics net.Listener }

func (n *node) listen(ctx context.Context) (ls listeners, err error) {
	if ls.api, err = api.ListenLoopback(ctx, n.cfg.API.Listen); err != nil {
		return ls, fmt.Errorf("api.listen: %w", err)
	}
	if n.cfg.Metrics.Listen == "" {
		return ls, nil
	}
	if ls.metrics, err = api.Listen(ctx, n.cfg.Metrics.Listen); err != nil {
		return ls, errors.Join(fmt.Errorf("metrics.listen: %w", err), ls.close())
	}
	return ls, nil
}

func (l listeners) close() error {
	var err error
	for _, x := range []net.Listener{l.api, l.metrics} {
		if x != nil {
			err = errors.Join(err, x.Close())
		}
	}
	return err
}

// run serves and copies until ctx ends, or with how.once until everything present now has been copied. hard ends at once. What
// comes from asked has the configuration read again; with how.once nothing has.
func (n *node) run(ctx, hard context.Context, asked <-chan os.Signal, how runMode, show *progress) error {
	ls, err := n.start(ctx, how)
	if err != nil {
		return err
	}
	serveCtx, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	copyCtx, stopCopying := context.WithCancel(ctx)
	defer stopCopying()
	b := &nodeBackend{n: n}
	var serving errgroup.Group
	serving.Go(func() error { return api.Serve(serveCtx, ls.api, api.Handler(b, n.registry, n.log), n.log) })
	if ls.metrics != nil {
		serving.Go(func() error {
			return api.Serve(serveCtx, ls.metrics, api.MonitoringHandler(b, n.registry, n.log), n.log)
		})
	}
	n.log.Info("listening", "api", ls.api.Addr().String())
	showing := show.start(copyCtx, n)
	reloading := make(chan struct{})
	go func() {
		defer close(reloading)
		if !how.once {
			n.reload.run(copyCtx, asked)
		}
	}()
	err = n.links.run(copyCtx, hard, how)
	stopCopying()
	<-showing
	<-reloading
	stopServing()
	return errors.Join(err, serving.Wait())
}

// askTimeout bounds one look at a cluster.
const askTimeout = 20 * time.Second
