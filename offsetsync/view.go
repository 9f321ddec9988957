package offsetsync

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"lockstep/internal/model"
	"lockstep/internal/statelog"
)

// View follows a link's state topic and holds what it says: of every lane the newest opening, its cursor and the whole
// offset map, and the link's claims, terms, seals and gaps. Its methods may be called by many goroutines at once and
// answer from memory; before the first Barrier has returned they may not know everything yet.
type View struct {
	log     source
	link    string
	now     func() time.Time
	others  map[string]func(statelog.Entry) error
	stopRun context.CancelCauseFunc // of the present Run; guarded by mu

	mu      sync.RWMutex // guards the fields below
	lanes   map[model.Lane]*lane
	seals   map[model.Lane]map[openingID]Seal // by term and nonce
	state   linkState
	unknown map[string]int64
	err     error
	changed chan struct{}
}

// source is what a View needs of the state log.
type source interface {
	Follow(context.Context, func([]statelog.Entry)) error
	Barrier(context.Context) error
}

// NewView returns a view of a link's state. It is empty until Run runs.
func NewView(log Log) *View { return newView(log, log.Link()) }

func newView(log source, link string) *View {
	v := &View{log: log, link: link, now: time.Now, others: map[string]func(statelog.Entry) error{}, changed: make(chan struct{})}
	v.resetLocked()
	return v
}

func (v *View) resetLocked() {
	v.lanes, v.seals, v.state = map[model.Lane]*lane{}, map[model.Lane]map[openingID]Seal{}, newLinkState()
	v.unknown, v.err = map[string]int64{}, nil
}

// Handle gives entries whose key begins with kind to fn, in the order of the log and before Barrier counts them as read.
// It is for other packages that keep state in the same topic, and has to be called before Run. An error of fn ends Run,
// like that of any other record that cannot be read.
func (v *View) Handle(kind string, fn func(statelog.Entry) error) { v.others[kind] = fn }

// Run follows the state topic, from its start, until ctx ends. It returns why ctx ended, what ended the following, or
// what is wrong with a record: a [*NewerFormatError] or one that wraps [ErrMalformed]. A record that cannot be read is
// never left out, since what it says may be a stop or a seal.
func (v *View) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	v.mu.Lock()
	v.resetLocked()
	v.stopRun = cancel
	v.mu.Unlock()
	return v.log.Follow(ctx, v.apply)
}

// Barrier returns when the view shows everything that stood in the state topic at the time of the call.
func (v *View) Barrier(ctx context.Context) error {
	if err := v.log.Barrier(ctx); err != nil {
		return err
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.err
}

// Changed returns a channel that is closed when the view changes next. Take it before looking.
func (v *View) Changed() <-chan struct{} {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.changed
}

// apply takes entries in the order of the log. After an error it takes no more.
func (v *View) apply(entries []statelog.Entry) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.now()
	for _, e := range entries {
		if v.err != nil {
			return
		}
		if v.err = v.applyOne(e, now); v.err != nil && v.stopRun != nil {
			v.stopRun(v.err)
		}
	}
	close(v.changed)
	v.changed = make(chan struct{})
}

func (v *View) applyOne(e statelog.Entry, now time.Time) error {
	parts, ok := statelog.SplitKey(e.Key)
	if !ok {
		v.unknown["?"]++
		return nil
	}
	switch parts[0] {
	case kindLane:
		if r, ok := parseLaneKey(v.link, parts); ok {
			return v.applyLane(e, r)
		}
	case kindSeal:
		if r, ok := parseSealKey(v.link, parts); ok {
			return v.applySeal(e, r)
		}
	default:
		if fn, ok := v.others[parts[0]]; ok {
			return fn(e)
		}
		if ok, err := v.state.apply(e.Key, parts, e.Value, now); ok {
			return err
		}
	}
	v.unknown[parts[0]]++
	return nil
}

func (v *View) applyLane(e statelog.Entry, r laneRecord) error {
	l := v.lanes[r.lane]
	if l == nil {
		if e.Value == nil {
			return nil
		}
		l = &lane{}
		v.lanes[r.lane] = l
	}
	known, err := l.apply(e.Key, r, e.Value)
	if !known {
		v.unknown[kindLane+"/"+r.kind]++
	}
	return err
}

func (v *View) applySeal(e statelog.Entry, r laneRecord) error {
	var s sealValue
	seals := v.seals[r.lane]
	if seals == nil {
		seals = map[openingID]Seal{}
		v.seals[r.lane] = seals
	}
	set := func() error { s.Seal.Lane = r.lane; seals[r.id] = s.Seal; return nil }
	return take(e.Key, e.Value, &s, set, func() { delete(seals, r.id) })
}

