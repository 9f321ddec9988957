package replicator

import "time"

// lagPoints remembers when the source's readable end was first seen at an offset. Seconds of lag come from these
// points, so that nothing has to be fetched for them. The zero value is ready to use.
type lagPoints struct {
	points []lagPoint // ascending in both fields
}

type lagPoint struct {
	end int64
	at  time.Time
}

// lagKeep is how many points a lane keeps. When they are used up every second one goes: the distance between points
// grows with the lag, so the answer stays right within a few per cent.
const lagKeep = 64

// add notes that the source could be read up to end at a moment.
func (p *lagPoints) add(end int64, now time.Time) {
	if n := len(p.points); n > 0 {
		if end < p.points[n-1].end {
			p.points = nil // truncated: what was known belongs to another branch
		} else if end == p.points[n-1].end {
			return
		}
	}
	if len(p.points) == lagKeep {
		half := p.points[:0]
		for i := 0; i < lagKeep; i += 2 {
			half = append(half, p.points[i])
		}
		p.points = half
	}
	p.points = append(p.points, lagPoint{end: end, at: now})
}

// behind returns how long the oldest record at or behind next has been readable; 0 when there is none.
func (p *lagPoints) behind(next int64, now time.Time) time.Duration {
	for i, pt := range p.points {
		if pt.end > next {
			p.points = p.points[i:]
			return max(0, now.Sub(pt.at))
		}
	}
	return 0
}
