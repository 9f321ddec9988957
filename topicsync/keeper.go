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

	"lockstep/internal/pause"
	"lockstep/topicsync/drift"
)

// KeeperOptions are what a Keeper needs.
type KeeperOptions struct {
	Parts []drift.Part
	// Scope returns what the newest pass over the topics saw; false before the first one.
	Scope func() (drift.Scope, bool)
	// Held says why nothing may be written now, "" when it may. Optional.
	Held     func() string
	Interval time.Duration // between two passes; 30 s when 0
	Logger   *slog.Logger
	Now      func() time.Time
}

// Keeper has the parts of a link look after their kinds, one pass at a time. Its methods may be called from any goroutine.
type Keeper struct {
	o    KeeperOptions
	log  *slog.Logger
	turn chan struct{} // holds an element while a pass runs
	wake chan struct{} // holds an element when the next pass is not to be waited for

	mu   sync.Mutex // guards last
	last Report
}

// Report is what a pass over all kinds found.
type Report struct {
	At       time.Time // when it ended; zero before the first one
	Took     time.Duration
	Outcomes map[drift.Kind]drift.Outcome
}

// Items returns all items of a report, by topic, kind and name.
func (r Report) Items() []drift.Item {
	var items []drift.Item
	for _, k := range slices.Sorted(maps.Keys(r.Outcomes)) {
		items = append(items, r.Outcomes[k].Items...)
	}
	slices.SortStableFunc(items, func(a, b drift.Item) int { return cmp.Compare(a.Topic, b.Topic) })
	return items
}

const (
	keepEvery = 30 * time.Second
	// restAtLeast is how long a Keeper rests even when it is woken.
	restAtLeast = time.Second
	// firstKeep is how soon a Keeper looks again whether there is something to look after.
	firstKeep = 200 * time.Millisecond
)

// NewKeeper returns a Keeper. It does no I/O.
func NewKeeper(o KeeperOptions) *Keeper {
	o.Interval = cmp.Or(o.Interval, keepEvery)
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Keeper{o: o, log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)), turn: make(chan struct{}, 1), wake: make(chan struct{}, 1)}
}

// Run makes passes until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	for ctx.Err() == nil {
		wait := k.o.Interval
		if !k.once(ctx) {
			wait = firstKeep
		}
		if !k.rest(ctx, wait) {
			return
		}
	}
}

// rest waits for the next pass, at most until it is woken, but for restAtLeast: many new topics are looked at together.
func (k *Keeper) rest(ctx context.Context, d time.Duration) bool {
	pause.For(ctx, min(d, restAtLeast))
	timer := time.NewTimer(max(0, d-restAtLeast))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-k.wake:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// Wake has the next pass begin at once.
func (k *Keeper) Wake() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// Once makes one pass. It returns an error when the topics were not looked at yet, or ctx ended first.
func (k *Keeper) Once(ctx context.Context) error {
	if !k.once(ctx) {
		return errors.Join(errNoTopics, context.Cause(ctx))
	}
	return nil
}

var errNoTopics = errors.New("the topics have not been looked at yet")

// once makes an ordinary pass, and returns false when there was nothing to go by.
func (k *Keeper) once(ctx context.Context) bool {
	if !k.take(ctx) {
		return false
	}
	defer k.give()
	scope, ok := k.o.Scope()
	if !ok || k.held() != nil {
		return false
	}
	r := k.pass(ctx, scope)
	if ctx.Err() != nil {
		return true // what was not looked at is no news
	}
	k.mu.Lock()
	was := k.last
	k.last = r
	k.mu.Unlock()
	k.tell(was, r)
	return true
}

// held returns why nothing may be written.
func (k *Keeper) held() error {
	if k.o.Held == nil {
		return nil
	}
	if why := k.o.Held(); why != "" {
		return errors.New(why)
	}
	return nil
}

func (k *Keeper) take(ctx context.Context) bool {
	select {
	case k.turn <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (k *Keeper) give() { <-k.turn }

// pass has every part make a pass. One that cannot does not hold back the others.
func (k *Keeper) pass(ctx context.Context, s drift.Scope) Report {
	began := k.o.Now()
	s.Now = began
	r := Report{Outcomes: make(map[drift.Kind]drift.Outcome)}
	for _, p := range k.o.Parts {
		if s.Wants(p.Kind()) {
			r.Outcomes[p.Kind()] = p.Pass(ctx, s)
		}
	}
	r.At = k.o.Now()
	r.Took = r.At.Sub(began)
	return r
}

// tell logs once what became of a kind.
func (k *Keeper) tell(was, now Report) {
	for _, kind := range slices.Sorted(maps.Keys(now.Outcomes)) {
		a, b := was.Outcomes[kind], now.Outcomes[kind]
		if a.Condition == b.Condition && a.Why == b.Why || a.Condition == "" && (b.Condition == drift.OK || b.Condition == drift.Off) {
			continue
		}
		switch b.Condition {
		case drift.Partly, drift.Unreachable:
			k.log.Warn("cannot keep everything in step", "kind", kind, "condition", b.Condition, "why", b.Why, "remedy", b.Remedy)
		case drift.NotApplicable:
			k.log.Info("nothing to keep in step", "kind", kind, "why", b.Why)
		default:
			k.log.Info("kept in step again", "kind", kind, "condition", b.Condition)
		}
	}
	k.tellKept(was, now)
}

// tellKept logs once what somebody else wrote.
func (k *Keeper) tellKept(was, now Report) {
	known := make(map[string]bool)
	for _, i := range was.Items() {
		if i.State == drift.Kept {
			known[keyOf(i)] = true
		}
	}
	news, first := 0, drift.Item{}
	for _, i := range now.Items() {
		if i.State == drift.Kept && !known[keyOf(i)] {
			if news++; news == 1 {
				first = i
			}
		}
	}
	if news > 0 {
		k.log.Warn("the target differs, and what somebody else wrote there is kept", "count", news, "first", first.String(), "why", first.Why, "remedy", first.Remedy)
	}
}

func keyOf(i drift.Item) string { return fmt.Sprintf("%s\x00%s\x00%s", i.Kind, i.Topic, i.Name) }

// Report returns what the newest ordinary pass found.
func (k *Keeper) Report() Report {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last
}

// Order makes a pass as an operator asks, and returns what it found and did. It waits for a pass that is under way.
func (k *Keeper) Order(ctx context.Context, o drift.Order) (Report, error) {
	return k.special(ctx, &o, false)
}

// Diff compares the topics, or all and what concerns no topic, in full, and changes nothing.
func (k *Keeper) Diff(ctx context.Context, topics []string) (Report, error) {
	return k.special(ctx, &drift.Order{Topics: topics, DryRun: true}, true)
}

func (k *Keeper) special(ctx context.Context, o *drift.Order, full bool) (Report, error) {
	if !k.take(ctx) {
		return Report{}, context.Cause(ctx)
	}
	defer k.give()
	scope, ok := k.o.Scope()
	if !ok {
		return Report{}, errNoTopics
	}
	if err := k.held(); err != nil && !o.DryRun {
		return Report{}, err
	}
	scope.Order, scope.Full = o, full
	if len(o.Topics) > 0 {
		scope.Topics = slices.DeleteFunc(slices.Clone(scope.Topics), func(t drift.Topic) bool { return !o.Covers(t.Src) })
	}
	r := k.pass(ctx, scope)
	if !o.DryRun {
		defer k.Wake() // what the ordinary pass shows is to be as new
	}
	return r, context.Cause(ctx)
}
