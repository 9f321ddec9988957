package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"lockstep/api"
	"lockstep/internal/kafkatest"
)

// A permission that is taken away and given back, on either side, and a quota: the lane waits and says for what, its
// neighbours copy on, and it goes on by itself.
func TestWayOut_AccessAndQuota(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	primary, backup := pair(t)
	guarded := kafkatest.Start(t, kafkatest.Options{Authorizer: true,
		Security: kafkatest.Security{SASL: "PLAIN", Users: map[string]string{"lockstep": "lockstep"}}})
	grant(t, guarded, aclOf().Topics("*").Allow("User:lockstep").AllowHosts("*").Operations(kadm.OpAll))
	grant(t, guarded, aclOf().Clusters().Allow("User:lockstep").AllowHosts("*").Operations(kadm.OpAll))
	grant(t, guarded, aclOf().Groups("*").Allow("User:lockstep").AllowHosts("*").Operations(kadm.OpAll))
	t.Run("target", func(t *testing.T) {
		t.Parallel()
		deniedAndGranted(t, primary, guarded, guarded, kadm.OpWrite)
	})
	t.Run("source", func(t *testing.T) {
		t.Parallel()
		deniedAndGranted(t, guarded, backup, guarded, kadm.OpRead)
	})
	t.Run("all of the source topic", func(t *testing.T) {
		t.Parallel()
		hiddenAndShown(t, guarded, backup)
	})
	t.Run("quota", func(t *testing.T) {
		throttled(t, primary, guarded)
	})
}

func aclOf() *kadm.ACLBuilder { return kadm.NewACLs().ResourcePatternType(kadm.ACLPatternLiteral) }

// deniedAndGranted takes the right to do op on one of two topics away, and gives it back.
func deniedAndGranted(t *testing.T, src, dst, guarded *kafkatest.Cluster, op kadm.ACLOperation) {
	held, healthy := kafkatest.Topic(t, src), kafkatest.Topic(t, src)
	for _, topic := range []string{held, healthy} {
		kafkatest.Produce(t, src, topic, 0, sequel()(100))
	}
	c := linkBetween(src, dst, []string{held, healthy})
	if guarded == src {
		c.primaryMore = sasl("lockstep")
	} else {
		c.backupUser = "lockstep"
	}
	s := newService(t, c).start()
	s.equal(src, dst, held, healthy)
	deny := func() *kadm.ACLBuilder {
		return aclOf().Topics(held).Deny("User:lockstep").DenyHosts("*").Operations(op)
	}
	grant(t, guarded, deny())
	kafkatest.Produce(t, src, held, 0, sequel()(50))
	l := s.awaitLane(held, 0, deniedPatience, func(l laneDetail) bool { return l.State == "retrying" && l.Reason == "not_authorized" })
	if !hasAll(l.Detail, []string{operationName(op), held, clusterOf(guarded, src)}) || l.Remedy == "" {
		t.Errorf("the lane says neither what is missing nor what to do: %+v", l.Lane)
	}
	s.lagIsSeen(src, held)
	if n := s.metric("lockstep_lane_state", `reason="not_authorized"`, `state="retrying"`); n != 1 {
		t.Errorf("lockstep_lane_state counts %v lanes as not_authorized", n)
	}
	s.command("status").want(t, 0).says(t, "not_authorized", l.Remedy)
	s.goesOn(src, dst, healthy)
	if _, err := guarded.Kadm().DeleteACLs(t.Context(), deny()); err != nil {
		t.Fatal(err)
	}
	s.equal(src, dst, held, healthy)
	s.awaitLane(held, 0, wayOutPatience, func(l laneDetail) bool { return l.State == "copying" && l.Reason == "" })
	s.translates(src, dst, held, 0, 0)
	s.wantGaps()
	s.stop()
}

