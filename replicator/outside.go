package replicator

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/kafka"
	"lockstep/internal/model"
	"lockstep/replicator/term"
)

// cluster is what a manager asks of a Kafka cluster, besides the fetching and producing that its pipelines do.
// [kafka.Cluster] is one.
type cluster interface {
	Name() string
	ID(ctx context.Context) (string, error)
	ListOffsets(ctx context.Context, parts []kafka.Part, at int64, committed bool) map[kafka.Part]kafka.Offset
	EpochEnds(ctx context.Context, parts map[kafka.Part]int32) map[kafka.Part]kafka.EpochEnd
	DescribeProducers(ctx context.Context, parts []kafka.Part) map[kafka.Part]kafka.Producers
	ReadAt(ctx context.Context, p kafka.Part, off int64, maxBytes int32, committed bool) (kmsg.FetchResponseTopicPartition, error)
	ThrottledSince(t time.Time) bool
}

// sealer ends older terms on partitions. [term.Sealer] is one.
type sealer interface {
	Seal(ctx context.Context, t model.Term, targets []term.Target) (map[kafka.Part]term.Outcome, term.Way)
}

// outside is everything through which a manager's decisions wait for others. It is gathered here so that a test can put
// a simulated world in its place and choose, at each of these calls, what happens meanwhile.
type outside struct {
	src, dst cluster
	sealer   sealer // set once the link is ours: how it seals is stored
	// run starts a short task, pause waits for a while or until ctx ends.
	run    func(task func(context.Context))
	pause  func(context.Context, time.Duration)
	atOnce int // logs that are read at a time for one broker
}
