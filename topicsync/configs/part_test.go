package configs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"lockstep/internal/kafkatest"
	"lockstep/topicsync/drift"
)

// picky makes a cluster answer IncrementalAlterConfigs by judge: nil takes the topic's changes. It counts the requests.
func picky(c *kafkatest.Fake, judge func(*kmsg.IncrementalAlterConfigsRequest, kmsg.IncrementalAlterConfigsRequestResource) (*kerr.Error, string)) *atomic.Int32 {
	var n atomic.Int32
	var inner atomic.Bool // the request is this function's own
	c.ControlKey(int16(kmsg.IncrementalAlterConfigs), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if inner.Load() {
			return nil, nil, false
		}
		n.Add(1)
		req := kreq.(*kmsg.IncrementalAlterConfigsRequest)
		taken := kmsg.NewPtrIncrementalAlterConfigsRequest()
		resp := req.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
		refused := false
		for _, rr := range req.Resources {
			r := kmsg.NewIncrementalAlterConfigsResponseResource()
			r.ResourceType, r.ResourceName = rr.ResourceType, rr.ResourceName
			if err, why := judge(req, rr); err != nil {
				r.ErrorCode, r.ErrorMessage, refused = err.Code, kmsg.StringPtr(why), true
			} else {
				taken.Resources = append(taken.Resources, rr)
			}
			resp.Resources = append(resp.Resources, r)
		}
		if refused && len(taken.Resources) > 0 {
			c.SleepControl(func() {
				inner.Store(true)
				defer inner.Store(false)
				if _, err := taken.RequestWith(context.Background(), c.Admin()); err != nil {
					resp.Resources = nil
				}
			})
		}
		return resp, nil, refused
	})
	return &n
}

func takesAll(*kmsg.IncrementalAlterConfigsRequest, kmsg.IncrementalAlterConfigsRequestResource) (*kerr.Error, string) {
	return nil, ""
}

func fakeRig(t *testing.T, opts ...kfake.Opt) (*rig, *kafkatest.Fake) {
	t.Helper()
	src, dst := kafkatest.NewFake(t), kafkatest.NewFake(t, opts...)
	return newRig(t, src, dst), dst
}

// TestPart_UnchangedPassWritesNothing also has that success logs no warning (case 65).
func TestPart_UnchangedPassWritesNothing(t *testing.T) {
	t.Parallel()
	r, dst := fakeRig(t)
	n := picky(dst, takesAll)
	for i := range 100 {
		r.both(fmt.Sprintf("t-%03d", i), fmt.Sprintf("t-%03d", i), map[string]string{"segment.ms": "60000"}, nil)
	}
	if o := r.pass(); o.Condition != drift.OK || len(o.Items) != 300 || !o.Items[0].Done {
		t.Fatalf("%s: %s, %d items", o.Condition, o.Why, len(o.Items))
	}
	if n.Load() != 1 {
		t.Errorf("%d requests for 100 topics", n.Load())
	}
	puts := r.state.count()
	for range 3 {
		if o := r.pass(); o.Condition != drift.OK || len(o.Items) > 0 {
			t.Errorf("%s: %s, %+v", o.Condition, o.Why, o.Items)
		}
	}
	if n.Load() != 1 || r.state.count() != puts {
		t.Errorf("passes with nothing to do sent %d requests and stored %d times", n.Load()-1, r.state.count()-puts)
	}
	// A new process neither.
	r.part = New(Options{Source: r.part.o.Source, Target: r.part.o.Target, Journal: r.state.replay(t), CanTrim: r.part.o.CanTrim})
	if o := r.pass(); o.Condition != drift.OK || len(o.Items) > 0 || n.Load() != 1 || r.state.count() != puts {
		t.Errorf("after a restart: %s, %d requests, %d stores", o.Condition, n.Load(), r.state.count()-puts)
	}
	if len(r.logged.warn) > 0 {
		t.Errorf("warnings %q", r.logged.warn)
	}
}

