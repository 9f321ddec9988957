package main

import (
	"testing"

	"lockstep/internal/model"
	"lockstep/offsetsync"
)

// The map of an opening says nothing about the log that the next one is over.
func TestGroupLane_MapOfAnEarlierOpening(t *testing.T) {
	t.Parallel()
	for opening, usable := range map[uint64]bool{0: false, 5: true, 6: true, 7: false} {
		lane := groupLane(&model.LaneStatus{Opening: opening}, offsetsync.Mapped{Opening: 6, Map: offsetsync.NewMap(0, 0)})
		if (lane.Map != nil) != usable {
			t.Errorf("opened %d times, the map is of opening 6: usable is %v", opening, lane.Map != nil)
		}
	}
}
