package checkpoint

import (
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// answerOf is a coordinator's answer for one topic.
func answerOf(parts ...kmsg.OffsetFetchResponseGroupTopicPartition) []kmsg.OffsetFetchResponseGroupTopic {
	return []kmsg.OffsetFetchResponseGroupTopic{{Topic: topic, Partitions: parts}}
}

func TestSameAs_OnlyIfNothingChanged(t *testing.T) {
	t.Parallel()
	type part = kmsg.OffsetFetchResponseGroupTopicPartition
	m := "m"
	first, second := part{Partition: 0, Offset: 5, LeaderEpoch: 2, Metadata: &m}, part{Partition: 1, Offset: 6, LeaderEpoch: -1}
	none := part{Partition: 2, Offset: -1, LeaderEpoch: -1}
	g := Group{}
	readOffsets(&g, answerOf(first, second, none), map[string]string{})
	if len(g.Offsets) != 2 || g.Offsets[Key{topic, 0}] != (Committed{5, 2, "m"}) || g.Offsets[Key{topic, 1}] != (Committed{6, -1, ""}) {
		t.Fatalf("%+v", g)
	}
	with := func(p part, change func(*part)) part { change(&p); return p }
	for _, c := range []struct {
		name   string
		answer []kmsg.OffsetFetchResponseGroupTopic
		want   bool
	}{
		{"the same", answerOf(first, second, none), true},
		{"in another order", answerOf(second, first), true},
		{"another offset", answerOf(with(first, func(p *part) { p.Offset = 4 }), second), false},
		{"another epoch", answerOf(with(first, func(p *part) { p.LeaderEpoch = 3 }), second), false},
		{"no metadata", answerOf(with(first, func(p *part) { p.Metadata = nil }), second), false},
		{"one more", answerOf(first, second, with(none, func(p *part) { p.Offset = 0 })), false},
		{"one less", answerOf(first), false},
		{"another partition", answerOf(first, with(second, func(p *part) { p.Partition = 3 })), false},
		{"unstable", answerOf(first, second, with(none, func(p *part) { p.ErrorCode = kerr.UnstableOffsetCommit.Code })), false},
		{"nothing", nil, false},
	} {
		if got := sameAs(g.Offsets, c.answer); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
	if sameAs(nil, nil) || sameAs(nil, answerOf(none)) {
		t.Error("nothing stands where nothing is known")
	}
}

// An Observer shows what changed, and does not change what it showed before.
func TestObserver_ShowsChanges(t *testing.T) {
	t.Parallel()
	_, c, groups := fakeGroups(t, 3)
	o := NewObserver(c)
	look := func() Picture {
		t.Helper()
		p, err := o.Observe(testContext(t), nil)
		if err != nil || p.Partial != nil || len(p.Failed) > 0 {
			t.Fatalf("%+v, error %v", p, err)
		}
		return p
	}
	k := Key{topic, 0}
	first := look()
	mustCommit(t, c, groups[1], map[Key]Committed{k: {Offset: 90, Metadata: "new"}})
	if err := DeleteOffsets(testContext(t), c, groups[2], []Key{k}); err != nil {
		t.Fatal(err)
	}
	second, third := look(), look()
	for _, p := range []Picture{second, third} {
		if p.Groups[groups[0]].Offsets[k].Offset != 0 || p.Groups[groups[1]].Offsets[k] != (Committed{90, -1, "new"}) || len(p.Groups[groups[2]].Offsets) != 1 {
			t.Errorf("after the change: %+v", p.Groups)
		}
	}
	if first.Groups[groups[1]].Offsets[k].Offset != 1 || len(first.Groups[groups[2]].Offsets) != 2 {
		t.Errorf("the first picture has changed: %+v", first.Groups)
	}
}

// A group that nobody lists any more is gone only if its coordinator does not know of it either.
func TestObserver_UnlistedIsNotGone(t *testing.T) {
	t.Parallel()
	fake, c, groups := fakeGroups(t, 3)
	o := NewObserver(c)
	look := func() Picture {
		t.Helper()
		p, err := o.Observe(testContext(t), nil)
		if err != nil || p.Partial != nil {
			t.Fatalf("%+v, error %v", p, err)
		}
		return p
	}
	if p := look(); len(p.Groups) != 3 || len(p.Failed) > 0 {
		t.Fatalf("%+v", p)
	}
	var silent atomic.Bool
	answerAlways(fake, kmsg.ListGroups, func(req kmsg.Request) (kmsg.Response, error) {
		if silent.Load() {
			return req.ResponseKind(), nil
		}
		return nil, nil
	})
	silent.Store(true)
	for range 2 {
		if p := look(); len(p.Groups) > 0 || len(p.Failed) != 3 {
			t.Errorf("unlisted: %+v", p)
		}
	}
	if _, err := kadm.NewClient(fake.Admin()).DeleteGroup(testContext(t), groups[0]); err != nil {
		t.Fatal(err)
	}
	if p := look(); len(p.Groups) > 0 || len(p.Failed) != 2 || p.Failed[groups[0]] != nil {
		t.Errorf("unlisted, one deleted: %+v", p)
	}
	silent.Store(false)
	if p := look(); len(p.Groups) != 2 || len(p.Failed) > 0 {
		t.Errorf("listed again: %+v", p)
	}
}
