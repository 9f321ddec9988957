package offsetsync

import (
	"runtime"
	"testing"

	"lockstep/internal/model"
	"lockstep/internal/statelog"
)

// manyLanes returns entries that open n lanes, and one cursor for each.
func manyLanes(n int) (openings, cursors []statelog.Entry) {
	for i := range n {
		l := model.Lane{Link: "dr", Topic: "topic", Partition: int32(i)}
		id := openingID{1, "4bd1c0a2f9e1.1"}
		o := Opening{Lane: l, N: 1, Nonce: id.nonce, Identity: theIdentity, Term: model.Term{N: 1, PID: 7, Owner: "c1f0"}}
		openings = append(openings, statelog.Entry{Key: openingKey(l, kindOpening, id), Value: encodeOpening(o)})
		c := cursorValue{V: recordVersion, Cursor: at(1000, 1000, 1000)}
		cursors = append(cursors, statelog.Entry{Key: openingKey(l, kindCursor, id), Value: encodeJSON(c)})
	}
	return openings, cursors
}

func TestView_LanesAreSmall(t *testing.T) {
	const lanes = 10_000
	openings, cursors := manyLanes(lanes)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	v := replay(openings)
	v.apply(cursors)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if per := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / lanes; per > 2500 {
		t.Errorf("a lane without jumps takes %d bytes", per)
	} else {
		t.Logf("%d bytes per lane", per)
	}
	runtime.KeepAlive(v)
	runtime.KeepAlive(openings)
	runtime.KeepAlive(cursors)
}

func BenchmarkView_Cursor(b *testing.B) {
	openings, cursors := manyLanes(1000)
	v := replay(openings)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		v.apply(cursors[i%1000 : i%1000+1])
	}
}

func BenchmarkView_CursorBehindAMillionHoles(b *testing.B) {
	openings, cursors := manyLanes(1)
	v := replay(openings)
	for l := range v.lanes {
		s := v.lanes[l]
		s.m = holes(b, 1_000_000)
		s.m.stop = s.m.start
	}
	b.ReportAllocs()
	for b.Loop() {
		v.apply(cursors)
		for l := range v.lanes {
			v.Translate(l, 5000)
		}
	}
}
