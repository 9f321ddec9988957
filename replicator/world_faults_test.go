package replicator

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"lockstep/internal/kafka"
	"lockstep/internal/model"
	"lockstep/internal/statelog"
	"lockstep/replicator/batch"
)

// fault is a way in which the design can be built wrongly. The world builds it in, the product never has it: what a
// manager asks is answered wrongly, what it orders is not done, or its lanes are changed behind its back.
type fault string

const (
	noFault fault = ""

	// Seals and terms.
	faultNoMarker            fault = "a new term without a marker"
	faultAnswerIsProof       fault = "the coordinator's answer as proof"
	faultOneAnswerForAll     fault = "a partition that refused its marker counts as sealed"
	faultWeakInTransaction   fault = "a partition below its min ISR in the seal's transaction"
	faultEndAskedBefore      fault = "read to an end asked for before the marker"
	faultStateNotReadAgain   fault = "the state not read again after the marker"
	faultMarkerUnderNewID    fault = "the marker under the new producer id"
	faultTermsByEpoch        fault = "terms compared by epoch"
	faultSameTermAgain       fault = "refused for its epoch, and reopened in the same term"
	faultNoLookForStop       fault = "refused for its epoch, and no look for a stop"
	faultStopAfterMarkers    fault = "the stop written after the markers"
	faultListOfStateAlone    fault = "the seal list from the state alone"
	faultClaimByLink         fault = "one key for all claims of the link"
	faultDescribeAfterMarker fault = "DescribeProducers after the marker"

	// Openings, sequences, recovery.
	faultWindowOfFive        fault = "five batches outstanding on an unknown partition"
	faultWindowOnOldRecords  fault = "five batches outstanding, and sent again, with old records"
	faultCleanMarkTrusted    fault = "the clean mark trusted whatever the log's end"
	faultCleanWhileUnsure    fault = "clean while a batch may still land"
	faultOpeningNotDurable   fault = "an opening not durable before it is used"
	faultPlanNotDurable      fault = "the plan not durable before the data"
	faultKeysWithoutOpening  fault = "keys without the opening"
	faultCountsOf31Bits      fault = "a sequence taken for a count"
	faultCountByRecords      fault = "count by records, not by lastOffsetDelta"
	faultCursorIsTheTruth    fault = "the stored cursor taken for the truth"
	faultEpochOfOtherOffset  fault = "the stored source epoch with another offset"
	faultEpochNotSent        fault = "the source epoch not checked"
	faultSequenceErrorPassed fault = "a sequence error taken for a repetition"
	faultNotEmptyIgnored     fault = "a target that is not empty taken for a new one"
	faultGapNotWritten       fault = "a lost range not written to the ledger"
	faultAbortedNotNamed     fault = "aborted transactions not told apart"
)

// mutate changes a process's lanes.
func (w *world) mutate(p *proc) {
	for _, l := range p.m.lanes {
		switch w.fault {
		case faultWindowOfFive:
			l.proven = l.proven || l.open
		case faultPlanNotDurable:
			l.durableJumps = 1 << 30
		case faultWindowOnOldRecords:
			p.m.producerExpiry = 1000 * time.Hour
		case faultSameTermAgain:
			l.termAbove = 0
		case faultNoLookForStop:
			l.seeStop = false
		case faultCleanWhileUnsure:
			l.unsureTo = 0
		case faultCountsOf31Bits:
			l.cursor.Count &= 1<<31 - 1
		}
	}
}

// written is what becomes of an entry that a process writes to the state topic; false if nothing.
func (w *world) written(p *proc, e statelog.Entry) (statelog.Entry, bool) {
	parts, _ := statelog.SplitKey(e.Key)
	kind := ""
	if parts[0] == "lane" {
		kind = parts[3]
	}
	switch {
	case w.fault == faultGapNotWritten && kind == "gap":
		return e, false
	case w.fault == faultOpeningNotDurable && kind == "opening" && parts[4] != "1":
		p.state.apply([]statelog.Entry{e}) // only the process itself knows of it
		return e, false
	case w.fault == faultClaimByLink && parts[0] == "claim" && len(parts) == 2:
		e.Key = "claim/" + worldLink
	case w.fault == faultKeysWithoutOpening && slices.Contains([]string{"plan", "land", "cursor"}, kind):
		parts[4], parts[5] = "0", "x"
		e.Key = statelog.Key(parts...)
	}
	return e, true
}

// ofNewestOpening reads an entry of a lane as one of its newest opening.
func (w *world) ofNewestOpening(p *proc, e statelog.Entry) statelog.Entry {
	if !strings.Contains(e.Key, "/0/x") {
		return e
	}
	parts, _ := statelog.SplitKey(e.Key)
	if st, ok := p.view.Lane(w.targets[int(parts[2][0]-'0')].lane); ok {
		parts[4], parts[5] = itoa(st.Opening.N), st.Opening.Nonce
		e.Key = statelog.Key(parts...)
	}
	return e
}

// lieAboutEnd changes what a process hears about a target log's end.
func (w *world) lieAboutEnd(p *proc, t *target, end *int64) {
	st, found := p.view.Lane(t.lane)
	switch {
	case w.fault == faultCleanMarkTrusted && found && st.Clean && *end > st.Cursor.Dst:
		*end = st.Cursor.Dst
	case w.fault == faultNotEmptyIgnored && !found:
		*end = t.start
	}
}

// lieAboutHeaders changes what a process reads from a target log.
func (w *world) lieAboutHeaders(raw []byte) []byte {
	if w.fault == faultCursorIsTheTruth {
		return nil
	}
	if w.fault == faultCountByRecords {
		for h, b := range batch.Split(raw) {
			if !h.Dense() && h.Count > 0 {
				binary.BigEndian.PutUint32(b[23:], uint32(h.Count-1))
			}
		}
	}
	return raw
}

// lieAboutSourceEpoch gives the stored epoch for whatever is read from the source.
func (w *world) lieAboutSourceEpoch(p *proc, part kafka.Part, raw []byte) {
	if w.fault != faultEpochOfOtherOffset {
		return
	}
	st, _ := p.view.Lane(w.targets[part.Partition].lane)
	for _, b := range batch.Split(raw) {
		binary.BigEndian.PutUint32(b[12:], uint32(st.Cursor.SrcEpoch))
	}
}

// lieAboutAnswer changes what a process hears about a batch it sent.
func (w *world) lieAboutAnswer(r *request, base int64, err error) (int64, error) {
	if w.fault == faultSequenceErrorPassed && errors.Is(err, kerr.OutOfOrderSequenceNumber) {
		return r.lane.cursor.Dst, nil
	}
	return base, err
}

var _ = model.ReasonNone
