package configs

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/internal/kafkatest"
	"lockstep/topicsync/drift"
)

// realRig is a rig between two topics of one cluster, which lockstep is taken to have made with the settings target.
func realRig(t *testing.T, c *kafkatest.Cluster, source, target map[string]string) (*rig, string, string) {
	t.Helper()
	r := newRig(t, c, c)
	topic := kafkatest.TopicName(t)
	r.both(topic, "copy."+topic, source, target)
	return r, topic, "copy." + topic
}

// with returns settings of a mirror: those that are opened, and others.
func with(others map[string]string) map[string]string {
	all := map[string]string{KeyAfterMax: unbounded, KeyBeforeMax: unbounded, KeyRetention: Forever, KeyRetentionBytes: Forever}
	for k, v := range others {
		all[k] = v
	}
	return all
}

// settled makes passes until one has nothing to do: brokers show a change a little after they answer.
func (r *rig) settled() drift.Outcome {
	r.t.Helper()
	var o drift.Outcome
	kafkatest.Eventually(r.t, 10*time.Second, func() (bool, string) {
		o = r.pass()
		for _, i := range o.Items {
			if i.Done || i.Does != "" {
				return false, i.Name + ": " + i.Does
			}
		}
		return o.Condition == drift.OK, string(o.Condition) + ": " + o.Why
	})
	return o
}

// TestReal_SettingsFollow goes through create, alter and drop on the source, a change by hand on the target, and back.
func TestReal_SettingsFollow(t *testing.T) {
	t.Parallel()
	kafkatest.EachVersion(t, func(t *testing.T, c *kafkatest.Cluster) {
		source := map[string]string{"segment.ms": "60000", "max.message.bytes": "2000000"}
		r, topic, dst := realRig(t, c, source, with(source))
		r.made(topic, with(source), source)
		if o := r.pass(); o.Condition != drift.OK || len(o.Items) > 0 {
			t.Fatalf("%s: %s, %+v", o.Condition, o.Why, o.Items)
		}
		set(t, c, topic, map[string]*string{"segment.ms": text("70000"), "max.message.bytes": nil, "delete.retention.ms": text("5000")})
		r.follows(dst, with(map[string]string{"segment.ms": "70000", "delete.retention.ms": "5000"}))
		set(t, c, dst, map[string]*string{"segment.ms": text("99000"), "flush.ms": text("1000")})
		r.eventually(dst, with(map[string]string{"segment.ms": "99000", "flush.ms": "1000", "delete.retention.ms": "5000"}))
		set(t, c, topic, map[string]*string{"segment.ms": text("80000"), "delete.retention.ms": text("6000")})
		r.follows(dst, with(map[string]string{"segment.ms": "99000", "flush.ms": "1000", "delete.retention.ms": "6000"}))
		if got := states(r.settled().Items)[topic+" segment.ms"]; got != drift.Kept {
			t.Errorf("what was changed by hand is %q", got)
		}
		r.order(drift.Order{Takeover: true})
		r.eventually(dst, with(map[string]string{"segment.ms": "80000", "flush.ms": "1000", "delete.retention.ms": "6000"}))
	})
}

// follows makes passes until a topic of the target has these settings, and then one has nothing to do.
func (r *rig) follows(topic string, want map[string]string) {
	r.t.Helper()
	kafkatest.Eventually(r.t, 10*time.Second, func() (bool, string) {
		o := r.pass()
		diff := cmp.Diff(want, explicit(r.t, r.dst, topic))
		return diff == "", string(o.Condition) + ": " + o.Why + diff
	})
	r.settled()
}

