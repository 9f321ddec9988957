package kafkatest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// onEveryBroker runs a fact against both Kafka versions and against kfake.
func onEveryBroker(t *testing.T, fn func(t *testing.T, c Target)) {
	t.Helper()
	EachVersion(t, func(t *testing.T, c *Cluster) { fn(t, c) })
	t.Run("kfake", func(t *testing.T) {
		t.Parallel()
		fn(t, NewFake(t))
	})
}

// onKafka runs a fact that kfake does not share.
func onKafka(t *testing.T, fn func(t *testing.T, c Target)) {
	t.Helper()
	EachVersion(t, func(t *testing.T, c *Cluster) { fn(t, c) })
}

// eachOwn runs a fact against a cluster of its own, both versions at the same time.
func eachOwn(t *testing.T, o Options, fn func(t *testing.T, c *Cluster)) {
	t.Helper()
	for _, v := range Versions() {
		t.Run(v, func(t *testing.T) {
			t.Parallel()
			o := o
			o.Version = v
			fn(t, Start(t, o))
		})
	}
}

// step is one produce request of a fact and the answer that it gets.
type step struct {
	what string
	b    Batch
	want string // Kafka's error name, "NONE" for success
	at   int64  // offset of the answer when want is "NONE"; anyOffset is not compared
}

const (
	anyOffset = int64(-99)
	ok        = "NONE"
)

// runSteps sends the steps to one partition, one after the other, and checks that a refusal writes nothing.
func runSteps(t *testing.T, c Target, topic string, partition int32, steps ...step) {
	t.Helper()
	for _, s := range steps {
		end := End(t, c, topic, partition)
		got := ProduceRaw(t, c, topic, partition, s.b.Bytes())
		if name := ErrorName(got.ErrorCode); name != s.want {
			t.Fatalf("%s: answer %s, want %s", s.what, name, s.want)
		}
		if s.want == ok && s.at != anyOffset && got.BaseOffset != s.at {
			t.Fatalf("%s: offset %d, want %d", s.what, got.BaseOffset, s.at)
		}
		if now := End(t, c, topic, partition); s.want != ok && now != end {
			t.Fatalf("%s: refused, yet the end moved from %d to %d", s.what, end, now)
		}
	}
}

// strangeID returns a producer id that no coordinator hands out in the life of a test cluster.
func strangeID() int64 {
	return 1<<40 + time.Now().UnixNano()%(1<<39)
}

// txnIDFor returns a transactional id that no other test uses.
func txnIDFor(t *testing.T) string { return TopicName(t) }

// initProducer takes a producer id and epoch; txnID "" asks for a plain idempotent one. It waits while the
// coordinator is not there yet or a transaction is being ended.
func initProducer(t *testing.T, c Target, txnID string) (pid int64, epoch int16) {
	t.Helper()
	Eventually(t, 30*time.Second, func() (bool, string) {
		r, err := tryInitProducer(t.Context(), c, txnID, 60_000)
		if err != nil {
			return false, err.Error()
		}
		pid, epoch = r.ProducerID, r.ProducerEpoch
		return r.ErrorCode == 0, "InitProducerId: " + ErrorName(r.ErrorCode)
	})
	return pid, epoch
}

func tryInitProducer(ctx context.Context, c Target, txnID string, timeoutMs int32) (*kmsg.InitProducerIDResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionTimeoutMillis = timeoutMs
	req.ProducerID, req.ProducerEpoch = -1, -1
	if txnID != "" {
		req.TransactionalID = &txnID
	}
	return req.RequestWith(ctx, c.Admin())
}

// marker is one WriteTxnMarkers entry: an abort of this producer and epoch on partitions of one topic.
type marker struct {
	pid       int64
	epoch     int16
	coord     int32 // coordinator epoch
	partition int32
	topic     string
}

// writeMarkers sends one request with all markers to a broker and returns the error names, in the same order.
func writeMarkers(t *testing.T, c Target, broker int32, ms ...marker) []string {
	t.Helper()
	out, err := tryWriteMarkers(t, c, broker, ms...)
	if err != nil {
		t.Fatalf("write markers: %v", err)
	}
	return out
}

// tryWriteMarkers is writeMarkers that returns an error of the connection.
func tryWriteMarkers(t *testing.T, c Target, broker int32, ms ...marker) ([]string, error) {
	t.Helper()
	req := kmsg.NewPtrWriteTxnMarkersRequest()
	for _, m := range ms {
		rm := kmsg.NewWriteTxnMarkersRequestMarker()
		rm.ProducerID, rm.ProducerEpoch, rm.CoordinatorEpoch = m.pid, m.epoch, m.coord
		rt := kmsg.NewWriteTxnMarkersRequestMarkerTopic()
		rt.Topic, rt.Partitions = m.topic, []int32{m.partition}
		rm.Topics = append(rm.Topics, rt)
		req.Markers = append(req.Markers, rm)
	}
	resp, err := Broker(c, broker).Request(t.Context(), req)
	if err != nil {
		return nil, err
	}
	return markerAnswers(t, resp.(*kmsg.WriteTxnMarkersResponse), ms), nil
}

// markerAnswers lines the answers up with the request: an answer is named by producer id, topic and partition.
func markerAnswers(t *testing.T, resp *kmsg.WriteTxnMarkersResponse, ms []marker) []string {
	t.Helper()
	type key struct {
		pid       int64
		topic     string
		partition int32
	}
	got := map[key]string{}
	for _, m := range resp.Markers {
		for _, topic := range m.Topics {
			for _, p := range topic.Partitions {
				got[key{m.ProducerID, topic.Topic, p.Partition}] = ErrorName(p.ErrorCode)
			}
		}
	}
	var out []string
	for _, m := range ms {
		name, ok := got[key{m.pid, m.topic, m.partition}]
		if !ok {
			t.Fatalf("write markers: no answer for %s/%d", m.topic, m.partition)
		}
		out = append(out, name)
	}
	return out
}

