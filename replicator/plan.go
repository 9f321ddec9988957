package replicator

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"lockstep/internal/model"
	"lockstep/offsetsync"
)

// picture is what the plan of an order is made from: one lane, as it is here and as both clusters show it.
type picture struct {
	lane     model.Lane
	state    model.State
	reason   model.Reason
	cursor   model.Cursor
	now      model.Identity       // its topics, as they were offered last
	born     bool                 // see Assignment
	stored   offsetsync.LaneState // if found
	found    bool
	held     string // the pause that holds its topic, in words
	src, dst logEnds
	// dstID is the id of the target topic as it is now; zero when there is none.
	dstID    model.TopicID
	dstGone  bool  // there is no such topic on the target
	dstParts int   // partitions of the target topic
	denied   error // why the target's records cannot be deleted
	from     int64 // adopt: where it would begin
}

// logEnds are the ends of a partition's log, or why they are not known.
type logEnds struct {
	start, end int64
	err        error
}

// planLane says what an order would do to one lane. It is pure: a dry run shows what the real run does.
func planLane(o model.Order, p picture) model.OrderStep {
	s := model.OrderStep{Subject: p.lane.String(), State: string(p.state)}
	if p.reason != model.ReasonNone {
		s.State += ": " + string(p.reason)
	}
	if p.held != "" {
		s.Refused = "it is " + p.held + "; resume it first"
		return s
	}
	switch o.Kind {
	case model.OrderRetry:
		planRetry(&s, p)
	case model.OrderSkip:
		planSkip(&s, o, p)
	case model.OrderRebuild:
		planRebuild(&s, p)
	case model.OrderAccept:
		planAccept(&s, p)
	case model.OrderAdopt:
		planAdopt(&s, p)
	case model.OrderPause, model.OrderResume:
	}
	return s
}

// neverByOrder says why no order about a lane helps that stopped for a reason.
func neverByOrder(p picture) string {
	switch p.reason {
	case model.ReasonSourceDeleted:
		return "the source topic is gone, and the target keeps its copy"
	case model.ReasonSuperseded:
		return "another instance owns the link: order it there"
	case model.ReasonSourceReplaced:
		return "the link's source was replaced: lockstep links accept " + p.lane.Link
	}
	return ""
}

func planRetry(s *model.OrderStep, p picture) {
	at := p.certainNow().Src
	switch {
	case p.state != model.StateStopped:
		s.Refused = "it is not stopped"
	case neverByOrder(p) != "":
		s.Refused = neverByOrder(p)
	case p.reason == model.ReasonTargetLost && (p.dstGone || int(p.lane.Partition) >= p.dstParts):
		s.Refused = "the target partition does not exist: lockstep lanes rebuild " + p.lane.String()
	case p.reason == model.ReasonGap && p.src.err != nil:
		s.Refused = unknownEnds("source", p.src.err)
	case p.reason == model.ReasonGap && p.src.start > at:
		s.Does = fmt.Sprintf("goes on at source offset %d; offsets %d to %d were deleted before they were read", p.src.start, at, p.src.start-1)
		s.Leaves = p.src.start - at
	default:
		s.Does, s.CanUndo = "looks again whether it can go on, where it stands", true
		if p.found {
			s.Does = fmt.Sprintf("looks again whether it can go on at source offset %d", at)
		}
	}
}

func unknownEnds(side string, err error) string {
	return fmt.Sprintf("the ends of the %s's log are not known: %v", side, err)
}

func planSkip(s *model.OrderStep, o model.Order, p picture) {
	at := p.certainNow()
	lost := p.found && p.dst.err == nil && lostEnd(p.stored, p.dst.end)
	unsure := lost || p.reason == model.ReasonDiverged || p.reason == model.ReasonPlanLost
	back := p.reason == model.ReasonSourceTruncated && o.To < at.Src
	switch {
	case p.state != model.StateStopped && p.state != model.StateRetrying:
		s.Refused = "it is not stopped"
	case neverByOrder(p) != "":
		s.Refused = neverByOrder(p)
	case otherTopics(p.reason):
		s.Refused = "to go on elsewhere is no way out of this: " + model.Remedy(p.reason, p.lane)
	case !p.found:
		s.Refused = "nothing of it was ever copied"
	case p.stored.Fault != nil:
		s.Refused = fmt.Sprintf("what is stored of it does not fit together (%v): lockstep lanes rebuild %s", p.stored.Fault, p.lane)
	case p.src.err != nil:
		s.Refused = unknownEnds("source", p.src.err)
	case p.dst.err != nil:
		s.Refused = unknownEnds("target", p.dst.err)
	case o.To < p.src.start:
		s.Refused = fmt.Sprintf("the source's log starts at offset %d", p.src.start)
	case o.To > p.src.end:
		s.Refused = fmt.Sprintf("the source's log ends at offset %d", p.src.end)
	case o.To < at.Src && !back:
		s.Refused = twice(o.To, at)
		if lost {
			s.Refused += fmt.Sprintf("; it lost its log's end and may go back to source offset %d, no further", at.Src)
		}
	case o.To == at.Src && !unsure:
		s.Refused = fmt.Sprintf("it stands at source offset %d already: lockstep lanes retry %s", at.Src, p.lane)
	default:
		skipDoes(s, o.To, at, back, lost)
	}
}

