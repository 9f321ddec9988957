package topicsync

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/kafka"
	"lockstep/internal/kafkatest"
	"lockstep/topicsync/configs"
)

func mustMeta(t *testing.T, s *Syncer, topic string) kafka.TopicMeta {
	t.Helper()
	meta, err := s.o.Dst.Metadata(within(t), topic)
	if err != nil {
		t.Fatal(err)
	}
	return meta.Topics[topic]
}

// applied carries out actions, with requests of the usual size.
func applied(t *testing.T, dst *kafka.Cluster, actions []Action) []Result {
	batch := topicsPerRequest
	return Apply(within(t), dst, actions, &batch)
}

// creates returns n create actions.
func creates(n int, settings ...Setting) []Action {
	var out []Action
	for i := range n {
		name := fmt.Sprintf("topic-%03d", i)
		out = append(out, Action{Kind: Create, Topic: name, DstTopic: name, Partitions: 1, Replication: 1, Settings: settings})
	}
	return out
}

// picky makes a cluster answer CreateTopics by judge: "" creates, anything else refuses the topic with these words. It
// counts the requests.
func picky(c *kafkatest.Fake, judge func(*kmsg.CreateTopicsRequest, kmsg.CreateTopicsRequestTopic) (*kerr.Error, string)) *atomic.Int32 {
	var n atomic.Int32
	c.ControlKey(int16(kmsg.CreateTopics), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		n.Add(1)
		req := kreq.(*kmsg.CreateTopicsRequest)
		resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
		refused := false
		for _, rt := range req.Topics {
			t := kmsg.NewCreateTopicsResponseTopic()
			t.Topic = rt.Topic
			if err, why := judge(req, rt); err != nil {
				t.ErrorCode, t.ErrorMessage, refused = err.Code, kmsg.StringPtr(why), true
			}
			resp.Topics = append(resp.Topics, t)
		}
		return resp, nil, refused || req.ValidateOnly
	})
	return &n
}

func TestApply_ChunkIsHalvedWhenRefused(t *testing.T) {
	t.Parallel()
	c := kafkatest.NewFake(t)
	requests := picky(c, func(req *kmsg.CreateTopicsRequest, _ kmsg.CreateTopicsRequestTopic) (*kerr.Error, string) {
		if len(req.Topics) > 5 {
			return kerr.PolicyViolation, "cannot contain more than 5"
		}
		return nil, ""
	})
	batch, dst := topicsPerRequest, dial(t, "dst", c, "")
	all := creates(200)
	for _, actions := range [][]Action{all[:43], all[43:]} {
		requests.Store(0)
		for _, r := range Apply(within(t), dst, actions, &batch) {
			if r.Err != nil {
				t.Fatalf("%s: %v", r.DstTopic, r.Err)
			}
		}
	}
	// What was found out the first time is known the second time.
	if n := int(requests.Load()); batch > 5 || n != (157+batch-1)/batch {
		t.Errorf("%d requests for 157 topics, of %d topics each", n, batch)
	}
	made, err := kadm.NewClient(c.Admin()).ListTopics(within(t))
	if err != nil || len(made) != 200 {
		t.Errorf("%d topics, %v", len(made), err)
	}
}

// refuses makes a target that knows or allows no setting of these names, and says so of the first it meets.
func refuses(err *kerr.Error, format string, keys ...string) func(*kmsg.CreateTopicsRequest, kmsg.CreateTopicsRequestTopic) (*kerr.Error, string) {
	return func(_ *kmsg.CreateTopicsRequest, t kmsg.CreateTopicsRequestTopic) (*kerr.Error, string) {
		for _, s := range t.Configs {
			if slices.Contains(keys, s.Name) {
				return err, fmt.Sprintf(format, s.Name)
			}
		}
		return nil, ""
	}
}

// A target names one bad setting at a time: as many more requests as there are bad names, then all topics exist.
func TestApply_UnknownSettingsAreLeftOut(t *testing.T) {
	t.Parallel()
	c := kafkatest.NewFake(t)
	asked := picky(c, refuses(kerr.InvalidConfig, "Unknown topic config name: %s", "preallocate", configs.KeyAfterMax, configs.KeyBeforeMax))
	actions := creates(20, append([]Setting{{"retention.ms", "5"}, {"preallocate", "true"}}, bounds()...)...)
	for _, r := range applied(t, dial(t, "dst", c, ""), actions) {
		if r.Err != nil {
			t.Fatalf("%s: %v", r.DstTopic, r.Err)
		}
		if diff := cmp.Diff([]Setting{{"retention.ms", "5"}}, r.Settings); diff != "" {
			t.Fatal(diff)
		}
		if len(r.Left) != 1 || r.Left[0].Key != "preallocate" || r.Left[0].Value != "true" {
			t.Fatalf("left out: %+v", r.Left)
		}
		if len(r.Unknown) != 3 {
			t.Fatalf("unknown: %v", r.Unknown)
		}
	}
	if got := asked.Load(); got != 4 {
		t.Errorf("%d requests, want 4", got)
	}
}

