package checkpoint

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/internal/model"
)

// Sides asks both clusters.
type Sides interface {
	// Source shows the source's groups that are wanted, with their positions. want is called for each group that is
	// listed, by several goroutines. Groups that were wanted in the look before and are not listed any more are looked for.
	Source(ctx context.Context, want func(group string) bool) (Picture, error)
	// Listed shows all groups of the target without their positions.
	Listed(ctx context.Context) (Picture, error)
	// Target shows groups of the target with their positions, those that are not there too.
	Target(ctx context.Context, names []string) Picture
	// Ends returns the present ends of source partitions; those that did not answer are left out.
	Ends(ctx context.Context, parts []Key) map[Key]int64
	// SourceIDs returns the present ids of source topics; those that did not answer are left out.
	SourceIDs(ctx context.Context, topics []string) map[string]model.TopicID
	// Starts returns where target partitions begin; those that did not answer are left out.
	Starts(ctx context.Context, parts []Key) map[Key]int64
	// Apply commits on the target what rows with Write say, and returns all rows with what became of them.
	Apply(ctx context.Context, rows []Row) []Row
	// Retention is for how long the target keeps offsets of groups without members.
	Retention(ctx context.Context) (time.Duration, error)
}

// Store keeps what lockstep wrote, across restarts.
type Store interface {
	All() map[string]map[Key]Base
	Save(ctx context.Context, rows []Row) error
}

// Recorder keeps where groups stood over time.
type Recorder interface {
	Note(ctx context.Context, p Pass) error
}

// Settings may change while a Syncer runs.
type Settings struct {
	Filter     Filter
	Interval   time.Duration
	Sync       bool // false: nothing is written
	MaxRewind  int64
	RewindHold time.Duration
}

// Hold is what keeps a link from its work with groups. Both texts are for people; "" is nothing.
type Hold struct {
	// Source says that the source is not the one that was copied from: its groups are not even looked at.
	Source string
	// Writes says why nothing may be written.
	Writes string
}

// Options are what a Syncer works with.
type Options struct {
	Link      string
	Settings  Settings
	Sides     Sides
	Lanes     Lanes
	Store     Store
	History   Recorder // nil: none
	Listeners []Listener
	// Barrier returns when lanes and bases show everything that was stored before the call.
	Barrier func(ctx context.Context) error
	// SameSource is asked after each look at the source. An error says that what was seen is not to be used: it may be
	// another cluster's. Nil: it always is the same.
	SameSource func(ctx context.Context) error
	// Hold is asked before each look and again before each write. Nil: nothing holds.
	Hold func() Hold
	// Selects tells the target's name of a source topic that the link copies. Nil: only topics with lanes are copied.
	Selects func(topic string) (dst string, ok bool)
	Logger  *slog.Logger
	Now     func() time.Time // nil: time.Now
}

// Syncer keeps the groups of one link. Run works; the other methods may be called by anybody at any time.
type Syncer struct {
	opt   Options
	log   *slog.Logger
	now   func() time.Time
	turn  chan struct{} // holds an element while nobody looks or writes
	wake  chan struct{} // holds an element when the settings changed
	last  atomic.Pointer[Pass]
	state memory // of who has the turn

	mu       sync.Mutex // guards settings
	settings Settings
}

// New returns a Syncer that has not looked yet.
func New(opt Options) *Syncer {
	s := &Syncer{opt: opt, log: opt.Logger, now: opt.Now, turn: make(chan struct{}, 1), wake: make(chan struct{}, 1), settings: opt.Settings}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.opt.Hold == nil {
		s.opt.Hold = func() Hold { return Hold{} }
	}
	if s.opt.SameSource == nil {
		s.opt.SameSource = func(context.Context) error { return nil }
	}
	s.state = newMemory()
	s.turn <- struct{}{}
	s.last.Store(&Pass{})
	return s
}

// Tune changes the settings; the next pass goes by them, and begins at once.
func (s *Syncer) Tune(set Settings) {
	s.mu.Lock()
	s.settings = set
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *Syncer) current() Settings {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.settings
}

// Last returns the newest pass; its time is zero before the first.
func (s *Syncer) Last() Pass { return *s.last.Load() }

// Run repeats passes until ctx ends. A pass that fails is shown and logged, and repeated like any other: nothing that a
// cluster does ends it.
func (s *Syncer) Run(ctx context.Context) {
	for ctx.Err() == nil {
		next := time.NewTimer(s.current().Interval)
		_ = s.Once(ctx) // shown by Last
		select {
		case <-next.C:
		case <-s.wake:
		case <-ctx.Done():
		}
		next.Stop()
	}
}

// Once makes one pass. The error is the pass's own.
func (s *Syncer) Once(ctx context.Context) error {
	if err := s.take(ctx); err != nil {
		return err
	}
	defer s.give()
	p := s.pass(ctx)
	if ctx.Err() != nil && p.Err != nil {
		return ctx.Err() // it was cut short: what it did not see says nothing
	}
	s.publish(ctx, p)
	return p.Err
}

func (s *Syncer) take(ctx context.Context) error {
	select {
	case <-s.turn:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Syncer) give() { s.turn <- struct{}{} }

// publish shows a pass and tells it to those who listen.
func (s *Syncer) publish(ctx context.Context, p Pass) {
	s.last.Store(&p)
	begins, ended := s.state.passes.take(s.now(), p.Err, string(stateOf(p.Err)))
	if begins && stateOf(p.Err) != StateLaneHeld { // which the link tells for all of its parts
		s.log.Warn("groups cannot be kept in step", "error", p.Err)
	}
	if ended > 0 {
		s.log.Info("groups are kept in step again", "after", ended.String())
	}
	s.tellChanges(s.state.changes)
	s.state.changes = changes{}
	s.note(ctx, p)
	for _, l := range s.opt.Listeners {
		l.Passed(p)
	}
}

// note keeps a pass for the history. That it cannot be kept holds nothing up.
func (s *Syncer) note(ctx context.Context, p Pass) {
	if p.Err != nil || s.opt.History == nil {
		return
	}
	note, cancel := context.WithTimeoutCause(ctx, stateWait, errStateWait)
	defer cancel()
	err := s.opt.History.Note(note, p)
	if ctx.Err() != nil {
		return
	}
	begins, ended := s.state.history.take(s.now(), err, "")
	if begins {
		s.log.Warn("positions of groups cannot be kept for their history", "error", err)
	}
	if ended > 0 {
		s.log.Info("positions of groups are kept for their history again", "after", ended.String())
	}
}

// sideError is a failed look or write, and the state that it leaves groups in.
type sideError struct {
	state State
	err   error
}

func (e *sideError) Error() string { return e.err.Error() }
func (e *sideError) Unwrap() error { return e.err }

// stateOf says what a failed pass means for its groups.
func stateOf(err error) State {
	if side, ok := errors.AsType[*sideError](err); ok {
		return side.state
	}
	return StatePending
}
