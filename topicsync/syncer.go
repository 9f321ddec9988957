package topicsync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"lockstep/config"
	"lockstep/internal/kafka"
	"lockstep/internal/model"
	"lockstep/topicsync/configs"
	"lockstep/topicsync/drift"
)

// Ready is a lane that can be copied: its target partition's leader answers.
type Ready struct {
	Lane     model.Lane
	Identity model.Identity
	// BornAfterStart says that the source partition was not there when the Syncer looked for the first time, so that
	// it is copied from its first record, whatever the link's start is.
	BornAfterStart bool
	// Chosen says that the topic was there already, and not selected, before SetLink: the link's start counts for it.
	Chosen bool
	Limits TopicLimits
}

// Lanes takes what a Syncer finds. Its methods are called by one goroutine at a time.
type Lanes interface {
	// Offer hands over lanes that can be copied now. Each is offered once, and again when one of its topics got another
	// id or after it was Gone. With an error, all of them are offered again in the next pass.
	Offer(ctx context.Context, link string, ready []Ready) error
	// Gone says that the topic of lanes does not exist any more, on the source (ReasonSourceDeleted) or on the target
	// (ReasonTargetLost): twice in a row, by an answer without error. The lanes were offered, or are Known from an
	// earlier run.
	Gone(ctx context.Context, lanes []model.Lane, why model.Reason)
	// Leave says that the link does not select source topics any more, by their names: their lanes have to end, and have
	// ended when it returns, as far as ctx lets them. They are offered again when they are selected again.
	Leave(ctx context.Context, topics []string)
}

// Options are what a Syncer needs.
type Options struct {
	Link config.Link
	// Links are all links that run, Link included: what they would make collide is not copied. Link alone when empty.
	Links    []config.Link
	Src, Dst *kafka.Cluster
	Lanes    Lanes
	Logger   *slog.Logger
	// Interval is the pause between two passes; 1 s when 0. A pass that waits for a leader is followed sooner, and a
	// pass that took long is followed later.
	Interval time.Duration
	// Known tells which topics a lane joined in earlier runs, from the state topic. Without it, a target topic that
	// vanished while lockstep was down is created again.
	Known func(model.Lane) (model.Identity, bool)
	// Journal is told what is created, before and after. Optional.
	Journal Journal
	// Open reports whether new topics keep records until the source dropped them. Optional.
	Open func() bool
}

// Journal remembers which topics lockstep created, and with which settings.
type Journal interface {
	Intend(ctx context.Context, creations []configs.Creation) error
	Created(ctx context.Context, creations []configs.Creation) error
}

const (
	defaultInterval = time.Second
	// firstPause is how long after a pass with unfinished lanes the next one begins; it doubles up to the interval. The
	// leader of a new partition answers after about 0.2 s.
	firstPause = 50 * time.Millisecond
	// longestPause bounds how far slow passes stretch the interval: a new topic is to be copied within 5 s.
	longestPause = 2 * time.Second
	// patience is how long Once waits for something that is expected to pass by itself.
	patience = 30 * time.Second
)

// Syncer keeps the topics of one link in step and offers its lanes. Its methods may be called from any goroutine.
type Syncer struct {
	o        Options // Link and Links are those to begin with; see SetLink
	log      *slog.Logger
	pass     chan struct{}          // holds an element while a pass runs
	wake     chan struct{}          // holds an element when the next pass is not to be waited for
	meet     collisions             // used by passes only, as is what follows
	batch    int                    // how many topics the target takes in one request
	defaults *configs.BrokerDefault // of the target

	mu      sync.Mutex         // guards the fields below; never held across I/O
	link    config.Link        // in force from the next pass on
	links   []config.Link      // all of them, link included
	next    *config.Link       // narrows link; see Narrow
	changed bool               // link or next, since lanes were last ended for it
	before  *config.Link       // the link before SetLink, until a pass has seen what it did not select
	topics  map[string]*topic  // by source name
	start   map[string]seen    // what the first pass saw; nil before it
	ids     [2]string          // the clusters' ids, source and target
	refuse  map[string]string  // settings that the target does not know
	nodes   int                // the target's brokers
	nothing map[string]int     // patterns that match nothing, and for how many passes in a row
	misses  []config.Unmatched // those that did so for long enough
	seen    *drift.Scope       // by the newest pass; never changed
}

// topic is what a Syncer remembers of a source topic.
type topic struct {
	status     TopicStatus
	offered    map[int32]model.Identity
	left       []configs.Left
	chosen     bool // it was not selected before SetLink
	lost       bool // the target topic existed, and is gone
	remade     bool // an operator ordered that the target topic be made, or grow, whatever it was before
	srcMissing int  // answers in a row without it
	dstMissing int
	retry      retry
}

