package offsetsync

import (
	"cmp"
	"slices"
	"time"

	"lockstep/internal/model"
	"lockstep/internal/statelog"
)

// Claim says that a lockstep cluster owns a link. It is written once; its release is a record of its own.
type Claim struct {
	ID            string    `json:"id"`   // unique
	Prev          string    `json:"prev"` // the claim that it follows, "" for the link's first
	Owner         string    `json:"owner"`
	Link          string    `json:"link"`
	SourceCluster string    `json:"source_cluster"` // cluster ids, not names
	TargetCluster string    `json:"target_cluster"`
	At            time.Time `json:"at"`
	Released      bool      `json:"released,omitempty"` // the owner has given the link up
	// AcceptedTerm is the newest term at the time when an operator last accepted that the source was replaced: lanes that
	// were copied in it or before are compared with the source as it is now. Later claims keep it.
	AcceptedTerm uint64 `json:"accepted_term,omitempty"`
}

// Beat says that a node of the owner lives.
type Beat struct {
	Claim string    `json:"claim"` // the claim that the node acts under
	Owner string    `json:"owner"`
	Node  string    `json:"node"`
	Seq   uint64    `json:"seq"` // grows with each beat of the node's process
	At    time.Time `json:"at"`  // by the node's clock: for people, not for judging
	// Seen is when this process read the beat, by its own clock. A judge compares it with the present: clocks of
	// different machines differ.
	Seen time.Time `json:"-"`
}

// Seal is what is known about ending a lane's older terms by a marker of Term.
type Seal struct {
	Lane      model.Lane `json:"-"`
	Term      model.Term `json:"term"`
	DstTopic  string     `json:"dst_topic"`
	Confirmed bool       `json:"confirmed"` // false: intended
	Marker    int64      `json:"marker"`    // offset of the marker in the target's log, -1 before it is confirmed
	// LeaderEpoch is that of the target partition when the marker was confirmed: after an unclean election the marker
	// may be gone. -1 when not known.
	LeaderEpoch int32     `json:"leader_epoch"`
	Way         string    `json:"way"` // direct, transaction or none
	At          time.Time `json:"at"`
}

