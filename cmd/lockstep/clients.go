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

	mu     sync.Mutex // guards the field below, and the users of what is in it
	newest map[string]*sharedCluster
}

type sharedCluster struct {
	*kafka.Cluster
	cfg   config.Cluster
	users int
}

func newClients(log *slog.Logger) *clients {
	return &clients{log: log, newest: make(map[string]*sharedCluster)}
}

// take returns the clients of a cluster as it is configured now; whoever has those of an older configuration keeps
// them. It opens no connection. The caller gives them back.
func (c *clients) take(cfg config.Cluster) (*sharedCluster, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.newest[cfg.Name]
	if !ok || !s.cfg.Equal(cfg) {
		k, err := kafka.Dial(cfg, kafka.Options{Logger: c.log})
		if err != nil {
			return nil, fmt.Errorf("cluster %s: %w", cfg.Name, err)
		}
		s = &sharedCluster{Cluster: k, cfg: cfg}
		c.newest[cfg.Name] = s
	}
	s.users++
	return s, nil
}

// give takes clients back. Nil is nothing.
func (c *clients) give(s *sharedCluster) {
	if s == nil {
		return
	}
	c.mu.Lock()
	s.users--
	last := s.users == 0
	if last && c.newest[s.cfg.Name] == s {
		delete(c.newest, s.cfg.Name)
	}
	c.mu.Unlock()
	if last {
		s.Close()
	}
}
