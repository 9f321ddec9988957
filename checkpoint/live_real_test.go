package checkpoint

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"lockstep/internal/kafka"
	"lockstep/internal/kafkatest"
)

// typesOf lists the types of groups that a version of Kafka has.
func typesOf(version string) []GroupType {
	if version == kafkatest.Kafka3 {
		return []GroupType{TypeClassic}
	}
	return []GroupType{TypeClassic, TypeConsumer, TypeShare, TypeStreams}
}

// followedTypesOf lists those of them that keep committed offsets.
func followedTypesOf(version string) []GroupType {
	return slices.DeleteFunc(typesOf(version), func(t GroupType) bool { return !Group{Type: t}.Supported() })
}

// A live group of any type is seen as what it is, is left alone, and refuses a commit even if somebody tries: the state
// may change between look and write.
func TestLive_GroupsOfEveryType(t *testing.T) {
	t.Parallel()
	kafkatest.EachVersion(t, func(t *testing.T, kc *kafkatest.Cluster) {
		for _, typ := range typesOf(kc.Version()) {
			t.Run(string(typ), func(t *testing.T) {
				t.Parallel()
				c := dial(t, kc.Brokers(), kafka.Options{})
				topic, group := kafkatest.Topic(t, kc), uniqueGroup(string(typ))
				keeps := typ == TypeClassic || typ == TypeConsumer
				if keeps {
					mustCommit(t, c, group, map[Key]Committed{{topic, 0}: {Offset: 5}})
				}
				join(t, kc, c, typ, group, topic)
				g := observed(t, c, group).Groups[group]
				if g.Type != typ || g.Supported() != keeps || g.Idle() || keeps && (g.Protocol != "consumer" || g.Offsets[Key{topic, 0}].Offset != 5) {
					t.Errorf("%+v", g)
				}
				if !keeps && g.Offsets != nil {
					t.Errorf("it has offsets: %+v", g)
				}
				want := StateActiveOnTarget
				if !keeps {
					want = StateTypeConflict
				}
				row := Row{DstGroup: group, Key: Key{topic, 0}, DstTopic: topic, Target: 5, Translated: 9, Write: true}
				if r := Apply(testContext(t), c, []Row{row})[0]; r.State != want || r.Target != 5 || r.Write {
					t.Errorf("%+v", r)
				}
				refused, err := Commit(testContext(t), c, group, map[Key]Committed{{topic, 0}: {Offset: 9}})
				if err != nil || refused[Key{topic, 0}] == nil {
					t.Fatalf("a commit is refused with %v, error %v", refused, err)
				}
				if state, detail := refusal(refused[Key{topic, 0}], row); state != want && state != StateActiveOnTarget {
					t.Errorf("refused with %v: state %s, %s", refused, state, detail)
				}
				if keeps {
					if g := observed(t, c, group).Groups[group]; g.Offsets[Key{topic, 0}].Offset != 5 {
						t.Errorf("it was written: %+v", g)
					}
				}
			})
		}
	})
}

// When the last member is gone the group is written again.
func TestLive_GroupThatIsLeft(t *testing.T) {
	t.Parallel()
	kafkatest.EachVersion(t, func(t *testing.T, kc *kafkatest.Cluster) {
		for _, typ := range followedTypesOf(kc.Version()) {
			t.Run(string(typ), func(t *testing.T) {
				t.Parallel()
				c := dial(t, kc.Brokers(), kafka.Options{})
				topic, group := kafkatest.Topic(t, kc), uniqueGroup(string(typ))
				mustCommit(t, c, group, map[Key]Committed{{topic, 0}: {Offset: 5}})
				join(t, kc, c, typ, group, topic)()
				awaitState(t, c, group, func(g Group) bool { return g.Idle() && g.Type == typ })
				row := Row{DstGroup: group, Key: Key{topic, 0}, DstTopic: topic, Target: 5, Translated: 9, Write: true}
				if r := Apply(testContext(t), c, []Row{row})[0]; r.State != StateSynced {
					t.Errorf("%+v", r)
				}
				if g := observed(t, c, group).Groups[group]; g.Offsets[Key{topic, 0}].Offset != 9 || g.Type != typ {
					t.Errorf("%+v", g)
				}
			})
		}
	})
}