// sealDirect writes one marker at the partition's leader with coordinator epoch 0 and fails the test on a refusal.
func sealDirect(t *testing.T, c Target, topic string, partition int32, pid int64, epoch int16) {
	t.Helper()
	leader := leaderNow(t, c, topic, partition)
	if got := writeMarkers(t, c, leader, marker{pid: pid, epoch: epoch, topic: topic, partition: partition}); got[0] != ok {
		t.Fatalf("seal %s/%d: %s", topic, partition, got[0])
	}
}

func leaderNow(t *testing.T, c Target, topic string, partition int32) int32 {
	t.Helper()
	parts, err := rawMetadata(t.Context(), c, topic)
	if err != nil {
		t.Fatal(err)
	}
	return parts[partition].leader
}

// producers returns the partition's active producers as its leader describes them.
func producers(t *testing.T, c Target, topic string, partition int32) []kmsg.DescribeProducersResponseTopicPartitionActiveProducer {
	t.Helper()
	req := kmsg.NewPtrDescribeProducersRequest()
	rt := kmsg.NewDescribeProducersRequestTopic()
	rt.Topic, rt.Partitions = topic, []int32{partition}
	req.Topics = append(req.Topics, rt)
	resp, err := Broker(c, leaderNow(t, c, topic, partition)).Request(t.Context(), req)
	if err != nil {
		t.Fatalf("describe producers: %v", err)
	}
	p := resp.(*kmsg.DescribeProducersResponse).Topics[0].Partitions[0]
	if p.ErrorCode != 0 {
		t.Fatalf("describe producers: %s", ErrorName(p.ErrorCode))
	}
	return p.ActiveProducers
}

// producer returns the description of one producer id; the test fails when it is not listed.
func producer(t *testing.T, c Target, topic string, partition int32, pid int64) kmsg.DescribeProducersResponseTopicPartitionActiveProducer {
	t.Helper()
	ps := producers(t, c, topic, partition)
	i := slices.IndexFunc(ps, func(p kmsg.DescribeProducersResponseTopicPartitionActiveProducer) bool { return p.ProducerID == pid })
	if i < 0 {
		t.Fatalf("producer %d is not listed on %s/%d: %+v", pid, topic, partition, ps)
	}
	return ps[i]
}

// addPartitions adds partitions (topic to partitions) to the id's transaction and returns an error name per topic.
func addPartitions(t *testing.T, c Target, txnID string, pid int64, epoch int16, topics map[string][]int32) map[string]string {
	t.Helper()
	var out map[string]string
	Eventually(t, 30*time.Second, func() (bool, string) {
		out = tryAddPartitions(t, c, txnID, pid, epoch, topics)
		for _, name := range out {
			if name == kerr.ConcurrentTransactions.Message || name == kerr.NotCoordinator.Message || name == kerr.CoordinatorLoadInProgress.Message {
				return false, fmt.Sprintf("AddPartitionsToTxn: %v", out)
			}
		}
		return true, ""
	})
	return out
}

func tryAddPartitions(t *testing.T, c Target, txnID string, pid int64, epoch int16, topics map[string][]int32) map[string]string {
	t.Helper()
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = txnID, pid, epoch
	for name, ps := range topics {
		rt := kmsg.NewAddPartitionsToTxnRequestTopic()
		rt.Topic, rt.Partitions = name, ps
		req.Topics = append(req.Topics, rt)
	}
	resp, err := req.RequestWith(t.Context(), c.Admin()) // kgo sends version 3 to the coordinator
	if err != nil {
		t.Fatalf("add partitions: %v", err)
	}
	out := map[string]string{}
	for _, topic := range resp.Topics {
		for _, p := range topic.Partitions {
			out[topic.Topic] = ErrorName(p.ErrorCode)
		}
	}
	return out
}

// endTxn ends the id's transaction and returns the answer as it is.
func endTxn(t *testing.T, c Target, txnID string, pid int64, epoch int16, commit bool) *kmsg.EndTxnResponse {
	t.Helper()
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = txnID, pid, epoch, commit
	resp, err := req.RequestWith(t.Context(), c.Admin())
	if err != nil {
		t.Fatalf("end transaction: %v", err)
	}
	return resp
}

// awaitMarker waits until a marker of the producer stands in the partition's log behind from, and returns its offset.
func awaitMarker(t *testing.T, c Target, topic string, partition int32, pid int64, from int64) (at int64) {
	t.Helper()
	Eventually(t, 30*time.Second, func() (bool, string) {
		for _, h := range Headers(t, c, topic, partition, from) {
			if h.Control() && h.PID == pid && h.BaseOffset >= from {
				at = h.BaseOffset
				return true, ""
			}
		}
		return false, fmt.Sprintf("no marker of producer %d in %s/%d from %d on", pid, topic, partition, from)
	})
	return at
}

// deleteToEnd moves the partition's log start to its end.
func deleteToEnd(t *testing.T, c Target, topic string, partition int32) string {
	t.Helper()
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 10_000
	rt := kmsg.NewDeleteRecordsRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewDeleteRecordsRequestTopicPartition()
	rp.Partition, rp.Offset = partition, -1
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := Broker(c, leaderNow(t, c, topic, partition)).Request(t.Context(), req)
	if err != nil {
		t.Fatalf("delete records: %v", err)
	}
	return ErrorName(resp.(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0].ErrorCode)
}
