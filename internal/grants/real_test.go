package grants

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/config"
	"lockstep/internal/kafka"
	"lockstep/internal/kafkatest"
)

func TestMain(m *testing.M) { kafkatest.Main(m) }

const user = "standby"

// guarded starts a cluster that the user may do nothing on.
func guarded(t *testing.T, version string, nodes int) *kafkatest.Cluster {
	return kafkatest.Start(t, kafkatest.Options{Version: version, Nodes: nodes, Authorizer: true, HeapMB: 400,
		Security: kafkatest.Security{SASL: "PLAIN", Users: map[string]string{user: "secret"}}})
}

func dial(t *testing.T, kc *kafkatest.Cluster) *kafka.Cluster {
	t.Helper()
	a := kc.Access(user)
	c, err := kafka.Dial(config.Cluster{Name: "backup", Brokers: a.Brokers,
		SASL: &config.SASL{Mechanism: "plain", Username: user, Password: config.NewSecret(a.Password)}}, kafka.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// acl is a grant in the words of the protocol.
func acl(g Grant) (kmsg.ACLResourceType, string, kmsg.ACLResourcePatternType, kmsg.ACLOperation) {
	types := map[Resource]kmsg.ACLResourceType{Topic: kmsg.ACLResourceTypeTopic, Group: kmsg.ACLResourceTypeGroup,
		Cluster: kmsg.ACLResourceTypeCluster, TransactionalID: kmsg.ACLResourceTypeTransactionalId}
	name, pattern := g.Name.Text, kmsg.ACLResourcePatternTypeLiteral
	if g.Resource == Cluster {
		name = "kafka-cluster"
	}
	if g.Name.Prefixed {
		pattern = kmsg.ACLResourcePatternTypePrefixed
	}
	return types[g.Resource], name, pattern, codes[g.Operation]
}

func give(t *testing.T, kc *kafkatest.Cluster, permission kmsg.ACLPermissionType, gs ...Grant) {
	t.Helper()
	req := kmsg.NewPtrCreateACLsRequest()
	for _, g := range gs {
		c := kmsg.NewCreateACLsRequestCreation()
		c.ResourceType, c.ResourceName, c.ResourcePatternType, c.Operation = acl(g)
		c.Principal, c.Host, c.PermissionType = "User:"+user, "*", permission
		req.Creations = append(req.Creations, c)
	}
	resp, err := req.RequestWith(t.Context(), kc.Admin())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range resp.Results {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			t.Fatal(err)
		}
	}
}

func take(t *testing.T, kc *kafkatest.Cluster, g Grant) {
	t.Helper()
	f := kmsg.NewDeleteACLsRequestFilter()
	var name string
	f.ResourceType, name, f.ResourcePatternType, f.Operation = acl(g)
	f.ResourceName, f.Principal, f.PermissionType = &name, kmsg.StringPtr("User:"+user), kmsg.ACLPermissionTypeAllow
	req := kmsg.NewPtrDeleteACLsRequest()
	req.Filters = append(req.Filters, f)
	resp, err := req.RequestWith(t.Context(), kc.Admin())
	if err != nil || len(resp.Results) != 1 || len(resp.Results[0].MatchingACLs) != 1 {
		t.Fatalf("take %s: %+v, %v", g, resp, err)
	}
}

func look(t *testing.T, c *kafka.Cluster, needed []Grant, existing ...string) Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	r, err := Look(ctx, c, needed, existing)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// lacking are all the grants that a report names, in whatever way.
func lacking(r Report) (out []string) {
	for what, gs := range map[string][]Grant{"missing": r.Missing, "later": r.Later, "unknown": r.Unknown, "option": r.Options} {
		for _, g := range gs {
			out = append(out, what+": "+g.String())
		}
	}
	for _, b := range r.Barred {
		out = append(out, fmt.Sprintf("barred: %s on %v", b.Grant, b.Topics))
	}
	return out
}

// awaitLacking looks until exactly that is missing: brokers hear of permissions a little later.
func awaitLacking(t *testing.T, c *kafka.Cluster, needed []Grant, existing []string, want ...string) {
	t.Helper()
	kafkatest.Eventually(t, 30*time.Second, func() (bool, string) {
		got := lacking(look(t, c, needed, existing...))
		return cmp.Equal(want, got), fmt.Sprintf("lacking %v, want %v", got, want)
	})
}

// links are settings whose grants differ in kind: literal, prefixed, and for all.
func links() map[string]config.Link {
	few := everything("orders", "payments")
	few.Groups.Include = []string{"billing"}
	some := everything(`shop\..*`)
	some.Topics.Rename, some.Groups.Include, some.Configs.Retention, some.ACLs.Sync = "copy.{topic}", []string{`shop\..*`}, "source", false
	bare := everything("orders")
	bare.Configs.Sync, bare.ACLs.Sync, bare.Quotas.Sync, bare.Groups.Sync = false, false, false, false
	return map[string]config.Link{"literal": few, "prefixed": some, "all": everything(".*"), "little": bare}
}

// A user without any grant lacks all of them and knows it of each; with all of them nothing is lacking; and each one alone
// is told when it is taken away. Nothing that was asked has left anything behind.
func TestLook_EachGrantIsTold(t *testing.T) {
	kafkatest.Long(t)
	for _, version := range kafkatest.Versions() {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			kc := guarded(t, version, 1)
			c := dial(t, kc)
			for name, l := range links() {
				for side, own := range map[Side]Own{Source: {Kept: []string{"mm2-offset-syncs.backup.internal"}}, Target: onTarget()} {
					own.Scratch = map[Side]string{Target: "lockstep.probe."}[side]
					t.Run(fmt.Sprintf("%s, side %d", name, side), func(t *testing.T) { eachGrant(t, kc, c, Needed(l, side, own)) })
				}
			}
			topics, err := kc.Kadm().ListTopicsWithInternal(t.Context())
			if err != nil || len(topics) > 0 {
				t.Errorf("looking made topics: %v, %v", topics.Names(), err)
			}
		})
	}
}

