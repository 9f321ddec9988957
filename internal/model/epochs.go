package model

import "slices"

// EpochStart says that source records from offset Src on were written under this leader epoch, up to the next entry.
type EpochStart struct {
	Epoch int32 `json:"epoch"`
	Src   int64 `json:"src"`
}

// KeepEpochs is how many leader epochs of a lane are kept, the newest.
const KeepEpochs = 32

// AppendEpoch returns a history with a record at offset src of the given epoch behind it. Neither changes the other's
// memory. An epoch that is not known (-1), or not newer than the last, adds nothing.
func AppendEpoch(history []EpochStart, epoch int32, src int64) []EpochStart {
	if n := len(history); epoch < 0 || n > 0 && epoch <= history[n-1].Epoch {
		return history
	}
	return append(slices.Clip(history), EpochStart{Epoch: epoch, Src: src})
}

// EpochsBelow returns the newest part of a history that is to be kept for what lies below offset src.
func EpochsBelow(history []EpochStart, src int64) []EpochStart {
	n := len(history)
	for n > 0 && history[n-1].Src >= src {
		n--
	}
	return slices.Clip(history[max(0, n-KeepEpochs):n])
}
