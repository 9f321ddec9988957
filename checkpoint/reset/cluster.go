package reset

import (
	"context"
	"time"

	"lockstep/checkpoint"
	"lockstep/internal/kafka"
	"lockstep/internal/pause"
)

// Cluster is [Offsets] of a Kafka cluster.
type Cluster struct{ C *kafka.Cluster }

var _ Offsets = Cluster{}

const (
	rereads     = 6
	rereadPause = 200 * time.Millisecond // before the second try, and twice as long before each further one
)

// Reread implements [Offsets]. Coordinators that are on their way are waited for, some seconds: on a cluster that never
// had a group the question itself makes the first one.
func (c Cluster) Reread(ctx context.Context, groups []string) (p checkpoint.Picture) {
	for try := range rereads {
		if p = checkpoint.Reread(ctx, c.C, groups); !onTheirWay(p) || !pause.For(ctx, rereadPause<<try) {
			break
		}
	}
	return p
}

func onTheirWay(p checkpoint.Picture) bool {
	for _, err := range p.Failed {
		if checkpoint.IsMoving(err) {
			return true
		}
	}
	return checkpoint.IsMoving(p.Partial)
}

// Commit implements [Offsets].
func (c Cluster) Commit(ctx context.Context, group string, offsets map[checkpoint.Key]checkpoint.Committed) (map[checkpoint.Key]error, error) {
	return checkpoint.Commit(ctx, c.C, group, offsets)
}

// Delete implements [Offsets].
func (c Cluster) Delete(ctx context.Context, group string, keys []checkpoint.Key) error {
	return checkpoint.DeleteOffsets(ctx, c.C, group, keys)
}
