package offsetsync

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"lockstep/internal/model"
	"lockstep/internal/statelog"
)

// ErrNotOpen is wrapped by the errors for a lane that this store has not opened under that number, or has forgotten.
var ErrNotOpen = errors.New("lane is not open here")

// ErrPlanOrder is wrapped by the errors for plan or landing entries that go back behind, or contradict, what was given
// before. The lane has to be opened again.
var ErrPlanOrder = errors.New("entries contradict those before")

// LaneError says which lane an error of a call for many lanes concerns.
type LaneError struct {
	Lane model.Lane
	Err  error
}

// Error implements error.
func (e *LaneError) Error() string { return fmt.Sprintf("lane %s: %v", e.Lane, e.Err) }

// Unwrap returns the lane's error.
func (e *LaneError) Unwrap() error { return e.Err }

// PlanAdd are new plan entries of one lane's opening, in order.
type PlanAdd struct {
	Opening uint64
	Jumps   []model.Jump
}

// Progress is how far one lane came.
type Progress struct {
	Lane     model.Lane
	Opening  uint64
	Cursor   model.Cursor
	Landings []model.Landing // new since the last call that succeeded
	Clean    bool            // everything that was sent, plan writes included, has been answered
	// Epochs are the source's leader epochs of what was copied below Cursor, as Opening.Epochs.
	Epochs []model.EpochStart
}

// Log is a link's state log: [statelog.Log] is one.
type Log interface {
	Link() string
	sink
	source
}

// sink is what a Store needs of the state log.
type sink interface {
	Queue(context.Context, ...statelog.Entry) (func(context.Context) error, error)
	Partition(topic string, partition int32) int32
}

// Store writes a link's state. Each process has one, with a nonce of its own: no two processes ever write the same key,
// but for a claim's release. Its methods may be called by many goroutines at once; calls that concern the same lane wait
// for each other.
type Store struct {
	log     sink
	view    *View
	nonce   string
	segment segmentSize
	attempt atomic.Uint64

	mu      sync.Mutex // guards the fields below, never held across I/O
	lanes   map[model.Lane]*writing
	changed chan struct{} // closed when a lane is no longer busy
}

// NewStore returns a store. The nonce must be drawn at random when the process starts.
func NewStore(log Log, view *View, nonce string) *Store { return newStore(log, view, nonce) }

func newStore(log sink, view *View, nonce string) *Store {
	return &Store{log: log, view: view, nonce: nonce, segment: segmentSize{pieceBytes, segmentBytes}, lanes: map[model.Lane]*writing{}, changed: make(chan struct{})}
}

// fresh returns a nonce that no record has: an opening that is tried again must not be written over the first attempt,
// because compaction would keep the later copy, whose place in the log may lose against a rival's.
func (s *Store) fresh() string {
	return s.nonce + "." + strconv.FormatUint(s.attempt.Add(1), 36)
}

func (s *Store) put(ctx context.Context, entries ...statelog.Entry) error {
	wait, err := s.log.Queue(ctx, entries...)
	if err != nil {
		return err
	}
	return wait(ctx)
}

func (s *Store) laneEntry(l model.Lane, key string, value []byte) statelog.Entry {
	return statelog.Entry{Partition: s.log.Partition(l.Topic, l.Partition), Key: key, Value: value}
}

// Open stores openings, waits until the view has read them back, and says for each whether it is the lane's newest valid
// one. It sets a nonce of its own for each. Lanes that were won can be planned and saved from then on, under the opening's
// number. On an error nothing is known about any of them: look at the view again before the next attempt.
func (s *Store) Open(ctx context.Context, openings []Opening) (won []bool, err error) {
	openings = append([]Opening(nil), openings...)
	entries := make([]statelog.Entry, len(openings))
	for i := range openings {
		o := &openings[i]
		if err := s.complete(o); err != nil {
			return nil, &LaneError{o.Lane, err}
		}
		entries[i] = s.laneEntry(o.Lane, openingKey(o.Lane, kindOpening, openingID{o.N, o.Nonce}), encodeOpening(*o))
	}
	if err := s.put(ctx, entries...); err != nil {
		return nil, fmt.Errorf("store openings: %w", err)
	}
	if err := s.view.Barrier(ctx); err != nil {
		return nil, fmt.Errorf("read openings back: %w", err)
	}
	won = make([]bool, len(openings))
	for i, o := range openings {
		if st, ok := s.view.Lane(o.Lane); ok && st.Opening.N == o.N && st.Opening.Nonce == o.Nonce {
			won[i] = true
			s.begin(o)
		}
	}
	return won, nil
}

