package kafkatest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Target is a cluster as clients see it: a *Cluster or a *Fake.
type Target interface {
	Brokers() []string
	Admin() *kgo.Client // all rights, not through a proxy; closed by its owner
}

// TopicOptions describe a topic; zero is one partition, one replica, the broker's defaults.
type TopicOptions struct {
	Name       string // default: unique, from the test's name
	Partitions int32
	Replicas   int16
	Configs    map[string]string
}

var notInTopicName = regexp.MustCompile(`[^a-zA-Z0-9._-]+`)

// TopicName returns a topic name that no other test has: the test's name and a random end.
func TopicName(t testing.TB) string {
	name := notInTopicName.ReplaceAllString(t.Name(), "-")
	return fmt.Sprintf("%.180s-%06x", name, rand.IntN(1<<24))
}

// Topic creates a topic and returns its name when every partition's leader answers, so that produce is taken at once.
func Topic(t testing.TB, c Target, opts ...TopicOptions) string {
	t.Helper()
	var o TopicOptions
	if len(opts) > 0 {
		o = opts[0]
	}
	name := CreateTopic(t, c, o)
	AwaitLeaders(t, c, name)
	return name
}

// CreateTopic is Topic without the wait: its leaders may still refuse.
func CreateTopic(t testing.TB, c Target, o TopicOptions) string {
	t.Helper()
	unique := o.Name == ""
	if unique {
		o.Name = TopicName(t)
	}
	configs := map[string]*string{}
	for k, v := range o.Configs {
		configs[k] = &v
	}
	_, err := kadm.NewClient(c.Admin()).CreateTopic(t.Context(), max(o.Partitions, 1), max(o.Replicas, 1), configs, o.Name)
	if unique && errors.Is(err, kerr.TopicAlreadyExists) {
		err = nil // the client had to send the request twice
	}
	if err != nil {
		t.Fatalf("create topic %s: %v", o.Name, err)
	}
	return o.Name
}

// AwaitLeaders waits until the leader of every partition of the topic answers ListOffsets.
func AwaitLeaders(t testing.TB, c Target, topic string) {
	t.Helper()
	Eventually(t, 30*time.Second, func() (bool, string) {
		parts, err := rawMetadata(t.Context(), c, topic)
		if err != nil {
			return false, err.Error()
		}
		if err := allLeadersAnswer(t.Context(), c, topic, parts); err != nil {
			return false, err.Error()
		}
		return true, ""
	})
}

// End returns the offset behind the last record of the partition (the high watermark).
func End(t testing.TB, c Target, topic string, partition int32) int64 {
	t.Helper()
	return mustOffset(t, c, topic, partition, latest, false)
}

// StableEnd returns the last stable offset: where an open transaction begins, else the end.
func StableEnd(t testing.TB, c Target, topic string, partition int32) int64 {
	t.Helper()
	return mustOffset(t, c, topic, partition, latest, true)
}

// LogStart returns the first offset of the partition.
func LogStart(t testing.TB, c Target, topic string, partition int32) int64 {
	t.Helper()
	return mustOffset(t, c, topic, partition, earliest, false)
}

func mustOffset(t testing.TB, c Target, topic string, partition int32, at int64, committed bool) int64 {
	t.Helper()
	n, err := askLeader(t.Context(), c, topic, partition, func(p leaderOf) (int64, error) {
		return listOffset(t.Context(), c, topic, p, at, committed)
	})
	if err != nil {
		t.Fatalf("list offset of %s/%d: %v", topic, partition, err)
	}
	return n
}

// Broker returns a client's handle of one broker, for raw requests.
func Broker(c Target, id int32) *kgo.Broker { return c.Admin().Broker(int(id)) }
