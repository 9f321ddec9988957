package trim

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"lockstep/internal/kafka"
	"lockstep/internal/model"
	"lockstep/topicsync/drift"
)

const (
	every       = 30 * time.Second
	hold        = 10 * time.Minute
	emptiedHold = 24 * time.Hour
	// askAgain is how long a denied topic is left alone.
	askAgain = 5 * time.Minute
)

// Maps give the offset maps of a link's lanes.
type Maps interface {
	// Lanes returns the lanes as the state topic holds them at the time of the call, without those whose map must not be
	// used. Their functions may be called until the next call.
	Lanes(ctx context.Context) (map[model.Lane]Lane, error)
}

// Options are what a Trimmer needs.
type Options struct {
	Link           string
	Source, Target *kafka.Cluster
	Maps           Maps
	Made           func(topic string, dst model.TopicID) bool // whether lockstep made the topic of that id, which a source topic is copied to
	// Topics returns the topics that the link copies; none while retention is not to be opened.
	Topics func() []drift.Topic
	// Interval is the time between two passes; 30 s when 0. Hold is how long a source's start stands before it is followed,
	// 10 min when 0; EmptiedHold the same for a log that holds nothing any more, a day when 0.
	Interval, Hold, EmptiedHold time.Duration
	Now                         func() time.Time
	Logger                      *slog.Logger
}

// Trimmer drops from a link's target what the source has dropped.
type Trimmer struct {
	o    Options
	log  *slog.Logger
	seen map[lane]history

	mu     sync.Mutex           // guards the fields below
	tried  map[string]bool      // target topics of which it is known whether they may be trimmed
	denied map[string]time.Time // by target topic: when DELETE on it was refused last
	warned bool
}

// lane is a partition of a source topic; one that was made again is another.
type lane struct {
	topic     string
	id        model.TopicID
	partition int32
}

// New returns a Trimmer. It does no I/O.
func New(o Options) *Trimmer {
	o.Interval, o.Hold, o.EmptiedHold = cmp.Or(o.Interval, every), cmp.Or(o.Hold, hold), cmp.Or(o.EmptiedHold, emptiedHold)
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Trimmer{o: o, log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)), seen: make(map[lane]history), tried: make(map[string]bool), denied: make(map[string]time.Time)}
}

// Can reports whether nothing forbids to delete in a topic of the target, as far as it was tried.
func (t *Trimmer) Can(topic string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, denied := t.denied[topic]
	return !denied
}

// CanNew is Can for topics that are still to be made: unless it is forbidden in every topic that was tried.
func (t *Trimmer) CanNew() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.denied) == 0 || len(t.denied) < len(t.tried)
}

