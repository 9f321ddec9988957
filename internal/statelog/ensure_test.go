package statelog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/kafkatest"
)

func createTopic(t *testing.T, fake *kafkatest.Fake, partitions int32, configs map[string]string) {
	t.Helper()
	values := map[string]*string{}
	for k, v := range configs {
		values[k] = &v
	}
	if _, err := kadm.NewClient(fake.Admin()).CreateTopic(testContext(t), partitions, 1, values, Topic("dr")); err != nil {
		t.Fatal(err)
	}
}

func configsOf(t *testing.T, l *Log) map[string]string {
	t.Helper()
	got, err := l.configs(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestEnsure_CreatesTheTopicAsDesigned(t *testing.T) {
	t.Parallel()
	l, _ := newLog(t)
	if ok, err := l.Exists(testContext(t)); ok || err != nil {
		t.Fatalf("exists before: %v, %v", ok, err)
	}
	if err := l.Ensure(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if ok, err := l.Exists(testContext(t)); !ok || err != nil {
		t.Errorf("exists after: %v, %v", ok, err)
	}
	f, _, err := l.describe(testContext(t))
	if err != nil || len(f.Parts) != 16 || len(f.Parts[0].Replicas) != 3 {
		t.Errorf("%d partitions, %v, %v", len(f.Parts), f.Parts, err)
	}
	is := configsOf(t, l)
	want := map[string]string{
		"cleanup.policy": "compact", "min.insync.replicas": "2", "segment.bytes": "4194304", "segment.ms": "600000",
		"min.cleanable.dirty.ratio": "0.1",
	}
	for k, v := range want {
		if is[k] != v {
			t.Errorf("%s is %q, want %q", k, is[k], v)
		}
	}
}

func TestEnsure_OneBrokerHasOneReplica(t *testing.T) {
	t.Parallel()
	l, _ := ready(t, kfake.NumBrokers(1))
	f, _, err := l.describe(testContext(t))
	if err != nil || len(f.Parts[0].Replicas) != 1 || configsOf(t, l)["min.insync.replicas"] != "1" {
		t.Errorf("%v, min.insync.replicas %q, %v", f.Parts[0].Replicas, configsOf(t, l)["min.insync.replicas"], err)
	}
}

func TestEnsure_ManyAtOnce(t *testing.T) {
	t.Parallel()
	l, _ := newLog(t)
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			if err := l.Ensure(testContext(t)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestEnsure_RefusesWhatWouldLoseState(t *testing.T) {
	t.Parallel()
	line := "kafka-configs.sh --bootstrap-server b:9092 --entity-type topics --entity-name lockstep.dr.state --alter --add-config cleanup.policy=compact"
	for name, c := range map[string]struct {
		partitions int32
		policy     string
		want       []string
	}{
		"deleted by age":        {16, "delete", []string{"lockstep.dr.state", "backup", "cleanup.policy is delete, must be compact", line}},
		"compacted and deleted": {16, "compact,delete", []string{"cleanup.policy is compact,delete, must be compact", line}},
		"too few partitions":    {3, "compact", []string{"number of partitions is 3, must be 16", "kafka-topics.sh --bootstrap-server b:9092 --alter --topic lockstep.dr.state --partitions 16"}},
		"too many partitions":   {17, "compact", []string{"number of partitions is 17, must be 16", "--delete --topic lockstep.dr.state"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, fake := newLog(t)
			createTopic(t, fake, c.partitions, map[string]string{"cleanup.policy": c.policy})
			for what, check := range map[string]func(context.Context) error{"Ensure": l.Ensure, "Check": l.Check} {
				err := check(testContext(t))
				if wrong := (*SettingsError)(nil); !errors.As(err, &wrong) || len(wrong.Wrong) != 1 {
					t.Fatalf("%s: got %v", what, err)
				}
				for _, want := range c.want {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("%s: %q\ndoes not name %q", what, err, want)
					}
				}
			}
			if got := configsOf(t, l)["segment.ms"]; got == "600000" {
				t.Error("a refused topic was changed")
			}
		})
	}
}

func TestEnsure_RepairsWhatOnlyCostsTime(t *testing.T) {
	t.Parallel()
	l, fake := newLog(t)
	createTopic(t, fake, 16, map[string]string{"cleanup.policy": "compact", "segment.bytes": "1073741824", "min.cleanable.dirty.ratio": "0.10"})
	if err := l.Check(testContext(t)); err != nil {
		t.Error(err)
	}
	if got := configsOf(t, l)["segment.bytes"]; got != "1073741824" {
		t.Errorf("Check has changed segment.bytes to %s", got)
	}
	if err := l.Ensure(testContext(t)); err != nil {
		t.Fatal(err)
	}
	is := configsOf(t, l)
	if is["segment.bytes"] != "4194304" || is["segment.ms"] != "600000" || is["min.cleanable.dirty.ratio"] != "0.10" {
		t.Errorf("segment.bytes %s, segment.ms %s, min.cleanable.dirty.ratio %s", is["segment.bytes"], is["segment.ms"], is["min.cleanable.dirty.ratio"])
	}
}

func TestEnsure_MayNotRepair(t *testing.T) {
	t.Parallel()
	l, fake := newLog(t)
	createTopic(t, fake, 16, map[string]string{"cleanup.policy": "compact"})
	fake.ControlKey(int16(kmsg.IncrementalAlterConfigs), func(req kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		resp := req.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
		r := kmsg.NewIncrementalAlterConfigsResponseResource()
		r.ErrorCode = kerr.TopicAuthorizationFailed.Code
		resp.Resources = append(resp.Resources, r)
		return resp, nil, true
	})
	if err := l.Ensure(testContext(t)); err != nil {
		t.Errorf("a warning is enough: %v", err)
	}
}

func TestEnsure_MayNotCreate(t *testing.T) {
	t.Parallel()
	l, fake := newLog(t)
	fake.ControlKey(int16(kmsg.CreateTopics), func(req kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
		r := kmsg.NewCreateTopicsResponseTopic()
		r.Topic, r.ErrorCode = Topic("dr"), kerr.ClusterAuthorizationFailed.Code
		resp.Topics = append(resp.Topics, r)
		return resp, nil, true
	})
	err := l.Ensure(testContext(t))
	want := "kafka-topics.sh --bootstrap-server b:9092 --create --topic lockstep.dr.state --partitions 16 --replication-factor 3" +
		" --config cleanup.policy=compact --config min.insync.replicas=2 --config segment.bytes=4194304 --config segment.ms=600000 --config min.cleanable.dirty.ratio=0.1"
	if !errors.Is(err, kerr.ClusterAuthorizationFailed) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v", err)
	}
}

func TestPartitionOf_NeverChanges(t *testing.T) {
	t.Parallel()
	// These numbers stand in every state topic there is.
	want := map[string]int32{
		"orders/0": 12, "orders/1": 13, "orders/77": 9, "a/0": 9, "a/1": 9, "a/77": 11,
		"with.dots-and_more/0": 9, "with.dots-and_more/1": 3, "with.dots-and_more/77": 0,
	}
	got := map[string]int32{}
	for _, topic := range []string{"orders", "a", "with.dots-and_more"} {
		for _, p := range []int32{0, 1, 77} {
			got[fmt.Sprint(topic, "/", p)] = PartitionOf(topic, p)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func FuzzKey(f *testing.F) {
	f.Add("orders", "a/b", "")
	f.Add("%", "ü%2F", "/")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		got, ok := SplitKey(Key(a, b, c))
		if !ok || len(got) != 3 || got[0] != a || got[1] != b || got[2] != c {
			t.Fatalf("%q %q %q → %q → %q", a, b, c, Key(a, b, c), got)
		}
		SplitKey(a)
	})
}
