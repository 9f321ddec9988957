package e2e

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"lockstep/internal/kafkatest"
)

// threeNodes are clusters that lose nothing while one of their brokers is away.
func threeNodes() kafkatest.Options {
	return kafkatest.Options{Nodes: 3, HeapMB: 400, ReadyIn: 3 * time.Minute, Properties: map[string]string{"min.insync.replicas": "2", "default.replication.factor": "3"}}
}

// awaitInSync waits until every replica of every partition has caught up: only then may the next broker be hurt.
func awaitInSync(t testing.TB, c *kafkatest.Cluster) {
	t.Helper()
	kafkatest.Eventually(t, 90*time.Second, func() (bool, string) {
		ds, err := c.Kadm().ListTopicsWithInternal(t.Context())
		if err != nil {
			return false, err.Error()
		}
		late := ""
		ds.EachPartition(func(p kadm.PartitionDetail) {
			if p.Leader < 0 || len(p.ISR) < len(p.Replicas) {
				late = fmt.Sprintf("%s/%d: leader %d, %v of %v in sync", p.Topic, p.Partition, p.Leader, p.ISR, p.Replicas)
			}
		})
		return late == "", late
	})
}

// spread gives a topic that has one replica several, on nodes 1, 2 and so on. They take over the log with its holes: replicas
// that were there before are cleaned each by itself, and hold different records of the same topic. For the same reason
// nothing is cleaned any more.
func spread(t testing.TB, c kafkatest.Target, topic string, replicas int16) string {
	t.Helper()
	if replicas == 1 {
		return topic
	}
	setTopic(t, c, topic, map[string]string{"cleanup.policy": "delete"})
	var on []int32
	for node := range int32(replicas) {
		on = append(on, node+1)
	}
	var order kadm.AlterPartitionAssignmentsReq
	order.Assign(topic, 0, on)
	got, err := kadm.NewClient(c.Admin()).AlterPartitionAssignments(t.Context(), order)
	if err == nil {
		err = got.Error()
	}
	if err != nil {
		t.Fatalf("spread %s: %v", topic, err)
	}
	kafkatest.Eventually(t, 60*time.Second, func() (bool, string) {
		ds, err := kadm.NewClient(c.Admin()).ListTopics(t.Context(), topic)
		if err != nil {
			return false, err.Error()
		}
		isr := ds[topic].Partitions[0].ISR
		return len(isr) == len(on), fmt.Sprint("in sync: ", isr)
	})
	return topic
}

// leads tells who leads each partition of the topics, by laneKey.
func leads(t testing.TB, c *kafkatest.Cluster, topics ...string) map[string]int32 {
	t.Helper()
	ds, err := c.Kadm().ListTopics(t.Context(), topics...)
	if err != nil {
		t.Fatal(err)
	}
	by := make(map[string]int32)
	ds.EachPartition(func(p kadm.PartitionDetail) { by[laneKey(p.Topic, p.Partition)] = p.Leader })
	return by
}

// moveLeaders makes the next replica in line the leader of some partitions of the topics, chosen by r, and returns how
// many moves that were.
func moveLeaders(t testing.TB, c *kafkatest.Cluster, r *rand.Rand, topics ...string) int {
	t.Helper()
	ds, err := c.Kadm().ListTopics(t.Context(), topics...)
	if err != nil {
		t.Fatal(err)
	}
	var order kadm.AlterPartitionAssignmentsReq
	moved := make(kadm.TopicsSet)
	n := 0
	ds.EachPartition(func(p kadm.PartitionDetail) {
		if r.IntN(3) == 0 && len(p.Replicas) > 1 {
			order.Assign(p.Topic, p.Partition, append(p.Replicas[1:len(p.Replicas):len(p.Replicas)], p.Replicas[0]))
			moved.Add(p.Topic, p.Partition)
			n++
		}
	})
	if n == 0 {
		return 0
	}
	got, err := c.Kadm().AlterPartitionAssignments(t.Context(), order)
	if err == nil {
		err = got.Error()
	}
	if err != nil {
		t.Fatalf("order other leaders: %v", err)
	}
	if _, err := c.Kadm().ElectLeaders(t.Context(), kadm.ElectPreferredReplica, moved); err != nil {
		t.Fatalf("elect leaders: %v", err)
	}
	return n
}

// planHomes tells in which partition of the state topic the plan of each lane stands, by laneKey.
func (s *service) planHomes(dst kafkatest.Target, topics ...string) map[string]int32 {
	s.t.Helper()
	homes := make(map[string]int32)
	state := stateTopic(s.link())
	for p := range partitions(s.t, dst, state) {
		for _, r := range kafkatest.Read(s.t, dst, state, p, false) {
			for _, topic := range topics {
				if _, rest, ok := strings.Cut(string(r.Key), topic+"/"); ok && strings.HasPrefix(string(r.Key), "lane/") {
					number, _, _ := strings.Cut(rest, "/")
					homes[topic+"/"+number] = p
				}
			}
		}
	}
	return homes
}

// linkTerm is the term that the link writes in.
func (s *service) linkTerm() uint64 {
	s.t.Helper()
	l, err := s.client.Link(s.t.Context(), s.link())
	if err != nil {
		s.t.Fatal(err)
	}
	return l.Term
}

// settlesDown waits until all lanes copy and none is behind.
func (s *service) settlesDown(within time.Duration) {
	s.t.Helper()
	kafkatest.Eventually(s.t, within, func() (bool, string) {
		lanes, err := s.client.Lanes(s.t.Context(), s.link())
		if err != nil {
			return false, err.Error()
		}
		for _, l := range lanes {
			if l.State != "copying" || l.LagRecords == nil || *l.LagRecords != 0 {
				return false, fmt.Sprintf("lane %s/%d: %s %s %s, %s records behind", l.Topic, l.Partition, l.State, l.Reason, l.Detail, offset(l.LagRecords))
			}
		}
		return len(lanes) > 0, "no lanes"
	})
}