// A member that joins after the group was seen empty, and before it is written, keeps its position.
func TestApply_GroupBecomesActiveBetweenLookAndWrite(t *testing.T) {
	t.Parallel()
	kafkatest.EachVersion(t, func(t *testing.T, kc *kafkatest.Cluster) {
		for _, typ := range followedTypesOf(kc.Version()) {
			t.Run(string(typ), func(t *testing.T) {
				t.Parallel()
				c := dial(t, kc.Brokers(), kafka.Options{})
				topic, group := kafkatest.Topic(t, kc), uniqueGroup("awakes")
				mustCommit(t, c, group, map[Key]Committed{{topic, 0}: {Offset: 700}})
				a := applier{c: c, now: observed(t, c, group)}
				if a.topics, a.topicsErr = c.Metadata(testContext(t), topic); a.topicsErr != nil || !a.now.Groups[group].Idle() {
					t.Fatalf("%+v, %v", a.now, a.topicsErr)
				}
				join(t, kc, c, typ, group, topic)
				row := Row{DstGroup: group, Key: Key{topic, 0}, DstTopic: topic, Target: 700, Translated: 600}
				a.write(testContext(t), map[string][]*Row{group: {&row}})
				if row.State != StateActiveOnTarget || row.Target != 700 || row.Detail == "" {
					t.Errorf("%+v", row)
				}
				if g := observed(t, c, group).Groups[group]; g.Offsets[Key{topic, 0}].Offset != 700 {
					t.Errorf("%+v", g)
				}
			})
		}
	})
}

// A plan that is older than what the target has by now writes nothing over it.
func TestApply_StalePlan(t *testing.T) {
	t.Parallel()
	kafkatest.EachVersion(t, func(t *testing.T, kc *kafkatest.Cluster) {
		c := dial(t, kc.Brokers(), kafka.Options{})
		topic, moved, appeared := kafkatest.Topic(t, kc, kafkatest.TopicOptions{Partitions: 4}), uniqueGroup("moved"), uniqueGroup("appeared")
		mustCommit(t, c, moved, map[Key]Committed{{topic, 0}: {Offset: 900}, {topic, 1}: {Offset: 700}, {topic, 3}: {Offset: 50}})
		mustCommit(t, c, appeared, map[Key]Committed{{topic, 0}: {Offset: 1}})
		row := func(group string, p int32, target int64) Row {
			return Row{DstGroup: group, Key: Key{topic, p}, DstTopic: topic, Target: target, Translated: 700, Write: true}
		}
		out := Apply(testContext(t), c, []Row{
			row(moved, 0, 600), // somebody moved it
			row(moved, 1, 600), // a delayed commit of ours arrived
			row(moved, 2, 600), // it was taken away
			row(moved, 3, 50),  // the only one that is as planned
			row(appeared, 0, -1),
			row(appeared, 9, -1), // no such partition
			{DstGroup: appeared, Key: Key{topic, 0}, DstTopic: "no-such-topic", Target: -1, Translated: 7, Write: true},
		})
		want := []State{StateMovedOnTarget, StateSynced, StateMovedOnTarget, StateSynced, StateExistsOnTarget, StatePending, StatePending}
		for i, r := range out {
			if r.State != want[i] || r.State != StateSynced && r.Detail == "" || r.Write {
				t.Errorf("row %d: %+v, want %s", i, r, want[i])
			}
		}
		p := observed(t, c, moved, appeared)
		at := p.Groups[moved].Offsets
		if len(at) != 3 || at[Key{topic, 0}].Offset != 900 || at[Key{topic, 1}].Offset != 700 || at[Key{topic, 3}].Offset != 700 {
			t.Errorf("%s has %v", moved, at)
		}
		if at := p.Groups[appeared].Offsets; len(at) != 1 || at[Key{topic, 0}].Offset != 1 {
			t.Errorf("%s has %v", appeared, at)
		}
	})
}

