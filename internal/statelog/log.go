package statelog

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"lockstep/internal/kafka"
)

// Partitions is how many partitions a state topic has. The partition of a lane follows from it, so it never changes.
const Partitions = 16

// LinkPartition is where everything stands that concerns a whole link.
const LinkPartition int32 = 0

// Entry is one record of a state topic. A nil Value is a tombstone: the key's former value is to be forgotten; a
// present but empty Value is not. Offset and Time are set on reading only.
type Entry struct {
	Partition int32
	Key       string
	Value     []byte
	Offset    int64
	Time      time.Time
}

// Options are what a Log needs besides its cluster. The zero value is usable.
type Options struct {
	Logger *slog.Logger // none when nil
	// Bootstrap is the address that repair hints name; the target's present brokers when empty.
	Bootstrap string
	// Poll is how long a broker holds a fetch back at the end of the log; 500 ms when 0.
	Poll time.Duration
}

// Log is one link's state topic. Its methods may be called by many goroutines at once.
type Log struct {
	dst    *kafka.Cluster
	link   string
	topic  string
	opts   Options
	log    *slog.Logger
	follow follower
	// backlog is how many entries may be outstanding before Put is refused.
	backlog int64

	mu       sync.Mutex // guards the fields below; held while entries are queued, which fixes their order
	producer *kgo.Client
	closed   bool
}

// New returns the state log of a link on its target cluster. It does no input or output. The caller closes it.
func New(dst *kafka.Cluster, link string, opts Options) *Log {
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	opts.Poll = cmp.Or(opts.Poll, 500*time.Millisecond)
	topic := Topic(link)
	return &Log{
		dst: dst, link: link, topic: topic, opts: opts,
		log:    opts.Logger.With("link", link, "topic", topic),
		follow: newFollower(), backlog: maxBacklog,
	}
}

// Topic returns the name of a link's state topic.
func Topic(link string) string { return "lockstep." + link + ".state" }

// Topic returns the name of the state topic.
func (l *Log) Topic() string { return l.topic }

// Link returns the name of the link.
func (l *Log) Link() string { return l.link }

// Partition returns the state partition of a source partition: everything of a lane goes to one, so that its entries
// have one order. What concerns the link as a whole goes to [LinkPartition].
func (l *Log) Partition(topic string, partition int32) int32 { return PartitionOf(topic, partition) }

// PartitionOf is [Log.Partition] without a log. The hash is FNV-1a over "topic/partition", folded
// to four bits, and never changes.
func PartitionOf(topic string, partition int32) int32 {
	h := fnv.New32a()
	h.Write([]byte(topic))
	h.Write([]byte{'/'})
	h.Write(strconv.AppendInt(nil, int64(partition), 10))
	n := h.Sum32()
	n ^= n >> 16 // FNV's lowest bits only know the lowest bits of each byte
	n ^= n >> 8
	n ^= n >> 4
	return int32(n % Partitions)
}

// Close ends the producing client. Entries of a Put that has not returned yet may or may not be written.
func (l *Log) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.producer != nil {
		l.producer.Close()
		l.producer = nil
	}
}

// Exists reports whether the state topic is there. A topic that may not be described is an error, not an absence.
func (l *Log) Exists(ctx context.Context) (bool, error) {
	_, ok, err := l.describe(ctx)
	return ok, err
}

// parts lists the topic's partitions.
func (l *Log) parts() []kafka.Part {
	out := make([]kafka.Part, Partitions)
	for p := range out {
		out[p] = kafka.Part{Topic: l.topic, Partition: int32(p)}
	}
	return out
}

func (l *Log) errorf(what string, err error) error {
	return fmt.Errorf("%s state topic %s on cluster %s: %w", what, l.topic, l.dst.Name(), err)
}
