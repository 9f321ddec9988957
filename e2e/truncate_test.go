package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/api"
	"lockstep/internal/kafkatest"
)

// forgetful is a source that loses records: a partition's last replica is killed, and one that lacks what it held is made
// leader. Its third node only keeps the quorum.
func forgetful() kafkatest.Options {
	return kafkatest.Options{Nodes: 3, HeapMB: 384, Properties: map[string]string{
		"unclean.leader.election.enable": "true", "min.insync.replicas": "1", "default.replication.factor": "2",
		"replica.lag.time.max.ms": "2000", "broker.session.timeout.ms": "4000", "broker.heartbeat.interval.ms": "500",
		"unclean.leader.election.interval.ms": "1000",
	}}
}

// topicOn makes a topic of one partition on the given nodes.
func topicOn(t testing.TB, c *kafkatest.Cluster, nodes ...int32) string {
	t.Helper()
	name := kafkatest.TopicName(t)
	req := kmsg.NewPtrCreateTopicsRequest()
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = name, -1, -1
	ra := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
	ra.Replicas = nodes
	rt.ReplicaAssignment = append(rt.ReplicaAssignment, ra)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(t.Context(), c.Admin())
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	if err != nil {
		t.Fatalf("create topic %s: %v", name, err)
	}
	kafkatest.AwaitLeaders(t, c, name)
	return name
}

// inSync waits until exactly so many replicas are in sync.
func inSync(t testing.TB, c *kafkatest.Cluster, topic string, n int) {
	t.Helper()
	kafkatest.Eventually(t, 90*time.Second, func() (bool, string) {
		ds, err := c.Kadm().ListTopics(t.Context(), topic)
		if err != nil {
			return false, err.Error()
		}
		p := ds[topic].Partitions[0]
		return len(p.ISR) == n && p.Leader >= 0, fmt.Sprintf("%+v", p)
	})
}

// loseTail makes the source forget records that it had acknowledged and that were read: written runs once they will be
// lost, and away once they were copied. It returns with both replicas back.
func loseTail(t testing.TB, c *kafkatest.Cluster, topic string, write func(), copied, away func(), regrow func()) {
	t.Helper()
	inSync(t, c, topic, 2)
	leader := c.Leader(t, topic, 0)
	follower := 3 - leader
	c.Freeze(t, follower)
	inSync(t, c, topic, 1)
	write()
	copied()
	away()
	c.Kill(t, leader)
	c.Thaw(t, follower)
	kafkatest.Eventually(t, 90*time.Second, func() (bool, string) {
		ds, err := c.Kadm().ListTopics(t.Context(), topic)
		if err != nil {
			return false, err.Error()
		}
		p := ds[topic].Partitions[0]
		return p.Leader == follower, fmt.Sprintf("%+v", p)
	})
	kafkatest.AwaitLeaders(t, c, topic)
	regrow()
	c.Restart(t, leader)
	inSync(t, c, topic, 2)
}

// branch is one truncation as a test made it: source offsets [from, to) of the old branch stand on the target and nowhere
// else.
type branch struct{ from, to int64 }

// The source forgets what was copied, and grows past it: while the link runs, after a clean stop, and after a death. The
// lane goes on by itself, on the new branch, from its first record; what the old one had is named in the ledger.
func TestTruncate_SourceLosesWhatWasCopied(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	cs := kafkatest.StartAll(t, forgetful(), kafkatest.Options{HeapMB: 384})
	src, dst := cs[0], cs[1]
	for name, way := range map[string]struct {
		leave func(*service)
		grows []int // records that the new branch gets right away, at each truncation: more than were lost, or fewer
	}{
		"running": {func(*service) {}, []int{60, 3}},
		"stopped": {func(s *service) { s.stop() }, []int{3}},
		"killed":  {func(s *service) { s.kill() }, []int{60}},
		"dying":   {func(s *service) { s.stop() }, []int{60}}, // at each step of the way
	} {
		t.Run(name, func(t *testing.T) { truncated(t, src, dst, way.leave, way.grows) })
	}
}

