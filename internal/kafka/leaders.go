package kafka

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"lockstep/internal/model"
)

const (
	leadersRefresh = 5 * time.Second
	leadersBackoff = time.Second // longest pause between two refreshes while a leader is missing
)

// Leaders keeps the leaders of wanted partitions. It learns them from metadata, regularly and at once when one turns
// out to be wrong, and from hints in produce and fetch answers. A leader of an older epoch never replaces a newer one,
// unless the topic was created again. All methods may be called by any goroutine.
type Leaders struct {
	c    *Cluster
	log  *slog.Logger
	rate time.Duration
	kick chan struct{}
	deaf bool // the last question got no answer, which has been logged; for Run only

	mu      sync.Mutex // guards the fields below
	parts   map[partKey]*tracked
	tick    uint64 // grows with each refresh that is sent
	changed chan struct{}
}

// tracked is what is known of one wanted partition.
type tracked struct {
	leader Leader // Broker -1 while there is none
	id     model.TopicID
	wants  int    // how many Want calls are not yet undone by Drop
	stale  uint64 // 0, or the first refresh whose answer may be believed again
}

func (t *tracked) usable() bool { return t.leader.Broker >= 0 && t.stale == 0 }

// LeadersOptions may be zero.
type LeadersOptions struct {
	Logger  *slog.Logger  // the cluster's when nil
	Refresh time.Duration // between two questions while nothing seems to have changed; 5 s when 0
}

// NewLeaders returns Leaders that know nothing yet.
func NewLeaders(c *Cluster, opts LeadersOptions) *Leaders {
	return &Leaders{
		c: c, log: cmp.Or(opts.Logger, c.log), rate: cmp.Or(opts.Refresh, leadersRefresh),
		kick: make(chan struct{}, 1), parts: map[partKey]*tracked{}, changed: make(chan struct{}),
	}
}

// Want starts to keep the leaders of partitions; they are asked for at once. Each Want is undone by one Drop.
func (l *Leaders) Want(parts ...Part) {
	l.mu.Lock()
	fresh := false
	for _, p := range parts {
		t := l.parts[p.key()]
		if t == nil {
			t = &tracked{leader: Leader{-1, -1}}
			l.parts[p.key()] = t
			fresh = true
		}
		t.wants++
	}
	l.mu.Unlock()
	if fresh {
		l.wake()
	}
}

// Drop undoes a Want.
func (l *Leaders) Drop(parts ...Part) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range parts {
		if t := l.parts[p.key()]; t != nil {
			if t.wants--; t.wants <= 0 {
				delete(l.parts, p.key())
			}
		}
	}
}

// Lookup returns the leader of a wanted partition; false while there is none, or while the one known is doubted.
func (l *Leaders) Lookup(p Part) (Leader, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.parts[p.key()]
	if t == nil || !t.usable() {
		return Leader{-1, -1}, false
	}
	return t.leader, true
}

// Stale says that the leader of that epoch, -1 for the one that Lookup gives, refused or did not answer. Lookup gives no
// leader until metadata asked for after this has come; when a newer leader is known already, nothing happens.
func (l *Leaders) Stale(p Part, epoch int32) {
	l.mu.Lock()
	t := l.parts[p.key()]
	if t == nil || epoch >= 0 && t.leader.Epoch > epoch {
		l.mu.Unlock()
		return
	}
	if t.stale == 0 {
		t.stale = l.tick + 1
		l.notifyLocked()
	}
	l.mu.Unlock()
	l.wake()
}

// Changed returns a channel that is closed at the next change of any answer of Lookup. Take it before looking up.
func (l *Leaders) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

func (l *Leaders) notifyLocked() {
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *Leaders) wake() {
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

// Run asks for metadata until ctx ends: every few seconds, within 100 ms after Want and Stale, and with a growing pause
// up to a second while a leader is missing. It returns nil.
func (l *Leaders) Run(ctx context.Context) error {
	pause := minMetadataAge
	for {
		missing := l.refresh(ctx)
		// The shortest pause holds after a wake-up too, so that many partitions of one broken broker ask once.
		if !wait(ctx, minMetadataAge, nil) {
			return nil
		}
		next := l.rate - minMetadataAge
		if missing {
			next = pause - minMetadataAge
			pause = min(2*pause, leadersBackoff)
		} else {
			pause = minMetadataAge
		}
		if !wait(ctx, next, l.kick) {
			return nil
		}
	}
}

// wait waits for a time, for a wake-up, or for the end of ctx, and reports whether ctx goes on.
func wait(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-wake:
	case <-t.C:
	}
	return ctx.Err() == nil
}

// refresh asks once and reports whether a wanted partition still has no usable leader.
func (l *Leaders) refresh(ctx context.Context) (missing bool) {
	topics, tick := l.begin()
	if len(topics) == 0 {
		return false
	}
	meta, err := l.c.Metadata(ctx, topics...)
	if ctx.Err() != nil {
		return true
	}
	l.tell(err)
	if err != nil {
		return true
	}
	return l.learn(meta, tick)
}

// tell logs that the leaders became unknown, or known again.
func (l *Leaders) tell(err error) {
	switch {
	case err != nil && !l.deaf:
		l.log.Warn("leaders are not known just now", "error", err)
	case err == nil && l.deaf:
		l.log.Info("leaders are known again")
	}
	l.deaf = err != nil
}

// begin lists the wanted topics and numbers the refresh.
func (l *Leaders) begin() ([]string, uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tick++
	seen := map[string]bool{}
	var topics []string
	for key := range l.parts {
		if !seen[key.topic] {
			seen[key.topic] = true
			topics = append(topics, key.topic)
		}
	}
	return topics, l.tick
}

// learn takes the answer to refresh number tick.
func (l *Leaders) learn(meta Meta, tick uint64) (missing bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed := false
	for key, t := range l.parts {
		was, usable := t.leader, t.usable()
		t.learn(meta, key, tick)
		changed = changed || was != t.leader || usable != t.usable()
		missing = missing || !t.usable()
	}
	if changed {
		l.notifyLocked()
	}
	return missing
}

func (t *tracked) learn(meta Meta, key partKey, tick uint64) {
	info, err := meta.leaderOf(Part{Topic: key.topic, Partition: key.partition})
	switch again := !t.id.IsZero() && info.id != t.id; {
	case err != nil:
		// The epoch stays: an older leader must not come back with a broker that lags.
		t.leader.Broker = -1
		return
	case !again && info.Epoch >= 0 && info.Epoch < t.leader.Epoch:
		return // this broker has not heard of the newer leader yet
	}
	t.leader, t.id = info.Leader, info.id
	if tick >= t.stale {
		t.stale = 0
	}
}
