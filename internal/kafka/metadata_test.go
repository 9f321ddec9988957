package kafka

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"

	"lockstep/config"
	"lockstep/internal/model"
)

func TestMetadata_NamedAllAndUnknown(t *testing.T) {
	t.Parallel()
	fake := newFake(t, kfake.NumBrokers(3), kfake.SeedTopics(4, "a"), kfake.SeedTopics(1, "b"), kfake.ClusterID("cl-1"))
	c := dialFake(t, fake, Options{})
	ctx := testContext(t)
	if id, err := c.ID(ctx); err != nil || id != "cl-1" {
		t.Errorf("ID = %q, %v", id, err)
	}
	m, err := c.Metadata(ctx, "a", "none")
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Brokers) != 3 || m.ClusterID != "cl-1" {
		t.Errorf("brokers %v of cluster %q", m.Brokers, m.ClusterID)
	}
	if !errors.Is(m.Topics["none"].Err, kerr.UnknownTopicOrPartition) {
		t.Errorf("topic none: %v", m.Topics["none"].Err)
	}
	a := m.Topics["a"]
	if a.ID.IsZero() || len(a.Parts) != 4 {
		t.Fatalf("topic a: %+v", a)
	}
	for i, p := range a.Parts {
		if p.Partition != int32(i) || p.Leader != fake.LeaderFor("a", int32(i)) {
			t.Errorf("partition %d: %+v", i, p)
		}
	}
	all, err := c.Metadata(ctx)
	if err != nil || len(all.Topics) != 2 {
		t.Errorf("all topics: %v, %v", all.Topics, err)
	}
	if _, err := c.Metadata(ctx, "none"); err != nil {
		t.Errorf("asking created or failed: %v", err)
	}
}

func TestMetadata_IsNeverCached(t *testing.T) {
	t.Parallel()
	fake := newFake(t, kfake.NumBrokers(1))
	c := dialFake(t, fake, Options{})
	ctx := testContext(t)
	for i := range 5 {
		m, err := c.Metadata(ctx, "new")
		if err != nil {
			t.Fatal(err)
		}
		if exists := m.Topics["new"].Err == nil; exists != (i%2 == 1) {
			t.Fatalf("round %d: topic exists: %v", i, exists)
		}
		if i%2 == 0 {
			if err := fake.CreateTopic("new", 1, nil); err != nil {
				t.Fatal(err)
			}
		} else if err := fake.DeleteTopic("new"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMetadata_HasADeadlineOfItsOwn(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	c := dialConfig(t, config.Cluster{Name: "silent", Brokers: []string{silent.Addr().String()}}, Options{Timeout: 50 * time.Millisecond})
	_, err = c.Metadata(context.Background(), "t")
	if !errors.Is(err, errNoAnswer) {
		t.Fatalf("error %v", err)
	}
	if action, reason := Classify(err); action != Refresh || reason != model.ReasonNetwork {
		t.Errorf("Classify = %v, %v", action, reason)
	}
}

func TestMeta_LeaderOf(t *testing.T) {
	t.Parallel()
	id, other := model.TopicID{1}, model.TopicID{2}
	m := Meta{Topics: map[string]TopicMeta{
		"t": {Name: "t", ID: id, Parts: []PartMeta{
			{Partition: 0, Leader: 7, Epoch: 3},
			{Partition: 1, Leader: -1, Epoch: 4, Err: kerr.LeaderNotAvailable},
			{Partition: 2, Leader: 8, Epoch: 5, Err: kerr.ReplicaNotAvailable},
		}},
		"forbidden": {Name: "forbidden", Err: kerr.TopicAuthorizationFailed},
	}}
	for name, tc := range map[string]struct {
		part Part
		want Leader
		err  error
	}{
		"by name":         {Part{Topic: "t"}, Leader{7, 3}, nil},
		"by id":           {Part{Topic: "t", ID: id}, Leader{7, 3}, nil},
		"other id":        {Part{Topic: "t", ID: other}, Leader{}, ErrRecreated},
		"other id, kerr":  {Part{Topic: "t", ID: other}, Leader{}, kerr.UnknownTopicID},
		"leaderless":      {Part{Topic: "t", Partition: 1}, Leader{}, kerr.LeaderNotAvailable},
		"replica missing": {Part{Topic: "t", Partition: 2}, Leader{8, 5}, nil},
		"no partition":    {Part{Topic: "t", Partition: 3}, Leader{}, kerr.UnknownTopicOrPartition},
		"no topic":        {Part{Topic: "x"}, Leader{}, kerr.UnknownTopicOrPartition},
		"forbidden":       {Part{Topic: "forbidden"}, Leader{}, kerr.TopicAuthorizationFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := m.leaderOf(tc.part)
			if !errors.Is(err, tc.err) {
				t.Fatalf("error %v, want %v", err, tc.err)
			}
			if diff := cmp.Diff(tc.want, got.Leader); diff != "" {
				t.Error(diff)
			}
		})
	}
}
