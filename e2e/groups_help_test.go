package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"lockstep/api"
	"lockstep/internal/kafkatest"
)

func groupName(label string) string { return fmt.Sprintf("%s-%08x", label, rand.Uint32()) }

// commitAt commits a position of a group without members.
func commitAt(t testing.TB, c *kafkatest.Cluster, group, topic string, partition int32, offset int64) {
	t.Helper()
	commitAll(t, c, group, map[string]map[int32]int64{topic: {partition: offset}})
}

func commitAll(t testing.TB, c *kafkatest.Cluster, group string, at map[string]map[int32]int64) {
	t.Helper()
	var os kadm.Offsets
	for topic, ps := range at {
		for p, o := range ps {
			os.Add(kadm.Offset{Topic: topic, Partition: p, At: o, LeaderEpoch: -1, Metadata: "kept"})
		}
	}
	kafkatest.Eventually(t, 30*time.Second, func() (bool, string) {
		got, err := c.Kadm().CommitOffsets(t.Context(), group, os)
		if err == nil {
			err = got.Error()
		}
		return err == nil, fmt.Sprint(err)
	})
}

// committedAt returns a group's position, -1 when it has none.
func committedAt(t testing.TB, c *kafkatest.Cluster, group, topic string, partition int32) int64 {
	t.Helper()
	at := int64(-1)
	kafkatest.Eventually(t, 30*time.Second, func() (bool, string) {
		got, err := c.Kadm().FetchOffsets(t.Context(), group)
		if err != nil {
			return false, err.Error()
		}
		at = -1
		if o, ok := got.Lookup(topic, partition); ok && o.Err == nil {
			at = o.At
		}
		return true, ""
	})
	return at
}

// awaitCommitted waits until a group stands at an offset.
func awaitCommitted(t testing.TB, c *kafkatest.Cluster, group, topic string, partition int32, want int64, within time.Duration) {
	t.Helper()
	kafkatest.Eventually(t, within, func() (bool, string) {
		got := committedAt(t, c, group, topic, partition)
		return got == want, fmt.Sprintf("%s stands at %d, not at %d", group, got, want)
	})
}

// awaitGroup waits until the service shows a group as the test wants it.
func (s *service) awaitGroup(group string, within time.Duration, good func(api.GroupDetail) bool) api.GroupDetail {
	s.t.Helper()
	var g api.GroupDetail
	kafkatest.Eventually(s.t, within, func() (bool, string) {
		var err error
		g, err = s.client.Group(s.t.Context(), s.link(), group)
		return err == nil && good(g), fmt.Sprintf("%+v, %v", g, err)
	})
	return g
}

func (s *service) awaitGroupState(group, state string, within time.Duration) api.GroupDetail {
	s.t.Helper()
	return s.awaitGroup(group, within, func(g api.GroupDetail) bool { return g.State == state })
}

// member joins a group and stays in it until it is closed, committing nothing by itself.
func member(t testing.TB, c *kafkatest.Cluster, group, topic string) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.Brokers()...), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.SessionTimeout(6*time.Second), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// nextRead returns the value of the first record that a consumer of a group reads, as any consumer would.
func nextRead(t testing.TB, c *kafkatest.Cluster, group, topic string) *kgo.Record {
	t.Helper()
	cl := member(t, c, group, topic)
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	fs := cl.PollRecords(ctx, 1)
	if err := fs.Err(); err != nil {
		t.Fatal(err)
	}
	return fs.Records()[0]
}