// Run makes passes until ctx ends. Only the owner of the link may run it.
func (t *Trimmer) Run(ctx context.Context) {
	tick := time.NewTicker(t.o.Interval)
	defer tick.Stop()
	for ctx.Err() == nil {
		t.Pass(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// Pass looks at the source once, and drops what is due. What fails is tried again by the next pass.
func (t *Trimmer) Pass(ctx context.Context) {
	topics := t.topics()
	t.probe(ctx, topics)
	due := t.look(ctx, topics)
	if len(due) == 0 {
		return
	}
	lanes, err := t.o.Maps.Lanes(ctx)
	if err != nil {
		t.log.Debug("read the offset maps", "error", err)
		return
	}
	wanted := make(map[kafka.Part]int64)
	for _, topic := range topics {
		for p := range int32(topic.Partitions) {
			start, ok := due[lane{topic.Src, topic.SrcID, p}]
			l, known := lanes[model.Lane{Link: t.o.Link, Topic: topic.Src, Partition: p}]
			if !ok || !known {
				continue
			}
			if to, ok := before(topic, l, start); ok {
				wanted[kafka.Part{Topic: topic.Dst, ID: topic.DstID, Partition: p}] = to
			}
		}
	}
	t.drop(ctx, wanted)
}

// topics returns those that may be trimmed.
func (t *Trimmer) topics() (out []drift.Topic) {
	for _, topic := range t.o.Topics() {
		if t.o.Made(topic.Src, topic.DstID) && !topic.SrcID.IsZero() && !topic.DstID.IsZero() {
			out = append(out, topic)
		}
	}
	return out
}

// look asks where the source's logs begin and end, and returns the starts that are to be followed. A partition that did
// not answer both is left out.
func (t *Trimmer) look(ctx context.Context, topics []drift.Topic) map[lane]int64 {
	var parts []kafka.Part
	for _, topic := range topics {
		for p := range int32(topic.Partitions) {
			parts = append(parts, kafka.Part{Topic: topic.Src, ID: topic.SrcID, Partition: p})
		}
	}
	if len(parts) == 0 {
		t.seen = make(map[lane]history)
		return nil
	}
	// The end last: a log that gets its first records in between does not look emptied.
	starts := t.o.Source.ListOffsets(ctx, parts, kafka.AtStart, false)
	tails := t.o.Source.ListOffsets(ctx, parts, kafka.AtEnd, false)
	now, due, seen := t.o.Now(), make(map[lane]int64), make(map[lane]history, len(parts))
	for _, p := range parts {
		l, start, end := lane{p.Topic, p.ID, p.Partition}, starts[p], tails[p]
		if start.Err != nil || end.Err != nil || start.Offset < 0 {
			seen[l] = t.seen[l]
			continue
		}
		h := t.seen[l].look(ends{start.Offset, end.Offset}, now)
		if to, rest, ok := h.due(now, t.o.Hold, t.o.EmptiedHold); ok {
			h, due[l] = rest, to
		}
		seen[l] = h
	}
	t.seen = seen
	return due
}

// drop moves the starts of target logs that begin earlier, of topics whose retention is open.
func (t *Trimmer) drop(ctx context.Context, wanted map[kafka.Part]int64) {
	parts := make([]kafka.Part, 0, len(wanted))
	for p := range wanted {
		parts = append(parts, p)
	}
	if len(parts) == 0 {
		return
	}
	for p, start := range t.o.Target.ListOffsets(ctx, parts, kafka.AtStart, false) {
		if start.Err != nil || start.Offset >= wanted[p] {
			delete(wanted, p)
		}
	}
	if len(wanted) == 0 {
		return
	}
	open := opened(ctx, t.o.Target, wanted)
	for p := range wanted {
		if !open[p.Topic] {
			delete(wanted, p)
		}
	}
	if len(wanted) > 0 && ctx.Err() == nil {
		t.deleted(t.o.Target.DeleteRecords(ctx, wanted))
	}
}

// probe finds out whether topics may be trimmed: new ones, and from time to time those that were denied. An offset at the very beginning deletes nothing.
func (t *Trimmer) probe(ctx context.Context, topics []drift.Topic) {
	parts := make(map[kafka.Part]int64)
	t.mu.Lock()
	there := make(map[string]bool)
	for _, topic := range topics {
		there[topic.Dst] = true
		at, denied := t.denied[topic.Dst]
		if !t.tried[topic.Dst] || denied && t.o.Now().Sub(at) >= askAgain {
			parts[kafka.Part{Topic: topic.Dst, ID: topic.DstID}] = 0
		}
	}
	gone := func(topic string) bool { return !there[topic] }
	maps.DeleteFunc(t.denied, func(topic string, _ time.Time) bool { return gone(topic) })
	maps.DeleteFunc(t.tried, func(topic string, _ bool) bool { return gone(topic) })
	t.mu.Unlock()
	if len(parts) > 0 {
		t.deleted(t.o.Target.DeleteRecords(ctx, parts))
	}
}

// deleted takes what became of deletions.
func (t *Trimmer) deleted(answers map[kafka.Part]kafka.Offset) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for p, a := range answers {
		switch {
		case a.Err == nil:
			delete(t.denied, p.Topic)
			t.tried[p.Topic] = true
			t.log.Debug("the mirror begins where the source does", "topic", p.Topic, "partition", p.Partition, "dst_start", a.Offset)
		case errors.Is(a.Err, kerr.TopicAuthorizationFailed):
			t.denied[p.Topic], t.tried[p.Topic] = t.o.Now(), true
			if !t.warned {
				t.warned = true
				t.log.Warn("may not drop from the mirror what the source dropped; the source's retention is used instead", "topic", p.Topic,
					"remedy", drift.Grant("Delete", "--topic "+p.Topic))
			}
		default: // also of a topic that is only compacted
			t.tried[p.Topic] = t.tried[p.Topic] || errors.Is(a.Err, kerr.PolicyViolation)
			t.log.Debug("drop from the mirror what the source dropped", "topic", p.Topic, "partition", p.Partition, "error", a.Err)
		}
	}
	if len(t.denied) == 0 {
		t.warned = false
	}
}
