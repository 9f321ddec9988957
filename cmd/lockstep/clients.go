package main

import (
	"fmt"
	"log/slog"
	"sync"

	"lockstep/config"
	"lockstep/internal/kafka"
)

// clients are the Kafka clients of the clusters in use. Links of one cluster share them; they are closed when the last
// of those links has ended.
type clients struct {
	log *slog.Logger

	mu   sync.Mutex // guards open
	open map[*kafka.Cluster]*use
}

// use is a cluster's clients in use.
type use struct {
	cfg   config.Cluster
	links int
}

func newClients(log *slog.Logger) *clients {
	return &clients{log: log, open: make(map[*kafka.Cluster]*use)}
}

// take returns the clients of a cluster as it is configured now; whoever has those of an older configuration keeps
// them. It opens no connection. The caller gives them back.
func (c *clients) take(cfg config.Cluster) (*kafka.Cluster, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, u := range c.open {
		if u.cfg.Equal(cfg) {
			u.links++
			return k, nil
		}
	}
	k, err := kafka.Dial(cfg, kafka.Options{Logger: c.log})
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", cfg.Name, err)
	}
	c.open[k] = &use{cfg: cfg, links: 1}
	return k, nil
}

// give takes clients back. Nil is nothing.
func (c *clients) give(k *kafka.Cluster) {
	c.mu.Lock()
	u := c.open[k]
	last := false
	if u != nil {
		u.links--
		last = u.links == 0
	}
	if last {
		delete(c.open, k)
	}
	c.mu.Unlock()
	if last {
		k.Close()
	}
}
