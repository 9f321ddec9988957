package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Coordinators asks which brokers coordinate groups, whether those exist or not. Every group is in one of the two
// results. The client library would remember coordinators, also one that hangs and has long been replaced; this asks.
func (c *Cluster) Coordinators(ctx context.Context, groups []string) (map[string]int32, map[string]error) {
	ctx, cancel := c.deadline(ctx)
	defer cancel()
	found, failed := make(map[string]int32, len(groups)), map[string]error{}
	if len(groups) == 0 {
		return found, failed
	}
	lost := func(group string, err error) {
		failed[group] = fmt.Errorf("find coordinator of group %s on cluster %s: %w", group, c.Name(), withCause(ctx, err))
	}
	shards, err := hedged(ctx, func(ctx context.Context) ([]kgo.ResponseShard, error) { return c.findCoordinators(ctx, groups) })
	for _, shard := range shards {
		if shard.Err != nil {
			continue
		}
		for _, g := range shard.Resp.(*kmsg.FindCoordinatorResponse).Coordinators {
			if err := codeError(g.ErrorCode, g.ErrorMessage); err != nil {
				lost(g.Key, err)
			} else {
				found[g.Key] = g.NodeID
			}
		}
	}
	for _, g := range groups {
		if _, ok := found[g]; !ok && failed[g] == nil {
			if err == nil {
				err = errOmitted
			}
			lost(g, err)
		}
	}
	return found, failed
}

// findCoordinators asks once, old brokers group by group. The error is why some answers are missing.
func (c *Cluster) findCoordinators(ctx context.Context, groups []string) ([]kgo.ResponseShard, error) {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKeys = groups
	shards := c.admin.RequestSharded(ctx, req)
	var errs []error
	for _, s := range shards {
		errs = append(errs, s.Err)
	}
	return shards, errors.Join(errs...)
}