func skipDoes(s *model.OrderStep, to int64, at model.Cursor, back, lost bool) {
	s.Does = fmt.Sprintf("goes on at source offset %d; it stands at %d", to, at.Src)
	s.Leaves = max(0, to-at.Src)
	switch {
	case back:
		s.Does += ", which the source does not have any more"
		s.Leaves = at.Src - to
	case lost:
		s.Does += fmt.Sprintf(", since the target lost its log's end behind target offset %d", at.Dst)
	}
}

// certainNow is how far the lane's copy certainly reaches: as it is stored or, while this process has the lane open, as it
// knows.
func (p picture) certainNow() model.Cursor {
	at := p.stored.Cursor
	if p.dst.err == nil {
		at = certain(p.stored, p.dst.end)
	}
	if p.dst.err == nil && lostEnd(p.stored, p.dst.end) || p.cursor.Src < at.Src {
		return at
	}
	if p.reason == model.ReasonDiverged || p.reason == model.ReasonPlanLost {
		return at // what only this process believes is what is in doubt
	}
	return p.cursor
}

// otherTopics reports whether a lane stopped because a topic is not the one it copied from or to, or is not its own.
func otherTopics(r model.Reason) bool {
	switch r {
	case model.ReasonRecreated, model.ReasonTargetLost, model.ReasonNotEmpty, model.ReasonOtherLink, model.ReasonCycle:
		return true
	}
	return false
}

// rebuildHelps reports whether rebuilding is the remedy of a reason: lanes that stopped for it are meant by "all".
func rebuildHelps(r model.Reason) bool {
	switch r {
	case model.ReasonTargetLost, model.ReasonPlanLost, model.ReasonDiverged, model.ReasonSourceTruncated:
		return true
	}
	return false
}

func planRebuild(s *model.OrderStep, p picture) {
	switch {
	case p.state != model.StateStopped:
		s.Refused = "it is not stopped"
	case neverByOrder(p) != "":
		s.Refused = neverByOrder(p)
	case otherTopics(p.reason) && p.reason != model.ReasonTargetLost:
		s.Refused = "to copy it anew is no way out of this: " + model.Remedy(p.reason, p.lane)
	case !p.found:
		s.Refused = "nothing of it was ever copied"
	case p.src.err != nil:
		s.Refused = unknownEnds("source", p.src.err)
	case p.mustRemake():
		s.Does = fmt.Sprintf("has the target topic %s made again or grow, and copies anew from source offset %d", p.now.DstTopic, p.src.start)
	case p.dst.err != nil:
		s.Refused = unknownEnds("target", p.dst.err)
	case p.dst.end == p.dst.start:
		s.Does = fmt.Sprintf("copies anew from source offset %d, into the empty target partition", p.src.start)
	default:
		s.Deletes = p.dst.end - p.dst.start
		s.Does = fmt.Sprintf("deletes target offsets %d to %d, and copies anew from source offset %d", p.dst.start, p.dst.end-1, p.src.start)
		s.Refused = undeletable(p)
	}
	if s.Refused == "" {
		s.Leaves = max(0, p.src.start-firstHeld(p.stored, p.dstNow(), p.dst.start))
	}
}

// mustRemake reports whether the target partition does not exist.
func (p picture) mustRemake() bool { return p.dstGone || int(p.lane.Partition) >= p.dstParts }

// dstNow is the lane's identity with the target topic that stands there now.
func (p picture) dstNow() model.Identity {
	id := p.now
	id.Dst = p.dstID
	return id
}

func undeletable(p picture) string {
	switch {
	case p.denied == nil:
		return ""
	case errors.Is(p.denied, kerr.PolicyViolation):
		return fmt.Sprintf("target topic %s is compacted only, and Kafka deletes no records of such a topic on demand: delete the topic, then order this again", p.now.DstTopic)
	}
	return fmt.Sprintf("the target's records cannot be deleted: %v", p.denied)
}

func planAccept(s *model.OrderStep, p picture) {
	switch {
	case p.state != model.StateStopped || p.reason != model.ReasonRecreated:
		s.Refused = "it is not stopped as recreated"
	case errors.Is(p.src.err, errNoPartition):
		s.Does = "ends: the new source topic has no such partition; the target keeps its copy"
	case p.src.err != nil:
		s.Refused = unknownEnds("source", p.src.err)
	case p.dst.err != nil:
		s.Refused = unknownEnds("target", p.dst.err)
	case otherID(p.stored.Opening.Identity.Dst, p.dstID):
		s.Refused = "the target topic was made again too: delete it there, then lockstep lanes rebuild " + p.lane.String()
	default:
		s.Does = fmt.Sprintf("copies the new source topic from its offset %d, behind target offset %d; the old one's records stay, and what it held behind offset %d is unknown",
			p.src.start, p.dst.end, p.stored.Cursor.Src)
	}
}

func planAdopt(s *model.OrderStep, p picture) {
	switch {
	case p.state == model.StateStopped && (p.reason == model.ReasonOtherLink || p.reason == model.ReasonCycle):
		s.Refused = "another link writes it: " + model.Remedy(p.reason, p.lane)
	case p.state != model.StateStopped || p.reason != model.ReasonNotEmpty:
		s.Refused = "it is not stopped as not_empty"
	case p.found:
		s.Refused = "it was copied before: lockstep lanes retry " + p.lane.String()
	case p.src.err != nil:
		s.Refused = unknownEnds("source", p.src.err)
	case p.dst.err != nil:
		s.Refused = unknownEnds("target", p.dst.err)
	default:
		s.Does = fmt.Sprintf("copies from source offset %d, behind target offset %d; what the target holds stays", p.from, p.dst.end)
	}
}
