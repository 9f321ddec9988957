package kafkatest

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// asUser is a cluster seen by one user's client.
type asUser struct {
	*Cluster
	client *kgo.Client
}

func (u asUser) Admin() *kgo.Client { return u.client }

// login returns the cluster as the user sees it. A client never waits for metadata of topics that it may not see.
func login(t *testing.T, c *Cluster, user string) asUser {
	t.Helper()
	cl, err := kgo.NewClient(c.ClientOpts(user)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	if err := cl.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	return asUser{c, cl}
}

func grant(t *testing.T, c *Cluster, b *kadm.ACLBuilder) {
	t.Helper()
	b = b.Allow("User:app").AllowHosts("*").ResourcePatternType(kadm.ACLPatternLiteral)
	got, err := c.Kadm().CreateACLs(t.Context(), b)
	if err != nil {
		t.Fatalf("grant: %v", err)
	}
	for _, r := range got {
		if r.Err != nil {
			t.Fatalf("grant: %v", r.Err)
		}
	}
}

// TestBroker_SealNeeds: the direct way ALTER on the cluster, a transaction WRITE on the transactional id and on every
// topic; one unauthorised topic stops the whole request.
func TestBroker_SealNeeds(t *testing.T) {
	Long(t)
	o := Options{Authorizer: true, Security: Security{SASL: "PLAIN", Users: map[string]string{"app": "secret"}}}
	eachOwn(t, o, func(t *testing.T, c *Cluster) {
		mine, foreign, txnID := Topic(t, c), Topic(t, c), txnIDFor(t)
		grant(t, c, kadm.NewACLs().Topics(mine).Operations(kadm.OpWrite, kadm.OpDescribe))
		grant(t, c, kadm.NewACLs().TransactionalIDs(txnID).Operations(kadm.OpWrite, kadm.OpDescribe))
		app := login(t, c, "app")
		pid, old := initProducer(t, app, txnID)
		runSteps(t, app, mine, 0, step{"old epoch", NewBatch(pid, old, 0, 1), ok, 0})
		_, next := initProducer(t, app, txnID)
		m := marker{pid: pid, epoch: next, topic: mine}
		if got := writeMarkers(t, app, 1, m); got[0] != "CLUSTER_AUTHORIZATION_FAILED" {
			t.Fatalf("direct, without a right: %s", got[0])
		}
		got := addPartitions(t, app, txnID, pid, next, map[string][]int32{mine: {0}, foreign: {0}})
		if got[mine] != "OPERATION_NOT_ATTEMPTED" || got[foreign] != "TOPIC_AUTHORIZATION_FAILED" {
			t.Fatalf("add partitions: %v", got)
		}
		runSteps(t, app, mine, 0, step{"nothing is sealed yet", NewBatch(pid, old, 1, 1), ok, 1})
		_, next = initProducer(t, app, txnID)
		addPartitions(t, app, txnID, pid, next, map[string][]int32{mine: {0}})
		endTxn(t, app, txnID, pid, next, false)
		awaitMarker(t, c, mine, 0, pid, 2) // the user itself has no READ
		runSteps(t, app, mine, 0, step{"sealed by transaction", NewBatch(pid, old, 2, 1), fenced, 0})
		grant(t, c, kadm.NewACLs().Clusters().Operations(kadm.OpAlter))
		m.epoch = next + 5
		Eventually(t, 30*time.Second, func() (bool, string) {
			got := writeMarkers(t, app, 1, m)
			return got[0] == ok, "direct, with ALTER: " + got[0]
		})
	})
}
