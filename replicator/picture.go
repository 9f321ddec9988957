package replicator

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"lockstep/internal/kafka"
	"lockstep/internal/model"
)

// errNoPartition says that a topic has fewer partitions than a lane needs.
var errNoPartition = errors.New("the topic has no such partition")

// pictures looks at lanes, here and on both clusters.
func (m *Manager) pictures(ctx context.Context, lanes []*lane, o model.Order) ([]picture, error) {
	m.save(ctx, lanes, false) // ends that are clean and not stored yet
	if err := m.view.Barrier(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	held := m.holds()
	ps := make([]picture, len(lanes))
	for i, l := range lanes {
		ps[i] = l.picture()
		ps[i].stored, ps[i].found = m.view.Lane(l.id)
		if p, ok := held.of(l.id.Topic); ok {
			ps[i].held = pauseText(p)
		}
	}
	if err := m.lookAtTopics(ctx, ps); err != nil {
		return nil, err
	}
	m.lookAtLogs(ctx, ps, o)
	return ps, nil
}

func (l *lane) picture() picture {
	l.mu.Lock()
	defer l.mu.Unlock()
	return picture{lane: l.id, state: l.state, reason: l.reason, cursor: l.cursor, now: l.offered, born: l.born}
}

func (p *picture) srcPart() kafka.Part {
	return kafka.Part{Topic: p.lane.Topic, ID: p.now.Src, Partition: p.lane.Partition}
}

func (p *picture) dstPart() kafka.Part {
	return kafka.Part{Topic: p.now.DstTopic, ID: p.dstID, Partition: p.lane.Partition}
}

// lookAtTopics notes what the topics of both sides are now.
func (m *Manager) lookAtTopics(ctx context.Context, ps []picture) error {
	src, dst := make(map[string]bool), make(map[string]bool)
	for _, p := range ps {
		src[p.lane.Topic], dst[p.now.DstTopic] = true, true
	}
	srcMeta, err := m.opt.Source.Metadata(ctx, keys(src)...)
	if err != nil {
		return err
	}
	dstMeta, err := m.opt.Target.Metadata(ctx, keys(dst)...)
	if err != nil {
		return err
	}
	for i := range ps {
		p := &ps[i]
		at := dstMeta.Topics[p.now.DstTopic]
		p.dstID, p.dstParts, p.dst.err = at.ID, len(at.Parts), at.Err
		p.dstGone = errors.Is(at.Err, kerr.UnknownTopicOrPartition)
		if t := srcMeta.Topics[p.lane.Topic]; t.Err == nil && int(p.lane.Partition) >= len(t.Parts) {
			p.src.err = errNoPartition
		}
		if p.dst.err == nil && p.mustRemake() {
			p.dst.err = errNoPartition
		}
	}
	return nil
}

func keys(set map[string]bool) (names []string) {
	for name := range set {
		names = append(names, name)
	}
	return names
}

// lookAtLogs notes where the logs of both sides begin and end, and whether the target's records could be deleted.
func (m *Manager) lookAtLogs(ctx context.Context, ps []picture, o model.Order) {
	var src, dst []kafka.Part
	var begins []int64 // adopt: what is asked for, of src
	for i := range ps {
		if ps[i].src.err == nil {
			src, begins = append(src, ps[i].srcPart()), append(begins, m.adoptFrom(o, ps[i].born))
		}
		if ps[i].dst.err == nil {
			dst = append(dst, ps[i].dstPart())
		}
	}
	srcEnds, dstEnds := ends(ctx, m.src, src), ends(ctx, m.dst, dst)
	var from map[kafka.Part]kafka.Offset
	if o.Kind == model.OrderAdopt {
		from = m.positions(ctx, src, begins)
	}
	probe := make(map[kafka.Part]int64)
	for i := range ps {
		p := &ps[i]
		if p.src.err == nil {
			p.src, p.from = srcEnds[p.srcPart()], from[p.srcPart()].Offset
		}
		if p.dst.err == nil {
			p.dst = dstEnds[p.dstPart()]
		}
		if o.Kind == model.OrderRebuild && p.dst.err == nil && p.dst.end > p.dst.start {
			probe[p.dstPart()] = p.dst.start // deletes nothing
		}
	}
	if len(probe) == 0 {
		return
	}
	allowed := m.opt.Target.DeleteRecords(ctx, probe)
	for i := range ps {
		ps[i].denied = allowed[ps[i].dstPart()].Err
	}
}

// adoptFrom is what the source's leader is asked for when a topic is adopted.
func (m *Manager) adoptFrom(o model.Order, born bool) int64 {
	switch o.From {
	case "earliest":
		return kafka.AtStart
	case "latest":
		return kafka.AtEnd
	}
	return m.tuning().Start.offset(born)
}

// ends asks leaders for both ends of logs.
func ends(ctx context.Context, c cluster, parts []kafka.Part) map[kafka.Part]logEnds {
	out := make(map[kafka.Part]logEnds, len(parts))
	if len(parts) == 0 {
		return out
	}
	starts := c.ListOffsets(ctx, parts, kafka.AtStart, false)
	for p, end := range c.ListOffsets(ctx, parts, kafka.AtEnd, false) {
		out[p] = logEnds{start: starts[p].Offset, end: end.Offset, err: firstErr(starts[p].Err, end.Err)}
	}
	return out
}
