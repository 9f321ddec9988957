package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/api"
	"lockstep/internal/kafkatest"
)

// A source that does odd things for long, and that must not be taken for something else.
func TestSource_LastingConditions(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	cs := kafkatest.StartAll(t, kafkatest.Options{HeapMB: 384, Properties: map[string]string{"transaction.partition.verification.enable": "false"}},
		kafkatest.Options{HeapMB: 384})
	t.Run("hanging transaction", func(t *testing.T) { hangingTransaction(t, cs[0], cs[1]) })
	t.Run("quota on the source", func(t *testing.T) { throttledBy(t, cs[0], cs[0], cs[1], "consumer_byte_rate", "source") })
	t.Run("quota on the target", func(t *testing.T) { throttledBy(t, cs[1], cs[0], cs[1], "producer_byte_rate", "target") })
}

// A batch of a transaction that no coordinator knows holds the stable end for ever: what is behind it cannot be copied. The
// lane says who holds it, and goes on by itself once it has ended.
func hangingTransaction(t *testing.T, src, dst *kafkatest.Cluster) {
	topic := kafkatest.Topic(t, src)
	some := sequel()
	kafkatest.Produce(t, src, topic, 0, some(20))
	s := newService(t, linkBetween(src, dst, []string{topic})).start()
	s.equal(src, dst, topic)
	const pid, epoch = 7_000_001, 3
	beginHanging(t, src, topic, pid, epoch)
	kafkatest.Produce(t, src, topic, 0, some(15))
	l := s.awaitLane(topic, 0, 150*time.Second, func(l api.LaneDetail) bool { return l.State == "retrying" })
	checkRemedy(t, l.Remedy)
	if l.Reason != "hanging_transaction" {
		t.Errorf("the lane is %+v", l)
	}
	for _, part := range []string{"7000001", "epoch 3", "source offset 20", "16 source offsets"} {
		if !strings.Contains(l.Detail, part) {
			t.Errorf("the detail %q lacks %q", l.Detail, part)
		}
	}
	if age := s.metric("lockstep_open_transaction_seconds", s.link()); age < 60 {
		t.Errorf("lockstep_open_transaction_seconds is %v", age)
	}
	endHanging(t, src, topic, pid, epoch)
	s.awaitLane(topic, 0, 60*time.Second, func(l api.LaneDetail) bool { return l.State == "copying" })
	s.equal(src, dst, topic)
	kafkatest.Eventually(t, 30*time.Second, func() (bool, string) {
		age := s.metric("lockstep_open_transaction_seconds", s.link())
		return age == 0, fmt.Sprint("lockstep_open_transaction_seconds is ", age)
	})
	s.stop()
}

// older is a request that is never sent above a version.
type older struct {
	kmsg.Request
	max int16
}

func (o older) MaxVersion() int16 { return o.max }

// beginHanging writes a batch of a transaction that was never announced to a coordinator, as a late retry once did.
func beginHanging(t *testing.T, c *kafkatest.Cluster, topic string, pid int64, epoch int16) {
	t.Helper()
	const transactional, before = 0x10, 11 // later versions announce it themselves
	b := kafkatest.NewBatch(pid, epoch, 0, 1)
	b.Attrs |= transactional
	req := kmsg.NewPtrProduceRequest()
	req.TransactionID, req.Acks, req.TimeoutMillis = kmsg.StringPtr(topic), -1, 10_000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Records = b.Bytes()
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := kafkatest.Broker(c, c.Leader(t, topic, 0)).Request(t.Context(), older{req, before})
	if err == nil {
		err = kerr.ErrorForCode(resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode)
	}
	if err != nil {
		t.Fatalf("transactional batch: %v", err)
	}
}

// endHanging aborts a transaction at the partition's leader, as kafka-transactions.sh does.
func endHanging(t *testing.T, c *kafkatest.Cluster, topic string, pid int64, epoch int16) {
	t.Helper()
	req := kmsg.NewPtrWriteTxnMarkersRequest()
	rm := kmsg.NewWriteTxnMarkersRequestMarker()
	rm.ProducerID, rm.ProducerEpoch = pid, epoch
	rt := kmsg.NewWriteTxnMarkersRequestMarkerTopic()
	rt.Topic, rt.Partitions = topic, []int32{0}
	rm.Topics = append(rm.Topics, rt)
	req.Markers = append(req.Markers, rm)
	resp, err := req.RequestWith(t.Context(), kafkatest.Broker(c, c.Leader(t, topic, 0)))
	if err == nil {
		err = kerr.ErrorForCode(resp.Markers[0].Topics[0].Partitions[0].ErrorCode)
	}
	if err != nil {
		t.Fatalf("end the transaction: %v", err)
	}
}

// A quota slows the copy down: it shows why it waits, and neither fails nor begins anew.
func throttledBy(t *testing.T, at, src, dst *kafkatest.Cluster, key, side string) {
	topic := kafkatest.Topic(t, src)
	kafkatest.Produce(t, src, topic, 0, noisy(600, 10_000, 1), kafkatest.ProduceOptions{BatchRecords: 20})
	entity := kadm.ClientQuotaEntity{{Type: "client-id"}}
	alter := func(op kadm.AlterClientQuotaOp) {
		t.Helper()
		got, err := at.Kadm().AlterClientQuotas(t.Context(), []kadm.AlterClientQuotaEntry{{Entity: entity, Ops: []kadm.AlterClientQuotaOp{op}}})
		if err == nil {
			err = got[0].Err
		}
		if err != nil {
			t.Fatalf("alter quota: %v", err)
		}
	}
	alter(kadm.AlterClientQuotaOp{Key: key, Value: 300_000})
	s := newService(t, linkBetween(src, dst, []string{topic})).start()
	l := s.awaitLane(topic, 0, 60*time.Second, func(l api.LaneDetail) bool { return l.Reason == "throttled" })
	if l.State != "copying" || !strings.Contains(l.Detail, side+" broker") {
		t.Errorf("the throttled lane is %s: %q", l.State, l.Detail)
	}
	end := kafkatest.End(t, src, topic, 0)
	l = s.awaitLane(topic, 0, 180*time.Second, func(l api.LaneDetail) bool {
		if l.State != "copying" {
			t.Errorf("a quota made the lane %s: %s %s", l.State, l.Reason, l.Detail)
		}
		return l.SourceOffset == end
	})
	if s.metric("lockstep_throttle_seconds_total", s.link(), side) <= 0 {
		t.Error("no throttle time is shown")
	}
	if l.Opening != 1 {
		t.Errorf("the lane was opened %d times", l.Opening)
	}
	alter(kadm.AlterClientQuotaOp{Key: key, Remove: true})
	s.equal(src, dst, topic)
	s.stop()
}
