package replicator

import (
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"lockstep/internal/kafka"
	"lockstep/internal/model"
)

// take hands the next batch to a sender, or nil when there is none or the window is full. All unanswered batches of a
// lane go through one sender, since only there do answers come in the order of sending.
func (l *lane) take(s *sender) *outgoing {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.sendableLocked() || len(l.inflight) > 0 && l.via != s {
		return nil
	}
	o := l.out[0]
	l.via = s
	l.out[0] = nil
	l.out = l.out[1:]
	l.inflight = append(l.inflight, o)
	l.sentAt = l.m.now()
	return o
}

// sendable reports whether take would hand out a batch.
func (l *lane) sendable() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sendableLocked()
}

func (l *lane) sendableLocked() bool {
	return l.open && !l.draining && !l.forked && l.verdict == goOn && len(l.out) > 0 &&
		(len(l.inflight) == 0 || len(l.inflight) < l.windowLocked()) && l.out[0].needPlan <= l.durableJumps
}

// windowLocked is how many batches may be unanswered. A partition that does not know the producer id accepts any
// first sequence, so until the first answer only one batch goes out: were it refused, the next one would stand in its
// place. The same holds while the broker may forget the producer at any moment, which it does by record time.
func (l *lane) windowLocked() int {
	if !l.proven || l.agedLocked() {
		return 1
	}
	return maxInFlight
}

// agedLocked reports whether the target may forget this producer: the newest record time of the last answered batch
// is older than half of producer.id.expiration.ms.
func (l *lane) agedLocked() bool {
	return l.proven && l.old(l.lastTS)
}

// old reports whether a record time is so far back that a broker may forget the producer of such records.
func (l *lane) old(ts int64) bool {
	return l.m.now().UnixMilli()-ts > l.m.producerExpiry.Milliseconds()/2
}

// settle takes the answer to one batch. Answers come in the order of sending, per lane. The caller wakes the sender.
func (l *lane) settle(o *outgoing, base int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inflight = slices.Delete(l.inflight, 0, 1) // few; their place is used again
	if err == nil && len(l.failed) == 0 && base >= l.cursor.Dst {
		l.landLocked(o, base)
	} else {
		l.failed = append(l.failed, o)
		if kafka.Outcome(err) != kafka.OutcomeNotWritten {
			l.unsureTo = max(l.unsureTo, o.count+o.n)
		}
		l.judgeLocked(o, base, err)
	}
	l.turnLocked()
}

// landLocked moves the cursor behind a batch that the target has.
func (l *lane) landLocked(o *outgoing, base int64) {
	if base > l.cursor.Dst {
		l.landings = append(l.landings, model.Landing{Count: o.count, Dst: base})
		l.m.inspect(l, l.cursor.Dst, base)
	}
	l.cursor = model.Cursor{Src: o.srcEnd, Dst: base + o.n, Count: o.count + o.n, SrcEpoch: o.srcEpoch}
	l.dstEnd = max(l.dstEnd, l.cursor.Dst)
	l.proven, l.seqFault, l.lastTS = true, 0, o.maxTS
	l.held -= int64(len(o.raw))
	l.copied.records += o.n
	l.copied.bytes += int64(len(o.raw))
	l.copied.sinceSave += int64(len(o.raw))
	l.forms[o.form]++
	l.m.landed(o)
	o.drop()
	if l.cursor.Src > l.corruptAt {
		l.corrupt, l.brokerErr = 0, 0
	}
	if l.open && (l.state != model.StateCopying || !l.fault.IsZero()) {
		l.healthyLocked(l.m.now())
	}
	if l.copied.sinceSave >= saveBytes {
		l.m.flushSoon()
	}
}

// judgeLocked decides what a failed batch means for its lane. Only the first failure counts: the batches behind it
// are refused because of it.
func (l *lane) judgeLocked(o *outgoing, base int64, err error) {
	if l.verdict != goOn {
		return
	}
	detail := fmt.Sprintf("batch of %d records, source offsets %d to %d, at count %d (target offset %d): %v",
		o.n, o.srcFrom, o.srcTo-1, o.count, l.cursor.Dst, err)
	switch {
	case err == nil: // base below what is expected: the broker took it for a repetition of something else
		l.verdict = reopen
		l.m.log.Warn("target answered an older offset", "lane", l.id.String(), "dst", base, "dst_next", l.cursor.Dst)
	case errors.Is(err, kerr.OutOfOrderSequenceNumber), errors.Is(err, kerr.UnknownProducerID):
		l.sequenceLocked(detail)
	case errors.Is(err, kerr.InvalidProducerEpoch), errors.Is(err, kerr.ProducerFenced):
		l.verdict = fenced
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.RecordListTooLarge):
		l.tooLargeLocked(o, detail)
	case errors.Is(err, kerr.CorruptMessage):
		l.corruptLocked(fmt.Sprintf("source offsets %d to %d: %s", o.srcFrom, o.srcTo-1, detail))
	default:
		l.judgeClassLocked(o, err, detail)
	}
}

