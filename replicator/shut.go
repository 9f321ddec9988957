package replicator

import (
	"context"
	"time"

	"lockstep/internal/kafka"
	"lockstep/internal/model"
	"lockstep/offsetsync"
	"lockstep/replicator/term"
)

// Shutting is a lane that is ended for good, and the target partition that it writes to.
type Shutting struct {
	Lane model.Lane
	Part kafka.Part
}

// Shut ends all that a link may still append to lanes, for a failover, by markers of t, and stores what is known of that at
// time now. It needs no running service. Lanes are those of the target's metadata: whoever runs may open one that the
// state does not know yet.
//
// The caller has announced its stop durably, then taken t, which is the newest term, then stored it, and then read the
// state to its end: whoever takes a term that does not stand in view sees the stop before it acts. A stop alone holds up
// nobody who looked for one before it was there, and unlike somebody who takes the link over, a failover opens no lane: an
// opening that comes late counts. So each lane is sealed under every producer id that it may still be opened in.
//
// A lane whose outcome is not sealed may still be written to; Shut may be repeated for it. The error is that of the state
// topic, and then nothing is known to be sealed.
func Shut(ctx context.Context, store *offsetsync.Store, view *offsetsync.View, s sealer, t model.Term, lanes []Shutting, now time.Time) (map[kafka.Part]term.Outcome, error) {
	endings, known := make([]ending, len(lanes)), view.Terms()
	for i, x := range lanes {
		st, _ := view.Lane(x.Lane)
		endings[i] = newEnding(x.Lane, x.Part, st, t, known)
	}
	if err := intend(ctx, store, t, endings, term.WayUnknown, now); err != nil {
		return nil, err
	}
	out, way := endAll(ctx, s, t, endings)
	return out, confirm(ctx, store, t, endings, out, way, now)
}
