package replicator

import (
	"testing"

	"lockstep/internal/kafka"
	"lockstep/internal/kafkatest"
	"lockstep/internal/model"
	"lockstep/offsetsync"
)

// The target lost the marker in front of an opening that is copied anew, before the old records were deleted: what is left
// of them is, since no broker deletes behind the end of its log, and the lane would try that for ever.
func TestDue_BehindALostMarker(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	r := newRig(t, src, dst, nil)
	topic := r.topic(1, nil)
	r.produce(topic, 0, 5)
	r.offer(topic)
	r.copied(topic, 0)
	l := r.m.lane(r.id(topic, 0))
	ident := l.picture().now
	e := &entry{lane: l, ident: ident, part: l.dstPart(), end: 5, found: true,
		state: offsetsync.LaneState{Opening: offsetsync.Opening{N: 2, Anew: true, Identity: ident, Origin: model.Cursor{Dst: 6}}}}
	to, err := r.m.due(t.Context(), e)
	if to != 5 || err != nil {
		t.Fatalf("the log, which ends at 5, is to be emptied up to %d (%v)", to, err)
	}
	if d := r.d.DeleteRecords(t.Context(), map[kafka.Part]int64{e.part: to})[e.part]; d.Err != nil || d.Offset != 5 {
		t.Fatalf("deleted: %+v", d)
	}
}
