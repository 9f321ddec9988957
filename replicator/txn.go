package replicator

import (
	"context"
	"fmt"
	"time"

	"lockstep/internal/kafka"
	"lockstep/internal/model"
)

const (
	// txnEvery is how often open transactions are asked for, and txnPatience how long a stable end stands still before.
	txnEvery    = 5 * time.Second
	txnPatience = 10 * time.Second
	// hangingAfter is how long a stable end stands still before the lane shows that a transaction holds it.
	hangingAfter = time.Minute
)

// waitsForTxn is a lane that has copied all that it may read, and whose source has more behind an open transaction.
type waitsForTxn struct {
	lane    *lane
	stable  int64
	waiting int64 // source offsets behind the stable end
	since   time.Time
}

// watchTransactions looks for transactions that nobody ends: they hold the source's stable offset, so nothing behind their
// first record can be copied. A leader that does not answer, or may not be asked, tells nothing.
func (m *Manager) watchTransactions(ctx context.Context) {
	now := m.now()
	waits := make(map[kafka.Part]waitsForTxn)
	var parts []kafka.Part
	for _, l := range m.all() {
		if w, ok := l.waitsForTxn(now); ok {
			p := l.srcPart()
			waits[p] = w
			parts = append(parts, p)
		}
	}
	oldest := time.Duration(0)
	if len(parts) > 0 {
		ask, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		for p, got := range m.src.DescribeProducers(ask, parts) {
			if got.Err != nil {
				m.log.Debug("ask for open transactions", "lane", waits[p].lane.id.String(), "error", got.Err)
				continue
			}
			if x, ok := openTxn(got.Active, waits[p].stable); ok {
				age := txnAge(x, waits[p].since, now)
				oldest = max(oldest, age)
				waits[p].lane.hangs(waits[p], x, age, now)
			}
		}
	}
	m.metrics.openTxn.WithLabelValues(m.opt.Link).Set(oldest.Seconds())
}

// waitsForTxn reports whether the lane stands at a stable end that has not moved for a while although the log goes on.
func (l *lane) waitsForTxn(now time.Time) (waitsForTxn, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	waits := l.open && l.verdict == goOn && !l.m.opt.ReadUncommitted && l.srcStable >= 0 && l.srcStable < l.srcEnd &&
		l.fetchNext >= l.srcStable && now.Sub(l.stableAt) >= txnPatience
	return waitsForTxn{lane: l, stable: l.srcStable, waiting: l.srcEnd - l.srcStable, since: l.stableAt}, waits
}

// openTxn returns the producer whose open transaction holds a stable end: the one that began first.
func openTxn(ps []kafka.Producer, stable int64) (first kafka.Producer, ok bool) {
	for _, p := range ps {
		if p.TxnStart < 0 || p.TxnStart > stable || ok && p.TxnStart >= first.TxnStart {
			continue
		}
		first, ok = p, true
	}
	return first, ok
}

// txnAge is how old an open transaction is by its last record's time, and at least how long the stable end has stood.
func txnAge(p kafka.Producer, since, now time.Time) time.Duration {
	age := now.Sub(since)
	if p.LastTimestamp > 0 {
		age = max(age, now.Sub(time.UnixMilli(p.LastTimestamp)))
	}
	return age.Truncate(time.Second)
}

// hangs shows what holds the lane, once it has lasted. It ends by itself when the stable end moves.
func (l *lane) hangs(w waitsForTxn, p kafka.Producer, age time.Duration, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.open || l.srcStable != w.stable || !l.fault.IsZero() || now.Sub(w.since) < hangingAfter {
		return
	}
	l.hanging = true
	l.setLocked(model.StateRetrying, model.ReasonHangingTxn, fmt.Sprintf(
		"a transaction of producer id %d, epoch %d, open since source offset %d and %s old, holds %d source offsets back",
		p.PID, p.Epoch, p.TxnStart, age, w.waiting), now)
}