// split parts what is needed from what is optional.
func split(gs []Grant) (required, options []Grant) {
	for _, g := range gs {
		if g.Optional {
			options = append(options, g)
		} else {
			required = append(required, g)
		}
	}
	return required, options
}

func eachGrant(t *testing.T, kc *kafkatest.Cluster, c *kafka.Cluster, needed []Grant) {
	r := look(t, c, needed)
	if n := len(r.Missing) + len(r.Options); !r.Authorizer || n != len(needed) {
		t.Fatalf("of %d grants, %d are missing: %v", len(needed), n, lacking(r))
	}
	required, options := split(needed)
	give(t, kc, kmsg.ACLPermissionTypeAllow, required...)
	eachAlone(t, kc, c, required, "missing: ", required) // an option that is given may include what is needed
	give(t, kc, kmsg.ACLPermissionTypeAllow, options...)
	eachAlone(t, kc, c, options, "option: ", needed)
	for _, g := range needed {
		take(t, kc, g)
	}
	kafkatest.Eventually(t, 30*time.Second, func() (bool, string) {
		got := lacking(look(t, c, needed))
		return len(got) == len(needed), strings.Join(got, ", ")
	})
}

// eachAlone takes each of some grants away while all of looked are there, and gives it back.
func eachAlone(t *testing.T, kc *kafkatest.Cluster, c *kafka.Cluster, some []Grant, what string, looked []Grant) {
	t.Helper()
	awaitLacking(t, c, looked, nil)
	for _, g := range some {
		take(t, kc, g)
		awaitLacking(t, c, looked, nil, what+g.String())
		give(t, kc, kmsg.ACLPermissionTypeAllow, g)
		awaitLacking(t, c, looked, nil)
	}
}

