package drift

import (
	"context"

	"lockstep/internal/statelog"
)

// StateReader gives records of a link's state topic away; see offsetsync.View.
type StateReader interface {
	Handle(kind string, fn func(statelog.Entry) error)
}

// StateWriter makes records of a link's state topic durable; see statelog.Log.
type StateWriter interface {
	Put(ctx context.Context, entries ...statelog.Entry) error
}
