package replicator

import (
	"encoding/binary"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"

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
	faultSameTermAgain       fault = "refused for its epoch, and reopened in the same term"
	faultNoLookForStop       fault = "refused for its epoch, and no look for a stop"
	faultStopAfterMarkers    fault = "the stop written after the markers"
	faultListOfStateAlone    fault = "the seal list from the state alone"
	faultShutUnderOneID      fault = "a lane that nobody opened sealed under the newest producer id alone"
	faultClaimByLink         fault = "one key for all claims of the link"
	faultDescribeAfterMarker fault = "DescribeProducers after the marker"

	// Openings, sequences, recovery.
	faultWindowOfFive       fault = "five batches outstanding on an unknown partition"
	faultOldSentAgain       fault = "old records sent again without a look at the headers"
	faultCleanMarkTrusted   fault = "a clean start without an opening of its own"
	faultCleanWhileUnsure   fault = "clean while a batch may still land"
	faultOpeningNotDurable  fault = "an opening not durable before it is used"
	faultPlanNotDurable     fault = "the plan not durable before the data"
	faultKeysWithoutOpening fault = "keys without the opening"
	faultCursorElsewhere    fault = "a cursor joined before its plan has been read"
	faultCountsOf31Bits     fault = "a sequence taken for a count"
	faultCountByRecords     fault = "count by records, not by lastOffsetDelta"
	faultCursorIsTheTruth   fault = "the stored cursor taken for the truth"
	faultEpochOfOtherOffset fault = "the stored source epoch with another offset"
	faultEpochNotSent       fault = "the source epoch not checked"
	faultEpochEndIgnored    fault = "a source epoch trusted without its end"
	faultMapNotCut          fault = "the map not cut where the source took another branch"
	faultOrphansNotWritten  fault = "copies that the source lost not written to the ledger"
	faultNoOwnHistory       fault = "the common offset taken without the copy's own epochs"
	faultSequenceReset      fault = "sequences reset after an error, and on"
	faultNotEmptyIgnored    fault = "a target that is not empty taken for a new one"
	faultGapNotWritten      fault = "a lost range not written to the ledger"
	faultAbortedNotNamed    fault = "aborted transactions not told apart"
)

// mutate changes a process's lanes.
func (w *world) mutate(p *proc) {
	for _, l := range p.m.lanes {
		switch w.fault {
		case faultWindowOfFive:
			if l.open && !l.proven {
				l.proven, l.lastTS = true, w.now.UnixMilli()
			}
		case faultPlanNotDurable:
			l.durableJumps = 1 << 30
		case faultOldSentAgain:
			p.m.producerExpiry = 1000 * time.Hour
		case faultSameTermAgain:
			l.termAbove = 0
		case faultCleanWhileUnsure:
			l.unsureTo = 0
		case faultNoOwnHistory:
			l.at.epochs, l.inherited = nil, nil
		case faultEpochOfOtherOffset:
			if l.open && l.cursor.Count == 0 && l.fetchNext == l.cursor.Src {
				l.fetchEpoch = w.targets[l.id.Partition].stored.SrcEpoch
			}
		case faultSequenceReset:
			if l.verdict == mending {
				w.resetSequence(l)
			}
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
	case w.fault == faultOrphansNotWritten && kind == "gap" && strings.Contains(string(e.Value), `"dst_to"`):
		return e, false
	case w.fault == faultMapNotCut && kind == "opening":
		e.Value = stays(e.Value)
	case w.fault == faultNoOwnHistory && (kind == "opening" || kind == "cursor"):
		e.Value = ownEpochs.ReplaceAll(e.Value, nil)
	case w.fault == faultOpeningNotDurable && kind == "opening" && parts[4] != "1":
		p.state.apply([]statelog.Entry{e}) // only the process itself knows of it
		return e, false
	case w.fault == faultCleanMarkTrusted && kind == "opening" && goesOn(e.Value):
		p.state.apply([]statelog.Entry{e})
		return e, false
	case w.fault == faultClaimByLink && parts[0] == "claim" && len(parts) == 2:
		e.Key = "claim/" + worldLink
	case w.fault == faultCursorElsewhere && kind == "cursor":
		e.Partition = (e.Partition + 1) % statelog.Partitions
		e.Value = buildsUpon.ReplaceAll(e.Value, []byte(`"${1}_n":0`))
	case w.fault == faultKeysWithoutOpening && slices.Contains([]string{"plan", "land", "cursor"}, kind):
		parts[4], parts[5] = "0", "x"
		e.Key = statelog.Key(parts...)
	}
	return e, true
}

// ownEpochs is what a stored cursor or opening says of the leader epochs below it.
var ownEpochs = regexp.MustCompile(`,"epochs":\[[^\]]*\]`)

// buildsUpon is what a stored cursor says of the entries that have to be read first.
var buildsUpon = regexp.MustCompile(`"(plan|land)_n":[0-9]+`)

// goesOn reports whether an opening continues a clean end.
func goesOn(value []byte) bool {
	var v struct {
		Origin model.Cursor
		Closed *struct{ Cursor model.Cursor }
	}
	return json.Unmarshal(value, &v) == nil && v.Closed != nil && v.Closed.Cursor == v.Origin
}

// unseen takes out what a process does not look at while it copies.
func (w *world) unseen(p *proc, es []statelog.Entry) (seen []statelog.Entry) {
	for _, e := range es {
		if p.owned && (strings.HasPrefix(e.Key, "stop/") || strings.HasPrefix(e.Key, "claim/")) {
			continue
		}
		seen = append(seen, e)
	}
	return seen
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
	if _, found := p.view.Lane(t.lane); w.fault == faultNotEmptyIgnored && !found {
		*end = t.start
	}
}

// lieAboutHeaders changes what a process reads from a target log.
func (w *world) lieAboutHeaders(raw []byte) []byte {
	if w.fault == faultCursorIsTheTruth || w.fault == faultOldSentAgain && w.running != nil && w.running.name == "repair" {
		return nil
	}
	if w.fault == faultCountsOf31Bits {
		for h, b := range batch.Split(raw) {
			if !h.Control() && h.PID == 101 && h.Epoch == 0 && h.BaseSeq < 1<<30 { // behind the wrap
				binary.BigEndian.PutUint32(b[53:], uint32(h.BaseSeq+1<<30))
			}
		}
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

// lieAboutEpochs changes what a source leader says of an epoch.
func (w *world) lieAboutEpochs(asked int32, a *kafka.EpochEnd) {
	if w.fault == faultEpochEndIgnored && a.Epoch == asked {
		a.End += 1000
	}
}

// stays writes an opening as if it went on where its predecessor ended.
func stays(value []byte) []byte {
	var v map[string]any
	if json.Unmarshal(value, &v) != nil || v["closed"] == nil {
		return value
	}
	origin, was := v["origin"].(map[string]any), v["closed"].(map[string]any)["cursor"].(map[string]any)
	origin["src"] = max(origin["src"].(float64), was["src"].(float64))
	out, _ := json.Marshal(v)
	return out
}

// resetSequence does what a common client does after an error: a new producer id, sequences from 0, and on.
func (w *world) resetSequence(l *lane) {
	w.pids++
	t, from := l.term, l.cursor
	t.PID, t.Epoch, from.Count = w.pids, 0, 0
	w.terms[producerOf(t.PID, t.Epoch)] = t.N
	l.begin(l.opening, t, from, w.now)
}
