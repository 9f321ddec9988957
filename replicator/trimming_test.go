package replicator

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/kafka"
	"lockstep/internal/kafkatest"
	"lockstep/internal/model"
	"lockstep/offsetsync"
	"lockstep/topicsync/drift"
	"lockstep/topicsync/trim"
)

// trimmer returns a Trimmer of the rig's present run for a topic, and its clock.
func (r *rig) trimmer(topic string, made bool) (*trim.Trimmer, *time.Time) {
	r.t.Helper()
	src, err := r.s.Metadata(r.t.Context(), topic)
	if err != nil {
		r.t.Fatal(err)
	}
	dst, err := r.d.Metadata(r.t.Context(), topic)
	if err != nil {
		r.t.Fatal(err)
	}
	now := time.Unix(0, 0)
	topics := []drift.Topic{{Src: topic, Dst: topic, SrcID: src.Topics[topic].ID, DstID: dst.Topics[topic].ID,
		Partitions: len(src.Topics[topic].Parts), DstPartitions: len(dst.Topics[topic].Parts)}}
	return trim.New(trim.Options{Link: r.link, Source: r.s, Target: r.d, Maps: trim.Durable{View: r.view}, Made: func(string, model.TopicID) bool { return made },
		Topics: func() []drift.Topic { return topics }, Now: func() time.Time { return now }, Logger: r.logger()}), &now
}

// drops deletes what a topic's partition 0 holds before an offset, as an operator does.
func (r *rig) drops(c *kafka.Cluster, topic string, before int64) {
	r.t.Helper()
	p := kafka.Part{Topic: topic}
	if got := c.DeleteRecords(r.t.Context(), map[kafka.Part]int64{p: before})[p]; got.Err != nil || got.Offset != before {
		r.t.Fatalf("delete before %d: %+v", before, got)
	}
}

// A mirror begins where its source begins; after a process that ended the moment after the mirror was trimmed, the next
// one goes on without loss or repetition, and offsets are translated as before.
func TestTrim_KilledRightAfter(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, src, dst kafkatest.Target) {
		r := newRig(t, src, dst, nil)
		topic := r.topic(1, map[string]string{"retention.ms": "-1"})
		r.produce(topic, 0, 100)
		r.offer(topic)
		r.copied(topic, 0)
		r.die()
		r.start() // a marker lies between the two parts: offsets differ from here on
		r.offer(topic)
		r.produce(topic, 0, 100)
		r.copied(topic, 0)

		tr, now := r.trimmer(topic, true)
		r.drops(r.s, topic, 130)
		tr.Pass(t.Context())
		if got := kafkatest.LogStart(t, dst, topic, 0); got != 0 {
			t.Fatalf("the mirror begins at %d before the source's start stood for a while", got)
		}
		*now = now.Add(11 * time.Minute)
		want := int64(0)
		kafkatest.Eventually(t, orderPatience, func() (bool, string) {
			tr.Pass(t.Context())
			m, ok := r.view.Translate(r.id(topic, 0), 130)
			want = m.Offset
			got := kafkatest.LogStart(t, dst, topic, 0)
			return ok && m.Kind == offsetsync.Exact && got == m.Offset && got >= 130, fmt.Sprintf("the mirror begins at %d, the map says %+v", got, m)
		})
		r.die()
		r.produce(topic, 0, 50)
		r.start()
		r.offer(topic)
		r.copied(topic, 0)
		if m, ok := r.view.Translate(r.id(topic, 0), 130); !ok || m.Offset != want || m.Kind != offsetsync.Exact {
			t.Errorf("source offset 130 is %+v now, and was %d", m, want)
		}
		kafkatest.MustEqual(t, src, dst, []kafkatest.Pair{{Src: topic, Dst: topic}})
	})
}

