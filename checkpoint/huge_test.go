package checkpoint

import (
	"testing"
	"time"
)

// What is stored of a group in a topic of very many partitions fits into records that every broker takes: one that it
// refuses would hold up all groups of the link.
func TestBases_VeryManyPartitions(t *testing.T) {
	t.Parallel()
	const parts, most = 10_000, 500_000
	topic := &stateTopic{}
	b := newBases(topic, topic)
	b.now = func() time.Time { return start }
	var rows []Row
	for p := range int32(parts) {
		base := Base{Source: 1 << 40, Next: 1<<40 + int64(p), At: start, Opening: 12}
		for i := range 300 {
			base.Was = append(base.Was, Stamped{Offset: base.Next - 1<<20 + int64(i), At: start.Add(-time.Minute)})
		}
		base.Suspect = &Suspicion{Source: 0, Since: start, Why: "it went back by 1099511627776, from 1099511627776 to 0, where the source's log begins"}
		rows = append(rows, saved("billing", Key{"orders", p}, base))
	}
	if err := b.Save(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	for _, e := range topic.entries {
		if len(e.Value) > most {
			t.Fatalf("record %s has %d bytes", e.Key, len(e.Value))
		}
	}
	_, other := topic.another(b.now)
	of := other.All()["billing"]
	for p := range int32(parts) {
		if of[Key{"orders", p}].Next != 1<<40+int64(p) {
			t.Fatalf("partition %d of %d: %+v", p, len(of), of[Key{"orders", p}])
		}
	}

	written := len(topic.entries)
	if err := b.Save(t.Context(), []Row{saved("billing", Key{"orders", 1500}, Base{Next: 7, At: start}), {Group: "billing", Key: Key{"orders", 999}, Forget: true}}); err != nil {
		t.Fatal(err)
	}
	if n := len(topic.entries) - written; n != 2 {
		t.Errorf("%d records for two changes", n)
	}
	topic, other = topic.another(b.now)
	of = other.All()["billing"]
	if _, there := of[Key{"orders", 999}]; len(of) != parts-1 || there || of[Key{"orders", 1500}].Next != 7 {
		t.Errorf("%d positions, 1500 at %+v", len(of), of[Key{"orders", 1500}])
	}
	if err := forget(t, other, "billing"); err != nil {
		t.Fatal(err)
	}
	if _, last := topic.another(b.now); len(last.All()) > 0 {
		t.Errorf("%d groups are left after they were forgotten", len(last.All()))
	}
}
