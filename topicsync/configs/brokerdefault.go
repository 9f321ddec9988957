package configs

import (
	"context"
	"strconv"
	"sync"

	"lockstep/internal/kafka"
)

// BrokerDefault asks a cluster's brokers for what they apply where a topic says nothing, until it is known. Its methods may
// be called from any goroutine.
type BrokerDefault struct {
	c *kafka.Cluster

	mu     sync.Mutex // guards minISR; not held across I/O
	minISR int
}

// NewBrokerDefault returns a BrokerDefault of a cluster. It does no I/O.
func NewBrokerDefault(c *kafka.Cluster) *BrokerDefault { return &BrokerDefault{c: c} }

// MinISR returns the brokers' default of min.insync.replicas, 0 where it may not be read.
func (d *BrokerDefault) MinISR(ctx context.Context) int {
	d.mu.Lock()
	n := d.minISR
	d.mu.Unlock()
	if n > 0 {
		return n
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	text, ok, err := d.c.BrokerConfig(ctx, KeyMinISR)
	if err != nil || !ok {
		return 0
	}
	if n, err = strconv.Atoi(text); err != nil {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.minISR = n
	return n
}
