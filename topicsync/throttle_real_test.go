package topicsync

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"lockstep/internal/kafkatest"
)

// A target that lets a client make so many partitions a second: topics that are refused for that wait, and nothing is
// left out.
func TestTopics_TargetLimitsHowFastTopicsAreMade(t *testing.T) {
	kafkatest.Long(t)
	src, dst := kafkatest.Shared(t, kafkatest.Kafka4, 1), kafkatest.Start(t, kafkatest.Options{})
	prefix := kafkatest.TopicName(t) + "-"
	const topics = 40
	for i := range topics {
		kafkatest.CreateTopic(t, src, kafkatest.TopicOptions{Name: fmt.Sprint(prefix, i), Partitions: 5})
	}
	e := kadm.AlterClientQuotaEntry{Entity: kadm.ClientQuotaEntity{{Type: "client-id"}}, Ops: []kadm.AlterClientQuotaOp{{Key: "controller_mutation_rate", Value: 5}}}
	if rs, err := dst.Kadm().AlterClientQuotas(t.Context(), []kadm.AlterClientQuotaEntry{e}); err != nil || rs[0].Err != nil {
		t.Fatalf("quota: %v, %+v", err, rs)
	}
	s, _ := syncer(t, src, dst, func(o *Options) {
		o.Link.Topics.Include = []string{prefix + ".*"}
		o.Interval = 0
	})
	running(t, s)
	throttled := false
	kafkatest.Eventually(t, 3*time.Minute, func() (bool, string) {
		copied, last := 0, TopicStatus{}
		for _, st := range s.Topics() {
			switch {
			case st.State == TopicCopied:
				copied++
			case st.State == TopicFailed:
				t.Fatalf("a topic that has to wait failed: %+v", st)
			case st.Err != nil:
				throttled, last = true, st
			}
		}
		return copied == topics, fmt.Sprintf("%d of %d topics are copied; %+v", copied, topics, last)
	})
	if !throttled {
		t.Error("no topic had to wait: the test did not test much")
	}
}
