package checkpoint

import "testing"

// Where the old log of a target topic began says nothing about the one that was made anew under its name.
func TestSyncer_StartOfAnotherLog(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	lane := r.lanes[orders]
	lane.DstStart = -1
	r.lanes[orders] = lane
	r.sides.starts = map[Key]int64{orders: 500}
	r.sides.put("src", "billing", 100)
	r.pass()
	r.wants("billing", StateSynced, 500)

	lane.Opening++
	r.lanes[orders] = lane
	r.sides.starts = map[Key]int64{orders: 0}
	delete(r.sides.dst, "billing")
	r.pass()
	r.wants("billing", StateSynced, 90)
}
