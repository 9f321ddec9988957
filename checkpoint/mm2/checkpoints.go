package mm2

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"

	"lockstep/checkpoint"
)

// written is a checkpoint together with what says whether a later one may lead back.
type written struct {
	Checkpoint
	opening uint64 // of the lane whose map translated it; 0 in one that MirrorMaker 2 wrote
}

// openingHeader carries written.opening. Java's readers do not look at headers.
const openingHeader = "lockstep.opening"

// subject is what a checkpoint is about.
type subject struct {
	group string
	checkpoint.Key
}

// due reports whether a checkpoint is to follow the one that stands: for the first one, where the group of the source went
// back, and where the translation grew. It leads back for one more reason: the map under it changed, since the target topic
// was made anew. That cannot be told of one that MirrorMaker wrote, unless it leads behind the target's end (-1: unknown).
func due(last *written, c written, end int64) bool {
	switch {
	case last == nil, c.Upstream < last.Upstream, c.Downstream > last.Downstream:
		return true
	case c.Downstream == last.Downstream:
		return false
	case last.opening != 0:
		return c.opening != last.opening
	}
	return end >= 0 && last.Downstream > end
}

// tells reports whether a row in this state says where the group of the source stands. Where it does not, the checkpoint
// that was written before stays: the source's position is not believed (suspect), not known (unreadable, in an open
// transaction), or means something else than the map says (held). Whether the target's group can be written is another
// matter.
func tells(s checkpoint.State) bool {
	switch s {
	case checkpoint.StateSynced, checkpoint.StatePending, checkpoint.StateSyncOff, checkpoint.StateTypeConflict,
		checkpoint.StateActiveOnTarget, checkpoint.StateMovedOnTarget, checkpoint.StateExistsOnTarget, checkpoint.StateTargetUnreadable:
		return true
	}
	return false
}

// checkpointOf returns what a row says. It reports false for a row without a translation that holds.
func checkpointOf(r checkpoint.Row, lanes map[checkpoint.Key]checkpoint.Lane) (c written, end int64, ok bool) {
	lane, known := lanes[r.Key]
	if !known || lane.Held != "" || !tells(r.State) || r.Source < 0 || r.Translated < 0 || r.DstTopic == "" {
		return written{}, 0, false
	}
	c = written{opening: lane.Opening, Checkpoint: Checkpoint{
		Group: r.DstGroup, Key: checkpoint.Key{Topic: r.DstTopic, Partition: r.Partition},
		Upstream: r.Source, Downstream: r.Translated, Metadata: r.Metadata,
	}}
	return c, lane.DstEnd, true
}

// checkpoints keeps the checkpoints topic.
type checkpoints struct {
	*board
	stand map[subject]written // what stands in the topic
}

func (c *checkpoints) load(ctx context.Context) error {
	stand := map[subject]written{}
	bad := 0
	err := c.read(ctx, func(r *kgo.Record) {
		w, err := readCheckpoint(r)
		if err != nil {
			bad++ // a null of somebody's, or another version: as soon as it is compacted, nothing stands for its key
			delete(stand, subject{w.Group, w.Key})
			return
		}
		stand[subject{w.Group, w.Key}] = w
	})
	if err != nil {
		return err
	}
	if bad > 0 {
		c.log.Warn("some records of the topic are no checkpoints and were left out; Java's readers may fail for them", "records", bad)
	}
	c.stand = stand
	return nil
}

func readCheckpoint(r *kgo.Record) (w written, err error) {
	if w.Checkpoint, err = DecodeCheckpoint(r.Key, r.Value); err != nil {
		return w, err
	}
	for _, h := range r.Headers {
		if h.Key == openingHeader {
			w.opening, _ = strconv.ParseUint(string(h.Value), 10, 64) // 0, unknown, where it is no number
		}
	}
	return w, nil
}

func (c *checkpoints) take(ctx context.Context, p checkpoint.Pass) (faults, err error) {
	var records []*kgo.Record
	var news []written
	for _, row := range p.Rows {
		w, end, ok := checkpointOf(row, p.Lanes)
		if !ok {
			continue
		}
		if last, stands := c.stand[subject{w.Group, w.Key}]; stands && !due(&last, w, end) {
			continue
		}
		key, value, err := w.Encode()
		if err != nil {
			faults = errors.Join(faults, fmt.Errorf("group %q: %w", w.Group, err))
			continue
		}
		opening := kgo.RecordHeader{Key: openingHeader, Value: strconv.AppendUint(nil, w.opening, 10)}
		records = append(records, &kgo.Record{Key: key, Value: value, Timestamp: p.At, Headers: []kgo.RecordHeader{opening}})
		news = append(news, w)
	}
	stored, err := c.write(ctx, records)
	for i, w := range news {
		if stored[i] {
			c.stand[subject{w.Group, w.Key}] = w
		}
	}
	return faults, err
}