// seen is a source topic as the first pass saw it.
type seen struct {
	id    model.TopicID
	parts int
}

// New returns a Syncer. It does no I/O.
func New(o Options) *Syncer {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Interval = cmp.Or(o.Interval, defaultInterval)
	if len(o.Links) == 0 {
		o.Links = []config.Link{o.Link}
	}
	return &Syncer{
		pass: make(chan struct{}, 1), wake: make(chan struct{}, 1),
		link: o.Link, links: o.Links, batch: topicsPerRequest, defaults: configs.NewBrokerDefault(o.Dst),
		o: o, log: o.Logger.With("link", o.Link.Name),
		topics: make(map[string]*topic), refuse: make(map[string]string),
	}
}

// Run makes passes until ctx ends and then returns nil. What goes wrong in a pass is logged, shown by Topics and tried
// again; only ErrClusterChanged ends Run.
func (s *Syncer) Run(ctx context.Context) error {
	var said string
	pause := firstPause
	for {
		began := time.Now()
		open, err := s.once(ctx)
		if errors.Is(err, ErrClusterChanged) {
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
		said = s.logPass(err, said)
		if open == 0 {
			pause = s.o.Interval
		}
		if !s.rest(ctx, max(pause, min(10*time.Since(began), longestPause))) {
			return nil
		}
		pause = min(2*pause, s.o.Interval)
		if open == 0 {
			pause = firstPause
		}
	}
}

// logPass logs a failed pass when it is news, and that it is over.
func (s *Syncer) logPass(err error, said string) string {
	switch {
	case err != nil && err.Error() != said:
		s.log.Warn("cannot look at topics", "error", err)
	case err == nil && said != "":
		s.log.Info("topics can be looked at again")
	}
	if err == nil {
		return ""
	}
	return err.Error()
}

// Once makes passes until every lane that the link should have is offered or its topic has an error, which Topics
// shows. What is expected to pass by itself counts as an error after 30 s. The returned error says that the clusters
// could not be looked at before ctx ended, or that ctx ended first.
func (s *Syncer) Once(ctx context.Context) error {
	deadline := time.Now().Add(patience)
	for pause := firstPause; ; pause = min(2*pause, s.o.Interval) {
		open, err := s.once(ctx)
		switch {
		case errors.Is(err, ErrClusterChanged):
			return err
		case err == nil && (open == 0 || time.Now().After(deadline)):
			return nil
		}
		if !s.rest(ctx, pause) {
			return cmp.Or(err, fmt.Errorf("wait for %d topics: %w", open, context.Cause(ctx)))
		}
	}
}

// Reset forgets which clusters answered and what was seen of them, for a source that was replaced on purpose. No pass may
// be under way.
func (s *Syncer) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids = [len(s.ids)]string{}
	s.seen = nil
	clear(s.topics)
}

// rest waits, at most until it is woken, and returns false when ctx ended first.
func (s *Syncer) rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-s.wake:
		return true
	case <-t.C:
		return true
	}
}

// Topics returns all source topics that were seen, by name: copied, or why not.
func (s *Syncer) Topics() []TopicStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]TopicStatus, 0, len(s.topics))
	for _, name := range slices.Sorted(maps.Keys(s.topics)) {
		if st := s.topics[name].status; st.State != "" { // else its first pass is under way
			out = append(out, st)
		}
	}
	return out
}

// Remake has a source topic's target topic made again if it is gone, and made to grow if somebody else made it with too few
// partitions; then all of the topic's lanes are offered. Without an order for it neither is done: what a lane had copied is
// gone. It counts until the lanes have been offered: should the topic vanish once more, it is lost once more.
func (s *Syncer) Remake(name string) {
	s.with(name, func(t *topic) {
		clear(t.offered)
		t.remade, t.lost, t.dstMissing, t.retry = true, false, 0, retry{}
	})
}

// remade reports whether a topic's target is to be made again, and ends that once every lane has been offered.
func (s *Syncer) remade(w Wanted) (remade bool) {
	s.with(w.Src.Name, func(t *topic) {
		t.remade = t.remade && len(t.offered) < len(w.Src.Parts)
		remade = t.remade
	})
	return remade
}

// retry spaces out attempts at something that a cluster refused.
type retry struct {
	after time.Time
	pause time.Duration
}

const longestRetry = 10 * time.Second

// failed notes a refusal at a time.
func (r *retry) failed(now time.Time, first time.Duration) {
	r.pause = min(max(2*r.pause, first), longestRetry)
	r.after = now.Add(r.pause)
}

// due reports whether it is time to try.
func (r *retry) due(now time.Time) bool { return !now.Before(r.after) }
