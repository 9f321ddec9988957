package replicator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"lockstep/internal/kafka"
	"lockstep/internal/model"
)

// How long a lane is left out of fetches after an error. An error that stays in a fetch session would be answered
// thousands of times a second; one that lasts is asked about more and more rarely.
const (
	pauseForLeader = 50 * time.Millisecond
	pauseForFault  = time.Second
	pauseLongest   = 5 * time.Second
	shortPauses    = 3 // after so many errors in a row nobody waits for the lane any more
)

// fetchError handles what the source said instead of data for one lane.
func (m *Manager) fetchError(l *lane, w wanted, err error) {
	m.readFrom(l, -1)
	switch {
	case errors.Is(err, kerr.OffsetOutOfRange):
		m.lookAt(l, w)
		return
	case errors.Is(err, kerr.CorruptMessage):
		l.corruptAtSource(w.off)
		return
	}
	action, reason := kafka.Classify(err)
	if action == kafka.Refresh {
		m.srcLeaders.Stale(l.srcPart(), -1)
		l.pauseAgain(pauseForLeader)
	} else {
		l.pauseAgain(pauseForFault)
	}
	l.sourceTrouble(reason, denied(err, "READ", l.id.Topic, m.src.Name(), fmt.Sprintf("fetch at source offset %d: %v", w.off, err)))
}

// pauseAgain leaves the lane out of fetches, twice as long with each error in a row.
func (l *lane) pauseAgain(first time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := min(first<<min(l.srcFaults, 10), pauseLongest)
	l.srcFaults++
	l.pauseUntil, l.pauseShort = l.m.now().Add(d), d < pauseForFault && l.srcFaults <= shortPauses
}

// corruptAtSource handles the source's own word that it cannot read what it stored. It does not say how far the damage
// reaches.
func (l *lane) corruptAtSource(off int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pauseUntil, l.pauseShort = l.m.now().Add(pauseForFault), false
	if !l.open || l.fetchNext != off || l.refusal != nil {
		return
	}
	l.corruptSrc++
	detail := fmt.Sprintf("source offset %d: the source broker itself reports a damaged batch; where it ends is not known (kafka-dump-log.sh shows it)", off)
	if l.corruptSrc < corruptTries || len(l.in) > 0 || l.preparing {
		l.atSource = true
		l.troubleLocked(model.ReasonCorrupt, detail, l.m.now())
		return
	}
	// What was read before it is good, and is copied first.
	l.refusal = &refusal{reason: model.ReasonCorrupt, detail: detail, final: true}
	l.turnLocked()
}

// lookAt looks into a position that the source's log does not have, or not on the branch that was read.
func (m *Manager) lookAt(l *lane, w wanted) {
	l.mu.Lock()
	busy := l.ranged || !l.open || l.gen != w.gen
	l.ranged = l.ranged || !busy
	opening, term := l.opening, l.term.N
	l.mu.Unlock()
	if !busy {
		m.spawn(func(ctx context.Context) { m.resolve(ctx, l, w, opening, term) })
	}
}

// resolve asks the leader. A position on another branch, or behind the log's end, is a truncation; one before the log's
// start is a gap; and one that the leader has after all was denied by a replica that lagged behind.
func (m *Manager) resolve(ctx context.Context, l *lane, w wanted, opening, term uint64) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	f, ferr := m.lookForFork(ctx, l, w.off, w.epoch)
	log := ends(ctx, m.src, []kafka.Part{l.srcPart()})[l.srcPart()]
	switch err := firstErr(ferr, log.err); {
	case err != nil:
		l.sourceTrouble(model.ReasonLeaderUnavailable, "ask the source leader for the log's ends: "+err.Error())
		m.srcLeaders.Stale(l.srcPart(), -1)
		l.inRange(opening, -1)
	case f.rewound() && !m.accepted(term):
		m.replaced(rewoundText(l, f, w.off))
	case f.split, w.off > log.end && w.epoch < 0:
		l.cutOff(opening)
	case w.off < log.start:
		m.gap(ctx, l, opening, w.off, log.start)
	default:
		l.inRange(opening, -1)
	}
}

// gap writes the lost range to the ledger and goes on behind it, or stops, as the link's on_gap says.
func (m *Manager) gap(ctx context.Context, l *lane, opening uint64, from, to int64) {
	known := m.inLedger(l.id, from, to)
	if m.tuning().PauseOnGap && !known {
		l.stop(model.ReasonGap, fmt.Sprintf("source offsets %d to %d were deleted before they were read", from, to-1))
		return
	}
	if !known {
		if err := m.leaveOut(ctx, model.Gap{Lane: l.id, From: from, To: to, Reason: byRetention}); err != nil {
			l.trouble(model.ReasonStateTopic, "write gap: "+err.Error())
			l.inRange(opening, -1)
			return
		}
	}
	l.inRange(opening, to)
}

// byRetention is the ledger's reason for what the source deleted before it was read.
const byRetention = "retention"

// leaveOut enters source offsets that are not copied into the ledger; that is durable when it returns.
func (m *Manager) leaveOut(ctx context.Context, g model.Gap) error {
	g.At = m.now()
	if err := m.store.Gap(ctx, g); err != nil {
		return err
	}
	m.metrics.gapRecords.WithLabelValues(m.opt.Link).Add(float64(g.To - g.From))
	m.log.Warn("source offsets are left out", "topic", g.Lane.Topic, "partition", g.Lane.Partition, "src_from", g.From, "src_to", g.To, "reason", g.Reason)
	return nil
}

// inLedger reports whether the ledger has a lost range already: an operator accepted it, or the entry was written before a
// death.
func (m *Manager) inLedger(id model.Lane, from, to int64) bool {
	st, ok := m.view.Lane(id)
	return ok && slices.ContainsFunc(st.Gaps, func(g model.Gap) bool {
		return g.Reason == byRetention && g.From <= from && g.To >= to
	})
}

// inRange lets the lane fetch again, from another position unless next is -1.
func (l *lane) inRange(opening uint64, next int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.opening != opening {
		return
	}
	l.ranged, l.idleAt = false, -1 // what a poll saw was perhaps another branch
	if next >= 0 && l.open {
		l.fetchNext, l.fetchEpoch = next, -1
		return
	}
	l.pauseUntil, l.pauseShort = l.m.now().Add(pauseForFault), false
}