// TestReal_RefusedSettings: a real broker refuses a value that it finds wrong, and a key that it does not know; the rest lands.
func TestReal_RefusedSettings(t *testing.T) {
	t.Parallel()
	c4, c3 := kafkatest.Shared(t, kafkatest.Kafka4, 1), kafkatest.Shared(t, kafkatest.Kafka3, 1)
	r := newRig(t, c3, c4)
	topic := kafkatest.TopicName(t)
	// Kafka 3.9 knows it, 4 does not.
	r.both(topic, topic, map[string]string{"message.downconversion.enable": "false", "segment.ms": "60000"}, nil)
	o := r.pass()
	if got := states(o.Items)[topic+" message.downconversion.enable"]; got != drift.Refused || o.Condition != drift.OK {
		t.Errorf("%s: %s, %+v", o.Condition, o.Why, o.Items)
	}
	r.eventually(topic, map[string]string{"segment.ms": "60000", KeyAfterMax: unbounded, KeyBeforeMax: unbounded})
	puts := r.state.count()
	if r.settled(); r.state.count() != puts {
		t.Errorf("%d stores in passes with nothing to do", r.state.count()-puts)
	}
}

// TestReal_PromotionNeedsNoSource: what was opened is closed to what the source had last, by a process that cannot ask it.
func TestReal_PromotionNeedsNoSource(t *testing.T) {
	t.Parallel()
	kafkatest.EachVersion(t, func(t *testing.T, c *kafkatest.Cluster) {
		source := map[string]string{KeyTimestampType: "LogAppendTime", KeyRetention: "86400000", "segment.ms": "60000"}
		made := with(map[string]string{"segment.ms": "60000"})
		r, topic, dst := realRig(t, c, source, made)
		r.made(topic, made, source)
		set(t, c, topic, map[string]*string{KeyRetention: text("90000000"), KeyBeforeMax: text("7200000")})
		kafkatest.Eventually(t, 10*time.Second, func() (bool, string) { // until the journal has what the source says now
			r.pass()
			rec, _ := r.part.o.Journal.Of(topic)
			return rec.Source[KeyRetention] == "90000000" && rec.Source[KeyBeforeMax] == "7200000", rec.Dst
		})
		gone := dialed(t, "src", c, nil)
		gone.Close()
		r.part = New(Options{Source: gone, Target: r.part.o.Target, Journal: r.state.replay(t), CanTrim: func(string) bool { return true }})
		if o := r.order(drift.Order{Promote: true, DryRun: true}); o.Condition != drift.OK || len(o.Items) == 0 {
			t.Errorf("%s: %s", o.Condition, o.Why)
		}
		r.eventually(dst, made)
		if o := r.order(drift.Order{Promote: true}); o.Condition != drift.OK {
			t.Errorf("%s: %s", o.Condition, o.Why)
		}
		r.eventually(dst, map[string]string{KeyTimestampType: "LogAppendTime", KeyRetention: "90000000", KeyBeforeMax: "7200000", "segment.ms": "60000"})
		if o := r.order(drift.Order{Promote: true}); o.Condition != drift.OK || len(o.Items) > 0 {
			t.Errorf("a second promotion: %s, %+v", o.Condition, o.Items)
		}
	})
}

// TestReal_FullShowsDefaults: settings that nobody set and whose defaults differ are shown, with the side to change.
func TestReal_FullShowsDefaults(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.Shared(t, kafkatest.Kafka4, 1), kafkatest.Start(t, kafkatest.Options{Properties: map[string]string{"log.segment.bytes": "20971520", "min.insync.replicas": "2"}})
	r := newRig(t, src, dst)
	topic := kafkatest.TopicName(t)
	r.both(topic, topic, nil, map[string]string{"flush.ms": "1000"})
	r.pass()
	// The brokers' default asks for more replicas in sync than the mirror has.
	r.eventually(topic, map[string]string{KeyMinISR: "1", KeyAfterMax: unbounded, KeyBeforeMax: unbounded, "flush.ms": "1000"})
	s := r.scope
	s.Full, s.Order = true, &drift.Order{DryRun: true}
	got := states(r.part.Pass(r.ctx(), s).Items)
	for key, want := range map[string]drift.State{"segment.bytes": drift.Default, "flush.ms": drift.Kept, KeyBeforeMax: drift.Opened} {
		if got[topic+" "+key] != want {
			t.Errorf("%s is %q, want %q: %v", key, got[topic+" "+key], want, got)
		}
	}
	if _, shown := got[topic+" retention.bytes"]; shown {
		t.Errorf("a default that is the same on both sides is shown: %v", got)
	}
}
