package replicator

import (
	"slices"
	"sort"
	"time"

	"lockstep/internal/model"
)

// lagPoints remembers when source offsets were first seen to be readable, before and behind the cursor. Seconds of lag of
// lanes and of groups come from these points, so that nothing has to be fetched for them. The zero value is ready to use.
//
// The clock is the one of this process, at sight. Time stamps of batches are not used: producers choose them, records may
// be written long after their time stamp says, and only batches that the lane itself copies pass by. So nothing is known of
// what was readable before the first sight; see age.
type lagPoints struct {
	began  time.Time  // the first sight; points count from here, by the monotonic clock
	points []lagPoint // ascending, without overlap
	coarse float64    // how much of their age points were joined over, last time
}

// lagPoint says that the offsets behind the point before it, and below end, were first seen between from and to. Only
// points that were joined have both apart.
type lagPoint struct {
	end      int64
	from, to time.Duration
}

const (
	// lagKeep is how many points a lane keeps at most (24 bytes each), lagThin to how many they are thinned then.
	lagKeep, lagThin = 128, 112
	// lagFresh is how many of the newest points are left as they are: a healthy lane's lag is among them.
	lagFresh = 16
	// lagFine is the least share of their age that points are joined over, lagCoarser by how much more where that leaves
	// too many.
	lagFine, lagCoarser = 0.02, 1.1
	// lagYoung is added to ages, so that the youngest points are not kept finer than anybody asks.
	lagYoung = 5 * time.Second
	// lagOld is how long anything is remembered.
	lagOld = 8 * 24 * time.Hour
)

// add notes that the source could be read up to end at a moment.
func (p *lagPoints) add(end int64, now time.Time) {
	if n := len(p.points); n > 0 {
		if end < p.points[n-1].end {
			*p = lagPoints{} // truncated: what was known belongs to another branch
		} else if end == p.points[n-1].end {
			return
		}
	}
	if len(p.points) == 0 {
		p.began = now
	}
	at := now.Sub(p.began)
	if len(p.points) == lagKeep {
		p.thin(at)
	}
	p.points = append(p.points, lagPoint{end: end, from: at, to: at})
}

// thin forgets what is too old, and joins neighbours whose times differ little for their age: the distance between points
// grows with the age, so that any age stays right within 8 %. The tolerance follows from how many points there are.
func (p *lagPoints) thin(now time.Duration) {
	if old := sort.Search(len(p.points), func(i int) bool { return now-p.points[i].to <= lagOld }); old > 1 {
		p.points = slices.Delete(p.points, 0, old-1) // the last of them tells where those begin that are known
	}
	p.coarse = max(lagFine, p.coarse/lagCoarser)
	for p.join(now); len(p.points) > lagThin; p.join(now) {
		p.coarse *= lagCoarser
	}
}

// join goes from the older points to the newer ones and lets each take up those behind it that are near enough.
func (p *lagPoints) join(now time.Duration) {
	kept := p.points[:min(1, len(p.points))] // nothing is known of what is below the first point: it stays
	for i := 1; i < len(p.points); i++ {
		pt, last := p.points[i], &kept[len(kept)-1]
		near := float64(pt.to-last.from) <= p.coarse*float64(now-pt.to+lagYoung)
		if near && len(kept) > 1 && i < len(p.points)-lagFresh {
			last.end, last.to = pt.end, pt.to
			continue
		}
		kept = append(kept, pt)
	}
	p.points = kept
}

// age returns how long the record at off, or the first one behind it, has been readable; 0 when there is none. With atLeast
// it was readable when this process first looked, or is older than anything remembered: it may be more.
func (p *lagPoints) age(off int64, now time.Time) (age time.Duration, atLeast bool) {
	i := sort.Search(len(p.points), func(i int) bool { return p.points[i].end > off })
	if i == len(p.points) {
		return 0, false
	}
	pt := p.points[i]
	seen := pt.from + (pt.to-pt.from)/2
	return max(0, now.Sub(p.began)-seen), i == 0
}

// Age returns how long the record at source offset src of a lane, or the first one behind it, has been readable: since this
// process, while it looked, first saw that it was. It is 0 when there is no such record, or no such lane. With atLeast it
// is older than anything that is remembered, so it may be more; after a start that holds for all that was there already.
// Other ages are right within 8 %, mostly within half of that.
func (m *Manager) Age(l model.Lane, src int64) (age time.Duration, atLeast bool) {
	if ln := m.lane(l); ln != nil {
		return ln.age(src, m.now())
	}
	return 0, false
}

func (l *lane) age(src int64, now time.Time) (time.Duration, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.points.age(max(src, l.srcStart), now) // what retention took is no record that waits
}

// waitedLocked returns how long the oldest record that is not copied has waited: of a backlog, since the lane first saw it.
func (l *lane) waitedLocked(now time.Time) time.Duration {
	age, _ := l.points.age(l.cursor.Src, now)
	return age
}
