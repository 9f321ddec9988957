package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"lockstep/internal/kafkatest"
)

// A broker forgets a producer whose newest record is older than producer.id.expiration.ms. Then it takes every sequence,
// also one that it has written already, and nothing but looking at the log keeps the copy exact.
func TestForgottenProducer(t *testing.T) {
	kafkatest.Long(t)
	src, _ := pair(t)
	dst := kafkatest.Start(t, kafkatest.Options{Proxied: true, Properties: map[string]string{
		"producer.id.expiration.ms": "5000", "producer.id.expiration.check.interval.ms": "500"}})
	t.Run("WhileIdle", func(t *testing.T) { forgottenWhileIdle(t, src, dst) })
	t.Run("BetweenSendAndAnswer", func(t *testing.T) { forgottenUnderway(t, src, dst) })
}

// awaitForgotten waits until the partition's leader knows no producer any more.
func awaitForgotten(t *testing.T, c kafkatest.Target, topic string) {
	t.Helper()
	set := make(kadm.TopicsSet)
	set.Add(topic, 0)
	kafkatest.Eventually(t, 30*time.Second, func() (bool, string) {
		got, err := kadm.NewClient(c.Admin()).DescribeProducers(t.Context(), set)
		if err != nil {
			return false, err.Error()
		}
		p := got[topic].Partitions[0]
		return p.Err == nil && len(p.ActiveProducers) == 0, fmt.Sprintf("%+v", p)
	})
}

// fresh gives records the present time.
func fresh(rs []*kgo.Record) []*kgo.Record {
	for _, r := range rs {
		r.Timestamp = time.Now()
	}
	return rs
}

// The lane is idle for so long that it is forgotten; then all of the target's log is deleted; then lockstep dies as well.
func forgottenWhileIdle(t *testing.T, src, dst *kafkatest.Cluster) {
	some := sequel()
	topic := kafkatest.Topic(t, src)
	s := newService(t, linkBetween(src, dst, []string{topic})).start()
	writeFive := func() {
		kafkatest.Produce(t, src, topic, 0, fresh(some(5)))
	}
	writeFive()
	s.equal(src, dst, topic)
	awaitForgotten(t, dst, topic)
	writeFive()
	s.equal(src, dst, topic)
	if n := kafkatest.End(t, dst, topic, 0); n != 10 {
		t.Fatalf("the target ends at %d, want 10", n)
	}
	behind := func(n int64) {
		s.copied(src, topic)
		from := map[int32]int64{0: n}
		kafkatest.MustEqual(t, src, dst, same(topic), kafkatest.CompareOptions{SrcFrom: from})
	}
	deleteBefore(t, dst, topic, 0, 10)
	writeFive()
	behind(10)
	awaitForgotten(t, dst, topic)
	deleteBefore(t, dst, topic, 0, 15)
	writeFive()
	behind(15)
	if s.lane(topic, 0).State != "copying" || markers(t, dst, topic, 0) > 0 {
		t.Errorf("the lane was disturbed: %+v, %d markers", s.lane(topic, 0), markers(t, dst, topic, 0))
	}
	awaitForgotten(t, dst, topic)
	deleteBefore(t, dst, topic, 0, 20)
	s.kill()
	s.start()
	writeFive()
	behind(20)
	s.stop()
}

// Records are old, the broker writes them, its answer is lost, and it is gone and back before they are sent again: it takes
// them a second time if asked to.
func forgottenUnderway(t *testing.T, src, dst *kafkatest.Cluster) {
	some := sequel()
	topic := kafkatest.Topic(t, src)
	old := func() []*kgo.Record {
		rs := some(7)
		for _, r := range rs {
			r.Timestamp = time.Now().Add(-48 * time.Hour)
		}
		return rs
	}
	cl := ownClient(t, src)
	put(t, cl, topic, 0, old())
	s := newService(t, linkBetween(src, dst, []string{topic})).start()
	s.repeats = 60
	s.equal(src, dst, topic)
	for _, away := range []func(testing.TB, int32){dst.Stop, dst.Kill, nil} {
		was := kafkatest.End(t, dst, topic, 0)
		dst.Proxy(1).Mute(true)
		for range 6 {
			put(t, cl, topic, 0, old())
		}
		kafkatest.Eventually(t, 30*time.Second, func() (bool, string) {
			return kafkatest.End(t, dst, topic, 0) > was, "the broker has not written anything"
		})
		if away != nil {
			away(t, 1)
			dst.Proxy(1).Mute(false)
			dst.Restart(t, 1)
		} else {
			awaitForgotten(t, dst, topic)
			dst.Proxy(1).Mute(false)
		}
		s.equal(src, dst, topic)
	}
	s.stop()
}
