package mm2

import (
	"context"
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"lockstep/checkpoint"
	"lockstep/internal/model"
	"lockstep/offsetsync"
)

// MirrorMaker translates an offset by the newest pair at or before it: to the pair's own place, or to the one right behind
// it. So a pair of a record that was copied never leads behind the exact translation, as long as the map holds it.

// harmless reports whether translating by the pair leads nowhere behind what the map says, for no offset at all.
func harmless(m *offsetsync.Map, s OffsetSync) bool {
	return s.Downstream <= m.Translate(s.Upstream).Offset && s.Downstream+1 <= m.Translate(s.Upstream+1).Offset
}

// reset returns the pair that makes readers forget all others of its partition, since it goes back behind them. It stands
// for what is before all records: whatever is asked for then leads to where the map begins.
func reset(m *offsetsync.Map, k checkpoint.Key) OffsetSync {
	_, dst := m.Start()
	return OffsetSync{Key: k, Upstream: -1, Downstream: dst - 1}
}

// thinning is the factor by which the distances grow between the pairs of one write. Readers thin them out further with
// age, by themselves.
const thinning = 4

// pairs returns what is to be written after the pair that stands (nil: none), in this order: the newest record's pair, and
// before it those of ever older records, back to the one that stands or to the first record.
func pairs(m *offsetsync.Map, k checkpoint.Key, last *OffsetSync) (out []OffsetSync) {
	if last != nil && !harmless(m, *last) {
		r := reset(m, k)
		out, last = append(out, r), &r
	}
	src, _ := m.End()
	newest, ok := m.Newest(src)
	if !ok || last != nil && newest.Src == last.Upstream && newest.Dst == last.Downstream {
		return out
	}
	var since int64 = -1
	if last != nil && last.Upstream < newest.Src {
		since = last.Upstream
	}
	tail := []OffsetSync{{k, newest.Src, newest.Dst}}
	for back := int64(1); newest.Src-back > since; back *= thinning {
		at, ok := m.Newest(newest.Src - back)
		if !ok || at.Src <= since {
			break
		}
		if at.Src != tail[len(tail)-1].Upstream {
			tail = append(tail, OffsetSync{k, at.Src, at.Dst})
		}
	}
	if first, ok := oldest(m); ok && since < 0 && first.Src < tail[len(tail)-1].Upstream {
		tail = append(tail, OffsetSync{k, first.Src, first.Dst})
	}
	slices.Reverse(tail)
	return append(out, tail...)
}

// oldest returns the first record that the map holds.
func oldest(m *offsetsync.Map) (model.Span, bool) {
	src, _ := m.Start()
	t := m.Translate(src)
	return m.Newest(src + t.Off)
}

// offsetSyncs keeps the topic of offset syncs.
type offsetSyncs struct {
	*board
	stand map[checkpoint.Key]OffsetSync // the newest pair in the topic
	taken map[checkpoint.Key]progress   // how far lanes were when everything of them stood there
}

// progress is how far a lane's map reaches: while it is the same, there is nothing new in it.
type progress struct {
	opening  uint64
	src, dst int64
}

func progressOf(l checkpoint.Lane) progress {
	src, dst := l.Map.End()
	return progress{l.Opening, src, dst}
}

func (o *offsetSyncs) load(ctx context.Context) error {
	stand := map[checkpoint.Key]OffsetSync{}
	bad := 0
	err := o.read(ctx, func(r *kgo.Record) {
		s, err := DecodeOffsetSync(r.Key, r.Value)
		if err != nil {
			bad++
			return
		}
		stand[s.Key] = s
	})
	if err != nil {
		return err
	}
	if bad > 0 {
		o.log.Warn("some records of the topic are no offset syncs and were left out; Java's readers may fail for them", "records", bad)
	}
	o.stand, o.taken = stand, map[checkpoint.Key]progress{}
	return nil
}

func (o *offsetSyncs) take(ctx context.Context, p checkpoint.Pass) (faults, err error) {
	var records []*kgo.Record
	var news []OffsetSync
	moved := o.moved(p)
	for _, k := range moved {
		lane := p.Lanes[k]
		var last *OffsetSync
		if s, ok := o.stand[k]; ok {
			last = &s
		}
		for _, s := range pairs(lane.Map, k, last) {
			key, value, err := s.Encode()
			if err != nil {
				faults = errors.Join(faults, err)
				break
			}
			records = append(records, &kgo.Record{Key: key, Value: value, Timestamp: p.At})
			news = append(news, s)
		}
	}
	stored, err := o.write(ctx, records)
	for i, s := range news {
		if stored[i] {
			o.stand[s.Key] = s
		}
	}
	if err == nil {
		for _, k := range moved {
			o.taken[k] = progressOf(p.Lanes[k])
		}
	}
	return faults, err
}

// moved returns the lanes that may have something new, in order.
func (o *offsetSyncs) moved(p checkpoint.Pass) (out []checkpoint.Key) {
	for k, lane := range p.Lanes {
		if lane.Map == nil || lane.Held != "" {
			continue
		}
		if was, ok := o.taken[k]; !ok || was != progressOf(lane) {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, checkpoint.Key.Compare)
	return out
}
