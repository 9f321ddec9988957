package kafkatest_test

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/kafkatest"
)

func TestCluster_KillRestartKeepsData(t *testing.T) {
	c := kafkatest.Start(t, kafkatest.Options{})
	topic := kafkatest.Topic(t, c)
	recs := kafkatest.Records(50, 1)
	kafkatest.Produce(t, c, topic, 0, recs)
	c.Kill(t, 1)
	c.Restart(t, 1)
	if got := kafkatest.Read(t, c, topic, 0, true); len(got) != 50 {
		t.Fatalf("%d records after kill and restart, want 50", len(got))
	}
	c.Stop(t, 1)
	c.Restart(t, 1)
	if end := kafkatest.End(t, c, topic, 0); end != 50 {
		t.Fatalf("end %d after stop and restart, want 50", end)
	}
}

func TestCluster_FreezeThaw(t *testing.T) {
	c := kafkatest.Start(t, kafkatest.Options{Version: kafkatest.Kafka3})
	c.Freeze(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := kafkatest.Broker(c, 1).Request(ctx, kmsg.NewPtrApiVersionsRequest()); err == nil {
		t.Fatal("a frozen broker answered")
	}
	c.Thaw(t, 1)
	kafkatest.Topic(t, c)
}

func TestCluster_LeaderMovesWhenKilled(t *testing.T) {
	kafkatest.Long(t)
	c := kafkatest.Start(t, kafkatest.Options{Nodes: 3})
	topic := kafkatest.Topic(t, c, kafkatest.TopicOptions{Replicas: 3})
	kafkatest.Produce(t, c, topic, 0, kafkatest.Records(50, 1))
	start := time.Now()
	old := c.Leader(t, topic, 0)
	c.Kill(t, old)
	kafkatest.Produce(t, c, topic, 0, kafkatest.Records(50, 2))
	t.Log("produced after", time.Since(start))
	if now := c.Leader(t, topic, 0); now == old {
		t.Fatalf("node %d still leads", old)
	}
	c.Restart(t, old)
	t.Log("restarted after", time.Since(start))
	if end := kafkatest.End(t, c, topic, 0); end != 100 {
		t.Fatalf("end %d, want 100", end)
	}
}