// TestPart_UnknownKeyIsLearntOnce: one key that no topic may have costs a request more, not one for each topic (case 63).
func TestPart_UnknownKeyIsLearntOnce(t *testing.T) {
	t.Parallel()
	r, dst := fakeRig(t)
	bad := []string{"unclean.leader.election.enable", "segment.jitter.ms", "preallocate"}
	n := picky(dst, func(_ *kmsg.IncrementalAlterConfigsRequest, rr kmsg.IncrementalAlterConfigsRequestResource) (*kerr.Error, string) {
		for _, c := range rr.Configs {
			if slices.Contains(bad, c.Name) {
				return kerr.InvalidConfig, "Unknown topic config name: " + c.Name
			}
		}
		return nil, ""
	})
	source := map[string]string{"segment.ms": "60000", bad[0]: "true", bad[1]: "5", bad[2]: "true"}
	for i := range 20 {
		r.both(fmt.Sprintf("t-%02d", i), fmt.Sprintf("t-%02d", i), source, nil)
	}
	o := r.pass()
	if n.Load() > int32(len(bad))+1 {
		t.Errorf("%d requests for %d bad keys", n.Load(), len(bad))
	}
	got := states(o.Items)
	for _, x := range r.scope.Topics {
		for _, key := range bad {
			if got[x.Src+" "+key] != drift.Refused {
				t.Errorf("%s %s is %q", x.Src, key, got[x.Src+" "+key])
			}
		}
		if explicit(t, dst, x.Dst)["segment.ms"] != "60000" {
			t.Errorf("%s did not get the rest: %v", x.Dst, explicit(t, dst, x.Dst))
		}
	}
	sent, puts := n.Load(), r.state.count()
	if o := r.pass(); n.Load() != sent || r.state.count() != puts || o.Condition != drift.OK {
		t.Errorf("refused settings were sent again: %d requests, %d stores, %s %s", n.Load()-sent, r.state.count()-puts, o.Condition, o.Why)
	}
	r.part.Forget()
	if r.pass(); n.Load() == sent {
		t.Error("not asked again after the target may have changed")
	}
}

// TestPart_RefusedKeyIsFoundAlone: a target that names no key gets them one by one, and the others land.
func TestPart_RefusedKeyIsFoundAlone(t *testing.T) {
	t.Parallel()
	r, dst := fakeRig(t)
	n := picky(dst, func(_ *kmsg.IncrementalAlterConfigsRequest, rr kmsg.IncrementalAlterConfigsRequestResource) (*kerr.Error, string) {
		for _, c := range rr.Configs {
			if c.Name == "retention.ms" {
				return kerr.PolicyViolation, "not on this plan"
			}
		}
		return nil, ""
	})
	r.trims = false
	r.both("orders", "orders", map[string]string{"segment.ms": "60000", "retention.ms": "3600000"}, nil)
	r.both("other", "other", map[string]string{"segment.ms": "60000"}, nil)
	o := r.pass()
	for _, i := range o.Items {
		if i.Name == "retention.ms" && (i.State != drift.Refused || i.Why != "POLICY_VIOLATION: Request parameters do not satisfy the configured policy.: not on this plan" || i.Remedy == "") {
			t.Errorf("item %+v", i)
		}
	}
	for _, topic := range []string{"orders", "other"} {
		if got := explicit(t, dst, topic); got["segment.ms"] != "60000" || got[KeyAfterMax] != unbounded || got["retention.ms"] != "" {
			t.Errorf("%s has %v", topic, got)
		}
	}
	sent := n.Load()
	if r.pass(); n.Load() != sent {
		t.Errorf("%d more requests", n.Load()-sent)
	}
	// Another value is another question.
	set(t, r.src, "orders", map[string]*string{"retention.ms": text("7200000")})
	if r.pass(); n.Load() == sent {
		t.Error("the changed setting was not tried")
	}
}

// TestPart_TargetLimitsTopics halves what is refused as a whole.
func TestPart_TargetLimitsTopics(t *testing.T) {
	t.Parallel()
	r, dst := fakeRig(t)
	picky(dst, func(req *kmsg.IncrementalAlterConfigsRequest, _ kmsg.IncrementalAlterConfigsRequestResource) (*kerr.Error, string) {
		if len(req.Resources) > 5 {
			return kerr.PolicyViolation, "cannot contain more than 5"
		}
		return nil, ""
	})
	for i := range 23 {
		r.both(fmt.Sprintf("t-%02d", i), fmt.Sprintf("t-%02d", i), map[string]string{"segment.ms": "60000"}, nil)
	}
	if o := r.pass(); o.Condition != drift.OK || len(o.Items) != 69 || slices.ContainsFunc(o.Items, func(i drift.Item) bool { return !i.Done }) {
		t.Errorf("%s: %+v", o.Condition, o.Items)
	}
}