func TestDeleteOffsets(t *testing.T) {
	t.Parallel()
	kafkatest.EachVersion(t, func(t *testing.T, kc *kafkatest.Cluster) {
		c := dial(t, kc.Brokers(), kafka.Options{})
		topic, group := kafkatest.Topic(t, kc, kafkatest.TopicOptions{Partitions: 3}), uniqueGroup("deleted")
		mustCommit(t, c, group, map[Key]Committed{{topic, 0}: {Offset: 5}, {topic, 1}: {Offset: 6}})
		if err := DeleteOffsets(testContext(t), c, group, []Key{{topic, 0}, {topic, 2}}); err != nil {
			t.Error(err)
		}
		if g := observed(t, c, group).Groups[group]; len(g.Offsets) != 1 || g.Offsets[Key{topic, 1}].Offset != 6 {
			t.Errorf("%+v", g)
		}
		if err := DeleteOffsets(testContext(t), c, uniqueGroup("none"), []Key{{topic, 0}}); !errors.Is(err, kerr.GroupIDNotFound) {
			t.Errorf("a group that does not exist: %v", err)
		}
	})
}

func TestOffsetsRetention(t *testing.T) {
	t.Parallel()
	kafkatest.EachVersion(t, func(t *testing.T, kc *kafkatest.Cluster) {
		c := dial(t, kc.Brokers(), kafka.Options{})
		if d, err := OffsetsRetention(testContext(t), c); err != nil || d.Hours() != 7*24 {
			t.Errorf("%s, error %v", d, err)
		}
	})
}

// A group that is deleted between its listing and the question for its offsets is gone, without a fault.
func TestObserve_GroupDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	kafkatest.EachVersion(t, func(t *testing.T, kc *kafkatest.Cluster) {
		c := dial(t, kc.Brokers(), kafka.Options{})
		topic, group := kafkatest.Topic(t, kc), uniqueGroup("deleted")
		mustCommit(t, c, group, map[Key]Committed{{topic, 0}: {Offset: 5}})
		listed := false
		p, err := Observe(testContext(t), c, func(g string) bool {
			if g != group {
				return false
			}
			listed = true
			if _, err := kc.Kadm().DeleteGroup(testContext(t), group); err != nil {
				t.Error(err)
			}
			return true
		})
		if err != nil || p.Partial != nil || len(p.Failed) > 0 || !listed || len(p.Groups) > 0 {
			t.Errorf("listed %t, %+v, error %v", listed, p, err)
		}
		if p := Reread(testContext(t), c, []string{group}); len(p.Groups)+len(p.Failed) > 0 {
			t.Errorf("read again: %+v", p)
		}
	})
}

// Metadata that the target does not take costs the metadata, not the position.
func TestApply_MetadataTooLargeForTheTarget(t *testing.T) {
	t.Parallel()
	kafkatest.EachVersion(t, func(t *testing.T, kc *kafkatest.Cluster) {
		c := dial(t, kc.Brokers(), kafka.Options{})
		topic, group := kafkatest.Topic(t, kc, kafkatest.TopicOptions{Partitions: 2}), uniqueGroup("metadata")
		row := func(p int32, metadata string) Row {
			return Row{DstGroup: group, Key: Key{topic, p}, DstTopic: topic, Target: -1, Translated: 9, Metadata: metadata, Write: true}
		}
		mustCommit(t, c, uniqueGroup("other"), map[Key]Committed{{topic, 0}: {Offset: 1}})
		out := Apply(testContext(t), c, []Row{row(0, strings.Repeat("x", 5000)), row(1, "kept")})
		if out[0].State != StateSynced || !strings.Contains(out[0].Detail, "offset.metadata.max.bytes") || out[1].State != StateSynced || out[1].Detail != "" {
			t.Errorf("%s, %q and %+v", out[0].State, out[0].Detail, out[1])
		}
		g := observed(t, c, group).Groups[group]
		if g.Offsets[Key{topic, 0}] != (Committed{9, -1, ""}) || g.Offsets[Key{topic, 1}] != (Committed{9, -1, "kept"}) {
			t.Errorf("%+v", g)
		}
	})
}
