package mm2

import (
	"fmt"
	"testing"

	"lockstep/checkpoint"
	"lockstep/internal/model"
	"lockstep/offsetsync"
)

// A pass in which nothing changed, over 5,000 groups with 50,000 positions in 10,000 lanes of 2,000 spans.
func BenchmarkTake_NothingChanged(b *testing.B) {
	m := offsetsync.NewMap(0, 0)
	for range 2000 {
		src, dst := m.End()
		if err := m.Append(model.Span{Src: src + 1, Dst: dst, N: 9}); err != nil {
			b.Fatal(err)
		}
	}
	p := checkpoint.Pass{Lanes: map[checkpoint.Key]checkpoint.Lane{}}
	cps, syncs := &checkpoints{board: &board{}, stand: map[subject]written{}}, &offsetSyncs{board: &board{}, stand: map[checkpoint.Key]OffsetSync{}, taken: map[checkpoint.Key]progress{}}
	for i := range 10_000 {
		k := checkpoint.Key{Topic: fmt.Sprintf("a-topic-of-a-team.%d", i/10), Partition: int32(i % 10)}
		p.Lanes[k] = checkpoint.Lane{DstTopic: k.Topic, Map: m.Clone(), Opening: 1}
		newest, _ := m.Newest(1 << 40)
		syncs.stand[k] = OffsetSync{k, newest.Src, newest.Dst}
		for g := range 5 {
			r := checkpoint.Row{DstGroup: fmt.Sprintf("a-service-of-a-team.%d", i/2+g), Key: k, DstTopic: k.Topic, Source: 500, Translated: 450, State: checkpoint.StateSynced}
			p.Rows = append(p.Rows, r)
			w, _, ok := checkpointOf(r, p.Lanes)
			if !ok {
				b.Fatal("the row says nothing")
			}
			cps.stand[subject{w.Group, w.Key}] = w
		}
	}
	for b.Loop() {
		if faults, err := cps.take(b.Context(), p); faults != nil || err != nil {
			b.Fatal(err)
		}
		if faults, err := syncs.take(b.Context(), p); faults != nil || err != nil {
			b.Fatal(err)
		}
	}
}
