package topicsync

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"pgregory.net/rapid"

	"lockstep/config"
	"lockstep/internal/kafka"
	"lockstep/internal/model"
	"lockstep/topicsync/configs"
)

// topicMeta is a topic with that many partitions and replicas.
func topicMeta(name string, partitions, replicas int) kafka.TopicMeta {
	t := kafka.TopicMeta{Name: name, ID: model.TopicID{1}}
	for p := range partitions {
		t.Parts = append(t.Parts, kafka.PartMeta{Partition: int32(p), Replicas: make([]int32, replicas)})
	}
	return t
}

func everything() config.Link {
	return config.Link{Name: "dr", Source: "src", Target: "dst", Topics: config.Topics{Include: []string{".*"}}, Configs: config.Configs{Sync: true}}
}

const unbounded = "9223372036854775807"

// nothing excludes no setting.
func nothing(string) bool { return false }

// bounds are the settings that every new topic gets.
func bounds() []Setting {
	return []Setting{{configs.KeyAfterMax, unbounded}, {configs.KeyBeforeMax, unbounded}}
}

func TestPlan(t *testing.T) {
	t.Parallel()
	denied := topicMeta("orders", 0, 0)
	denied.Err = kerr.TopicAuthorizationFailed
	explicit := map[string]map[string]string{"orders": {"retention.ms": "1000"}}
	for name, tc := range map[string]struct {
		src, dst kafka.TopicMeta
		exists   bool
		change   func(*Input)
		want     []Action
	}{
		"missing": {
			src: topicMeta("orders", 6, 2), dst: kafka.TopicMeta{Name: "orders"},
			want: []Action{{
				Kind: Create, Topic: "orders", DstTopic: "orders", Partitions: 6, Replication: 2,
				Settings: append(bounds(), Setting{"retention.ms", "1000"}), Reason: "the target does not have it",
			}},
		},
		"missing under another name": {
			src: topicMeta("orders", 1, 1), dst: kafka.TopicMeta{Name: "staging.orders"},
			want: []Action{{
				Kind: Create, Topic: "orders", DstTopic: "staging.orders", Partitions: 1, Replication: 1,
				Settings: append(bounds(), Setting{"retention.ms", "1000"}), Reason: "the target does not have it",
			}},
		},
		"fewer brokers than replicas": {
			src: topicMeta("orders", 1, 5), dst: kafka.TopicMeta{Name: "orders"},
			want: []Action{{
				Kind: Create, Topic: "orders", DstTopic: "orders", Partitions: 1, Replication: 3,
				Settings: append(bounds(), Setting{"retention.ms", "1000"}),
				Reason:   "the target does not have it; replication factor 3 instead of the source's 5, since the target has 3 brokers",
			}},
		},
		"settings not read yet": {
			src: topicMeta("orders", 1, 1), dst: kafka.TopicMeta{Name: "orders"},
			change: func(in *Input) { in.Explicit = nil },
		},
		"existed once": {
			src: topicMeta("orders", 1, 1), dst: kafka.TopicMeta{Name: "orders"},
			change: func(in *Input) { in.Lost = map[string]bool{"orders": true} },
		},
		"grown": {
			src: topicMeta("orders", 6, 1), dst: topicMeta("orders", 4, 1), exists: true,
			want: []Action{{
				Kind: Grow, Topic: "orders", DstTopic: "orders", From: 4, Partitions: 6,
				Reason: "the source has 6 partitions, the target 4",
			}},
		},
		"equal":                    {src: topicMeta("orders", 6, 1), dst: topicMeta("orders", 6, 1), exists: true},
		"larger on the target":     {src: topicMeta("orders", 6, 1), dst: topicMeta("orders", 9, 1), exists: true},
		"source not readable":      {src: denied, dst: kafka.TopicMeta{Name: "orders"}},
		"target not readable":      {src: topicMeta("orders", 6, 1), dst: denied, exists: true},
		"partitions not known yet": {src: topicMeta("orders", 0, 0), dst: kafka.TopicMeta{Name: "orders"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := Input{
				Link: everything(), Brokers: 3, Explicit: explicit, Mirror: configs.Mirror{Exclude: nothing},
				Wanted: []Wanted{{Src: tc.src, Dst: tc.dst, Exists: tc.exists}},
			}
			if tc.change != nil {
				tc.change(&in)
			}
			if diff := cmp.Diff(tc.want, Plan(in)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPlanReplication(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		configured, src, brokers int
		want                     int16
		says                     string
	}{
		{0, 3, 3, 3, ""},
		{0, 2, 5, 2, ""},
		{0, 3, 1, 1, "instead of the source's 3"},
		{2, 3, 1, 2, ""}, // the operator's word; the target refuses it if it cannot
		{-1, 3, 1, -1, "the target's default"},
		{0, 0, 3, -1, "the target's default"},
		{0, 3, 0, -1, "the target's default"},
	} {
		got, why := planReplication(tc.configured, tc.src, tc.brokers)
		if got != tc.want || !strings.Contains(why, tc.says) || (tc.says == "") != (why == "") {
			t.Errorf("%+v: %d, %q", tc, got, why)
		}
	}
}

func TestPlanSettings(t *testing.T) {
	t.Parallel()
	explicit := map[string]string{
		"cleanup.policy":                        "compact",
		"min.insync.replicas":                   "3",
		"retention.ms":                          "-1",
		"segment.ms":                            "60000",
		"old.thing":                             "1",
		"message.timestamp.type":                "LogAppendTime",
		"message.timestamp.after.max.ms":        "3600000",
		"leader.replication.throttled.replicas": "0:1",
	}
	mirror := configs.Mirror{Exclude: func(key string) bool { return strings.HasPrefix(key, "segment.") }, Replicas: 2}
	use, left := planSettings(explicit, mirror, map[string]string{"old.thing": "unknown name"})
	wantUse := slices.Concat([]Setting{{"cleanup.policy", "compact"}}, bounds(), []Setting{{"min.insync.replicas", "2"}, {"retention.ms", "-1"}})
	if diff := cmp.Diff(wantUse, use); diff != "" {
		t.Error(diff)
	}
	wantLeft := map[string]string{
		"leader.replication.throttled.replicas": "names brokers",
		"message.timestamp.after.max.ms":        "set to 9223372036854775807: a mirror takes records of any time",
		"message.timestamp.type":                "at promotion",
		"min.insync.replicas":                   "set to 2",
		"old.thing":                             "does not know it: unknown name",
		"segment.ms":                            "configs.exclude",
	}
	for _, l := range left {
		if !strings.Contains(l.Why, wantLeft[l.Key]) || l.Value != explicit[l.Key] {
			t.Errorf("%+v, want %q", l, wantLeft[l.Key])
		}
		delete(wantLeft, l.Key)
	}
	if len(wantLeft) > 0 {
		t.Errorf("nothing said of %v", wantLeft)
	}
}

func TestPlanSettings_TargetWithoutTimeBounds(t *testing.T) {
	t.Parallel()
	use, left := planSettings(nil, configs.Mirror{Exclude: nothing}, map[string]string{configs.KeyAfterMax: "unknown", configs.KeyBeforeMax: "unknown"})
	if len(use) != 0 || len(left) != 0 {
		t.Errorf("use %v, left %v", use, left)
	}
}

func TestSelect_PairsSkipsAndCollisions(t *testing.T) {
	t.Parallel()
	link := everything()
	link.Topics.Exclude = []string{"secret.*"}
	link.Topics.Rename = "staging.{topic}"
	internal := topicMeta("brokers-own", 1, 1)
	internal.Internal = true
	gone := topicMeta("staging.b", 0, 0)
	gone.Err = kerr.UnknownTopicOrPartition
	src := map[string]kafka.TopicMeta{
		"a": topicMeta("a", 1, 1), "b": topicMeta("b", 1, 1), "c": topicMeta("c", 1, 1), "secret1": topicMeta("secret1", 1, 1),
		"brokers-own": internal, "__consumer_offsets": topicMeta("__consumer_offsets", 1, 1), "lockstep.dr.state": topicMeta("lockstep.dr.state", 1, 1),
	}
	dst := map[string]kafka.TopicMeta{"staging.a": topicMeta("staging.a", 1, 1), "staging.b": gone, "c": topicMeta("c", 1, 1)}
	wanted, skipped := Select(link, src, dst, map[string]string{"c": "collides"})
	var got []string
	for _, w := range wanted {
		got = append(got, fmt.Sprintf("%s→%s %t", w.Src.Name, w.Dst.Name, w.Exists))
	}
	if diff := cmp.Diff([]string{"a→staging.a true", "b→staging.b false"}, got); diff != "" {
		t.Error(diff)
	}
	why := make(map[string]string)
	for _, s := range skipped {
		why[s.Topic] = s.Why
	}
	for topic, want := range map[string]string{
		"c": "collides", "secret1": "exclude", "brokers-own": "brokers", "__consumer_offsets": "brokers", "lockstep.dr.state": "state of lockstep",
	} {
		if !strings.Contains(why[topic], want) {
			t.Errorf("%s is skipped for %q, want %q", topic, why[topic], want)
		}
	}
}

// Whatever both sides look like: after a plan has been carried out, a second one is empty, nothing shrank or vanished,
// and every topic that the link copies is large enough.
func TestPlan_TwiceIsOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		link := everything()
		link.ReplicationFactor = rapid.IntRange(-1, 3).Draw(t, "replication")
		link.Topics.Rename = rapid.SampledFrom([]string{"", "copy.{topic}"}).Draw(t, "rename")
		src, dst := drawTopics(t, "src", ""), drawTopics(t, "dst", strings.TrimSuffix(link.Topics.Rename, "{topic}"))
		explicit := make(map[string]map[string]string)
		for name := range src {
			explicit[name] = map[string]string{"retention.ms": "1"}
		}
		before := sizes(dst)
		plan := func() []Action {
			wanted, _ := Select(link, src, dst, nil)
			return Plan(Input{Link: link, Wanted: wanted, Brokers: 3, Explicit: explicit, Mirror: configs.Mirror{Exclude: nothing}})
		}
		carryOut(dst, plan())
		if again := plan(); len(again) > 0 {
			t.Fatalf("a second plan: %+v", again)
		}
		for name, n := range before {
			if sizes(dst)[name] < n {
				t.Fatalf("%s shrank from %d to %d", name, n, sizes(dst)[name])
			}
		}
		for name, topic := range src {
			if got := sizes(dst)[link.TargetTopic(name)]; got < len(topic.Parts) {
				t.Fatalf("%s has %d of %d partitions", name, got, len(topic.Parts))
			}
		}
	})
}

func drawTopics(t *rapid.T, label, prefix string) map[string]kafka.TopicMeta {
	topics := make(map[string]kafka.TopicMeta)
	for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}), rapid.ID).Draw(t, label) {
		topics[prefix+name] = topicMeta(prefix+name, rapid.IntRange(1, 9).Draw(t, label+" partitions"), rapid.IntRange(1, 5).Draw(t, label+" replicas"))
	}
	return topics
}