// TestPart_WithoutIncrementalAlterConfigs is case 65.
func TestPart_WithoutIncrementalAlterConfigs(t *testing.T) {
	t.Parallel()
	old := kversion.Stable()
	old.SetMaxKeyVersion(int16(kmsg.IncrementalAlterConfigs), -1)
	r, dst := fakeRig(t, kfake.MaxVersions(old))
	r.both("orders", "orders", map[string]string{"segment.ms": "60000"}, nil)
	o := r.pass()
	if o.Condition != drift.Unreachable || o.Why != "cluster dst does not know IncrementalAlterConfigs: settings of topics that exist are not kept in step" {
		t.Errorf("%s: %s", o.Condition, o.Why)
	}
	if len(o.Items) != 3 || o.Items[0].State != drift.Unavailable {
		t.Errorf("items %+v", o.Items)
	}
	if got := explicit(t, dst, "orders"); len(got) > 0 {
		t.Errorf("has %v", got)
	}
	puts := r.state.count()
	if o := r.pass(); o.Condition != drift.Unreachable || r.state.count() != puts {
		t.Errorf("%s, %d stores in vain", o.Condition, r.state.count()-puts)
	}
}

// TestPart_MayNotAlter: a grant that is missing is named, nothing is stored in vain, and a grant is felt by itself.
func TestPart_MayNotAlter(t *testing.T) {
	t.Parallel()
	r, dst := fakeRig(t)
	var denied atomic.Bool
	denied.Store(true)
	n := picky(dst, func(_ *kmsg.IncrementalAlterConfigsRequest, rr kmsg.IncrementalAlterConfigsRequestResource) (*kerr.Error, string) {
		if denied.Load() && rr.ResourceName == "a" {
			return kerr.TopicAuthorizationFailed, ""
		}
		return nil, ""
	})
	r.both("a", "a", map[string]string{"segment.ms": "60000"}, nil)
	r.both("b", "b", map[string]string{"segment.ms": "60000"}, nil)
	o := r.pass()
	if o.Condition != drift.Partly || o.Remedy != drift.Grant("AlterConfigs", "--topic a") {
		t.Errorf("%s: %s (%s)", o.Condition, o.Why, o.Remedy)
	}
	if explicit(t, dst, "b")["segment.ms"] != "60000" {
		t.Error("the other topic was held back")
	}
	sent, puts := n.Load(), r.state.count()
	if o := r.pass(); o.Condition != drift.Partly || n.Load() != sent || r.state.count() != puts {
		t.Errorf("%s, %d requests, %d stores", o.Condition, n.Load()-sent, r.state.count()-puts)
	}
	denied.Store(false)
	r.scope.Now = r.scope.Now.Add(barredFor + time.Second)
	if o := r.pass(); o.Condition != drift.OK || explicit(t, dst, "a")["segment.ms"] != "60000" {
		t.Errorf("%s: %s", o.Condition, o.Why)
	}
}

// TestPart_StateTopicComesFirst: what cannot be noted is not written.
func TestPart_StateTopicComesFirst(t *testing.T) {
	t.Parallel()
	r, dst := fakeRig(t)
	n := picky(dst, takesAll)
	r.both("orders", "orders", map[string]string{"segment.ms": "60000"}, nil)
	r.state.err = kerr.NotEnoughReplicas
	if o := r.pass(); o.Condition != drift.Unreachable || n.Load() > 0 {
		t.Errorf("%s, %d requests", o.Condition, n.Load())
	}
	r.state.err = nil
	if o := r.pass(); o.Condition != drift.OK || n.Load() != 1 {
		t.Errorf("%s, %d requests", o.Condition, n.Load())
	}
}

// TestPart_DryRunChangesNothing and says what would be done.
func TestPart_DryRunChangesNothing(t *testing.T) {
	t.Parallel()
	r, dst := fakeRig(t)
	n := picky(dst, takesAll)
	r.both("orders", "copy", map[string]string{"segment.ms": "60000", "segment.bytes": "1048576"}, map[string]string{"segment.bytes": "2097152"})
	o := r.order(drift.Order{DryRun: true})
	var does []string
	for _, i := range o.Items {
		does = append(does, i.Does)
	}
	want := []string{"set " + KeyAfterMax + " to " + unbounded, "set " + KeyBeforeMax + " to " + unbounded, "", "set segment.ms to 60000"}
	if diff := cmp.Diff(want, does); diff != "" || o.Items[2].State != drift.Kept {
		t.Errorf("%s\n%+v", diff, o.Items)
	}
	if n.Load() > 0 || r.state.count() > 0 {
		t.Errorf("%d requests, %d stores", n.Load(), r.state.count())
	}
}

