package topicsync

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/config"
	"lockstep/internal/kafkatest"
	"lockstep/internal/model"
	"lockstep/topicsync/configs"
)

func TestSyncer_CreatesAndOffers(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: "orders", Partitions: 3, Replicas: 2, Configs: map[string]string{"retention.ms": "777"}})
	kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: "__hidden"})
	s, b := syncer(t, src, dst, nil)
	mustOnce(t, s)
	if diff := cmp.Diff([]string{"orders/0", "orders/1", "orders/2"}, b.lanes()); diff != "" {
		t.Error(diff)
	}
	r, _ := b.find("orders", 1)
	if r.BornAfterStart || r.Identity.DstTopic != "orders" || r.Identity.Src.IsZero() || r.Identity.Dst.IsZero() || r.Identity.Src == r.Identity.Dst {
		t.Errorf("offered %+v", r)
	}
	if r.Limits.MaxMessageBytes <= 0 || r.Limits.Compacted() {
		t.Errorf("limits %+v", r.Limits)
	}
	want := map[string]string{"retention.ms": "777", configs.KeyAfterMax: unbounded, configs.KeyBeforeMax: unbounded}
	if diff := cmp.Diff(want, configOf(t, s, "orders")); diff != "" {
		t.Error(diff)
	}
	st := state(t, s, "orders")
	if st.State != TopicCopied || st.Ready != 3 || st.Partitions != 3 || st.Link != "dr" || st.Err != nil {
		t.Errorf("status %+v", st)
	}
	if st := state(t, s, "__hidden"); st.State != TopicSkipped || st.Detail == "" {
		t.Errorf("status %+v", st)
	}
}

func TestSyncer_OffersOnceEach(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: "orders", Partitions: 2})
	s, b := syncer(t, src, dst, nil)
	for range 3 {
		mustOnce(t, s)
	}
	if got := b.lanes(); len(got) != 2 {
		t.Errorf("offered %v", got)
	}
}

func TestSyncer_RefusedOfferIsRepeated(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: "orders"})
	s, b := syncer(t, src, dst, nil)
	b.setRefuse(errors.New("no leader now"))
	running(t, s)
	kafkatest.Eventually(t, 10*time.Second, func() (bool, string) {
		st := state(t, s, "orders")
		return strings.Contains(st.Detail, "no leader now"), fmt.Sprintf("%+v", st)
	})
	b.setRefuse(nil)
	await(t, s, "orders", TopicCopied)
	if got := b.lanes(); len(got) != 1 {
		t.Errorf("offered %v", got)
	}
}

func TestSyncer_NewTopicsAndPartitionsAreBornAfterStart(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: "orders", Partitions: 1})
	s, b := syncer(t, src, dst, nil)
	running(t, s)
	await(t, s, "orders", TopicCopied)
	kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: "fresh", Partitions: 1})
	if _, err := kadm.NewClient(src.Admin()).UpdatePartitions(within(t), 4, "orders"); err != nil {
		t.Fatal(err)
	}
	kafkatest.Eventually(t, 10*time.Second, func() (bool, string) {
		got := b.lanes()
		return slices.Equal(got, []string{"fresh/0", "orders/0", "orders/1", "orders/2", "orders/3"}), fmt.Sprint(got)
	})
	for _, tc := range []struct {
		topic     string
		partition int32
		born      bool
	}{{"orders", 0, false}, {"orders", 3, true}, {"fresh", 0, true}} {
		if r, _ := b.find(tc.topic, tc.partition); r.BornAfterStart != tc.born {
			t.Errorf("%s/%d: born %t", tc.topic, tc.partition, r.BornAfterStart)
		}
	}
}

// With default settings a new source topic is offered within 5 s, after at most one interval and a few requests.
func TestSyncer_NewTopicWithinFiveSeconds(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	s, b := syncer(t, src, dst, func(o *Options) { o.Interval = 0 })
	running(t, s)
	kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: "first"})
	await(t, s, "first", TopicCopied)
	began := time.Now()
	kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: "second"})
	kafkatest.Eventually(t, 20*time.Second, func() (bool, string) { return len(b.lanes()) == 2, fmt.Sprint(b.lanes()) })
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("offered after %s", took)
	}
}

func TestSyncer_LargerTargetIsLeftAlone(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: "orders", Partitions: 2})
	kafkatest.Topic(t, dst, kafkatest.TopicOptions{Name: "orders", Partitions: 5, Configs: map[string]string{"retention.ms": "1"}})
	s, b := syncer(t, src, dst, nil)
	mustOnce(t, s)
	if got := b.lanes(); len(got) != 2 {
		t.Errorf("offered %v", got)
	}
	if st := state(t, s, "orders"); st.State != TopicCopied || !strings.Contains(st.Detail, "3 partitions more") {
		t.Errorf("status %+v", st)
	}
	if diff := cmp.Diff(map[string]string{"retention.ms": "1"}, configOf(t, s, "orders")); diff != "" {
		t.Errorf("settings that lockstep did not write changed: %s", diff)
	}
}