// carryOut is what a cluster without faults does.
func carryOut(dst map[string]kafka.TopicMeta, actions []Action) {
	for _, a := range actions {
		dst[a.DstTopic] = topicMeta(a.DstTopic, int(a.Partitions), int(max(a.Replication, 1)))
	}
}

func sizes(topics map[string]kafka.TopicMeta) map[string]int {
	n := make(map[string]int)
	for name, t := range topics {
		n[name] = len(t.Parts)
	}
	return n
}

func TestLimitsOf(t *testing.T) {
	t.Parallel()
	l := limitsOf(map[string]string{
		keyMaxMessage: "1048588", configs.KeyCleanup: "compact, delete", configs.KeyTimestampType: "CreateTime", keySegment: "1073741824",
		configs.KeyBeforeMax: unbounded, configs.KeyAfterMax: "3600000",
	})
	want := TopicLimits{
		MaxMessageBytes: 1048588, SegmentBytes: 1 << 30, Cleanup: "compact,delete", TimestampType: "CreateTime",
		BeforeMax: 1<<63 - 1, AfterMax: 3600000,
	}
	if diff := cmp.Diff(want, l); diff != "" {
		t.Error(diff)
	}
	if b := l.Batch(); !b.Compacted || b.LogAppend || b.MaxBytes != 1048588 || b.AfterMS != 3600000 {
		t.Errorf("as batch limits: %+v", b)
	}
	if limitsOf(nil).Compacted() {
		t.Error("an unknown policy counts as compacted")
	}
}