// apply takes a record of the lane; a nil value means that it was removed. It reports false for a kind it does not know.
func (l *lane) apply(key string, r laneRecord, value []byte) (known bool, err error) {
	switch {
	case r.kind == kindOpening && value == nil:
		l.drop(r.id)
	case r.kind == kindOpening:
		o, err := decodeOpening(key, r, value)
		if err != nil {
			return true, err
		}
		l.open(o)
	case (r.kind == kindPlan || r.kind == kindLand) && value == nil:
		l.forget(r)
	case r.kind == kindPlan, r.kind == kindLand:
		if err := l.segment(r.kind, r.id, r.seg, value); err != nil {
			return true, named(key, err)
		}
	case r.kind == kindCursor:
		var c cursorValue
		return true, take(key, value, &c, func() error { return l.cursorSound(key, r.id, c) }, func() {})
	case r.kind == kindTrim:
		var t trimValue
		return true, take(key, value, &t, func() error { return l.trim(r.id, t) }, func() {})
	case r.kind == kindGap:
		return true, l.gap(key, r, value)
	default:
		return false, nil
	}
	return true, nil
}

// Lane returns the picture of a lane. It reports false for one that never was opened.
func (v *View) Lane(l model.Lane) (LaneState, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	s := v.lanes[l]
	if s == nil || len(s.queue) == 0 {
		return LaneState{}, false
	}
	return s.state(), true
}

// Lanes returns all lanes that have been opened, in order.
func (v *View) Lanes() []model.Lane {
	v.mu.RLock()
	defer v.mu.RUnlock()
	out := make([]model.Lane, 0, len(v.lanes))
	for l, s := range v.lanes {
		if len(s.queue) > 0 {
			out = append(out, l)
		}
	}
	slices.SortFunc(out, model.Lane.Compare)
	return out
}

// Translate translates a source offset of a lane by the newest picture. It reports false for an unknown lane.
func (v *View) Translate(l model.Lane, src int64) (Translation, bool) {
	m := v.offsets(l)
	if m == nil {
		return Translation{}, false
	}
	return m.Translate(src), true
}

// Invert translates a target offset of a lane by the newest picture. It reports false for an unknown lane.
func (v *View) Invert(l model.Lane, dst int64) (Translation, bool) {
	m := v.offsets(l)
	if m == nil {
		return Translation{}, false
	}
	return m.Invert(dst), true
}

func (v *View) offsets(l model.Lane) *Map {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if s := v.lanes[l]; s != nil && len(s.queue) > 0 {
		return s.m.Clone()
	}
	return nil
}

// DropBefore makes the view forget what of a lane's map stands below a target offset, the target's log start.
func (v *View) DropBefore(l model.Lane, dst int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if s := v.lanes[l]; s != nil && len(s.queue) > 0 {
		s.m.DropBefore(dst)
	}
}

// Gaps returns the whole gap ledger, by lane and offset.
func (v *View) Gaps() []model.Gap {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var out []model.Gap
	for _, l := range v.lanes {
		out = append(out, l.gaps...)
	}
	slices.SortStableFunc(out, func(a, b model.Gap) int {
		return cmp.Or(a.Lane.Compare(b.Lane), cmp.Compare(a.From, b.From), a.At.Compare(b.At))
	})
	return out
}

// Terms returns the terms that were announced, the newest last.
func (v *View) Terms() []model.Term {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.state.sortedTerms()
}

// Claim returns the newest valid claim.
func (v *View) Claim() (Claim, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.state.claims.newest()
}

// LastBeat returns the beat of the claim's owner that was read last. Whether it is alive follows from a *new* beat: the
// one that was there when Run began says nothing.
func (v *View) LastBeat() (Beat, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.state.lastBeat()
}

// Stops returns the link's stops, the newest last.
func (v *View) Stops() []Stop {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.state.sortedStops()
}

// Pauses returns the pauses of the link and of its topics that are in force, the oldest first.
func (v *View) Pauses() []model.Pause {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.state.held()
}

// Seals returns a lane's seals, the newest term last; those of one term with a confirmed one last.
func (v *View) Seals(l model.Lane) []Seal {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return sorted(v.seals[l], func(a, b Seal) int {
		return cmp.Or(cmp.Compare(a.Term.N, b.Term.N), compareBool(a.Confirmed, b.Confirmed), a.At.Compare(b.At))
	})
}

// Unknown returns how many records were left out because their kind is not known here, by kind.
func (v *View) Unknown() map[string]int64 {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return maps.Clone(v.unknown)
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
