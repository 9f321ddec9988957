package replicator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"lockstep/internal/kafka"
	"lockstep/internal/model"
	"lockstep/offsetsync"
	"lockstep/replicator/batch"
)

// errGone says that what the target had acknowledged, or the marker that ended the older terms, is not in its log any
// more: an election took a replica that lacks it.
var errGone = errors.New("the target lost its log's end")

// held is what a target log has to hold while a lane is open.
type held struct {
	cursor model.Cursor
	term   model.Term
	marker int64 // offset of the marker that began the term; -1: none
}

// check looks by headers whether the log still holds it: the newest batch, or before there is one the marker. What
// retention or compaction removed cannot be told, and counts as there.
func (h held) check(ctx context.Context, c cluster, p kafka.Part, end int64) error {
	if end < h.cursor.Dst {
		return fmt.Errorf("%w: it ends at offset %d, the lane stands at %d", errGone, end, h.cursor.Dst)
	}
	off := h.newest()
	if off < 0 {
		return nil
	}
	got, ok, err := headerAt(ctx, c, p, off)
	if err != nil || !ok {
		return err
	}
	return h.judge(got)
}

// newest is the offset of the newest record or, before there is one, of the marker; -1 when there is neither.
func (h held) newest() int64 {
	if h.cursor.Count == 0 {
		return h.marker
	}
	return h.cursor.Dst - 1
}

// judge returns an error when a batch that stands at the newest offset is not the one that has to stand there.
func (h held) judge(got batch.Header) error {
	mine := got.Control() // any marker that stands there proves that the log was not cut
	if h.cursor.Count > 0 {
		mine = !got.Control() && got.PID == h.term.PID && got.Epoch == h.term.Epoch &&
			model.Seq(model.Unwrap(got.BaseSeq, h.cursor.Count)+h.cursor.Dst-got.BaseOffset) == model.Seq(h.cursor.Count)
	}
	if !mine {
		return fmt.Errorf("%w: offset %d holds a batch of producer %d, epoch %d", errGone, h.newest(), got.PID, got.Epoch)
	}
	return nil
}

// markerLost reports whether all that the target lost since the lane was opened is the marker that began its term: no
// record had landed behind it. Another marker in a new term mends that.
func markerLost(e *entry) bool {
	c := e.state.Opening.Closed
	return c != nil && e.state.Cursor.Count == 0 && e.state.Cursor.Dst == e.state.Opening.Origin.Dst && e.end >= c.Cursor.Dst
}

// whole checks that a log which is about to be continued at end still holds what was found in it. Where it lost a marker
// before anything had landed behind that, an older term may have written in its place: such records are known to no
// plan, and the lane stops.
//
//nolint:nilerr // what cannot be read is no loss
func (m *Manager) whole(ctx context.Context, e *entry, tail offsetsync.Tailed, end int64) error {
	if e.start > e.state.Cursor.Dst {
		return nil // trimmed: there is nothing to look at
	}
	was, closed := held{tail.Cursor, e.state.Opening.Term, e.state.Cursor.Dst - 1}, e.state.Opening.Closed
	if tail.Cursor.Count > 0 {
		return was.check(ctx, m.dst, e.part, end)
	}
	if closed == nil {
		return nil
	}
	if err := was.check(ctx, m.dst, e.part, end); !errors.Is(err, errGone) {
		return nil // it stands, or nothing tells
	}
	ours := m.producers()
	for h, err := range Headers(ctx, m.dst, e.part, max(e.start, closed.Cursor.Dst), end) {
		if err != nil {
			return err
		}
		if ours[h.PID] && !h.Control() {
			return fmt.Errorf("%w: the marker that began term %d is gone, and producer %d, epoch %d, wrote at offset %d in its place",
				errGone, e.state.Opening.Term.N, h.PID, h.Epoch, h.BaseOffset)
		}
	}
	return nil
}

// watchLeaders looks again at open lanes whose target partition has a leader of another epoch than when they were
// opened: an unclean election may have taken the seal's marker, or records, away.
func (m *Manager) watchLeaders(lanes []*lane) {
	for _, l := range lanes {
		if leader, ok := m.dstLeaders.Lookup(l.dstPart()); ok && l.ledSince(leader.Epoch) {
			m.checkQ.push(l)
		}
	}
}

// ledSince reports whether a leader of that epoch is newer than the one that the lane is known to be whole at.
func (l *lane) ledSince(epoch int32) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open && epoch > l.dstEpoch
}

// checkEvery is the pause before a lane is looked at again that could not be judged.
const checkEvery = time.Second

// checkAll looks at lanes of one target broker. Those that lost something are opened again, which seals them in a new
// term or stops them as diverged.
func (m *Manager) checkAll(ctx context.Context, lanes []*lane) {
	parts := make([]kafka.Part, len(lanes))
	epochs := make([]int32, len(lanes))
	for i, l := range lanes {
		parts[i] = l.dstPart()
		if leader, ok := m.dstLeaders.Lookup(parts[i]); ok {
			epochs[i] = leader.Epoch
		}
	}
	before := make([]held, len(lanes))
	for i, l := range lanes {
		before[i] = l.holds() // before the end is asked for: what was acknowledged by then lies below it
	}
	ask, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	ends := m.dst.ListOffsets(ask, parts, kafka.AtEnd, false)
	var wg sync.WaitGroup
	slots := make(chan struct{}, readAtOnce)
	for i, l := range lanes {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			err := ends[parts[i]].Err
			if err == nil {
				err = before[i].check(ctx, m.dst, parts[i], ends[parts[i]].Offset)
			}
			m.checked(l, before[i], epochs[i], err)
		})
	}
	wg.Wait()
}

func (l *lane) holds() held {
	l.mu.Lock()
	defer l.mu.Unlock()
	return held{l.cursor, l.term, l.marker}
}

// checked acts on what a look at a lane's log found.
func (m *Manager) checked(l *lane, was held, epoch int32, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.open || l.term != was.term:
	case err == nil:
		l.dstEpoch = max(l.dstEpoch, epoch)
	case !errors.Is(err, errGone) || l.verdict == mending:
		m.after(checkEvery, func() { m.checkQ.push(l) })
	case l.verdict < reopen:
		m.log.Warn("the target's log changed with its leader; opening the lane again", "lane", l.id.String(), "error", err)
		l.verdict = reopen
		l.turnLocked()
	}
}
