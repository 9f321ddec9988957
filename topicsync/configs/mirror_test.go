package configs

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep/topicsync/drift"
)

func nothing(string) bool { return false }

func TestNamed_WholeWordsOnly(t *testing.T) {
	t.Parallel()
	keys := []string{"retention.ms", "delete.retention.ms", "segment.ms"}
	for message, want := range map[string][]string{
		"Unknown topic config name: segment.ms":                                {"segment.ms"},
		"Invalid value 1 for configuration delete.retention.ms: must be more.": {"delete.retention.ms"},
		"'retention.ms', segment.ms.":                                          {"retention.ms", "segment.ms"},
		"not allowed here":                                                     nil,
	} {
		if diff := cmp.Diff(want, Named(message, keys)); diff != "" {
			t.Errorf("%q: %s", message, diff)
		}
	}
}

func TestMirror_Wanted(t *testing.T) {
	t.Parallel()
	source := map[string]string{
		"cleanup.policy": "delete", "retention.ms": "1000", "min.insync.replicas": "3", "segment.ms": "60000", "message.timestamp.type": "LogAppendTime",
		"message.timestamp.before.max.ms": "5", "follower.replication.throttled.replicas": "0:1"}
	segments := func(key string) bool { return key == "segment.ms" }
	before, after := Want{unbounded, drift.Opened, "a mirror takes records of any time"}, Want{unbounded, drift.Opened, "a mirror takes records of any time"}
	keeps := Want{"-1", drift.Opened, "a mirror keeps records until the source has dropped them"}
	asIs := func(v string) Want { return Want{Value: v, State: drift.Pending} }
	for name, tc := range map[string]struct {
		source map[string]string
		m      Mirror
		want   map[string]Want
		left   []string
	}{
		"open": {source, Mirror{Exclude: segments, Replicas: 2, Open: true},
			map[string]Want{"cleanup.policy": asIs("delete"), KeyRetention: keeps, KeyRetentionBytes: keeps, KeyBeforeMax: before, KeyAfterMax: after,
				KeyMinISR: {"2", drift.Pending, "the source asks for 3, and the mirror has no more than 2 replicas"}},
			[]string{"follower.replication.throttled.replicas", "message.timestamp.before.max.ms", "message.timestamp.type", "segment.ms"}},
		"not open": {source, Mirror{Exclude: segments, Replicas: 3},
			map[string]Want{"cleanup.policy": asIs("delete"), KeyRetention: asIs("1000"), KeyMinISR: asIs("3"), KeyBeforeMax: before, KeyAfterMax: after},
			[]string{"follower.replication.throttled.replicas", "message.timestamp.before.max.ms", "message.timestamp.type", "segment.ms"}},
		"promoted": {source, Mirror{Exclude: segments, Replicas: 3, Open: true, Promoted: true},
			map[string]Want{"cleanup.policy": asIs("delete"), KeyRetention: asIs("1000"), KeyMinISR: asIs("3"), KeyTimestampType: asIs("LogAppendTime"), KeyBeforeMax: asIs("5")},
			[]string{"follower.replication.throttled.replicas", "segment.ms"}},
		"compacted topics keep what they keep": {map[string]string{"cleanup.policy": "compact"}, Mirror{Exclude: nothing, Open: true},
			map[string]Want{"cleanup.policy": asIs("compact"), KeyBeforeMax: before, KeyAfterMax: after}, nil},
		"the brokers' default is too much": {nil, Mirror{Exclude: nothing, Replicas: 1, MinISR: 2},
			map[string]Want{KeyBeforeMax: before, KeyAfterMax: after,
				KeyMinISR: {"1", drift.Pending, "the target brokers' default is 2, and the mirror has no more than 1 replicas"}}, nil},
		"replicas not known": {map[string]string{KeyMinISR: "3"}, Mirror{Exclude: nothing, MinISR: 2}, map[string]Want{KeyBeforeMax: before, KeyAfterMax: after, KeyMinISR: asIs("3")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, left := tc.m.Wanted(tc.source)
			if diff := cmp.Diff(tc.want, want); diff != "" {
				t.Errorf("wanted: -want +got:\n%s", diff)
			}
			if diff := cmp.Diff(tc.left, keys(left, map[string]int{}, map[string]int{})); diff != "" {
				t.Errorf("left: -want +got:\n%s", diff)
			}
		})
	}
}
