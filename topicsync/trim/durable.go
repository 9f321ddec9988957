package trim

import (
	"context"

	"lockstep/internal/model"
	"lockstep/offsetsync"
)

// Durable are the maps of a link's lanes as its state topic holds them.
type Durable struct{ View *offsetsync.View }

// Lanes implements Maps.
func (d Durable) Lanes(ctx context.Context) (map[model.Lane]Lane, error) {
	if err := d.View.Barrier(ctx); err != nil {
		return nil, err
	}
	out := make(map[model.Lane]Lane)
	for id, of := range d.View.Maps() {
		if of.Fault != nil {
			continue
		}
		src, _ := of.Map.Start()
		_, dst := of.Map.End()
		out[id] = Lane{Identity: of.Identity, Start: src, Cursor: dst, Translate: func(src int64) int64 { return of.Map.Translate(src).Offset }}
	}
	return out, nil
}
