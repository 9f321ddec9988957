package checkpoint

import (
	"reflect"
	"testing"

	"lockstep/internal/kafka"
	"lockstep/internal/kafkatest"
)

// Tests of these files run against real brokers: fake ones imitate groups only in part.

func TestObserve_EmptyGroupWithMetadata(t *testing.T) {
	t.Parallel()
	kafkatest.EachVersion(t, func(t *testing.T, kc *kafkatest.Cluster) {
		c := dial(t, kc.Brokers(), kafka.Options{})
		topic, group := kafkatest.Topic(t, kc, kafkatest.TopicOptions{Partitions: 3}), uniqueGroup("empty")
		mustCommit(t, c, group, map[Key]Committed{{topic, 0}: {Offset: 5, LeaderEpoch: 3, Metadata: "mine"}, {topic, 2}: {Offset: 0}})
		p, err := Observe(testContext(t), c, func(g string) bool { return g == group })
		if err != nil || p.Partial != nil || len(p.Groups) != 1 {
			t.Fatalf("%+v, error %v", p, err)
		}
		g := p.Groups[group]
		if g.Name != group || g.Type != TypeClassic || g.Protocol != "" || g.State != "Empty" || !g.Idle() || !g.Supported() {
			t.Errorf("%+v", g)
		}
		if len(g.Offsets) != 2 || g.Offsets[Key{topic, 0}] != (Committed{5, -1, "mine"}) || g.Offsets[Key{topic, 2}] != (Committed{0, -1, ""}) {
			t.Errorf("offsets %+v", g.Offsets)
		}
	})
}

func TestApply_Writes(t *testing.T) {
	t.Parallel()
	kafkatest.EachVersion(t, func(t *testing.T, kc *kafkatest.Cluster) {
		c := dial(t, kc.Brokers(), kafka.Options{})
		topic, group, fresh := kafkatest.Topic(t, kc, kafkatest.TopicOptions{Partitions: 2}), uniqueGroup("known"), uniqueGroup("fresh")
		mustCommit(t, c, group, map[Key]Committed{{topic, 0}: {Offset: 5}})
		rows := []Row{
			{Group: "a", DstGroup: group, Key: Key{"src", 0}, DstTopic: topic, Target: 5, Translated: 9, Metadata: "m", State: StatePending, Write: true},
			{Group: "a", DstGroup: group, Key: Key{"src", 1}, DstTopic: topic, Target: -1, Translated: 3, State: StatePending, Write: true},
			{Group: "b", DstGroup: fresh, Key: Key{"src", 1}, DstTopic: topic, Target: -1, Translated: 4, State: StatePending, Write: true},
			{Group: "c", DstGroup: "not-touched", State: StateExcluded, Detail: "left"},
		}
		out := Apply(testContext(t), c, rows)
		for i, r := range out[:3] {
			if r.State != StateSynced || r.Write || r.Target != r.Translated || rows[i].State != StatePending {
				t.Errorf("row %d: %+v", i, r)
			}
		}
		if !reflect.DeepEqual(out[3], rows[3]) {
			t.Errorf("a row without Write became %+v", out[3])
		}
		p := observed(t, c, group, fresh)
		if g := p.Groups[group]; len(g.Offsets) != 2 || g.Offsets[Key{topic, 0}] != (Committed{9, -1, "m"}) || g.Offsets[Key{topic, 1}].Offset != 3 {
			t.Errorf("%+v", g)
		}
		if g := p.Groups[fresh]; g.Offsets[Key{topic, 1}].Offset != 4 {
			t.Errorf("%+v", g)
		}
	})
}
