package statelog

import (
	"context"
	"fmt"
	"sync"
	"time"

	"lockstep/internal/kafka"
)

// Barrier returns when Follow has delivered everything that stood in the log when Barrier was called; Follow has to run,
// or to be started soon. It asks each partition's leader for its end and waits until the reader's position is there: a
// position moves over offsets that compaction emptied too. It returns Follow's error if that ends first.
func (l *Log) Barrier(ctx context.Context) error {
	ends, err := l.ends(ctx)
	if err != nil {
		return l.errorf("find the end of", err)
	}
	if err := l.follow.await(ctx, ends); err != nil {
		return l.errorf("read", err)
	}
	return nil
}

// ends asks until every leader has answered.
func (l *Log) ends(ctx context.Context) ([]int64, error) {
	wait := metadataAge
	for {
		ends, err := l.offsets(ctx, kafka.AtEnd)
		if err == nil || ctx.Err() != nil || stands(err) {
			return ends, err
		}
		if ended := l.follow.ended(); ended != nil {
			return nil, ended
		}
		if pause(ctx, wait) != nil {
			return nil, err
		}
		wait = min(2*wait, maxBackoff)
	}
}

// Stats are a Log's figures for metrics.
type Stats struct {
	Entries int64         // delivered by the present Follow
	Bytes   int64         // of their keys and values
	Read    time.Duration // from the start of Follow until it had reached the end for the first time; 0 before
}

// Stats returns the figures of the present, or last, Follow.
func (l *Log) Stats() Stats {
	f := &l.follow
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stats
}

// follower is what Follow shares with Barrier.
type follower struct {
	mu      sync.Mutex // guards the fields below
	running bool
	err     error   // why the last Follow ended
	pos     []int64 // next offset to deliver, by partition; -1 unknown
	changed chan struct{}
	began   time.Time
	stats   Stats
}

func newFollower() follower {
	return follower{pos: unknownPositions(), changed: make(chan struct{})}
}

func unknownPositions() []int64 {
	pos := make([]int64, Partitions)
	for p := range pos {
		pos[p] = -1
	}
	return pos
}

func (f *follower) begin() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.running {
		return false
	}
	f.running, f.err, f.pos, f.began, f.stats = true, nil, unknownPositions(), time.Now(), Stats{}
	return true
}

func (f *follower) end(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running, f.err = false, err
	f.announceLocked()
}

// ended returns why Follow is over; nil while it runs or has not run yet.
func (f *follower) ended() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.running || f.err == nil {
		return nil
	}
	return f.err
}

// deliver sets a position; announce wakes those who wait for it.
func (f *follower) deliver(p int32, pos int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pos[p] = pos
}

func (f *follower) announce() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.announceLocked()
}

func (f *follower) announceLocked() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// delivered records that fn has returned for these entries and that the positions have moved.
func (f *follower) delivered(next map[int32]int64, entries []Entry, caughtUp bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	moved := false
	for p, pos := range next {
		moved = moved || f.pos[p] != pos
		f.pos[p] = pos
	}
	for _, e := range entries {
		f.stats.Entries++
		f.stats.Bytes += int64(len(e.Key) + len(e.Value))
	}
	if caughtUp {
		f.readLocked()
	}
	if moved {
		f.announceLocked()
	}
}

// await waits until every position has reached its end.
func (f *follower) await(ctx context.Context, ends []int64) error {
	for {
		reached, changed, err := f.look(ends)
		if reached || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// look reports whether every position has reached its end, or else what to wait for.
func (f *follower) look(ends []int64) (reached bool, changed <-chan struct{}, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.running && f.err != nil {
		return false, nil, fmt.Errorf("following it has ended: %w", f.err)
	}
	reached = f.running && f.reachedLocked(ends)
	if reached {
		f.readLocked()
	}
	return reached, f.changed, nil
}

// readLocked notes when the end was reached for the first time.
func (f *follower) readLocked() {
	if f.stats.Read == 0 {
		f.stats.Read = max(time.Since(f.began), 1)
	}
}

func (f *follower) reachedLocked(ends []int64) bool {
	for p, end := range ends {
		if f.pos[p] < end {
			return false
		}
	}
	return true
}
