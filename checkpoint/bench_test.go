package checkpoint

import (
	"fmt"
	"testing"
	"time"

	"lockstep/internal/model"
)

// largeLink is 5,000 groups with 50,000 positions in 500 lanes, whose maps have a hole every ten records.
func largeLink(b *testing.B) Input {
	b.Helper()
	in := Input{
		Now: start, Rules: usual(), Lanes: map[Key]Lane{}, Bases: map[string]map[Key]Base{},
		Source: Picture{Groups: map[string]Group{}}, Target: Picture{Groups: map[string]Group{}},
	}
	var spans []model.Span
	for i := range int64(2_000) {
		spans = append(spans, model.Span{Src: i * 11, Dst: i * 10, N: 10})
	}
	for i := range 500 {
		key := Key{fmt.Sprintf("topic-%02d", i/10), int32(i % 10)}
		lane := laneOf(mapOf(b, 22_000, 20_000, spans...))
		lane.DstTopic = key.Topic
		in.Lanes[key] = lane
	}
	for i := range 5_000 {
		name := fmt.Sprintf("group-%04d", i)
		src, dst := map[Key]Committed{}, map[Key]Committed{}
		bases := map[Key]Base{}
		for p := range int64(10) {
			key := Key{fmt.Sprintf("topic-%02d", i%50), int32(p)}
			off := (int64(i)*3 + p) % 2_000
			src[key], dst[key] = Committed{Offset: off * 11}, Committed{Offset: off * 10}
			bases[key] = Base{Source: off * 11, Next: off * 10, At: start.Add(-time.Minute), Opening: 1}
		}
		in.Source.Groups[name] = Group{Type: TypeClassic, State: "Stable", Offsets: src}
		in.Target.Groups[name] = Group{Type: TypeClassic, State: "Empty", Offsets: dst}
		in.Bases[name] = bases
	}
	return in
}

func BenchmarkPlan_NothingMoved(b *testing.B) { benchmarkPlan(b, 0, StateSynced) }

func BenchmarkPlan_EverythingMoved(b *testing.B) { benchmarkPlan(b, 1, StatePending) }

func benchmarkPlan(b *testing.B, moved int64, want State) {
	in := largeLink(b)
	for _, g := range in.Source.Groups {
		for k, c := range g.Offsets {
			c.Offset += moved
			g.Offsets[k] = c
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if rows := Plan(in); len(rows) != 50_000 || rows[0].State != want {
			b.Fatalf("%d rows, %+v", len(rows), rows[0])
		}
	}
}

func BenchmarkBases_SaveEverything(b *testing.B) {
	in := largeLink(b)
	for _, g := range in.Source.Groups {
		for k, c := range g.Offsets {
			c.Offset++
			g.Offsets[k] = c
		}
	}
	rows := Plan(in)
	topic := &stateTopic{late: true}
	bases := newBases(topic, topic)
	b.ReportAllocs()
	for b.Loop() {
		topic.entries = nil
		if err := bases.Save(b.Context(), rows); err != nil {
			b.Fatal(err)
		}
	}
	size := 0
	for _, e := range topic.entries {
		size += len(e.Key) + len(e.Value)
	}
	b.ReportMetric(float64(size), "stored-bytes")
}

func BenchmarkHistory_NothingMoved(b *testing.B) {
	rows := Plan(largeLink(b))
	topic := &stateTopic{}
	h := newHistory(topic, topic)
	at := start
	b.ReportAllocs()
	for b.Loop() {
		at = at.Add(2 * time.Second)
		if err := h.Note(b.Context(), Pass{At: at, Rows: rows}); err != nil {
			b.Fatal(err)
		}
	}
}
