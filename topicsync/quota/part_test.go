package quota

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/config"
	"lockstep/internal/kafka"
	"lockstep/internal/kafkatest"
	"lockstep/topicsync/drift"
)

func dial(t *testing.T, name string, c kafkatest.Target) *kafka.Cluster {
	t.Helper()
	k, err := kafka.Dial(config.Cluster{Name: name, Brokers: c.Brokers()}, kafka.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

func scope() drift.Scope {
	return drift.Scope{Link: config.Link{Name: "dr", Quotas: config.Quotas{Sync: true}}, Now: time.Now()}
}

// set changes quotas by hand; a negative value removes one.
func set(t *testing.T, c *kafka.Cluster, of map[limit]float64) {
	t.Helper()
	var ws []write
	for l, v := range of {
		w := write{l, &v}
		if v < 0 {
			w.value = nil
		}
		ws = append(ws, w)
	}
	for i, err := range alter(t.Context(), c, ws) {
		if err != nil {
			t.Fatalf("%v: %v", ws[i].limit, err)
		}
	}
}

// has waits until a cluster has just these quotas: brokers learn of a change a moment after it was made.
func has(t *testing.T, c *kafka.Cluster, want map[limit]float64) {
	t.Helper()
	kafkatest.Eventually(t, 20*time.Second, func() (bool, string) {
		got, err := observe(t.Context(), c)
		if err != nil {
			return false, err.Error()
		}
		for l, v := range want {
			if g, ok := got[l]; !ok || g != v {
				return false, fmt.Sprintf("%v is %v, want %v", l, g, v)
			}
		}
		return len(got) == len(want), fmt.Sprintf("%d quotas, want %d", len(got), len(want))
	})
}

var (
	alice    = rate(user("alice"))
	anybody  = rate(entity{{has: true, isOther: true}})
	both     = limit{entity{named("alice"), named("app")}, "request_percentage"}
	anything = limit{entity{{has: true, isOther: true}, {has: true, isOther: true}}, "consumer_byte_rate"}
	address  = limit{entity{2: named("127.0.0.9")}, "connection_creation_rate"}
	own      = rate(entity{1: named("lockstep-admin")})
)

// follow takes quotas of all entities through a life: made, changed by hand, dropped.
func follow(t *testing.T, srcSide, dstSide kafkatest.Target) {
	src, dst, b := dial(t, "src", srcSide), dial(t, "dst", dstSide), &book{}
	foreign := rate(user("bob"))
	all := map[limit]float64{alice: 1000, anybody: 2000, both: 50, anything: 3000, address: 7}
	set(t, src, all)
	set(t, src, map[limit]float64{own: 1})
	set(t, dst, map[limit]float64{foreign: 5})
	p := New(Options{Source: src, Target: dst, Journal: newJournal(b, b), Own: []string{"lockstep"}})
	all[own] = 1
	has(t, src, all)
	delete(all, own)

	dry := scope()
	dry.Order = &drift.Order{DryRun: true}
	if o := p.Pass(t.Context(), dry); o.Condition != drift.OK || len(o.Items) != 5 || o.Items[0].Done {
		t.Fatalf("a dry run: %+v", o)
	}
	has(t, dst, map[limit]float64{foreign: 5})
	if o := p.Pass(t.Context(), scope()); o.Condition != drift.OK || len(o.Items) != 5 || !o.Items[0].Done {
		t.Fatalf("the first pass: %+v", o)
	}
	all[foreign] = 5
	has(t, dst, all)
	puts := b.puts
	if o := p.Pass(t.Context(), scope()); o.Condition != drift.OK || len(o.Items) != 0 || b.puts != puts {
		t.Fatalf("a pass with nothing to do: %+v, %d state writes", o, b.puts-puts)
	}

	set(t, dst, map[limit]float64{alice: 1})
	set(t, src, map[limit]float64{both: 60, address: -1})
	all[alice], all[both] = 1, 60
	delete(all, address)
	has(t, src, map[limit]float64{alice: 1000, anybody: 2000, both: 60, anything: 3000, own: 1})
	kafkatest.Eventually(t, 20*time.Second, func() (bool, string) {
		got, err := observe(t.Context(), dst)
		return err == nil && got[alice] == 1, "the change by hand is not seen"
	})
	if o := p.Pass(t.Context(), scope()); len(o.Items) != 3 {
		t.Fatalf("after changes on both sides: %+v", o)
	}
	has(t, dst, all)
	over := scope()
	over.Order = &drift.Order{Takeover: true}
	p.Pass(t.Context(), over)
	all[alice] = 1000
	has(t, dst, all)
}

func TestPart_Fake(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	follow(t, src, dst)
}

// Users and their quotas on real brokers: what was made, changed by hand and dropped; then SCRAM users.
func TestPart_Real(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.Shared(t, kafkatest.Kafka3, 1), kafkatest.Shared(t, kafkatest.Kafka4, 1)
	follow(t, src, dst)

	for name, mechanism := range map[string]int8{"carol": 1, "dave": 2} {
		upsert(t, dial(t, "src", src), name, mechanism)
	}
	upsert(t, dial(t, "dst", dst), "dave", 2)
	u := NewUsers(Options{Source: dial(t, "src", src), Target: dial(t, "dst", dst)})
	kafkatest.Eventually(t, 20*time.Second, func() (bool, string) {
		o := u.Pass(t.Context(), scope())
		if o.Condition != drift.OK {
			return false, o.Why
		}
		return len(o.Items) == 1 && o.Items[0].Name == "carol SCRAM-SHA-256", "users " + o.Why
	})
}

func upsert(t *testing.T, c *kafka.Cluster, user string, mechanism int8) {
	t.Helper()
	req := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	up := kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
	up.Name, up.Mechanism, up.Iterations, up.Salt, up.SaltedPassword = user, mechanism, 4096, []byte("0123456789abcdef"), make([]byte, 32)
	if mechanism == 2 {
		up.SaltedPassword = make([]byte, 64)
	}
	req.Upsertions = append(req.Upsertions, up)
	resp, err := req.RequestWith(t.Context(), c.Admin())
	if err == nil {
		err = drift.BrokerError(resp.Results[0].ErrorCode, resp.Results[0].ErrorMessage)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A target that may not be read or written, or does not know the request, is told with what helps.
func TestPart_Refusals(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	source, target, b := dial(t, "src", src), dial(t, "dst", dst), &book{}
	set(t, source, map[limit]float64{alice: 1000})
	p := New(Options{Source: source, Target: target, Journal: newJournal(b, b)})
	refuseAlter(dst, kerr.ClusterAuthorizationFailed.Code)
	o := p.Pass(t.Context(), scope())
	if o.Condition != drift.Partly || o.Remedy != drift.Grant("AlterConfigs", "--cluster") || o.Items[0].State != drift.Unavailable {
		t.Fatalf("denied: %+v", o)
	}
	if len(p.o.Journal.all()) > 0 {
		t.Errorf("what was refused counts as written: %v", p.o.Journal.all())
	}
	puts := b.puts
	if o := p.Pass(t.Context(), scope()); o.Condition != drift.Partly || b.puts != puts {
		t.Errorf("the refusal is asked for at each pass: %+v", o)
	}
	later := scope()
	later.Now = later.Now.Add(2 * deniedFor)
	if o := p.Pass(t.Context(), later); o.Condition != drift.OK || !o.Items[0].Done {
		t.Errorf("granted: %+v", o)
	}
	dst.ControlKey(int16(kmsg.DescribeClientQuotas), func(req kmsg.Request) (kmsg.Response, error, bool) {
		dst.KeepControl()
		resp := req.ResponseKind().(*kmsg.DescribeClientQuotasResponse)
		resp.ErrorCode = kerr.UnsupportedVersion.Code
		return resp, nil, true
	})
	if o := p.Pass(t.Context(), scope()); o.Condition != drift.Unreachable || o.Why != "cluster dst does not know requests for client quotas" {
		t.Errorf("unsupported: %+v", o)
	}
}

// refuseAlter has the next change of quotas be refused.
func refuseAlter(c *kafkatest.Fake, code int16) {
	c.ControlKey(int16(kmsg.AlterClientQuotas), func(req kmsg.Request) (kmsg.Response, error, bool) {
		resp := req.ResponseKind().(*kmsg.AlterClientQuotasResponse)
		for _, e := range req.(*kmsg.AlterClientQuotasRequest).Entries {
			r := kmsg.NewAlterClientQuotasResponseEntry()
			r.ErrorCode = code
			for _, en := range e.Entity {
				r.Entity = append(r.Entity, kmsg.AlterClientQuotasResponseEntryEntity{Type: en.Type, Name: en.Name})
			}
			resp.Entries = append(resp.Entries, r)
		}
		return resp, nil, true
	})
}
