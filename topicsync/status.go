package topicsync

import (
	"errors"
	"fmt"
	"time"

	"lockstep/internal/kafka"
	"lockstep/internal/model"
	"lockstep/topicsync/configs"
)

// TopicState says what becomes of one source topic.
type TopicState string

// The states.
const (
	TopicCopied        TopicState = "copied"         // every lane has been offered
	TopicWaiting       TopicState = "waiting"        // something is on its way, such as a leader
	TopicFailed        TopicState = "failed"         // an operator has to act; it is tried again all the same
	TopicSkipped       TopicState = "skipped"        // the link does not copy it
	TopicSourceDeleted TopicState = "source_deleted" // gone on the source; the target keeps its copy
	TopicTargetLost    TopicState = "target_lost"    // gone on the target, where it was before
)

// TopicStatus is what is known of one source topic.
type TopicStatus struct {
	Link, Topic, DstTopic string
	State                 TopicState
	Detail                string // why, in words; "" when all is well
	Remedy                string // a command or a setting; "" when nothing is to be done
	Partitions            int    // on the source
	DstPartitions         int
	Ready                 int // lanes that were offered
	// Left are settings of the source topic that the target topic did not get when it was created, or not as they are.
	Left  []configs.Left
	Since time.Time // when State became what it is
	Err   error
}

// statusOf says how a wanted topic stands. err is what went wrong with it in this pass.
func statusOf(link string, w Wanted, ready int, err error) TopicStatus {
	s := TopicStatus{
		Link: link, Topic: w.Src.Name, DstTopic: w.Dst.Name, Err: err, Ready: ready,
		Partitions: len(w.Src.Parts), DstPartitions: len(w.Dst.Parts),
	}
	switch {
	case errors.Is(err, errTargetLost):
		s.State = TopicTargetLost
		s.Remedy = model.Remedy(model.ReasonTargetLost, model.Lane{Link: link, Topic: w.Src.Name})
	case err != nil && passing(err):
		s.State = TopicWaiting
	case err != nil:
		s.State = TopicFailed
	case ready < s.Partitions || s.Partitions == 0:
		s.State = TopicWaiting
		s.Detail = fmt.Sprintf("%d of %d lanes are ready", ready, s.Partitions)
	default:
		s.State = TopicCopied
		if extra := s.DstPartitions - s.Partitions; extra > 0 {
			s.Detail = fmt.Sprintf("the target has %d partitions more than the source; they stay empty", extra)
		}
	}
	if err != nil {
		s.Detail = err.Error()
	}
	if te := (*TopicError)(nil); errors.As(err, &te) {
		s.Remedy = te.Hint
	}
	return s
}

// passing reports whether an error is expected to be over soon without anybody acting. A missing permission is not,
// though the next pass tries again.
func passing(err error) bool {
	action, reason := kafka.Classify(err)
	return action != kafka.Stop && reason != model.ReasonNotAuthorized
}
