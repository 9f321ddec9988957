package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/config"
	"lockstep/internal/kafka"
	"lockstep/internal/kafkatest"
)

func allow(t testing.TB, kc *kafkatest.Cluster, typ kmsg.ACLResourceType, name string, ops ...kmsg.ACLOperation) {
	t.Helper()
	req := kmsg.NewPtrCreateACLsRequest()
	for _, op := range ops {
		acl := kmsg.NewCreateACLsRequestCreation()
		acl.ResourceType, acl.ResourceName, acl.ResourcePatternType = typ, name, kmsg.ACLResourcePatternTypeLiteral
		acl.Principal, acl.Host, acl.Operation, acl.PermissionType = "User:standby", "*", op, kmsg.ACLPermissionTypeAllow
		req.Creations = append(req.Creations, acl)
	}
	resp, err := req.RequestWith(testContext(t), kc.Admin())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range resp.Results {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			t.Fatal(err)
		}
	}
}

// dialAs connects as the user "standby", who has no rights but those that were granted.
func dialAs(t testing.TB, kc *kafkatest.Cluster) *kafka.Cluster {
	t.Helper()
	a := kc.Access("standby")
	c, err := kafka.Dial(config.Cluster{Name: "backup", Brokers: a.Brokers, SASL: &config.SASL{
		Mechanism: strings.ToLower(a.Mechanism), Username: a.Username, Password: config.NewSecret(a.Password),
	}}, kafka.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestAccess_GroupsThatMayNotBeReadOrWritten(t *testing.T) {
	t.Parallel()
	kc := kafkatest.Start(t, kafkatest.Options{Authorizer: true, Security: kafkatest.Security{
		SASL: "PLAIN", Users: map[string]string{"standby": "pass-standby"},
	}})
	topic, closed := kafkatest.Topic(t, kc), kafkatest.Topic(t, kc)
	commit := func(group, topic string) {
		t.Helper()
		kafkatest.Eventually(t, time.Minute, func() (bool, string) {
			err := kc.Kadm().CommitAllOffsets(testContext(t), group, kadm.Offsets{topic: {0: {Topic: topic, At: 5, LeaderEpoch: -1}}})
			return err == nil, fmt.Sprint(err)
		})
	}
	for _, g := range []string{"hidden", "readable", "writable"} {
		commit(g, topic)
	}
	commit("writable", closed)
	allow(t, kc, kmsg.ACLResourceTypeTopic, topic, kmsg.ACLOperationRead)
	allow(t, kc, kmsg.ACLResourceTypeTopic, closed, kmsg.ACLOperationDescribe)
	allow(t, kc, kmsg.ACLResourceTypeGroup, "readable", kmsg.ACLOperationDescribe)
	allow(t, kc, kmsg.ACLResourceTypeGroup, "writable", kmsg.ACLOperationRead)
	c := dialAs(t, kc)

	p := Reread(testContext(t), c, []string{"hidden", "readable", "writable"})
	if len(p.Groups) != 2 || p.Groups["readable"].Offsets[Key{topic, 0}].Offset != 5 || !errors.Is(p.Failed["hidden"], kerr.GroupAuthorizationFailed) {
		t.Errorf("%+v", p)
	}
	row := func(group, topic string, target int64) Row {
		return Row{DstGroup: group, Key: Key{topic, 0}, DstTopic: topic, Target: target, Translated: 9, Write: true}
	}
	out := Apply(testContext(t), c, []Row{row("hidden", topic, 5), row("readable", topic, 5), row("writable", topic, 5), row("writable", closed, 5), row("new", topic, -1)})
	want := []struct {
		state  State
		needed string
	}{
		{StateNotAuthorized, "DESCRIBE on group hidden"},
		{StateNotAuthorized, "READ on group readable"},
		{StateSynced, ""},
		{StateNotAuthorized, "READ on topic " + closed},
		{StateNotAuthorized, "DESCRIBE on group new"},
	}
	for i, r := range out {
		if r.State != want[i].state || !strings.Contains(r.Detail, want[i].needed) {
			t.Errorf("row %d: %s, %q; want %+v", i, r.State, r.Detail, want[i])
		}
	}
	if _, err := OffsetsRetention(testContext(t), c); !errors.Is(err, kerr.ClusterAuthorizationFailed) {
		t.Errorf("retention without permission: %v", err)
	}
	if _, err := Commit(context.Background(), c, "hidden", map[Key]Committed{{topic, 0}: {Offset: 1}}); !errors.Is(err, kerr.GroupAuthorizationFailed) {
		t.Errorf("commit: %v", err)
	}

	// With DESCRIBE on the cluster all groups are listed, also those that may not be read.
	allow(t, kc, kmsg.ACLResourceTypeCluster, "kafka-cluster", kmsg.ACLOperationDescribe, kmsg.ACLOperationDescribeConfigs)
	kafkatest.Eventually(t, time.Minute, func() (bool, string) {
		p, err := Observe(testContext(t), c, nil)
		return err == nil && len(p.Groups) == 2 && errors.Is(p.Failed["hidden"], kerr.GroupAuthorizationFailed), fmt.Sprintf("%+v, error %v", p, err)
	})
	kafkatest.Eventually(t, time.Minute, func() (bool, string) {
		d, err := OffsetsRetention(testContext(t), c)
		return d == 7*24*time.Hour, fmt.Sprint(d, err)
	})
}
