package main

import (
	"log/slog"

	"lockstep/config"
	"lockstep/internal/kafka"
)

// dialled are the clusters of a configuration that a command asked for so far. They are dialled then. One goroutine uses
// them at a time.
type dialled struct {
	cfg  *config.Config
	log  *slog.Logger
	open map[string]*kafka.Cluster
}

func newDialled(cfg *config.Config, log *slog.Logger) dialled {
	return dialled{cfg, log, make(map[string]*kafka.Cluster)}
}

// named returns the cluster of a name that the configuration has.
func (d dialled) named(name string) (*kafka.Cluster, error) {
	if c, ok := d.open[name]; ok {
		return c, nil
	}
	c, err := kafka.Dial(d.cfg.Clusters[name], kafka.Options{Logger: d.log})
	if err != nil {
		return nil, err
	}
	d.open[name] = c
	return c, nil
}

func (d dialled) close() { closeAll(d.open) }
