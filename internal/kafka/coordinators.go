package kafka

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Coordinators asks which brokers coordinate groups, whether those exist or not. Every group is in one of the two
// results. The client library would remember coordinators, also one that hangs and has long been replaced; this asks.
func (c *Cluster) Coordinators(ctx context.Context, groups []string) (map[string]int32, map[string]error) {
	ctx, cancel := c.deadline(ctx)
	defer cancel()
	found, failed := make(map[string]int32, len(groups)), map[string]error{}
	todo := groups
	for try := range metadataTries {
		if len(todo) == 0 {
			break
		}
		var silent error
		todo, silent = c.findCoordinators(ctx, todo, found, failed, metadataPatience<<try)
		for _, g := range todo {
			failed[g] = fmt.Errorf("find coordinator of group %s on cluster %s: %w", g, c.Name(), withCause(ctx, silent))
		}
		if action, _ := Classify(silent); action != Refresh && action != Retry || !wait(ctx, metadataPause<<try, nil) {
			break
		}
	}
	return found, failed
}

// findCoordinators asks once. It returns the groups for which no broker answered, and why.
func (c *Cluster) findCoordinators(ctx context.Context, groups []string, found map[string]int32, failed map[string]error, patience time.Duration) (todo []string, silent error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKeys = groups
	for _, shard := range c.admin.RequestSharded(ctx, req) {
		if shard.Err != nil {
			silent = shard.Err
			todo = append(todo, keysOf(shard.Req.(*kmsg.FindCoordinatorRequest))...)
			continue
		}
		for _, g := range shard.Resp.(*kmsg.FindCoordinatorResponse).Coordinators {
			delete(failed, g.Key)
			if err := codeError(g.ErrorCode, g.ErrorMessage); err != nil {
				failed[g.Key] = fmt.Errorf("find coordinator of group %s on cluster %s: %w", g.Key, c.Name(), err)
			} else {
				found[g.Key] = g.NodeID
			}
		}
	}
	return todo, silent
}

// keysOf returns whose coordinators a request asks for: brokers older than Kafka 3.0 take one at a time.
func keysOf(req *kmsg.FindCoordinatorRequest) []string {
	if len(req.CoordinatorKeys) == 0 {
		return []string{req.CoordinatorKey}
	}
	return req.CoordinatorKeys
}