func TestSyncer_SourceDeletedAndMadeAgain(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: "orders"})
	kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: "stays"})
	s, b := syncer(t, src, dst, nil)
	running(t, s)
	await(t, s, "orders", TopicCopied)
	await(t, s, "stays", TopicCopied)
	if _, err := kadm.NewClient(src.Admin()).DeleteTopic(within(t), "orders"); err != nil {
		t.Fatal(err)
	}
	await(t, s, "orders", TopicSourceDeleted)
	lane := model.Lane{Link: "dr", Topic: "orders"}
	if got := b.goneFor(lane); got != model.ReasonSourceDeleted {
		t.Errorf("lane ended for %q", got)
	}
	if b.goneFor(model.Lane{Link: "dr", Topic: "stays"}) != model.ReasonNone {
		t.Error("another topic's lane ended too")
	}
	kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: "orders"})
	await(t, s, "orders", TopicCopied)
	kafkatest.Eventually(t, 10*time.Second, func() (bool, string) {
		got := b.lanes()
		return slices.Equal(got, []string{"orders/0", "orders/0", "stays/0"}), fmt.Sprint(got)
	})
}

// A topic that a client may not describe any more is missing in the answer with all topics. It is not deleted.
func TestSyncer_HiddenSourceTopicIsNotDeleted(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: "orders"})
	s, b := syncer(t, src, dst, nil)
	mustOnce(t, s)
	hide(src, "fake-source")
	for range 4 {
		mustOnce(t, s)
	}
	if got := b.goneFor(model.Lane{Link: "dr", Topic: "orders"}); got != model.ReasonNone {
		t.Errorf("lane ended for %q", got)
	}
}

// hide makes a cluster answer metadata as one of that id does that lets its client describe no topic.
func hide(c *kafkatest.Fake, id string) {
	c.ControlKey(int16(kmsg.Metadata), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req := kreq.(*kmsg.MetadataRequest)
		resp := req.ResponseKind().(*kmsg.MetadataResponse)
		resp.ClusterID = kmsg.StringPtr(id)
		for _, rt := range req.Topics {
			t := kmsg.NewMetadataResponseTopic()
			t.Topic, t.ErrorCode = rt.Topic, kerr.TopicAuthorizationFailed.Code
			resp.Topics = append(resp.Topics, t)
		}
		return resp, nil, true
	})
}

// A target topic that vanishes is never created again silently, neither by this process nor by the next one.
func TestSyncer_TargetLost(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: "orders"})
	s, b := syncer(t, src, dst, nil)
	running(t, s)
	await(t, s, "orders", TopicCopied)
	if _, err := kadm.NewClient(dst.Admin()).DeleteTopic(within(t), "orders"); err != nil {
		t.Fatal(err)
	}
	await(t, s, "orders", TopicTargetLost)
	lane := model.Lane{Link: "dr", Topic: "orders"}
	kafkatest.Eventually(t, 10*time.Second, func() (bool, string) {
		return b.goneFor(lane) == model.ReasonTargetLost, string(b.goneFor(lane))
	})
	r, _ := b.find("orders", 0)
	next, _ := syncer(t, src, dst, func(o *Options) {
		o.Known = func(l model.Lane) (model.Identity, bool) { return r.Identity, l == lane }
	})
	mustOnce(t, next)
	if st := state(t, next, "orders"); st.State != TopicTargetLost || st.Remedy == "" {
		t.Errorf("status of the next process %+v", st)
	}
	// An operator orders it: then it is made again, by this process or by the next one.
	next.Remake("orders")
	mustOnce(t, next)
	if st := state(t, next, "orders"); st.State != TopicCopied {
		t.Errorf("status after the order %+v", st)
	}
	offered := func(times int) {
		t.Helper()
		kafkatest.Eventually(t, 10*time.Second, func() (bool, string) {
			return slices.Equal(b.lanes(), slices.Repeat([]string{"orders/0"}, times)), fmt.Sprint(b.lanes())
		})
	}
	offered(2) // the first process has seen what the other one made
	s.Remake("orders")
	offered(3)
	// The order counts once.
	if _, err := kadm.NewClient(dst.Admin()).DeleteTopic(within(t), "orders"); err != nil {
		t.Fatal(err)
	}
	await(t, s, "orders", TopicTargetLost)
}

