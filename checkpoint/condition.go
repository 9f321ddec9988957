package checkpoint

import "time"

// condition is something that may be wrong. What changes about it is told: that it begins, becomes another one, or ends;
// not each time that it is met.
type condition struct {
	wrong bool
	kind  string
	since time.Time
}

// take notes how it is now: err, and in one word what kind of fault that is. begins says that it is wrong now in another
// way than before, ended for how long it was wrong until now.
func (c *condition) take(now time.Time, err error, kind string) (begins bool, ended time.Duration) {
	switch {
	case err == nil && c.wrong:
		ended = max(now.Sub(c.since).Round(time.Second), time.Second)
		*c = condition{}
	case err != nil && (!c.wrong || c.kind != kind):
		begins = true
		if !c.wrong {
			c.since = now
		}
		c.wrong, c.kind = true, kind
	}
	return begins, ended
}
