package offsetsync

import (
	"strconv"

	"lockstep/internal/model"
	"lockstep/internal/statelog"
)

// Kinds of keys. Everything of a lane begins with kindLane, but for seals, which are looked for by themselves.
const (
	kindLane  = "lane"
	kindSeal  = "seal"
	kindClaim = "claim"
	kindBeat  = "beat"
	kindTerm  = "term"
	kindStop  = "stop"
	kindPause = "pause"

	kindOpening = "opening"
	kindPlan    = "plan"
	kindLand    = "land"
	kindCursor  = "cursor"
	kindGap     = "gap"
	kindTrim    = "trim"

	released = "released"
	lifted   = "lifted"
)

// openingID is what plan, landing and cursor belong to.
type openingID struct {
	n     uint64
	nonce string
}

func laneKey(l model.Lane, kind string, rest ...string) string {
	return statelog.Key(append([]string{kindLane, l.Topic, itoa(int64(l.Partition)), kind}, rest...)...)
}

func openingKey(l model.Lane, kind string, id openingID) string {
	return laneKey(l, kind, strconv.FormatUint(id.n, 10), id.nonce)
}

func segmentKey(l model.Lane, kind string, id openingID, seg int) string {
	return laneKey(l, kind, strconv.FormatUint(id.n, 10), id.nonce, itoa(int64(seg)))
}

// laneRecord is a taken-apart key of a lane: lane/TOPIC/PARTITION/KIND/NUMBER/NONCE[/SEGMENT].
type laneRecord struct {
	lane model.Lane
	kind string
	id   openingID // of a gap: its first offset, and a nonce
	seg  int
}

// parseLaneKey reads the parts behind the first of a lane's key.
func parseLaneKey(link string, parts []string) (r laneRecord, ok bool) {
	if len(parts) != 6 && len(parts) != 7 {
		return r, false
	}
	partition, err := strconv.ParseInt(parts[2], 10, 32)
	if err != nil || partition < 0 {
		return r, false
	}
	n, err := strconv.ParseUint(parts[4], 10, 64)
	if err != nil {
		return r, false
	}
	r = laneRecord{lane: model.Lane{Link: link, Topic: parts[1], Partition: int32(partition)}, kind: parts[3], id: openingID{n, parts[5]}}
	segmented := r.kind == kindPlan || r.kind == kindLand
	if !segmented || len(parts) == 6 {
		return r, !segmented && len(parts) == 6
	}
	r.seg, err = strconv.Atoi(parts[6])
	return r, err == nil && r.seg >= 0
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
