package replicator

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"lockstep/internal/kafkatest"
)

// Records that are older than the source's retention survive on a mirror whose retention is open, until the source drops
// them; then the mirror drops the same.
func TestTrim_FollowsRetention(t *testing.T) {
	kafkatest.Long(t)
	often := map[string]string{"log.retention.check.interval.ms": "500"}
	cs := kafkatest.StartAll(t, kafkatest.Options{Version: kafkatest.Kafka3, Properties: often}, kafkatest.Options{Version: kafkatest.Kafka4, Properties: often})
	src, dst := cs[0], cs[1]
	r := newRig(t, src, dst, nil)
	topic := kafkatest.TopicName(t)
	kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: topic, Partitions: 1, Configs: map[string]string{"segment.bytes": "4096", "retention.ms": "-1"}})
	kafkatest.Topic(t, dst, kafkatest.TopicOptions{Name: topic, Partitions: 1, Configs: map[string]string{"retention.ms": "-1"}})
	old := kafkatest.Records(300, 98)
	for _, o := range old {
		o.Timestamp = o.Timestamp.Add(-2 * time.Hour)
	}
	kafkatest.Produce(t, src, topic, 0, old, kafkatest.ProduceOptions{BatchRecords: 7})
	fresh := kafkatest.Records(20, 99)
	for _, f := range fresh {
		f.Timestamp = time.Now().Truncate(time.Millisecond)
	}
	kafkatest.Produce(t, src, topic, 0, fresh, kafkatest.ProduceOptions{})
	r.offer(topic)
	r.copied(topic, 0)
	tr, now := r.trimmer(topic, true)
	tr.Pass(t.Context())
	value := "1800000"
	alter := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &value}}
	if _, err := kadm.NewClient(src.Admin()).AlterTopicConfigs(t.Context(), alter, topic); err != nil {
		t.Fatal(err)
	}
	start := int64(0)
	kafkatest.Eventually(t, orderPatience, func() (bool, string) {
		start = kafkatest.LogStart(t, src, topic, 0)
		return start > 100, fmt.Sprintf("the source begins at %d", start)
	})
	if got := kafkatest.LogStart(t, dst, topic, 0); got != 0 {
		t.Fatalf("the mirror begins at %d by itself", got)
	}
	tr.Pass(t.Context())
	*now = now.Add(25 * time.Hour)
	kafkatest.Eventually(t, orderPatience, func() (bool, string) {
		tr.Pass(t.Context())
		got := kafkatest.LogStart(t, dst, topic, 0)
		return got == start, fmt.Sprintf("the mirror begins at %d, the source at %d", got, start)
	})
	kafkatest.MustEqual(t, src, dst, []kafkatest.Pair{{Src: topic, Dst: topic}})
}
