package kafkatest_test

import (
	"testing"
	"time"

	"lockstep/internal/kafkatest"
)

func TestStart_EachVersion(t *testing.T) {
	start := time.Now()
	kafkatest.EachVersion(t, func(t *testing.T, c *kafkatest.Cluster) {
		t.Logf("ready after %s", time.Since(start))
		topic := kafkatest.Topic(t, c, kafkatest.TopicOptions{Partitions: 3})
		if got := kafkatest.End(t, c, topic, 2); got != 0 {
			t.Fatalf("end of an empty partition is %d", got)
		}
		t.Logf("topic after %s", time.Since(start))
	})
}

func TestStart_TwoTimesThreeNodes(t *testing.T) {
	kafkatest.Long(t)
	start := time.Now()
	cs := kafkatest.StartAll(t, kafkatest.Options{Nodes: 3}, kafkatest.Options{Nodes: 3})
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("two times three nodes were ready after %s, want less than 30 s", took)
	} else {
		t.Logf("ready after %s", took)
	}
	for _, c := range cs {
		kafkatest.Topic(t, c, kafkatest.TopicOptions{Partitions: 3, Replicas: 3})
	}
}
