package offsetsync

import (
	"slices"

	"lockstep/internal/model"
)

// gap takes a record of the gap ledger. A gap never leaves it: a tombstone is ignored. A writer that was not sure
// whether its record arrived writes it again, with another nonce. A worker that had been replaced when it wrote is not
// believed: its successor may still have read what the source lost since.
func (l *lane) gap(key string, r laneRecord, value []byte) error {
	if value == nil {
		return nil
	}
	var v gapValue
	if err := DecodeJSON(key, value, &v); err != nil {
		return err
	}
	if last := l.newest(); v.Opening > 0 && last != nil && last.N > v.Opening {
		return nil
	}
	g := model.Gap{Lane: r.lane, From: int64(r.id.n), To: v.To, Reason: v.Reason, At: v.At, DstFrom: v.DstFrom, DstTo: v.DstTo}
	same := func(o model.Gap) bool {
		return o.From == g.From && o.To == g.To && o.Reason == g.Reason && o.DstFrom == g.DstFrom && o.DstTo == g.DstTo
	}
	if !slices.ContainsFunc(l.gaps, same) {
		l.gaps = append(l.gaps, g)
	}
	return nil
}

func gapKey(g model.Gap, nonce string) string {
	return laneKey(g.Lane, kindGap, itoa(g.From), nonce)
}

// cursorSound takes a cursor whose numbers can be.
func (l *lane) cursorSound(key string, id openingID, c cursorValue) error {
	if err := sound(key, c.Cursor); err != nil {
		return err
	}
	l.cursor(id, c)
	return nil
}

// parseSealKey reads the parts of seal/TOPIC/PARTITION/TERM/NONCE.
func parseSealKey(link string, parts []string) (laneRecord, bool) {
	if len(parts) != 5 {
		return laneRecord{}, false
	}
	return parseLaneKey(link, []string{kindLane, parts[1], parts[2], kindSeal, parts[3], parts[4]})
}
