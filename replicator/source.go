package replicator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"lockstep/internal/kafka"
	"lockstep/internal/model"
)

// How long a lane is left out of fetches after an error. An error that stays in a fetch session would be answered
// thousands of times a second.
const (
	pauseForLeader = 50 * time.Millisecond
	pauseForFault  = time.Second
)

// fetchError handles what the source said instead of data for one lane.
func (m *Manager) fetchError(l *lane, off int64, err error) {
	m.readFrom(l, -1)
	switch {
	case errors.Is(err, kerr.OffsetOutOfRange):
		m.outOfRange(l, off)
		return
	case errors.Is(err, kerr.CorruptMessage):
		l.pause(pauseForFault, false)
		l.sourceTrouble(model.ReasonCorrupt, fmt.Sprintf("source offset %d: the source itself reports a corrupt batch", off))
		return
	}
	action, reason := kafka.Classify(err)
	if action == kafka.Refresh {
		m.srcLeaders.Stale(l.srcPart(), -1)
		l.pause(pauseForLeader, true)
	} else {
		l.pause(pauseForFault, false)
	}
	l.sourceTrouble(reason, fmt.Sprintf("fetch at source offset %d: %v", off, err))
}

// diverging handles the source's word that its log took another branch below the lane's position.
func (m *Manager) diverging(l *lane, off int64, epoch int32, end int64) {
	l.stop(model.ReasonSourceTruncated, fmt.Sprintf("source log of leader epoch %d ends at %d, read was up to %d", epoch, end, off))
}

// outOfRange looks into a position that the source's log does not have.
func (m *Manager) outOfRange(l *lane, off int64) {
	l.mu.Lock()
	busy := l.ranged
	l.ranged = true
	l.mu.Unlock()
	if !busy {
		m.spawn(func(ctx context.Context) { m.resolveRange(ctx, l, off) })
	}
}

// resolveRange asks the leader for both ends: a position before the log is a gap, one behind it a truncation, and one
// inside came from a replica that lagged behind.
func (m *Manager) resolveRange(ctx context.Context, l *lane, off int64) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	p := l.srcPart()
	start := m.src.ListOffsets(ctx, []kafka.Part{p}, kafka.AtStart, false)[p]
	end := m.src.ListOffsets(ctx, []kafka.Part{p}, kafka.AtEnd, false)[p]
	switch err := firstErr(start.Err, end.Err); {
	case err != nil:
		l.sourceTrouble(model.ReasonLeaderUnavailable, "ask the source leader for the log's ends: "+err.Error())
		m.srcLeaders.Stale(p, -1)
		l.inRange(-1)
	case off < start.Offset:
		m.gap(ctx, l, off, start.Offset)
	case off > end.Offset:
		l.stop(model.ReasonSourceTruncated, fmt.Sprintf("source log ends at %d, read was up to %d", end.Offset, off))
	default:
		l.inRange(-1)
	}
}

// gap writes the lost range to the ledger and goes on behind it, or stops, as the link's on_gap says.
func (m *Manager) gap(ctx context.Context, l *lane, from, to int64) {
	detail := fmt.Sprintf("source offsets %d to %d were deleted before they were read", from, to-1)
	if m.opt.PauseOnGap {
		l.stop(model.ReasonGap, detail)
		return
	}
	g := model.Gap{Lane: l.id, From: from, To: to, Reason: "retention", At: m.now()}
	if err := m.store.Gap(ctx, g); err != nil {
		l.trouble(model.ReasonStateTopic, "write gap: "+err.Error())
		l.inRange(-1)
		return
	}
	m.metrics.gapRecords.WithLabelValues(m.opt.Link).Add(float64(to - from))
	m.log.Warn("records lost at the source", "topic", l.id.Topic, "partition", l.id.Partition, "src_from", from, "src_to", to)
	l.inRange(to)
}

// inRange lets the lane fetch again, from another position unless next is -1.
func (l *lane) inRange(next int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ranged = false
	if next >= 0 && l.open {
		l.fetchNext, l.fetchEpoch = next, -1
		return
	}
	l.pauseUntil, l.pauseShort = l.m.now().Add(pauseForFault), false
}
