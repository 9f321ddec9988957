package topicsync

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"

	"lockstep/internal/kafkatest"
	"lockstep/internal/model"
	"lockstep/topicsync/configs"
)

// itself makes a link that copies one topic of a cluster under another name of the same cluster.
func itself(topics ...string) func(*Options) {
	return func(o *Options) {
		o.Link.Topics.Include = topics
		o.Link.Topics.Rename = "copy.{topic}"
		o.Interval = 0
	}
}

// From the moment that a new topic's lane is offered, produce is taken, and the topic has the source's settings.
func TestTopics_NewTopicIsOffered(t *testing.T) {
	t.Parallel()
	kafkatest.EachVersion(t, func(t *testing.T, c *kafkatest.Cluster) {
		topic := kafkatest.TopicName(t)
		kafkatest.Topic(t, c) // something to see in the first pass
		s, b := syncer(t, c, c, itself(topic))
		running(t, s)
		kafkatest.Eventually(t, 10*time.Second, func() (bool, string) { return len(s.Topics()) > 0, "no pass yet" })
		kafkatest.CreateTopic(t, c, kafkatest.TopicOptions{Name: topic, Partitions: 5, Configs: map[string]string{
			"retention.ms": "123456789", "cleanup.policy": "compact", "max.message.bytes": "2000000",
		}})
		began := time.Now()
		kafkatest.Eventually(t, 30*time.Second, func() (bool, string) {
			return len(b.lanes()) == 5, fmt.Sprint(b.lanes(), state(t, s, topic))
		})
		t.Logf("offered after %s", time.Since(began).Round(10*time.Millisecond))
		for p := range int32(5) {
			kafkatest.Produce(t, c, "copy."+topic, p, kafkatest.Records(1, 1))
		}
		r, _ := b.find(topic, 0)
		if !r.BornAfterStart || !r.Limits.Compacted() || r.Limits.MaxMessageBytes != 2000000 || r.Limits.AfterMax != 1<<63-1 || r.Limits.SegmentBytes == 0 {
			t.Errorf("offered %+v", r)
		}
		want := map[string]string{
			"retention.ms": "123456789", "cleanup.policy": "compact", "max.message.bytes": "2000000",
			configs.KeyAfterMax: unbounded, configs.KeyBeforeMax: unbounded,
		}
		if diff := cmp.Diff(want, configOf(t, s, "copy."+topic)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestTopics_GrowWithTheSource(t *testing.T) {
	t.Parallel()
	kafkatest.EachVersion(t, func(t *testing.T, c *kafkatest.Cluster) {
		topic := kafkatest.Topic(t, c, kafkatest.TopicOptions{Partitions: 2})
		s, b := syncer(t, c, c, itself(topic))
		running(t, s)
		await(t, s, topic, TopicCopied)
		if _, err := c.Kadm().UpdatePartitions(within(t), 4, topic); err != nil {
			t.Fatal(err)
		}
		kafkatest.Eventually(t, 10*time.Second, func() (bool, string) {
			return len(b.lanes()) == 4, fmt.Sprint(b.lanes(), state(t, s, topic))
		})
		kafkatest.Produce(t, c, "copy."+topic, 3, kafkatest.Records(1, 1))
		if r, _ := b.find(topic, 3); !r.BornAfterStart {
			t.Errorf("offered %+v", r)
		}
	})
}

func TestTopics_DeletedOnTheSource(t *testing.T) {
	t.Parallel()
	kafkatest.EachVersion(t, func(t *testing.T, c *kafkatest.Cluster) {
		topic := kafkatest.Topic(t, c, kafkatest.TopicOptions{Partitions: 2})
		s, b := syncer(t, c, c, itself(topic))
		running(t, s)
		await(t, s, topic, TopicCopied)
		if _, err := c.Kadm().DeleteTopic(within(t), topic); err != nil {
			t.Fatal(err)
		}
		await(t, s, topic, TopicSourceDeleted)
		if got := b.goneFor(model.Lane{Link: "dr", Topic: topic, Partition: 1}); got != model.ReasonSourceDeleted {
			t.Errorf("lane ended for %q", got)
		}
		if n := len(mustMeta(t, s, "copy."+topic).Parts); n != 2 {
			t.Errorf("the target topic has %d partitions", n)
		}
	})
}

// Two instances that both see a new topic: one creates it, both offer its lanes, nothing is an error.
func TestTopics_TwoInstancesCreateAtOnce(t *testing.T) {
	t.Parallel()
	kafkatest.EachVersion(t, func(t *testing.T, c *kafkatest.Cluster) {
		topic := kafkatest.Topic(t, c, kafkatest.TopicOptions{Partitions: 2})
		one, book1 := syncer(t, c, c, itself(topic))
		two, book2 := syncer(t, c, c, itself(topic))
		running(t, one)
		running(t, two)
		await(t, one, topic, TopicCopied)
		await(t, two, topic, TopicCopied)
		if len(book1.lanes()) != 2 || len(book2.lanes()) != 2 {
			t.Errorf("offered %v and %v", book1.lanes(), book2.lanes())
		}
	})
}

// A replication factor that the operator set and the target cannot hold fails that topic alone and says what to do.
func TestTopics_ReplicationFactorTooLarge(t *testing.T) {
	t.Parallel()
	kafkatest.EachVersion(t, func(t *testing.T, c *kafkatest.Cluster) {
		missing, there := kafkatest.Topic(t, c), kafkatest.Topic(t, c)
		kafkatest.Topic(t, c, kafkatest.TopicOptions{Name: "copy." + there})
		s, b := syncer(t, c, c, func(o *Options) {
			itself(missing, there)(o)
			o.Link.ReplicationFactor = 3
		})
		mustOnce(t, s)
		if diff := cmp.Diff([]string{there + "/0"}, b.lanes()); diff != "" {
			t.Error(diff)
		}
		st := state(t, s, missing)
		if st.State != TopicFailed || !strings.Contains(st.Detail, "INVALID_REPLICATION_FACTOR") || !strings.Contains(st.Remedy, "replication_factor") {
			t.Errorf("status %+v", st)
		}
	})
}

// Three replicas and two in sync on the source; the target has one broker: the topic is created so that it takes writes.
func TestTopics_FewerBrokersThanReplicas(t *testing.T) {
	t.Parallel()
	kafkatest.Long(t)
	cs := kafkatest.StartAll(t, kafkatest.Options{Nodes: 3}, kafkatest.Options{})
	src, dst := cs[0], cs[1]
	topic := kafkatest.Topic(t, src, kafkatest.TopicOptions{Partitions: 2, Replicas: 3, Configs: map[string]string{configs.KeyMinISR: "2"}})
	s, _ := syncer(t, src, dst, only(topic))
	mustOnce(t, s)
	st := state(t, s, topic)
	if st.State != TopicCopied || len(st.Left) != 1 || st.Left[0].Key != configs.KeyMinISR {
		t.Errorf("status %+v", st)
	}
	if got := configOf(t, s, topic)[configs.KeyMinISR]; got != "1" {
		t.Errorf("%s is %q", configs.KeyMinISR, got)
	}
	if n := len(mustMeta(t, s, topic).Parts[0].Replicas); n != 1 {
		t.Errorf("%d replicas", n)
	}
	kafkatest.Produce(t, dst, topic, 0, kafkatest.Records(1, 1))
}

// A setting that Kafka 4 does not know any more is left out, and said.
func TestTopics_SettingUnknownToTheTarget(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.Shared(t, kafkatest.Kafka3, 1), kafkatest.Shared(t, kafkatest.Kafka4, 1)
	topic := kafkatest.Topic(t, src, kafkatest.TopicOptions{Configs: map[string]string{
		"message.downconversion.enable": "false", "retention.ms": "5000000",
	}})
	s, _ := syncer(t, src, dst, only(topic))
	mustOnce(t, s)
	st := state(t, s, topic)
	if st.State != TopicCopied || len(st.Left) != 1 || st.Left[0].Key != "message.downconversion.enable" {
		t.Errorf("status %+v", st)
	}
	want := map[string]string{"retention.ms": "5000000", configs.KeyAfterMax: unbounded, configs.KeyBeforeMax: unbounded}
	if diff := cmp.Diff(want, configOf(t, s, topic)); diff != "" {
		t.Error(diff)
	}
}

// Without Create on the target, missing topics name the grant and existing ones are copied. Without Describe on the
// source, a topic is not taken for deleted.
func TestTopics_MissingPermissions(t *testing.T) {
	t.Parallel()
	c := kafkatest.Start(t, kafkatest.Options{
		Authorizer: true, Security: kafkatest.Security{SASL: "PLAIN", Users: map[string]string{"lockstep": "lockstep"}},
	})
	missing, there := kafkatest.Topic(t, c), kafkatest.Topic(t, c)
	for _, topic := range []string{"copy." + there} {
		kafkatest.Topic(t, c, kafkatest.TopicOptions{Name: topic})
	}
	acls := func(topics ...string) *kadm.ACLBuilder {
		return kadm.NewACLs().Allow("User:lockstep").AllowHosts("*").Topics(topics...).
			Operations(kadm.OpDescribe, kadm.OpRead, kadm.OpDescribeConfigs).ResourcePatternType(kadm.ACLPatternLiteral)
	}
	allow(t, c, acls(missing, there, "copy."+there))
	s, b := syncer(t, c, c, func(o *Options) {
		itself(missing, there)(o)
		o.Src, o.Dst = dial(t, "src", c, "lockstep"), dial(t, "dst", c, "lockstep")
		o.Interval = 20 * time.Millisecond
	})
	mustOnce(t, s)
	if diff := cmp.Diff([]string{there + "/0"}, b.lanes()); diff != "" {
		t.Error(diff)
	}
	st := state(t, s, missing)
	if st.State != TopicFailed || !strings.Contains(st.Remedy, "--operation Create --topic copy."+missing) {
		t.Errorf("status %+v", st)
	}
	// The grant comes: the topic is created without a restart.
	running(t, s)
	allow(t, c, kadm.NewACLs().Allow("User:lockstep").AllowHosts("*").Topics("copy."+missing).
		Operations(kadm.OpAll).ResourcePatternType(kadm.ACLPatternLiteral))
	await(t, s, missing, TopicCopied)
	if _, err := c.Kadm().DeleteACLs(within(t), acls(there)); err != nil {
		t.Fatal(err)
	}
	passes(t, s, 6)
	if got := b.goneFor(model.Lane{Link: "dr", Topic: there}); got != model.ReasonNone {
		t.Errorf("a hidden topic's lane ended for %q", got)
	}
}

func allow(t *testing.T, c *kafkatest.Cluster, b *kadm.ACLBuilder) {
	t.Helper()
	created, err := c.Kadm().CreateACLs(within(t), b)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range created {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
}

// passes makes n more passes of a Syncer.
func passes(t *testing.T, s *Syncer, n int) {
	t.Helper()
	for range n {
		if _, err := s.once(context.WithoutCancel(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
}