// TestPart_OrderIsAboutItsTopics also when it promotes or overwrites.
func TestPart_OrderIsAboutItsTopics(t *testing.T) {
	t.Parallel()
	r, dst := fakeRig(t)
	for _, topic := range []string{"a", "b"} {
		r.both(topic, topic, map[string]string{"segment.ms": "60000"}, map[string]string{"segment.ms": "5000"})
	}
	if o := r.pass(); states(o.Items)["a segment.ms"] != drift.Kept || explicit(t, dst, "a")["segment.ms"] != "5000" {
		t.Fatalf("items %+v", o.Items)
	}
	r.order(drift.Order{Topics: []string{"a"}, Takeover: true})
	if a, b := explicit(t, dst, "a")["segment.ms"], explicit(t, dst, "b")["segment.ms"]; a != "60000" || b != "5000" {
		t.Errorf("a has %s, b has %s", a, b)
	}
	n := picky(dst, takesAll)
	o := r.order(drift.Order{Topics: []string{"a"}, Promote: true})
	if slices.ContainsFunc(o.Items, func(i drift.Item) bool { return i.Topic != "a" }) || n.Load() != 1 {
		t.Errorf("%d requests, %+v", n.Load(), o.Items)
	}
}

func TestPart_Off(t *testing.T) {
	t.Parallel()
	r, _ := fakeRig(t)
	r.both("a", "a", map[string]string{"segment.ms": "60000"}, nil)
	r.scope.Link.Configs.Sync = false
	if o := r.pass(); o.Condition != drift.Off || r.state.count() > 0 {
		t.Errorf("%s", o.Condition)
	}
}

// TestPart_FiveThousandTopics: a pass with nothing to do asks 250 topics at a time, and sends and stores nothing.
func TestPart_FiveThousandTopics(t *testing.T) {
	t.Parallel()
	r, dst := fakeRig(t)
	const topics = 5000
	for i := range topics {
		name := fmt.Sprintf("t-%04d", i)
		r.scope.Topics = append(r.scope.Topics, drift.Topic{Src: name, Dst: name, Replicas: 1, DstReplicas: 1})
	}
	for _, c := range []kafkatest.Target{r.src, r.dst} {
		req := kmsg.NewPtrCreateTopicsRequest()
		for _, x := range r.scope.Topics {
			n := kmsg.NewCreateTopicsRequestTopic()
			n.Topic, n.NumPartitions, n.ReplicationFactor = x.Src, 1, 1
			req.Topics = append(req.Topics, n)
		}
		if _, err := req.RequestWith(r.ctx(), c.Admin()); err != nil {
			t.Fatal(err)
		}
	}
	r.pass()
	if o := r.pass(); o.Condition != drift.OK || len(o.Items) > 0 {
		t.Fatalf("%s: %s, %d items", o.Condition, o.Why, len(o.Items))
	}
	var reads atomic.Int32
	dst.ControlKey(int16(kmsg.DescribeConfigs), func(kmsg.Request) (kmsg.Response, error, bool) {
		dst.KeepControl()
		reads.Add(1)
		return nil, nil, false
	})
	n, puts := picky(dst, takesAll), r.state.count()
	if o := r.pass(); o.Condition != drift.OK || len(o.Items) > 0 {
		t.Errorf("%s: %s, %d items", o.Condition, o.Why, len(o.Items))
	}
	if n.Load() > 0 || r.state.count() != puts || reads.Load() > topics/topicsPerDescribe+1 {
		t.Errorf("%d changes, %d stores, %d reads", n.Load(), r.state.count()-puts, reads.Load())
	}
}

// Where lockstep may not delete records, a mirror keeps the source's retention instead of growing for ever, and that is
// told with the permission.
func TestPart_MirrorThatMayNotBeTrimmed(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	r := newRig(t, src, dst)
	r.both("orders", "orders", map[string]string{"retention.ms": "60000"}, map[string]string{"retention.ms": "-1", "retention.bytes": "-1"})
	r.made("orders", map[string]string{"retention.ms": "-1", "retention.bytes": "-1"}, map[string]string{"retention.ms": "60000"})
	if o := r.pass(); o.Condition != drift.OK {
		t.Fatalf("%+v", o)
	}
	r.trims = false
	o := r.pass()
	if o.Condition != drift.Partly || !strings.Contains(o.Why, "1 mirrors have the source's retention") || !strings.Contains(strings.ToUpper(o.Remedy), "DELETE --TOPIC") {
		t.Errorf("%+v", o)
	}
	got := Read(r.ctx(), r.part.o.Target, []string{"orders"}, nil, false)["orders"].Explicit
	if got["retention.ms"] != "60000" || got["retention.bytes"] != "" {
		t.Errorf("settings of the mirror: %v", got)
	}
	r.trims = true
	if o := r.pass(); o.Condition != drift.OK {
		t.Errorf("%+v", o)
	}
	if got := Read(r.ctx(), r.part.o.Target, []string{"orders"}, nil, false)["orders"].Explicit; got["retention.ms"] != "-1" {
		t.Errorf("settings of the mirror: %v", got)
	}
}
