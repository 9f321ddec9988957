// Package trim has mirrors drop what their source topics have dropped: while a mirror's own retention is open, nobody else
// does.
//
// It deletes only in topics that lockstep made, only what the source has not had for a while, and only below what the
// state topic says was copied: recovery after a crash reads what stands behind that, and the newest record before it stays
// too, since its header tells how far the copy is.
package trim

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"lockstep/internal/kafka"
	"lockstep/internal/model"
	"lockstep/offsetsync"
	"lockstep/topicsync/drift"
)

// Options are what a Trimmer needs.
type Options struct {
	Link           string
	Source, Target *kafka.Cluster
	// Lane returns what the state topic holds of a lane.
	Lane func(model.Lane) (offsetsync.LaneState, bool)
	// Topics returns the topics that are copied; Ours reports whether lockstep made a source topic's mirror.
	Topics func() []drift.Topic
	Ours   func(topic string, dst model.TopicID) bool
	Every  time.Duration // between two passes; 30 s when 0
	// Hold is how long the mirror keeps what the source has dropped; 1 h when 0. It is the time in which somebody notices
	// that a source topic was emptied by mistake.
	Hold   time.Duration
	Logger *slog.Logger
	Now    func() time.Time
}

// Trimmer trims the mirrors of one link.
type Trimmer struct {
	o      Options
	log    *slog.Logger
	denied atomic.Bool
	asked  bool // whether deleting is allowed
	seen   map[model.Lane]start
}

// start is where a source log was seen to begin.
type start struct {
	at   int64
	id   model.TopicID // of the source topic
	when time.Time
	done bool // the mirror begins there too
}

// New returns a Trimmer. It does no I/O.
func New(o Options) *Trimmer {
	o.Every, o.Hold = cmp.Or(o.Every, 30*time.Second), cmp.Or(o.Hold, time.Hour)
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Trimmer{o: o, log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)), seen: make(map[model.Lane]start)}
}

// Can reports whether the target lets lockstep delete records, as far as it was asked.
func (t *Trimmer) Can() bool { return !t.denied.Load() }

// Run makes passes until ctx ends. Only the owner of the link may.
func (t *Trimmer) Run(ctx context.Context) {
	tick := time.NewTicker(t.o.Every)
	defer tick.Stop()
	for {
		t.Pass(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Pass looks at all mirrors once.
func (t *Trimmer) Pass(ctx context.Context) {
	lanes := t.lanes()
	if len(lanes) == 0 {
		return
	}
	before := t.due(t.starts(ctx, lanes), lanes)
	if len(before) == 0 && (t.denied.Load() || !t.asked) {
		before = probe(lanes)
	}
	t.asked = true
	t.drop(ctx, before)
}

// lane is a mirror partition that may be trimmed.
type lane struct {
	topic     drift.Topic
	partition int32
	state     offsetsync.LaneState
}

func (l lane) id(link string) model.Lane {
	return model.Lane{Link: link, Topic: l.topic.Src, Partition: l.partition}
}

func (l lane) target() kafka.Part {
	return kafka.Part{Topic: l.topic.Dst, ID: l.topic.DstID, Partition: l.partition}
}

// lanes returns the lanes whose stored map is one of the two topics that stand there now.
func (t *Trimmer) lanes() (out []lane) {
	for _, topic := range t.o.Topics() {
		if !t.o.Ours(topic.Src, topic.DstID) || topic.SrcID.IsZero() || topic.DstID.IsZero() {
			continue
		}
		for p := range int32(min(topic.Partitions, topic.DstPartitions)) {
			l := lane{topic: topic, partition: p}
			st, ok := t.o.Lane(l.id(t.o.Link))
			if ok && st.Fault == nil && st.Opening.Identity == (model.Identity{DstTopic: topic.Dst, Src: topic.SrcID, Dst: topic.DstID}) {
				l.state = st
				out = append(out, l)
			}
		}
	}
	return out
}

// starts asks where the source logs begin. A log that does not tell is left alone.
func (t *Trimmer) starts(ctx context.Context, lanes []lane) map[model.Lane]int64 {
	parts, of := make([]kafka.Part, len(lanes)), make(map[kafka.Part]model.Lane, len(lanes))
	for i, l := range lanes {
		parts[i] = kafka.Part{Topic: l.topic.Src, ID: l.topic.SrcID, Partition: l.partition}
		of[parts[i]] = l.id(t.o.Link)
	}
	out := make(map[model.Lane]int64, len(lanes))
	for part, o := range t.o.Source.ListOffsets(ctx, parts, kafka.AtStart, false) {
		if o.Err == nil {
			out[of[part]] = o.Offset
		}
	}
	return out
}

// due returns where mirrors are to begin now. A start counts once it was seen for as long as Options.Hold; one that went
// back, or of another topic, begins anew.
func (t *Trimmer) due(starts map[model.Lane]int64, lanes []lane) map[kafka.Part]int64 {
	now, before := t.o.Now(), make(map[kafka.Part]int64)
	for _, l := range lanes {
		id := l.id(t.o.Link)
		at, ok := starts[id]
		if !ok {
			continue
		}
		was, known := t.seen[id]
		if !known || was.id != l.topic.SrcID || at < was.at || was.done && at > was.at {
			t.seen[id] = start{at: at, id: l.topic.SrcID, when: now}
			continue
		}
		if was.done || now.Sub(was.when) < t.o.Hold {
			continue
		}
		if dst, ok := position(l.state, was.at); ok {
			before[l.target()] = dst
		}
		t.seen[id] = start{at: was.at, id: was.id, when: was.when, done: true}
	}
	return before
}

// position returns where a mirror begins when its source log begins at src: at the very record, or the first one behind
// it that was copied, and never behind the newest record of which the state topic knows. ok is false when there is nothing to drop.
func position(st offsetsync.LaneState, src int64) (dst int64, ok bool) {
	if st.Map == nil {
		return 0, false
	}
	tr := st.Map.Translate(src)
	if tr.Kind == offsetsync.BeforeStart {
		return 0, false
	}
	dst = min(tr.Offset, st.Cursor.Dst-1)
	return dst, dst > 0
}

// probe asks to delete nothing, which tells whether deleting is allowed by now.
func probe(lanes []lane) map[kafka.Part]int64 {
	return map[kafka.Part]int64{lanes[0].target(): 0}
}

// drop deletes records on the target, and notes whether that is allowed.
func (t *Trimmer) drop(ctx context.Context, before map[kafka.Part]int64) {
	if len(before) == 0 {
		return
	}
	dropped := 0
	for part, o := range t.o.Target.DeleteRecords(ctx, before) {
		switch {
		case o.Err == nil:
			dropped++
			if t.denied.Swap(false) {
				t.log.Info("records may be deleted on the target again")
			}
		case drift.Denied(o.Err):
			if !t.denied.Swap(true) {
				t.log.Warn("mirrors cannot drop what the source dropped; they get the source's retention instead", "topic", part.Topic, "error", o.Err,
					"remedy", drift.Grant("Delete", "--topic "+part.Topic))
			}
		case errors.Is(o.Err, kerr.PolicyViolation): // compacted: it drops nothing by age
		default:
			t.log.Debug("a mirror was not trimmed", "topic", part.Topic, "partition", part.Partition, "error", o.Err)
		}
	}
	if dropped > 0 {
		t.log.Debug("mirrors dropped what the source had dropped", "partitions", dropped)
	}
}
