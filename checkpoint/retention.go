package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"lockstep/internal/kafka"
)

const retentionKey = "offsets.retention.minutes"

// OffsetsRetention returns for how long a cluster keeps the positions of a group without members: the shortest time that
// any of its brokers tells. It needs DESCRIBE_CONFIGS on the cluster; the error means that no broker told.
func OffsetsRetention(ctx context.Context, c *kafka.Cluster) (time.Duration, error) {
	meta, err := c.Metadata(ctx, offsetsTopic)
	if err != nil {
		return 0, fmt.Errorf("ask for the retention of offsets: %w", err)
	}
	var (
		mu       sync.Mutex
		shortest time.Duration
		errs     []error
	)
	c.EachBroker(ctx, slices.Sorted(maps.Keys(meta.Brokers)), kafka.BrokerPatience, func(ctx context.Context, broker int32, _ func()) {
		kept, err := retentionOf(ctx, c, broker)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			errs = append(errs, err)
		} else if shortest == 0 || kept < shortest {
			shortest = kept
		}
	})
	if shortest == 0 {
		return 0, errors.Join(errs...)
	}
	return shortest, nil
}

func retentionOf(ctx context.Context, c *kafka.Cluster, broker int32) (time.Duration, error) {
	v, ok, err := c.BrokerConfigOf(ctx, broker, retentionKey)
	if err != nil {
		return 0, err
	}
	minutes, err := strconv.ParseInt(v, 10, 32)
	if !ok || err != nil || minutes <= 0 {
		return 0, fmt.Errorf("broker %d of cluster %s tells no %s: %q", broker, c.Name(), retentionKey, v)
	}
	return time.Duration(minutes) * time.Minute, nil
}
