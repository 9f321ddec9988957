package checkpoint

import (
	"context"
	"slices"
)

// holdStrangers takes back writes that would move groups back in topics which are not those that were copied from: one
// that was deleted and made again begins at 0, and is noticed a moment later by whoever watches topics. Moves back are
// rare enough to ask.
func (a *attempt) holdStrangers(ctx context.Context, rows []Row) {
	var back []*Row
	var topics []string
	for i := range rows {
		if r := &rows[i]; r.Write && r.Backwards && !a.lanes[r.Key].SrcID.IsZero() {
			back, topics = append(back, r), append(topics, r.Topic)
		}
	}
	if len(back) == 0 {
		return
	}
	slices.Sort(topics)
	ids := a.s.opt.Sides.SourceIDs(ctx, slices.Compact(topics))
	for _, r := range back {
		switch id, ok := ids[r.Topic]; {
		case !ok || id.IsZero():
			r.hold(StatePending, "it was moved back on the source, and whether the topic is still the same is not known")
		case id != a.lanes[r.Key].SrcID:
			r.hold(StateLaneHeld, "the source topic was deleted and made again")
		}
	}
}

// hold leaves a row's write out.
func (r *Row) hold(state State, detail string) {
	r.Write, r.Save, r.State, r.Detail = false, false, state, detail
}
