package checkpoint

import (
	"log/slog"
	"time"
)

// condition is something that may be wrong. It is logged when it begins, when it becomes another one, and when it ends:
// not each time that it is met.
type condition struct {
	wrong bool
	kind  string
	since time.Time
}

// tell takes how it is now: err, and in one word what kind of fault that is.
func (c *condition) tell(log *slog.Logger, now time.Time, err error, kind, bad, good string) {
	switch {
	case err == nil && c.wrong:
		log.Info(good, "after", now.Sub(c.since).Round(time.Second).String())
		*c = condition{}
	case err != nil && (!c.wrong || c.kind != kind):
		log.Warn(bad, "error", err)
		if !c.wrong {
			c.since = now
		}
		c.wrong, c.kind = true, kind
	}
}