// complete sets an opening's nonce and says how many of its predecessor's entries count.
func (s *Store) complete(o *Opening) error {
	o.Nonce = s.fresh()
	if err := sound("", o.Origin); err != nil {
		return fmt.Errorf("open: origin %+v is no position", o.Origin)
	}
	if o.Closed == nil {
		return nil
	}
	c := *o.Closed
	if st, ok := s.view.Lane(o.Lane); ok && st.Opening.N+1 == o.N && st.Opening.Nonce == o.Prev {
		if c.PlanN == 0 {
			c.PlanN = st.planN
		}
		if c.LandN == 0 {
			c.LandN = st.landN
		}
	}
	o.Closed = &c
	return nil
}

// begin makes a lane writable under an opening.
func (s *Store) begin(o Opening) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lanes[o.Lane] = &writing{
		id: openingID{o.N, o.Nonce}, cursor: o.Origin,
		plan: newTail(point{o.Origin.Count, o.Origin.Src}, s.segment), land: newTail(point{o.Origin.Count, o.Origin.Dst}, s.segment),
	}
}

// Forget drops what is kept in memory for a lane that was closed. Plan and Save refuse it from then on.
func (s *Store) Forget(l model.Lane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.lanes, l)
}

// Gap adds a lost range to the ledger; it is durable when Gap returns. Of a lane that is open here it counts only if no
// other opening came first.
func (s *Store) Gap(ctx context.Context, g model.Gap) error {
	if g.From < 0 || g.To < g.From {
		return &LaneError{g.Lane, fmt.Errorf("store gap: [%d, %d) is no range", g.From, g.To)}
	}
	v := gapValue{V: recordVersion, To: g.To, Reason: g.Reason, At: g.At, DstFrom: g.DstFrom, DstTo: g.DstTo, Opening: s.openNumber(g.Lane)}
	return s.put(ctx, s.laneEntry(g.Lane, gapKey(g, s.fresh()), encodeJSON(v)))
}

// openNumber returns the number under which this store has opened a lane, 0 if it has not.
func (s *Store) openNumber(l model.Lane) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.lanes[l]; w != nil {
		return w.id.n
	}
	return 0
}

// PutTerm announces a term.
func (s *Store) PutTerm(ctx context.Context, t model.Term) error {
	key := statelog.Key(kindTerm, strconv.FormatUint(t.N, 10), s.nonce)
	return s.putLink(ctx, key, termValue{recordVersion, t})
}

// PutClaim announces a claim, or its release when Released is set. Whether a claim is valid is known once the view has
// read it back.
func (s *Store) PutClaim(ctx context.Context, c Claim) error {
	if c.ID == "" {
		return errors.New("store claim: it has no id")
	}
	if c.Released {
		return s.putLink(ctx, claimKey(c), releaseValue{recordVersion, c.At})
	}
	return s.putLink(ctx, claimKey(c), claimValue{recordVersion, c})
}

// PutBeat says that a node lives.
func (s *Store) PutBeat(ctx context.Context, b Beat) error {
	return s.putLink(ctx, statelog.Key(kindBeat, b.Owner, b.Node), beatValue{recordVersion, b})
}

// PutStop ends a link, or lifts the stop of that ID when Lifted is set.
func (s *Store) PutStop(ctx context.Context, st Stop) error {
	if st.ID == "" {
		return errors.New("store stop: it has no id")
	}
	if st.Lifted {
		return s.putLink(ctx, statelog.Key(kindStop, st.ID, lifted), releaseValue{recordVersion, st.At})
	}
	return s.putLink(ctx, statelog.Key(kindStop, st.ID), stopValue{recordVersion, st})
}

// PutPause holds the link or a topic of it, or lifts the pause of that ID when Lifted is set.
func (s *Store) PutPause(ctx context.Context, p model.Pause) error {
	if p.ID == "" {
		return errors.New("store pause: it has no id")
	}
	if p.Lifted {
		return s.putLink(ctx, statelog.Key(kindPause, p.ID, lifted), releaseValue{recordVersion, p.At})
	}
	return s.putLink(ctx, statelog.Key(kindPause, p.ID), pauseValue{recordVersion, p})
}

// PutSeal stores what is known about a lane's seal. The same process may confirm what it intended.
func (s *Store) PutSeal(ctx context.Context, seals ...Seal) error {
	entries := make([]statelog.Entry, len(seals))
	for i, x := range seals {
		entries[i] = s.laneEntry(x.Lane, sealKey(x, s.nonce), encodeJSON(sealValue{recordVersion, x}))
	}
	return s.put(ctx, entries...)
}

func (s *Store) putLink(ctx context.Context, key string, v any) error {
	return s.put(ctx, statelog.Entry{Partition: statelog.LinkPartition, Key: key, Value: encodeJSON(v)})
}
