package acl

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/config"
	"lockstep/internal/kafka"
	"lockstep/internal/kafkatest"
	"lockstep/internal/statelog"
	"lockstep/topicsync/drift"
)

func TestMain(m *testing.M) { kafkatest.Main(m) }

// rig is a Part between two simulated clusters with authorizers.
type rig struct {
	*Part
	t          *testing.T
	fakes      [2]*kafkatest.Fake
	topic      *book
	scope      drift.Scope
	writes     atomic.Int32 // requests that change permissions on the target
	refuse     [2]atomic.Pointer[kerr.Error]
	mayNotBeAt atomic.Bool // changes are refused
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, topic: &book{}, scope: scope(link(".*"), []string{"orders", "payments"})}
	var dialled [2]*kafka.Cluster
	for i, name := range []string{"src", "dst"} {
		r.fakes[i] = kafkatest.NewFake(t)
		r.watch(i)
		k, err := kafka.Dial(config.Cluster{Name: name, Brokers: r.fakes[i].Brokers()}, kafka.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(k.Close)
		dialled[i] = k
	}
	r.Part = New(Options{Source: dialled[0], Target: dialled[1], Journal: newJournal(r.topic, r.topic)})
	return r
}

// watch counts and refuses requests.
func (r *rig) watch(i int) {
	r.fakes[i].ControlKey(int16(kmsg.DescribeACLs), func(req kmsg.Request) (kmsg.Response, error, bool) {
		r.fakes[i].KeepControl()
		err := r.refuse[i].Load()
		if err == nil {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.DescribeACLsResponse)
		resp.ErrorCode = err.Code
		return resp, nil, true
	})
	for _, key := range []kmsg.Key{kmsg.CreateACLs, kmsg.DeleteACLs} {
		r.fakes[i].ControlKey(int16(key), func(req kmsg.Request) (kmsg.Response, error, bool) {
			r.fakes[i].KeepControl()
			if i == 0 {
				r.t.Errorf("permissions of the source are being changed: %T", req)
			}
			r.writes.Add(1)
			create, ok := req.(*kmsg.CreateACLsRequest)
			if !ok || !r.mayNotBeAt.Load() {
				return nil, nil, false
			}
			resp := create.ResponseKind().(*kmsg.CreateACLsResponse)
			for range create.Creations {
				resp.Results = append(resp.Results, kmsg.CreateACLsResponseResult{ErrorCode: kerr.ClusterAuthorizationFailed.Code})
			}
			return resp, nil, true
		})
	}
}

func (r *rig) pass(o *drift.Order) drift.Outcome {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	r.scope.Order = o
	return r.Pass(ctx, r.scope)
}

