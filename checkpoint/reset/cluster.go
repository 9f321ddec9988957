package reset

import (
	"context"

	"lockstep/checkpoint"
	"lockstep/internal/kafka"
)

// Cluster is [Offsets] of a Kafka cluster.
type Cluster struct{ C *kafka.Cluster }

var _ Offsets = Cluster{}

// Reread implements [Offsets].
func (c Cluster) Reread(ctx context.Context, groups []string) checkpoint.Picture {
	return checkpoint.Reread(ctx, c.C, groups)
}

// Commit implements [Offsets].
func (c Cluster) Commit(ctx context.Context, group string, offsets map[checkpoint.Key]checkpoint.Committed) (map[checkpoint.Key]error, error) {
	return checkpoint.Commit(ctx, c.C, group, offsets)
}

// Delete implements [Offsets].
func (c Cluster) Delete(ctx context.Context, group string, keys []checkpoint.Key) error {
	return checkpoint.DeleteOffsets(ctx, c.C, group, keys)
}
