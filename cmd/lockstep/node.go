package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"lockstep/api"
	"lockstep/cluster"
	"lockstep/config"
	"lockstep/internal/kafka"
	"lockstep/replicator"
)

// node is one running process: its clients, its links and its listeners.
type node struct {
	cfg      *config.Config
	log      *slog.Logger
	home     *cluster.Home
	clusters map[string]*kafka.Cluster
	links    []*link
	registry *prometheus.Registry
	budget   *replicator.Budget
	metrics  *replicator.Metrics
	process  string
}

// newNode takes the data directory and prepares clients. It asks no broker.
func newNode(cfg *config.Config, log *slog.Logger) (*node, error) {
	home, err := cluster.Open(cfg.Node.DataDir)
	if err != nil {
		if errors.Is(err, cluster.ErrInUse) {
			return nil, refused(err)
		}
		return nil, err
	}
	n := &node{cfg: cfg, log: log, home: home, registry: prometheus.NewRegistry(), process: uuid.NewString()[:8],
		budget: replicator.NewBudget(cfg.Limits.BufferBytes)}
	n.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), buildInfo(), n.bufferGauge())
	n.metrics = replicator.NewMetrics(n.registry)
	if n.clusters, err = dialAll(cfg, log); err != nil {
		return nil, errors.Join(err, home.Close())
	}
	return n, nil
}

// dialAll prepares the clients of all clusters.
func dialAll(cfg *config.Config, log *slog.Logger) (map[string]*kafka.Cluster, error) {
	out := make(map[string]*kafka.Cluster)
	for name, c := range cfg.Clusters {
		k, err := kafka.Dial(c, kafka.Options{Logger: log})
		if err != nil {
			closeAll(out)
			return nil, fmt.Errorf("cluster %s: %w", name, err)
		}
		out[name] = k
	}
	return out, nil
}

func closeAll(clusters map[string]*kafka.Cluster) {
	for _, c := range clusters {
		c.Close()
	}
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
	for _, l := range n.links {
		l.close()
	}
	closeAll(n.clusters)
	return n.home.Close()
}

// start opens the listeners and every link: state topics are checked and read to their ends. Nothing is copied yet.
func (n *node) start(ctx context.Context, how running) (listeners, error) {
	ls, err := n.listen(ctx)
	if err != nil {
		return ls, err
	}
	for _, cfg := range n.cfg.Links {
		l, err := n.newLink(cfg, how)
		if err != nil {
			return ls, errors.Join(err, ls.close())
		}
		n.links = append(n.links, l)
	}
	managers := make([]*replicator.Manager, len(n.links))
	for i, l := range n.links {
		managers[i] = l.manager
	}
	n.registry.MustRegister(replicator.NewCollector(n.cfg.Metrics.PerLane, managers...))
	return ls, nil
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

// run serves and copies until ctx ends, or with once until everything present now has been copied. hard ends at once.
func (n *node) run(ctx, hard context.Context, how running, show *progress) error {
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
	copying, copyCtx := errgroup.WithContext(copyCtx)
	for _, l := range n.links {
		copying.Go(func() error { return l.run(copyCtx, hard, how.once) })
	}
	showing := show.start(copyCtx, n)
	err = copying.Wait()
	stopCopying()
	<-showing
	stopServing()
	return errors.Join(err, serving.Wait())
}

// askTimeout bounds one look at a cluster.
const askTimeout = 20 * time.Second