// A target that does not say which setting it dislikes is asked about each.
func TestApply_RefusedSettingsAreFoundOneByOne(t *testing.T) {
	t.Parallel()
	c := kafkatest.NewFake(t)
	picky(c, func(_ *kmsg.CreateTopicsRequest, t kmsg.CreateTopicsRequestTopic) (*kerr.Error, string) {
		for _, s := range t.Configs {
			if s.Name == "segment.ms" || s.Name == "retention.ms" {
				return kerr.PolicyViolation, "this is not allowed here"
			}
		}
		return nil, ""
	})
	actions := creates(2, Setting{"cleanup.policy", "compact"}, Setting{"retention.ms", "5"}, Setting{"segment.ms", "6"})
	for _, r := range applied(t, dial(t, "dst", c, ""), actions) {
		if r.Err != nil || len(r.Left) != 2 || len(r.Settings) != 1 || len(r.Unknown) != 0 {
			t.Errorf("%+v", r)
		}
	}
}

func TestApply_RefusedForAnotherReason(t *testing.T) {
	t.Parallel()
	c := kafkatest.NewFake(t)
	picky(c, func(_ *kmsg.CreateTopicsRequest, t kmsg.CreateTopicsRequestTopic) (*kerr.Error, string) {
		if t.Topic == "topic-001" {
			return kerr.PolicyViolation, "names begin with a team"
		}
		return nil, ""
	})
	rs := applied(t, dial(t, "dst", c, ""), creates(3, Setting{"retention.ms", "5"}))
	if rs[0].Err != nil || rs[2].Err != nil {
		t.Errorf("healthy topics: %v, %v", rs[0].Err, rs[2].Err)
	}
	if err := rs[1].Err; err == nil || !strings.Contains(err.Error(), "names begin with a team") {
		t.Errorf("refused topic: %v", err)
	}
	if len(rs[1].Settings) != 1 {
		t.Errorf("settings of the refused topic: %v", rs[1].Settings)
	}
}

func TestApply_DeniedNamesTheGrant(t *testing.T) {
	t.Parallel()
	c := kafkatest.NewFake(t)
	picky(c, func(*kmsg.CreateTopicsRequest, kmsg.CreateTopicsRequestTopic) (*kerr.Error, string) {
		return kerr.TopicAuthorizationFailed, "Authorization failed."
	})
	r := applied(t, dial(t, "dst", c, ""), creates(1))[0]
	if r.Err == nil || !strings.Contains(r.Err.Error(), "kafka-acls.sh") || !strings.Contains(r.Err.Error(), "--operation Create --topic topic-000") {
		t.Errorf("error %v", r.Err)
	}
}

func TestApply_TwoInstancesAtOnce(t *testing.T) {
	t.Parallel()
	c := kafkatest.NewFake(t)
	dst := dial(t, "dst", c, "")
	applied(t, dst, creates(2))
	for _, r := range applied(t, dst, creates(3)) {
		if r.Err != nil || r.Existed != (r.DstTopic != "topic-002") {
			t.Errorf("%s: existed %t, %v", r.DstTopic, r.Existed, r.Err)
		}
	}
}

func TestApply_GrowsAndNeverShrinks(t *testing.T) {
	t.Parallel()
	c := kafkatest.NewFake(t)
	dst := dial(t, "dst", c, "")
	kafkatest.Topic(t, c, kafkatest.TopicOptions{Name: "a", Partitions: 2})
	rs := applied(t, dst, []Action{
		{Kind: Grow, Topic: "a", DstTopic: "a", From: 2, Partitions: 5},
		{Kind: Grow, Topic: "none", DstTopic: "none", From: 2, Partitions: 5},
	})
	if rs[0].Err != nil || rs[1].Err == nil {
		t.Errorf("errors %v, %v", rs[0].Err, rs[1].Err)
	}
	if r := applied(t, dst, []Action{{Kind: Grow, Topic: "a", DstTopic: "a", From: 2, Partitions: 3}})[0]; r.Err == nil {
		t.Error("5 partitions became 3")
	}
}