func truncated(t *testing.T, src, dst *kafkatest.Cluster, leave func(*service), grows []int) {
	topic := topicOn(t, src, 1, 2)
	some := sequel()
	kafkatest.Produce(t, src, topic, 0, some(90), kafkatest.ProduceOptions{BatchRecords: 30})
	s := newService(t, linkBetween(src, dst, []string{topic}))
	s.repeats = 200 // brokers come and go
	s.start()
	s.equal(src, dst, topic)
	var bs []branch
	orphans := int64(0)
	for _, more := range grows {
		b := branch{from: kafkatest.End(t, src, topic, 0)}
		loseTail(t, src, topic,
			func() { kafkatest.Produce(t, src, topic, 0, some(10), kafkatest.ProduceOptions{BatchRecords: 4}) },
			func() { s.copied(src, topic); b.to = kafkatest.End(t, src, topic, 0) },
			func() { leave(s) },
			func() { kafkatest.Produce(t, src, topic, 0, some(more), kafkatest.ProduceOptions{BatchRecords: 7}) })
		bs = append(bs, b)
		orphans += 10
		if strings.HasSuffix(t.Name(), "dying") {
			for _, point := range []string{"before_cut", "before_seal", "before_orphans", "after_orphans", "before_open", "after_open"} {
				s.launch("LOCKSTEP_FAILPOINT=" + point + ":1")
				s.diesByItself(t, point)
			}
		}
		if s.now().ended() {
			s.start()
		}
		s.healed(src, dst, topic, bs)
	}
	rounds := len(grows)
	if strings.HasSuffix(t.Name(), "dying") {
		s.stop() // the figures are of the process that died behind the opening
		return
	}
	if n := s.metric("lockstep_source_truncations_total", s.link()); n != float64(rounds) {
		t.Errorf("lockstep_source_truncations_total is %v, want %d", n, rounds)
	}
	if n := s.metric("lockstep_orphaned_records_total", s.link()); n != float64(orphans) {
		t.Errorf("lockstep_orphaned_records_total is %v, want %d", n, orphans)
	}
	if n := strings.Count(s.now().log(), "the source was truncated"); n != rounds {
		t.Errorf("the log tells %d times that the source was truncated, want %d", n, rounds)
	}
	s.stop()
	was := logEnds(t, dst, topic)
	s.start() // it is found once
	s.healed(src, dst, topic, bs)
	was.unchanged(t, logEnds(t, dst, topic))
	s.stop()
}

// healed checks records, map and ledger after truncations.
func (s *service) healed(src, dst *kafkatest.Cluster, topic string, bs []branch) {
	t := s.t
	t.Helper()
	end := kafkatest.End(t, src, topic, 0)
	s.awaitLane(topic, 0, copyPatience, func(l api.LaneDetail) bool {
		return l.State == "copying" && l.SourceOffset == end && len(l.Gaps) == len(bs)
	})
	theirs := kafkatest.Read(t, src, topic, 0, true)
	ours := make(map[int64]*kgo.Record)
	for _, r := range kafkatest.Read(t, dst, topic, 0, true) {
		ours[r.Offset] = r
	}
	last := bs[len(bs)-1]
	onTarget := int64(0)
	for _, r := range theirs {
		got := s.translate(false, topic, 0, r.Offset)[0]
		d := ours[*got.TargetOffset]
		if got.State != "exact" || d == nil || string(d.Value) != string(r.Value) || string(d.Key) != string(r.Key) {
			t.Fatalf("source offset %d is %s: %+v, want the record %q", r.Offset, shortly(got), d, r.Value)
		}
		if r.Offset == last.from {
			onTarget = *got.TargetOffset
		}
	}
	if back := s.translate(true, topic, 0, onTarget-2)[0]; *back.SourceOffset != last.from || back.State != "hole" {
		t.Errorf("target offset %d of the old branch is source offset %d, %s; want %d, hole", onTarget-2, *back.SourceOffset, back.State, last.from)
	}
	var gaps api.Gaps
	if err := json.Unmarshal([]byte(s.command("gaps", "-o", "json").want(t, 0).stdout), &gaps); err != nil {
		t.Fatal(err)
	}
	if len(gaps.Gaps) != len(bs) {
		t.Fatalf("the ledger has %d entries, want %d: %+v", len(gaps.Gaps), len(bs), gaps.Gaps)
	}
	for i, g := range gaps.Gaps {
		if b := bs[i]; g.From != b.from || g.To != b.to || g.Reason != "source_truncated" {
			t.Errorf("entry %d is %+v, want source_truncated %+v", i, g, b)
		}
	}
	if len(ours) != len(theirs)+int(orphanedBy(bs)) {
		t.Errorf("the target holds %d records, want the %d of the source and %d of old branches", len(ours), len(theirs), orphanedBy(bs))
	}
}

func orphanedBy(bs []branch) (n int64) {
	for _, b := range bs {
		n += b.to - b.from
	}
	return n
}