// holds makes a cluster's permissions these.
func (r *rig) holds(i int, want ...Binding) {
	r.t.Helper()
	c := r.o.Source
	if i == 1 {
		c = r.o.Target
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	has, err := observe(ctx, c)
	if err != nil {
		r.t.Fatal(err)
	}
	admin, err := kafka.Dial(config.Cluster{Name: "admin", Brokers: r.fakes[i].Brokers()}, kafka.Options{})
	if err != nil {
		r.t.Fatal(err)
	}
	defer admin.Close()
	r.asOperator(func() {
		for _, err := range append(remove(ctx, admin, has), create(ctx, admin, want)...) {
			if err != nil {
				r.t.Fatal(err)
			}
		}
	})
}

// asOperator does something that is not lockstep's.
func (r *rig) asOperator(do func()) {
	n, t := r.writes.Load(), r.t
	r.t = &testing.T{} // the source may be changed now
	do()
	r.t = t
	r.writes.Store(n)
}

func (r *rig) target() []string {
	r.t.Helper()
	got, err := observe(r.t.Context(), r.o.Target)
	if err != nil {
		r.t.Fatal(err)
	}
	return texts(got)
}

func (r *rig) has(want ...Binding) {
	r.t.Helper()
	slices.SortFunc(want, Binding.compare)
	if diff := cmp.Diff(texts(want), r.target()); diff != "" {
		r.t.Errorf("the target's permissions: -want +got:\n%s", diff)
	}
}

func TestPart_RoundTrip(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	reads, writes, owns := on(topicType, "orders", literal, "a", read), on(topicType, "orders", literal, "a", write), on(topicType, "pay", prefixed, "b", all)
	ownsReading, theirs := owns, on(topicType, "theirs", literal, "z", all)
	ownsReading.Operation = read
	r.holds(0, reads, writes, owns)
	r.holds(1, theirs)
	if o := r.pass(&drift.Order{DryRun: true}); o.Condition != drift.OK || len(o.Items) != 4 || r.writes.Load() != 0 || len(r.Part.o.Journal.all()) != 0 {
		t.Fatalf("a dry run: %+v, %d writes", o, r.writes.Load())
	}
	if o := r.pass(nil); o.Condition != drift.OK {
		t.Fatalf("%+v", o)
	}
	r.has(reads, ownsReading, theirs)

	r.writes.Store(0)
	for range 3 {
		if o := r.pass(nil); o.Condition != drift.OK || len(o.Items) != 2 { // what is staged
			t.Fatalf("a pass with nothing to do: %+v", o)
		}
	}
	if n, puts := r.writes.Load(), r.topic.puts; n != 0 || puts != 2 {
		t.Errorf("passes with nothing to do sent %d requests, and the state topic has %d writes", n, puts)
	}

	r.holds(0, writes, owns) // revoked
	r.pass(nil)
	r.has(ownsReading, theirs)

	r.holds(1, theirs) // somebody takes one away on the target
	r.pass(nil)
	r.has(theirs)
	if o := r.pass(&drift.Order{Takeover: true}); o.Condition != drift.OK {
		t.Errorf("%+v", o)
	}
	r.has(ownsReading, theirs)
}

// The process that promotes is another one, and the source is gone.
func TestPart_PromotesWithoutTheSource(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	reads, writes := on(topicType, "orders", literal, "a", read), on(topicType, "orders", literal, "a", write)
	r.holds(0, reads, writes)
	r.pass(nil)
	r.has(reads)
	r.refuse[0].Store(kerr.BrokerNotAvailable)
	next := &book{}
	j := newJournal(next, next)
	if err := j.note(t.Context(), r.o.Journal.all()); err != nil {
		t.Fatal(err)
	}
	r.o.Journal = j
	if o := r.pass(&drift.Order{Promote: true}); o.Condition != drift.OK {
		t.Fatalf("%+v", o)
	}
	r.has(reads, writes)
}

func TestPart_Conditions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		side int
		err  *kerr.Error
		want drift.Condition
		says string
	}{
		"no authorizer on the source":      {0, kerr.SecurityDisabled, drift.NotApplicable, "cluster src has no authorizer"},
		"no authorizer on the target":      {1, kerr.SecurityDisabled, drift.NotApplicable, "cluster dst has no authorizer"},
		"the source may not be read":       {0, kerr.ClusterAuthorizationFailed, drift.Unreachable, "--operation Describe"},
		"the target may not be read":       {1, kerr.ClusterAuthorizationFailed, drift.Unreachable, "--operation Describe"},
		"the target does not know of that": {1, kerr.UnsupportedVersion, drift.Unreachable, "does not know"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			reads := on(topicType, "orders", literal, "a", read)
			r.holds(0, reads)
			r.refuse[c.side].Store(c.err)
			for range 2 {
				o := r.pass(nil)
				if o.Condition != c.want || !strings.Contains(strings.ToUpper(o.Why+o.Remedy), strings.ToUpper(c.says)) || r.writes.Load() != 0 {
					t.Fatalf("%+v, %d writes; want %s, %q", o, r.writes.Load(), c.want, c.says)
				}
			}
			r.refuse[c.side].Store(nil) // it starts by itself
			if o := r.pass(nil); o.Condition != drift.OK {
				t.Fatalf("%+v", o)
			}
			r.has(reads)
		})
	}
}

func TestPart_MayNotAlter(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.holds(0, on(topicType, "orders", literal, "a", read))
	r.mayNotBeAt.Store(true)
	o := r.pass(nil)
	if o.Condition != drift.Partly || len(o.Items) != 1 || o.Items[0].State != drift.Unavailable || !strings.Contains(strings.ToUpper(o.Items[0].Remedy), "ALTER") {
		t.Fatalf("%+v", o)
	}
	r.mayNotBeAt.Store(false)
	if o := r.pass(nil); o.Condition != drift.OK {
		t.Fatalf("%+v", o)
	}
	r.has(on(topicType, "orders", literal, "a", read))
}

func TestPart_SourceWithoutAnyRemovesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	reads := on(topicType, "orders", literal, "a", read)
	r.holds(0, reads)
	r.pass(nil)
	r.holds(0)
	if o := r.pass(nil); len(o.Items) != 1 || o.Items[0].State != drift.Held {
		t.Fatalf("%+v", o)
	}
	r.has(reads)
	r.pass(&drift.Order{Takeover: true, Confirm: 1})
	r.has()
}

// Nothing is written whose note is not durable, and what the view reads of it later changes nothing.
func TestPart_NothingIsWrittenThatIsNotStored(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.holds(0, on(topicType, "orders", literal, "a", read))
	r.topic.fail = context.DeadlineExceeded
	if o := r.pass(nil); o.Condition != drift.Partly || r.writes.Load() != 0 {
		t.Fatalf("%+v, %d writes", o, r.writes.Load())
	}
	r.topic.fail = nil
	r.pass(nil)
	want := maps.Clone(r.o.Journal.all())
	late := statelog.Entry{Key: keyOf(resource{topicType, "orders", literal})}
	if err := r.topic.read(late); err != nil || !maps.Equal(r.o.Journal.all(), want) {
		t.Errorf("an old record that was read late: %v, %v", r.o.Journal.all(), err)
	}
}
