package api

import (
	"math"

	"lockstep/internal/model"
)

// NewLane gives a lane's figures the form that is shown. A negative offset of the source or the target's end means
// "not known" and becomes null, and so does every figure that follows from it.
func NewLane(s model.LaneStatus) Lane {
	l := Lane{
		Link: s.Link, Topic: s.Topic, Partition: s.Partition, TargetTopic: s.DstTopic,
		State: string(s.State), Reason: string(s.Reason), Detail: s.Detail, Since: s.Since.UTC(), Remedy: s.Remedy,
		Term: s.Term, Opening: s.Opening,
		SourceOffset: s.Cursor.Src, TargetOffset: s.Cursor.Dst,
		SourceStartOffset: Known(s.SrcStart), SourceStableOffset: Known(s.SrcStable), SourceEndOffset: Known(s.SrcEnd),
		TargetEndOffset: Known(s.DstEnd),
		CopiedRecords:   s.Records, CopiedBytes: s.Bytes,
	}
	if s.Readable >= 0 {
		l.LagRecords = Known(s.LagRecords())
		l.LagSeconds = Seconds(s.LagSeconds)
	}
	return l
}

// NewGap gives a ledger entry the form that is shown.
func NewGap(g model.Gap) Gap {
	return Gap{
		Link: g.Lane.Link, Topic: g.Lane.Topic, Partition: g.Lane.Partition,
		From: g.From, To: g.To, Offsets: g.To - g.From, Reason: g.Reason, At: g.At.UTC(), TargetFrom: g.DstFrom, TargetTo: g.DstTo,
	}
}

// Shown is the one word under which a lane is counted: the reason of a stopped lane, the state of any other.
func (l Lane) Shown() string {
	if l.State == string(model.StateStopped) && l.Reason != "" {
		return l.Reason
	}
	return l.State
}

// LagOf takes the lag out of lanes' figures, in the same order.
func LagOf(lanes []Lane) []Lag {
	out := make([]Lag, 0, len(lanes))
	for _, l := range lanes {
		out = append(out, Lag{
			Link: l.Link, Topic: l.Topic, Partition: l.Partition, State: l.Shown(), Records: l.LagRecords, Seconds: l.LagSeconds,
		})
	}
	return out
}

// Summarize says how a link is from how its lanes are: its state, how many lanes are in which state, and what would be
// missing if the source were gone now.
func Summarize(lanes []Lane) (state string, counts Counts, rpo RPO) {
	counts = Counts{Total: len(lanes), ByState: map[string]int{}}
	states := map[model.State]int{}
	for _, l := range lanes {
		counts.ByState[l.Shown()]++
		states[model.State(l.State)]++
		rpo.add(l)
	}
	return linkState(states, len(lanes)), counts, rpo
}

// linkState: a lane that waits for an operator weighs more than one that a fault holds back, and that more than one
// which is about to start. Closed lanes say nothing about the others.
func linkState(states map[model.State]int, total int) string {
	open := total - states[model.StateClosed]
	switch {
	case total > 0 && open == 0:
		return LinkStateClosed
	case open > 0 && states[model.StateStopped] == open:
		return LinkStateStopped
	case open > 0 && states[model.StatePaused] == open:
		return LinkStatePaused
	case states[model.StateStopped] > 0:
		return LinkStateDegraded
	case states[model.StateRetrying] > 0:
		return LinkStateRetrying
	case total == 0 || states[model.StateOpening]+states[model.StateWaiting] > 0:
		return LinkStateOpening
	default:
		return LinkStateCopying
	}
}

// add takes one lane into the figures. A lane that ended cleanly owes nothing: its topic is gone.
func (r *RPO) add(l Lane) {
	if l.State == string(model.StateClosed) {
		return
	}
	if l.LagRecords == nil {
		r.UnknownLanes++
		return
	}
	if r.Records == nil {
		r.Records, r.Seconds = new(int64), new(float64)
	}
	*r.Records += *l.LagRecords
	if l.LagSeconds != nil {
		*r.Seconds = max(*r.Seconds, *l.LagSeconds)
	}
}

// Known gives a number the form that is shown: a negative one means "not known" and becomes null.
func Known(offset int64) *int64 {
	if offset < 0 {
		return nil
	}
	return &offset
}

// Seconds rounds seconds to a thousandth: the figure's points are no finer. A negative figure, or one that is no number,
// is unknown.
func Seconds(s float64) *float64 {
	if math.IsNaN(s) || math.IsInf(s, 0) || s < 0 {
		return nil
	}
	r := math.Round(s*1000) / 1000
	return &r
}