func (l *lane) judgeClassLocked(o *outgoing, err error, detail string) {
	action, reason := kafka.Classify(err)
	if errors.Is(err, kerr.InvalidRecord) && l.limits.Compacted {
		reason = model.ReasonMissingKey
	}
	switch {
	case action == kafka.Stop && refusedForRecord(err) && o.n > 1, errors.Is(err, kerr.UnknownServerError) && l.chokesLocked(o):
		l.singlyTo = o.srcTo
		l.verdict = reopen
		return
	case action == kafka.Stop:
		l.haltLocked(reason, detail)
		return
	}
	l.troubleLocked(reason, denied(err, "WRITE", l.ident.DstTopic, l.m.dst.Name(), detail), l.m.now())
	if kafka.Outcome(err) == kafka.OutcomeUnknown && (l.agedLocked() || l.old(o.maxTS)) {
		l.verdict = reopen // the broker may have forgotten the sequence, so sending again could write it twice
		return
	}
	l.verdict = repair
	if action == kafka.Refresh {
		l.m.dstLeaders.Stale(l.dstPart(), -1)
	}
}

// refusedForRecord reports whether a broker refuses a whole batch that way for a single one of its records. Sent one by one,
// only that record is refused, and an operator who leaves it out leaves out no other.
func refusedForRecord(err error) bool {
	return errors.Is(err, kerr.InvalidTimestamp) || errors.Is(err, kerr.InvalidRecord)
}

// chokesLocked counts server errors at one position. A broker answers so when it cannot decompress a batch: one that it
// chokes on again and again is decoded here, and stops the lane as corrupt if that cannot be done.
func (l *lane) chokesLocked(o *outgoing) bool {
	if l.corruptAt != l.cursor.Src {
		l.corruptAt, l.corrupt, l.brokerErr = l.cursor.Src, 0, 0
	}
	l.brokerErr++
	return l.brokerErr >= corruptTries && o.srcTo > l.singlyTo
}

// sequenceLocked answers a sequence error: first look at the headers, then a new term, then an operator.
func (l *lane) sequenceLocked(detail string) {
	l.seqFault++
	switch {
	case l.seqFault == 1:
		l.verdict = repair
	case l.seqFault <= 3:
		l.verdict = reopen
	default:
		l.haltLocked(model.ReasonDiverged, detail)
	}
}

func (l *lane) tooLargeLocked(o *outgoing, detail string) {
	if o.n == 1 {
		l.haltLocked(model.ReasonTooLarge, fmt.Sprintf("%s; it takes %d bytes", detail, len(o.raw)))
		return
	}
	// The topic accepts less than was read from its settings: batches are cut anew in a new opening.
	l.outgrown = int32(len(o.raw))
	l.verdict = reopen
}

// corruptTries is how often a batch with a bad checksum is fetched again before the lane stops.
const corruptTries = 3

func (l *lane) corruptLocked(detail string) {
	if l.corruptAt != l.cursor.Src {
		l.corruptAt, l.corrupt, l.brokerErr = l.cursor.Src, 0, 0
	}
	l.corrupt++
	if l.corrupt >= corruptTries {
		l.haltLocked(model.ReasonCorrupt, detail)
		return
	}
	l.verdict = reopen
}

func (l *lane) haltLocked(r model.Reason, detail string) {
	l.verdict = halt
	l.open = false
	l.answerLocked(l.intent, stopError(r, detail))
	l.setLocked(model.StateStopped, r, detail, l.m.now())
}

// turnLocked acts on the verdict once nothing of the lane is unanswered any more.
func (l *lane) turnLocked() {
	if len(l.inflight) > 0 || l.planning > 0 && l.verdict != repair {
		return
	}
	if l.verdict == goOn && l.forked && l.open {
		l.verdict = reopen
	}
	if l.verdict == goOn {
		l.refusedLocked()
	}
	switch l.verdict {
	case goOn, mending:
		return
	case repair:
		l.out = append(l.failed, l.out...)
		l.failed = nil
		l.verdict = mending
		l.m.repairQ.push(l)
	case reopen, fenced:
		l.enterLocked(l.term.N, l.verdict == fenced)
	case halt:
		l.endLocked()
	}
}

// endLocked gives up what a stopped lane holds. When every batch was answered, and none can be in doubt, its cursor is a
// clean end: the next start has nothing to seal.
func (l *lane) endLocked() {
	l.verdict = goOn
	l.endedWell = l.began && !l.unsureLocked() && l.planning == 0 && cleanReason(l.reason)
	l.dropBuffersLocked()
}

// unsureLocked reports whether a batch without a clear answer may still land: one that the cursor has not passed.
func (l *lane) unsureLocked() bool { return l.cursor.Count < l.unsureTo }

// cleanReason reports whether a lane that stopped for this reason still knows for certain what it copied.
func cleanReason(r model.Reason) bool {
	switch r {
	case model.ReasonDiverged, model.ReasonTargetLost, model.ReasonPlanLost, model.ReasonSuperseded, model.ReasonInternal:
		return false
	}
	return true
}

// enterLocked gives the lane to the opener, for an opening in a term above the given one.
func (l *lane) enterLocked(above uint64, seeStop bool) {
	l.open, l.entering, l.unsealed, l.verdict = false, true, true, goOn
	l.termAbove, l.seeStop = above, seeStop
	l.dropBuffersLocked()
	l.setLocked(model.StateOpening, model.ReasonNone, "", l.m.now())
	l.m.openQ.push(l)
}

// refusedLocked stops the lane when all that could be sent before a refused record has been sent and answered.
func (l *lane) refusedLocked() {
	if l.refusal == nil || len(l.out) > 0 || l.preparing || !l.open {
		return
	}
	r := *l.refusal
	if r.reason == model.ReasonCorrupt && !r.final {
		l.corruptLocked(r.detail)
		return
	}
	l.haltLocked(r.reason, r.detail)
}

// saveBytes is how much a lane copies before its cursor is stored without waiting for the timer.
const saveBytes = 64 << 20
