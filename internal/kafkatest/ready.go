package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// awaitReady returns when every broker is registered and a topic on all of them can be made and written to.
func (c *Cluster) awaitReady(ctx context.Context) error {
	if err := c.await(ctx, c.allRegistered); err != nil {
		return err
	}
	const probe = "kafkatest.ready"
	err := c.await(ctx, func(ctx context.Context) error {
		_, err := c.Kadm().CreateTopic(ctx, 1, int16(len(c.nodes)), nil, probe)
		if errors.Is(err, kerr.TopicAlreadyExists) {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	return c.await(ctx, func(ctx context.Context) error {
		_, err := c.Kadm().DeleteTopic(ctx, probe)
		if errors.Is(err, kerr.UnknownTopicOrPartition) {
			return nil
		}
		return err
	})
}

// await repeats try until it succeeds, a broker dies, or ctx ends.
func (c *Cluster) await(ctx context.Context, try func(context.Context) error) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		tryCtx, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := try(tryCtx)
		cancel()
		if err == nil {
			return nil
		}
		if dead := c.dead(); dead != nil {
			return dead
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("Kafka %s is not ready after %s: %w", c.opts.Version, c.opts.ReadyIn, err)
		}
	}
}

// dead returns an error for a broker that ended by itself, errPortTaken if a port was the cause.
func (c *Cluster) dead() error {
	for _, n := range c.nodes {
		if n.proc == nil || n.down || !n.proc.exited() {
			continue
		}
		log := complaints(n.logFile(), 20)
		if strings.Contains(log, "Address already in use") {
			return fmt.Errorf("node %d: %w", n.id, errPortTaken)
		}
		return fmt.Errorf("node %d of Kafka %s ended: %w\n%s", n.id, c.opts.Version, n.proc.err, log)
	}
	return nil
}

// allRegistered asks each running broker itself: all must see all, since a client may ask any of them.
func (c *Cluster) allRegistered(ctx context.Context) error {
	for _, seed := range c.admin.SeedBrokers() {
		if err := c.seesAll(ctx, func(req *kmsg.MetadataRequest) (*kmsg.MetadataResponse, error) {
			r, err := seed.Request(ctx, req)
			if err != nil {
				return nil, err
			}
			return r.(*kmsg.MetadataResponse), nil
		}); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) seesAll(ctx context.Context, ask func(*kmsg.MetadataRequest) (*kmsg.MetadataResponse, error)) error {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{} // none
	resp, err := ask(req)
	if err != nil {
		return fmt.Errorf("ask for brokers: %w", err)
	}
	if len(resp.Brokers) != len(c.nodes) || resp.ControllerID < 0 {
		return fmt.Errorf("%d of %d brokers registered, controller %d", len(resp.Brokers), len(c.nodes), resp.ControllerID)
	}
	return nil
}

// createUsers stores the SCRAM users; PLAIN's are in the server properties.
func (c *Cluster) createUsers(ctx context.Context) error {
	s := c.opts.Security
	if !strings.HasPrefix(s.SASL, "SCRAM") {
		return nil
	}
	mechanism := kadm.ScramSha256
	if s.SASL == "SCRAM-SHA-512" {
		mechanism = kadm.ScramSha512
	}
	var users []kadm.UpsertSCRAM
	for name, password := range s.Users {
		users = append(users, kadm.UpsertSCRAM{User: name, Mechanism: mechanism, Iterations: 4096, Password: password})
	}
	got, err := c.Kadm().AlterUserSCRAMs(ctx, nil, users)
	if err != nil {
		return fmt.Errorf("create users: %w", err)
	}
	if err := got.Error(); err != nil {
		return fmt.Errorf("create users: %w", err)
	}
	return nil
}

// registered reports whether the metadata names the broker.
func (c *Cluster) registered(ctx context.Context, id int32) (bool, error) {
	ds, err := c.Kadm().ListBrokers(ctx)
	if err != nil {
		return false, err
	}
	return slices.Contains(ds.NodeIDs(), id), nil
}
