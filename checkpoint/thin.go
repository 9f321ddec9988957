package checkpoint

import "time"

// thin returns which of the moments, oldest first, is missed least at a time: one that is older than history goes back,
// or else the one whose neighbours are nearest to each other, measured as the ratio of their ages. So distances grow with
// the age, and the whole week is covered. The oldest and the newest stay. Marked ones go when they are more than half.
func thin(ms []moment, now time.Time) int {
	if now.Sub(ms[0].at) > keepFor {
		return 0
	}
	marked := 0
	for _, m := range ms {
		if m.mark {
			marked++
		}
	}
	inner := len(ms) - 2
	if i := densest(ms, now, marked > keepMarked); i > 0 {
		return i
	}
	if i := densest(ms, now, marked <= keepMarked); i > 0 {
		return i
	}
	return min(1, max(inner, 0))
}

// densest returns the inner moment, of the marked or of the others, whose neighbours' ages differ least; 0 for none.
func densest(ms []moment, now time.Time, marked bool) int {
	age := func(i int) float64 { return max(0, now.Sub(ms[i].at).Seconds()) + momentsFrom.Seconds() }
	best, least := 0, 0.0
	for i := 1; i < len(ms)-1; i++ {
		if ms[i].mark != marked {
			continue
		}
		if ratio := age(i-1) / age(i+1); best == 0 || ratio < least {
			best, least = i, ratio
		}
	}
	return best
}
