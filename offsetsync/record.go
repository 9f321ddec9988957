package offsetsync

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"lockstep/internal/model"
)

// recordVersion is the version of all JSON values. Fields may be added in the same version when readers that do not know
// them still read the truth; else the version goes up.
const recordVersion = 1

// NewerFormatError says that a record was written by a newer release whose format this one does not know. Reading stops:
// to leave the record out could undo a seal, or skip records.
type NewerFormatError struct {
	Key     string
	Version int
	Known   int
}

// Error implements error.
func (e *NewerFormatError) Error() string {
	return fmt.Sprintf("state record %s has format version %d, this release knows up to %d: run the newer release", e.Key, e.Version, e.Known)
}

// openingValue is the stored form of an Opening; lane, number and nonce stand in the key.
type openingValue struct {
	V        int            `json:"v"`
	Prev     string         `json:"prev"`
	Term     model.Term     `json:"term"`
	Identity model.Identity `json:"identity"`
	Rules    uint64         `json:"rules,string"`
	Origin   model.Cursor   `json:"origin"`
	Anew     bool           `json:"anew,omitempty"`
	Closed   *closedValue   `json:"closed,omitempty"`
	// Epochs are the leader epochs of what was copied below the origin.
	Epochs []model.EpochStart `json:"epochs,omitempty"`
}

// closedValue is the stored form of Closed. Landings are encoded as one segment.
type closedValue struct {
	Cursor   model.Cursor `json:"cursor"`
	PlanN    int64        `json:"plan_n"`
	LandN    int64        `json:"land_n"`
	Landings []byte       `json:"landings,omitempty"`
}

// cursorValue is a stored cursor. It builds upon the first PlanN plan and LandN landing entries.
type cursorValue struct {
	V int `json:"v"`
	model.Cursor
	PlanN int64 `json:"plan_n"`
	LandN int64 `json:"land_n"`
	Clean bool  `json:"clean"`
	// Epochs are the leader epochs of what was copied below Src.
	Epochs []model.EpochStart `json:"epochs,omitempty"`
}

// trimValue says that entries below these indexes are no longer stored.
type trimValue struct {
	V     int   `json:"v"`
	PlanN int64 `json:"plan_n"`
	LandN int64 `json:"land_n"`
	// Dst is the target's log start at that time.
	Dst int64 `json:"dst"`
	// Behind is the source offset behind the last record that was copied below Dst, or where the lane began: the openings
	// that told it are no longer stored. Nothing of what follows was copied to where the map begins. Older records lack it.
	Behind *int64 `json:"behind,omitempty"`
}

// gapValue is a stored gap; lane and first offset stand in the key.
type gapValue struct {
	V      int       `json:"v"`
	To     int64     `json:"to"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
	// DstFrom and DstTo say which target offsets hold records of the range that the source lost.
	DstFrom int64 `json:"dst_from,omitempty"`
	DstTo   int64 `json:"dst_to,omitempty"`
	// Opening is the number of the opening whose worker found the gap; 0 when it was nobody's who copies.
	Opening uint64 `json:"opening,omitempty"`
}

// encodeJSON encodes a value of this package; they all can be.
func encodeJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err))
	}
	return b
}

// DecodeJSON decodes the value of a state record whose format version, its first field, is 1. Errors wrap [ErrMalformed], or
// are a [*NewerFormatError]. It is also for packages that [View.Handle] serves.
func DecodeJSON(key string, b []byte, v any) error {
	if !bytes.HasPrefix(b, []byte(`{"v":1,`)) { // which is how this version begins
		if err := checkVersion(key, b); err != nil {
			return err
		}
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("read state record %s: %w: %w", key, ErrMalformed, err)
	}
	return nil
}

// checkVersion refuses a newer version before anything else of the value is looked at: its other fields may be of other
// types.
func checkVersion(key string, b []byte) error {
	var head struct {
		V int `json:"v"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return fmt.Errorf("read state record %s: %w: %w", key, ErrMalformed, err)
	}
	if head.V > recordVersion {
		return &NewerFormatError{Key: key, Version: head.V, Known: recordVersion}
	}
	if head.V < 1 {
		return fmt.Errorf("read state record %s: %w: format version %d", key, ErrMalformed, head.V)
	}
	return nil
}

func encodeOpening(o Opening) []byte {
	v := openingValue{V: recordVersion, Prev: o.Prev, Term: o.Term, Identity: o.Identity, Rules: o.Rules, Origin: o.Origin, Anew: o.Anew, Epochs: o.Epochs}
	if c := o.Closed; c != nil {
		v.Closed = &closedValue{Cursor: c.Cursor, PlanN: c.PlanN, LandN: c.LandN}
		if len(c.Landings) > 0 {
			v.Closed.Landings = encodePoints(landPoints(c.Landings))
		}
	}
	return encodeJSON(v)
}

func decodeOpening(key string, r laneRecord, b []byte) (Opening, error) {
	var v openingValue
	if err := DecodeJSON(key, b, &v); err != nil {
		return Opening{}, err
	}
	o := Opening{
		Lane: r.lane, N: r.id.n, Nonce: r.id.nonce, Prev: v.Prev, Term: v.Term, Identity: v.Identity,
		Rules: v.Rules, Origin: v.Origin, Anew: v.Anew, Epochs: v.Epochs,
	}
	if err := sound(key, o.Origin); err != nil || v.Closed == nil {
		return o, err
	}
	o.Closed = &Closed{Cursor: v.Closed.Cursor, PlanN: v.Closed.PlanN, LandN: v.Closed.LandN}
	if err := sound(key, o.Closed.Cursor); err != nil || len(v.Closed.Landings) == 0 {
		return o, err
	}
	pts, err := decodePoints(v.Closed.Landings)
	if err != nil {
		return o, named(key, err)
	}
	o.Closed.Landings = landings(pts)
	return o, nil
}

// topOffset is above every offset and count that can be; sums of two are still numbers.
const topOffset = int64(1) << 62

// sound refuses positions that no log has, so that sums of them are safe.
func sound(key string, c model.Cursor) error {
	for _, n := range []int64{c.Src, c.Dst, c.Count} {
		if n < 0 || n > topOffset {
			return fmt.Errorf("read state record %s: %w: position %d → %d, count %d", key, ErrMalformed, c.Src, c.Dst, c.Count)
		}
	}
	return nil
}

// named adds the key to an error about bytes.
func named(key string, err error) error {
	if newer, ok := errors.AsType[*NewerFormatError](err); ok {
		newer.Key = key
		return newer
	}
	return fmt.Errorf("read state record %s: %w", key, err)
}

func jumpPoints(js []model.Jump) []point {
	out := make([]point, len(js))
	for i, j := range js {
		out[i] = point{j.Count, j.Src}
	}
	return out
}

func landPoints(ls []model.Landing) []point {
	out := make([]point, len(ls))
	for i, l := range ls {
		out[i] = point{l.Count, l.Dst}
	}
	return out
}

func jumps(pts []point) []model.Jump {
	out := make([]model.Jump, len(pts))
	for i, p := range pts {
		out[i] = model.Jump{Count: p.Count, Src: p.Off}
	}
	return out
}

func landings(pts []point) []model.Landing {
	out := make([]model.Landing, len(pts))
	for i, p := range pts {
		out[i] = model.Landing{Count: p.Count, Dst: p.Off}
	}
	return out
}
