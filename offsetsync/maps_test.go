package offsetsync

import (
	"fmt"
	"testing"

	"lockstep/internal/model"
)

// lanesOf returns a view that knows n lanes with a copied record each.
func lanesOf(tb testing.TB, n int) *View {
	tb.Helper()
	v := newView(nil, "dr")
	for i := range n {
		m := NewMap(0, 0)
		if err := m.Append(model.Span{N: int64(i + 1)}); err != nil {
			tb.Fatal(err)
		}
		id := model.Lane{Link: "dr", Topic: fmt.Sprintf("topic-%d", i/10), Partition: int32(i % 10)}
		v.lanes[id] = &lane{m: m, queue: []*opened{{Opening: Opening{Lane: id, N: 3, Identity: model.Identity{DstTopic: "x-" + id.Topic}}}}}
	}
	v.lanes[model.Lane{Link: "dr", Topic: "never-opened"}] = &lane{}
	return v
}

func TestView_MapsOfAllLanes(t *testing.T) {
	t.Parallel()
	v := lanesOf(t, 25)
	got := v.Maps()
	if len(got) != 25 {
		t.Fatalf("%d lanes, want 25", len(got))
	}
	id := model.Lane{Link: "dr", Topic: "topic-1", Partition: 7}
	m := got[id]
	if m.Opening != 3 || m.Identity.DstTopic != "x-topic-1" || m.Fault != nil || m.Map.Translate(18).Offset != 18 {
		t.Errorf("the lane is %+v", m)
	}
	if err := v.lanes[id].m.Append(model.Span{Src: 18, Dst: 18, N: 5}); err != nil {
		t.Fatal(err)
	}
	if src, _ := m.Map.End(); src != 18 {
		t.Errorf("the picture grew to %d with the view", src)
	}
}

func BenchmarkView_MapsOfTenThousandLanes(b *testing.B) {
	v := lanesOf(b, 10_000)
	for b.Loop() {
		v.Maps()
	}
}