// A source that somebody emptied is followed after a day, and the newest record of the mirror stays even then: the next
// process still finds how far the lane came.
func TestTrim_EmptiedSource(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, src, dst kafkatest.Target) {
		r := newRig(t, src, dst, nil)
		topic := r.topic(1, map[string]string{"retention.ms": "-1"})
		r.produce(topic, 0, 100)
		r.offer(topic)
		r.copied(topic, 0)
		tr, now := r.trimmer(topic, true)
		r.drops(r.s, topic, 100)
		tr.Pass(t.Context())
		*now = now.Add(23 * time.Hour)
		tr.Pass(t.Context())
		if got := kafkatest.LogStart(t, dst, topic, 0); got != 0 {
			t.Fatalf("after 23 hours the mirror begins at %d", got)
		}
		*now = now.Add(2 * time.Hour)
		kafkatest.Eventually(t, orderPatience, func() (bool, string) {
			tr.Pass(t.Context())
			got := kafkatest.LogStart(t, dst, topic, 0)
			return got == 99, fmt.Sprintf("the mirror begins at %d", got)
		})
		r.die()
		r.start()
		r.offer(topic)
		r.produce(topic, 0, 10)
		r.copied(topic, 0)
		r.drops(r.d, topic, 100) // what is left to compare is what the source has
		kafkatest.MustEqual(t, src, dst, []kafkatest.Pair{{Src: topic, Dst: topic}})
	})
}

// Topics that lockstep did not make, whose retention somebody set, or that are only compacted are never trimmed.
func TestTrim_LeavesOthersAlone(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, src, dst kafkatest.Target) {
		r := newRig(t, src, dst, nil)
		for _, c := range []struct {
			why      string
			settings map[string]string
			made     bool
		}{
			{"somebody else's", map[string]string{"retention.ms": "-1"}, false},
			{"retention set by hand", map[string]string{"retention.ms": "86400000"}, true},
			{"only compacted", map[string]string{"retention.ms": "-1", "cleanup.policy": "compact"}, true},
		} {
			topic := r.topic(1, c.settings)
			kafkatest.Produce(t, src, topic, 0, kafkatest.KeyedRecords(20, 20, 1), kafkatest.ProduceOptions{})
			r.offer(topic)
			r.copied(topic, 0)
			tr, now := r.trimmer(topic, c.made)
			r.drops(r.s, topic, 10)
			tr.Pass(t.Context())
			*now = now.Add(48 * time.Hour)
			tr.Pass(t.Context())
			if got := kafkatest.LogStart(t, dst, topic, 0); got != 0 || !tr.Can(topic) {
				t.Errorf("%s: the mirror begins at %d, may delete: %v", c.why, got, tr.Can(topic))
			}
		}
	})
}

// Without DELETE on a topic the mirror keeps everything and says so; once it is granted, it follows.
func TestTrim_Denied(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	r := newRig(t, src, dst, nil)
	topic := r.topic(1, map[string]string{"retention.ms": "-1"})
	r.produce(topic, 0, 100)
	r.offer(topic)
	r.copied(topic, 0)
	dst.ControlKey(int16(kmsg.DeleteRecords), func(req kmsg.Request) (kmsg.Response, error, bool) {
		resp := req.ResponseKind().(*kmsg.DeleteRecordsResponse)
		resp.Topics = []kmsg.DeleteRecordsResponseTopic{{Topic: topic,
			Partitions: []kmsg.DeleteRecordsResponseTopicPartition{{LowWatermark: -1, ErrorCode: kerr.TopicAuthorizationFailed.Code}}}}
		return resp, nil, true
	})
	tr, now := r.trimmer(topic, true)
	tr.Pass(t.Context())
	if tr.Can(topic) {
		t.Fatal("it was denied, and does not say so")
	}
	*now = now.Add(6 * time.Minute)
	tr.Pass(t.Context())
	if !tr.Can(topic) || kafkatest.LogStart(t, dst, topic, 0) != 0 {
		t.Errorf("granted by now: may delete: %v, the mirror begins at %d", tr.Can(topic), kafkatest.LogStart(t, dst, topic, 0))
	}
}
