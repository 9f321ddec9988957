package replicator

import (
	"errors"

	"lockstep/internal/model"
	"lockstep/replicator/batch"
)

// form is how a batch goes to the target; it is counted in metrics.
type form int

const (
	formPass    form = iota // the compressed bytes as they came, with a patched header
	formRebuild             // decoded and encoded anew
	formMerge               // several small batches, decoded and joined
	formCount
)

func (f form) String() string {
	switch f {
	case formPass:
		return "pass"
	case formMerge:
		return "merge"
	}
	return "rebuild"
}

// refusalReason maps what batch.Check refuses to the lane's reason.
func refusalReason(err error) model.Reason {
	var r *batch.Refusal
	if errors.As(err, &r) {
		return r.Reason
	}
	return model.ReasonRefused
}
