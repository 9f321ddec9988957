package checkpoint

import (
	"fmt"
	"testing"
	"time"

	"lockstep/internal/kafka"
	"lockstep/internal/kafkatest"
)

// A coordinator that hangs holds up its own groups only, they are never taken for gone, and they are seen again when
// another broker coordinates them, although the old one still hangs.
func TestObserve_CoordinatorFrozen(t *testing.T) {
	kafkatest.Long(t)
	kc := kafkatest.Start(t, kafkatest.Options{Nodes: 3, Properties: map[string]string{"broker.session.timeout.ms": "15000"}})
	c := dial(t, kc.Brokers(), kafka.Options{})
	topic := kafkatest.Topic(t, kc, kafkatest.TopicOptions{Replicas: 3})
	var groups []string
	for i := range 24 {
		groups = append(groups, fmt.Sprintf("group-%02d", i))
		mustCommit(t, c, groups[i], map[Key]Committed{{topic, 0}: {Offset: 5}})
	}
	at, lost := c.Coordinators(testContext(t), groups)
	if len(lost) > 0 {
		t.Fatal(lost)
	}
	victim := at[groups[0]]
	hangs := func(group string) bool { return at[group] == victim }
	row := func(group string) Row {
		return Row{DstGroup: group, Key: Key{topic, 0}, DstTopic: topic, Target: 5, Translated: 9, Write: true}
	}
	var rows []Row
	own := 0
	for _, g := range groups {
		rows = append(rows, row(g))
		if hangs(g) {
			own++
		}
	}
	if own == len(groups) {
		t.Fatalf("broker %d coordinates all groups", victim)
	}
	if p := observed(t, c, groups...); len(p.Groups) != len(groups) {
		t.Fatalf("%+v", p)
	}

	kc.Freeze(t, victim)
	began := time.Now()
	p, err := Observe(testContext(t), c, nil)
	t.Logf("observed in %s: %d groups, partial: %v", time.Since(began), len(p.Groups), p.Partial)
	if err != nil || p.Partial == nil || len(p.Groups) != len(groups)-own {
		t.Errorf("%d of %d groups belong to the frozen broker; seen %d, partial %v, error %v", own, len(groups), len(p.Groups), p.Partial, err)
	}
	for g := range p.Groups {
		if hangs(g) {
			t.Errorf("the frozen broker told of %s", g)
		}
	}
	out := Apply(testContext(t), c, rows)
	t.Logf("applied after %s", time.Since(began))
	for _, r := range out {
		// Where the frozen broker is a replica of the topic of offsets, the others wait for it too, until they replace it.
		if good := r.State == StateSynced || r.State == StatePending; hangs(r.DstGroup) && r.State != StateTargetUnreadable || !hangs(r.DstGroup) && !good {
			t.Errorf("group %s, hangs %t: %s, %s", r.DstGroup, hangs(r.DstGroup), r.State, r.Detail)
		}
	}

	kafkatest.Eventually(t, time.Minute, func() (bool, string) {
		p, err := Observe(testContext(t), c, nil)
		return err == nil && p.Partial == nil && len(p.Groups) == len(groups), fmt.Sprintf("%d groups, partial %v, error %v", len(p.Groups), p.Partial, err)
	})
	t.Logf("all are seen after %s, while the broker is frozen", time.Since(began))
	kafkatest.Eventually(t, time.Minute, func() (bool, string) {
		for _, r := range Apply(testContext(t), c, rows) {
			if r.State != StateSynced {
				return false, fmt.Sprintf("%+v", r)
			}
		}
		return true, ""
	})
	kc.Thaw(t, victim)
	for g, o := range observed(t, c, groups...).Groups {
		if o.Offsets[Key{topic, 0}].Offset != 9 {
			t.Errorf("%s: %+v", g, o)
		}
	}
}