// Stop ends a link: whoever reads it stops lanes, groups and topics. A failover writes it before it takes a term.
type Stop struct {
	ID     string    `json:"id"`
	By     string    `json:"by"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
	Lifted bool      `json:"lifted,omitempty"`
}

type claimValue struct {
	V int `json:"v"`
	Claim
}

type releaseValue struct {
	V  int       `json:"v"`
	At time.Time `json:"at"`
}

type beatValue struct {
	V int `json:"v"`
	Beat
}

type termValue struct {
	V int `json:"v"`
	model.Term
}

type sealValue struct {
	V int `json:"v"`
	Seal
}

type stopValue struct {
	V int `json:"v"`
	Stop
}

type pauseValue struct {
	V int `json:"v"`
	model.Pause
}

// claims is the chain of ownership: in the order of the log the first claim that names the newest valid one as its
// predecessor is valid, all others are void.
type claims struct {
	valid    []Claim
	released map[string]bool
}

func (c *claims) add(n Claim) {
	prev := ""
	if i := len(c.valid) - 1; i >= 0 {
		prev = c.valid[i].ID
	}
	if n.Prev == prev && n.ID != prev {
		c.valid = append(c.valid, n)
	}
}

func (c *claims) newest() (Claim, bool) {
	if len(c.valid) == 0 {
		return Claim{}, false
	}
	n := c.valid[len(c.valid)-1]
	for _, v := range c.valid {
		n.AcceptedTerm = max(n.AcceptedTerm, v.AcceptedTerm)
	}
	n.Released = n.Released || c.released[n.ID]
	return n, true
}

// linkState is what concerns a link as a whole.
type linkState struct {
	claims claims
	beats  map[string]Beat // by key
	terms  map[string]model.Term
	stops  map[string]Stop
	pauses map[string]model.Pause
	lifted map[string]bool // ids of stops and pauses
}

func newLinkState() linkState {
	return linkState{
		claims: claims{released: map[string]bool{}},
		beats:  map[string]Beat{}, terms: map[string]model.Term{}, stops: map[string]Stop{}, pauses: map[string]model.Pause{}, lifted: map[string]bool{},
	}
}

// apply takes a record whose key has these parts; nil value means that it was removed. It reports false for a key that
// is none of the link's.
func (s *linkState) apply(key string, parts []string, value []byte, now time.Time) (bool, error) {
	switch {
	case parts[0] == kindClaim && len(parts) == 2:
		return true, s.claim(key, value)
	case parts[0] == kindClaim && len(parts) == 3 && parts[2] == released:
		var v releaseValue
		return true, take(key, value, &v, func() error { s.claims.released[parts[1]] = true; return nil }, func() {})
	case parts[0] == kindBeat && len(parts) == 3:
		var v beatValue
		return true, take(key, value, &v, func() error { v.Beat.Seen = now; s.beats[key] = v.Beat; return nil }, func() { delete(s.beats, key) })
	case parts[0] == kindTerm && len(parts) == 3:
		var v termValue
		return true, take(key, value, &v, func() error { s.terms[key] = v.Term; return nil }, func() { delete(s.terms, key) })
	case parts[0] == kindStop && len(parts) == 2:
		var v stopValue
		return true, take(key, value, &v, func() error { s.stops[key] = v.Stop; return nil }, func() { delete(s.stops, key) })
	case parts[0] == kindPause && len(parts) == 2:
		var v pauseValue
		return true, take(key, value, &v, func() error { s.pauses[key] = v.Pause; return nil }, func() { delete(s.pauses, key) })
	case (parts[0] == kindStop || parts[0] == kindPause) && len(parts) == 3 && parts[2] == lifted:
		var v releaseValue
		return true, take(key, value, &v, func() error { s.lifted[parts[1]] = true; return nil }, func() {})
	}
	return false, nil
}

// claim takes a claim. One that is removed stays in the chain: its successors name it.
func (s *linkState) claim(key string, value []byte) error {
	var v claimValue
	return take(key, value, &v, func() error { s.claims.add(v.Claim); return nil }, func() {})
}

// take decodes a value into v and calls set, or gone for a tombstone.
func take(key string, value []byte, v any, set func() error, gone func()) error {
	if value == nil {
		gone()
		return nil
	}
	if err := DecodeJSON(key, value, v); err != nil {
		return err
	}
	return set()
}

// lastBeat returns the beat of the newest valid claim that was read last.
func (s *linkState) lastBeat() (Beat, bool) {
	claim, ok := s.claims.newest()
	var last Beat
	found := false
	for _, b := range s.beats {
		if !ok || b.Claim != claim.ID || found && !b.Seen.After(last.Seen) {
			continue
		}
		last, found = b, true
	}
	return last, found
}

// sortedTerms returns all terms, the newest last.
func (s *linkState) sortedTerms() []model.Term {
	return sorted(s.terms, func(a, b model.Term) int {
		return cmp.Or(cmp.Compare(a.N, b.N), cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Owner, b.Owner))
	})
}

func (s *linkState) sortedStops() []Stop {
	out := sorted(s.stops, func(a, b Stop) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) })
	for i := range out {
		out[i].Lifted = s.lifted[out[i].ID]
	}
	return out
}

// held returns the pauses that are in force, the oldest first.
func (s *linkState) held() []model.Pause {
	all := sorted(s.pauses, func(a, b model.Pause) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) })
	return slices.DeleteFunc(all, func(p model.Pause) bool { return s.lifted[p.ID] })
}

func sorted[K comparable, V any](m map[K]V, less func(a, b V) int) []V {
	out := make([]V, 0, len(m))
	for _, v := range m {
		out = append(out, v)
	}
	slices.SortFunc(out, less)
	return out
}

func claimKey(c Claim) string {
	if c.Released {
		return statelog.Key(kindClaim, c.ID, released)
	}
	return statelog.Key(kindClaim, c.ID)
}