// hiddenAndShown takes every right to one of two topics away, so that the source does not even list it, and gives it back:
// that is not a deleted topic, and no lag of 0.
func hiddenAndShown(t *testing.T, src, dst *kafkatest.Cluster) {
	held, healthy := kafkatest.Topic(t, src), kafkatest.Topic(t, src)
	group := groupName("held")
	for _, topic := range []string{held, healthy} {
		kafkatest.Produce(t, src, topic, 0, sequel()(100))
	}
	commitAt(t, src, group, held, 0, 100)
	c := linkBetween(src, dst, []string{held, healthy})
	c.primaryMore = sasl("lockstep")
	s := newService(t, c).start()
	s.equal(src, dst, held, healthy)
	awaitCommitted(t, dst, group, held, 0, 100, wayOutPatience)
	deny := func() *kadm.ACLBuilder {
		return aclOf().Topics(held).Deny("User:lockstep").DenyHosts("*").Operations(kadm.OpAll)
	}
	grant(t, src, deny())
	kafkatest.Produce(t, src, held, 0, sequel()(50))
	s.awaitLane(held, 0, deniedPatience, func(l laneDetail) bool { return l.Reason == "not_authorized" })
	s.awaitLane(held, 0, deniedPatience, func(l laneDetail) bool { return l.LagRecords == nil || *l.LagRecords > 0 })
	s.lagIsSeen(src, held)
	s.awaitGroup(group, deniedPatience, func(g api.GroupDetail) bool { return g.LagRecords == nil || *g.LagRecords > 0 })
	s.command("lag", "--groups", "--crit", "0", "--link", s.link()).says(t, "LAG ")
	s.goesOn(src, dst, healthy)
	if _, err := src.Kadm().DeleteACLs(t.Context(), deny()); err != nil {
		t.Fatal(err)
	}
	s.equal(src, dst, held, healthy)
	s.awaitLane(held, 0, wayOutPatience, func(l laneDetail) bool { return l.State == "copying" && l.Reason == "" })
	s.awaitGroup(group, wayOutPatience, func(g api.GroupDetail) bool { return g.LagRecords != nil && g.State == "synced" })
	s.wantGaps()
	s.stop()
}

// deniedPatience is how long it may take until a permission that was taken away is seen.
const deniedPatience = 30 * time.Second

func operationName(op kadm.ACLOperation) string { return strings.ToUpper(op.String()) }

// clusterOf is the name that the configuration gives a cluster.
func clusterOf(c, src *kafkatest.Cluster) string {
	if c == src {
		return "primary"
	}
	return "backup"
}

// lagIsSeen checks that the lag of a topic that cannot be copied grows, or is not known: everywhere, and never 0. A check of
// the lag is never OK.
func (s *service) lagIsSeen(src *kafkatest.Cluster, topic string) {
	s.t.Helper()
	grown, seen := int64(0), false
	kafkatest.Eventually(s.t, deniedPatience, func() (bool, string) {
		kafkatest.Produce(s.t, src, topic, 0, sequel()(10))
		grown += 10
		l, m := s.lane(topic, 0), s.metric("lockstep_lane_lag_records", `topic="`+topic+`"`)
		none := m == 0 || l.LagRecords != nil && *l.LagRecords == 0
		if seen = seen || !none; !seen { // the source is asked every five seconds
			return false, fmt.Sprintf("no lag, although %d records cannot be copied: metric %v, lane %+v", grown, m, l.Lane)
		}
		if none {
			s.t.Fatalf("the lag is shown as 0: metric %v, lane %+v", m, l.Lane)
		}
		if r := s.command("lag", "--warn", "0", "--crit", "1h", "--link", s.link()); r.code != 1 && r.code != 3 {
			s.t.Fatalf("a check of the lag is not bad: %v", r)
		}
		return l.LagRecords == nil || *l.LagRecords > 100, fmt.Sprintf("%d records were added, lane %+v", grown, l.Lane)
	})
}

// throttled has the target's broker slow the link's user down.
func throttled(t *testing.T, src, dst *kafkatest.Cluster) {
	topic := kafkatest.Topic(t, src)
	c := linkBetween(src, dst, []string{topic})
	c.backupUser = "lockstep"
	s := newService(t, c).start()
	user, rate := "lockstep", 200_000.0
	quota := kadm.AlterClientQuotaEntry{Entity: kadm.ClientQuotaEntity{{Type: "user", Name: &user}},
		Ops: []kadm.AlterClientQuotaOp{{Key: "producer_byte_rate", Value: rate}}}
	setQuota := func() {
		t.Helper()
		got, err := dst.Kadm().AlterClientQuotas(t.Context(), []kadm.AlterClientQuotaEntry{quota})
		if err != nil || got[0].Err != nil {
			t.Fatal(err, got)
		}
	}
	setQuota()
	for i := range 4 {
		kafkatest.Produce(t, src, topic, 0, noisy(90, 10_000, uint64(i)))
	}
	kafkatest.Eventually(t, wayOutPatience, func() (bool, string) {
		n := s.metric("lockstep_throttle_seconds_total", s.link())
		return n > 0, fmt.Sprint(n, " seconds throttled")
	})
	quota.Ops[0].Remove = true
	setQuota()
	s.equal(src, dst, topic)
	s.translates(src, dst, topic, 0, 0)
	s.wantGaps()
	s.stop()
}