// Somebody makes the target topic anew: its lanes are offered with the new id, for the lanes to judge.
func TestSyncer_TargetMadeAgainIsOfferedAnew(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: "orders", Partitions: 3})
	s, b := syncer(t, src, dst, nil)
	mustOnce(t, s)
	if _, err := kadm.NewClient(dst.Admin()).DeleteTopic(within(t), "orders"); err != nil {
		t.Fatal(err)
	}
	kafkatest.Topic(t, dst, kafkatest.TopicOptions{Name: "orders", Partitions: 1})
	ctx := within(t)
	if _, err := s.once(ctx); err != nil {
		t.Fatal(err)
	}
	if got := b.lanes(); !slices.Equal(got, []string{"orders/0", "orders/0", "orders/1", "orders/2"}) {
		t.Errorf("offered %v", got)
	}
	if st := state(t, s, "orders"); st.State != TopicTargetLost || st.Remedy == "" {
		t.Errorf("nobody waits for a topic that does not grow by itself; its status is %+v", st)
	}
	next, _ := syncer(t, src, dst, func(o *Options) {
		o.Known = func(model.Lane) (model.Identity, bool) { return b.ready[0].Identity, true }
	})
	for _, s := range []*Syncer{s, next} {
		if _, err := s.once(ctx); err != nil {
			t.Fatal(err)
		}
		if n := len(mustMeta(t, s, "orders").Parts); n != 1 {
			t.Errorf("a topic that lockstep did not make grew to %d partitions", n)
		}
	}
	before := len(b.lanes())
	s.Remake("orders") // an operator orders it
	mustOnce(t, s)
	if n := len(mustMeta(t, s, "orders").Parts); n != 3 {
		t.Errorf("after the order it has %d partitions, want 3", n)
	}
	if n := len(b.lanes()) - before; n != 3 {
		t.Errorf("%d lanes were offered by the order, want all 3", n)
	}
}

func TestSyncer_OtherClusterAnswers(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	s, _ := syncer(t, src, dst, nil)
	mustOnce(t, s)
	hide(src, "another")
	if err := s.Once(within(t)); !errors.Is(err, ErrClusterChanged) {
		t.Errorf("Once: %v", err)
	}
	if err := s.Run(within(t)); !errors.Is(err, ErrClusterChanged) {
		t.Errorf("Run: %v", err)
	}
}

func TestSyncer_CollisionsAreNotCopied(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: "orders"})
	kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: "mine"})
	other := everything()
	other.Name, other.Topics.Include = "other", []string{"orders"}
	s, b := syncer(t, src, dst, func(o *Options) { o.Links = []config.Link{o.Link, other} })
	mustOnce(t, s)
	if diff := cmp.Diff([]string{"mine/0"}, b.lanes()); diff != "" {
		t.Error(diff)
	}
	if st := state(t, s, "orders"); st.State != TopicFailed || !strings.Contains(st.Detail, "other") {
		t.Errorf("status %+v", st)
	}
}

// While the target's leader does not answer, the lane is not offered; when it does, it is.
func TestSyncer_WaitsForTheLeader(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: "orders"})
	n := 0
	dst.ControlKey(int16(kmsg.ListOffsets), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		if n++; n > 5 {
			return nil, nil, false
		}
		dst.KeepControl()
		return notLeader(kreq.(*kmsg.ListOffsetsRequest)), nil, true
	})
	s, b := syncer(t, src, dst, nil)
	mustOnce(t, s)
	if got := b.lanes(); len(got) != 1 || n < 5 {
		t.Errorf("offered %v after %d answers", got, n)
	}
}

func notLeader(req *kmsg.ListOffsetsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewListOffsetsResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewListOffsetsResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, kerr.NotLeaderForPartition.Code
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// A source that is never written to: observing it sends no request that changes anything.
func TestSyncer_NeverWritesToTheSource(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: "orders", Partitions: 2})
	for _, key := range []kmsg.Key{kmsg.CreateTopics, kmsg.CreatePartitions, kmsg.DeleteTopics, kmsg.IncrementalAlterConfigs, kmsg.AlterConfigs, kmsg.Produce} {
		src.ControlKey(int16(key), func(kmsg.Request) (kmsg.Response, error, bool) {
			src.KeepControl()
			t.Errorf("a %s request to the source", key.Name())
			return nil, nil, false
		})
	}
	s, _ := syncer(t, src, dst, nil)
	mustOnce(t, s)
}

// A target that takes a topic and shows it only later: it is neither created twice nor taken for failed.
func TestSyncer_TopicIsVisibleLate(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: "orders"})
	var asked atomic.Int32
	dst.ControlKey(int16(kmsg.CreateTopics), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		dst.KeepControl()
		n := asked.Add(1)
		if n > 3 {
			return nil, nil, false // now it is there
		}
		resp := kreq.ResponseKind().(*kmsg.CreateTopicsResponse)
		for _, rt := range kreq.(*kmsg.CreateTopicsRequest).Topics {
			x := kmsg.NewCreateTopicsResponseTopic()
			if x.Topic = rt.Topic; n > 1 {
				x.ErrorCode = kerr.TopicAlreadyExists.Code
			}
			resp.Topics = append(resp.Topics, x)
		}
		return resp, nil, true
	})
	s, b := syncer(t, src, dst, nil)
	for range 3 {
		if open, err := s.once(within(t)); err != nil || open != 1 {
			t.Fatalf("%d topics are on their way, %v", open, err)
		}
		if st := state(t, s, "orders"); st.State != TopicWaiting {
			t.Fatalf("status %+v", st)
		}
	}
	mustOnce(t, s)
	if st := state(t, s, "orders"); st.State != TopicCopied || len(b.lanes()) != 1 {
		t.Errorf("status %+v, lanes %v", st, b.lanes())
	}
}