// What is given for every topic that exists is not missing today; a rule against one topic is no missing grant. Groups and
// topics that exist are told like those that do not, and stay as they are.
func TestLook_WhatExists(t *testing.T) {
	kafkatest.Long(t)
	for _, version := range kafkatest.Versions() {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			kc := guarded(t, version, 2)
			c := dial(t, kc)
			topics := []string{"shop.a", "shop.b"}
			for _, topic := range topics {
				kafkatest.Topic(t, kc, kafkatest.TopicOptions{Name: topic})
			}
			kafkatest.Produce(t, kc, "shop.a", 0, kafkatest.Records(10, 1))
			there := []string{"billing", "shipping", "audit", "stock"} // with coordinators on both nodes
			for _, group := range there {
				kafkatest.Eventually(t, time.Minute, func() (bool, string) {
					err := kc.Kadm().CommitAllOffsets(t.Context(), group, kadm.Offsets{"shop.a": {0: {Topic: "shop.a", At: 5, LeaderEpoch: -1}}})
					return err == nil, fmt.Sprint(err)
				})
			}
			l := everything(`shop\..*`)
			l.ACLs.Sync, l.Quotas.Sync, l.Groups.Include, l.Configs.Sync = false, false, []string{"billing", "shipping", "audit", "stock", "never", "nor"}, false
			needed, _ := split(Needed(l, Source, Own{Existing: topics}))
			var single []Grant
			for _, g := range needed {
				if g.Resource == Topic {
					for _, topic := range topics {
						single = append(single, Grant{Resource: Topic, Name: Name{Text: topic}, Operation: g.Operation})
					}
				} else {
					single = append(single, g)
				}
			}
			give(t, kc, kmsg.ACLPermissionTypeAllow, single[1:]...)
			awaitLacking(t, c, needed, topics, "missing: READ on topics that begin with shop.")
			give(t, kc, kmsg.ACLPermissionTypeAllow, single[0])
			awaitLacking(t, c, needed, topics, "later: READ on topics that begin with shop.")
			give(t, kc, kmsg.ACLPermissionTypeAllow, needed...)
			awaitLacking(t, c, needed, topics)
			give(t, kc, kmsg.ACLPermissionTypeDeny, single[0])
			awaitLacking(t, c, needed, topics, "barred: READ on topics that begin with shop. on [shop.a]")

			groups := Needed(l, Target, onTarget())
			for _, name := range l.Groups.Include {
				if !strings.Contains(strings.Join(lacking(look(t, c, groups)), " "), "option: DELETE on group "+name) {
					t.Errorf("DELETE on group %s is not told", name)
				}
				give(t, kc, kmsg.ACLPermissionTypeAllow, Grant{Resource: Group, Name: Name{Text: name}, Operation: Delete}, Grant{Resource: Group, Name: Name{Text: name}, Operation: Read})
			}
			kafkatest.Eventually(t, 30*time.Second, func() (bool, string) {
				got := strings.Join(lacking(look(t, c, groups)), ", ")
				return !strings.Contains(got, "group"), got
			})
			for _, group := range there {
				got, err := kc.Kadm().FetchOffsets(t.Context(), group)
				if o, ok := got.Lookup("shop.a", 0); err != nil || !ok || o.At != 5 {
					t.Errorf("%s stands at %+v, %v", group, got, err)
				}
			}
			listed, err := kc.Kadm().ListGroups(t.Context())
			if names := listed.Groups(); err != nil || len(names) != len(there) {
				t.Errorf("looking left groups %v, %v", names, err)
			}
		})
	}
}

// A cluster that checks nothing is told from one whose user may do everything.
func TestLook_NoAuthorizer(t *testing.T) {
	t.Parallel()
	for _, version := range kafkatest.Versions() {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			kc := kafkatest.Start(t, kafkatest.Options{Version: version, HeapMB: 400})
			c, err := kafka.Dial(config.Cluster{Name: "backup", Brokers: kc.Brokers()}, kafka.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if r := look(t, c, Needed(everything(".*"), Target, onTarget())); r.Authorizer || !r.OK() {
				t.Errorf("%+v", r)
			}
		})
	}
}

// The user of a client certificate is whom Principal names.
func TestLook_Certificate(t *testing.T) {
	t.Parallel()
	kc := kafkatest.Start(t, kafkatest.Options{Authorizer: true, HeapMB: 400, Security: kafkatest.Security{MutualTLS: true}})
	a := kc.Access("")
	cfg := config.Cluster{Name: "primary", Brokers: a.Brokers, TLS: &config.TLS{CAFile: a.CAFile, CertFile: a.CertFile, KeyFile: a.KeyFile}}
	who, err := kafka.Principal(cfg)
	if err != nil || who != "User:CN=client" {
		t.Fatal(who, err)
	}
	c, err := kafka.Dial(cfg, kafka.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	needed := []Grant{{Resource: Topic, Name: Name{Text: "orders"}, Operation: Read}}
	awaitLacking(t, c, needed, nil, "missing: READ on topic orders")
	b := kadm.NewACLs().Allow(who).AllowHosts("*").ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpRead).Topics("orders")
	if _, err := kc.Kadm().CreateACLs(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	awaitLacking(t, c, needed, nil)
}
