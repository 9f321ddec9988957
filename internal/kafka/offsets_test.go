package kafka

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/model"
)

func partsOf(topic string, n int32) []Part {
	var out []Part
	for i := range n {
		out = append(out, Part{Topic: topic, Partition: i})
	}
	return out
}

func TestListOffsets_StartEndAndTime(t *testing.T) {
	t.Parallel()
	fake := newFake(t, kfake.NumBrokers(3), kfake.SeedTopics(6, "t"))
	c := dialFake(t, fake, Options{})
	for i := range int32(6) {
		put(t, c, Part{Topic: "t", Partition: i}, int(i)+1, "x")
	}
	ctx := testContext(t)
	parts := partsOf("t", 6)
	end := c.ListOffsets(ctx, parts, AtEnd, false)
	start := c.ListOffsets(ctx, parts, AtStart, true)
	past := c.ListOffsets(ctx, parts, time.Now().Add(-time.Hour).UnixMilli(), false)
	future := c.ListOffsets(ctx, parts, time.Now().Add(time.Hour).UnixMilli(), false)
	for _, p := range parts {
		if end[p].Offset != int64(p.Partition)+1 || end[p].Err != nil {
			t.Errorf("%s: end %+v", p, end[p])
		}
		if start[p].Offset != 0 || past[p].Offset != 0 || future[p].Offset != -1 {
			t.Errorf("%s: start %+v, past %+v, future %+v", p, start[p], past[p], future[p])
		}
	}
}

func TestListOffsets_AnswersPerPartition(t *testing.T) {
	t.Parallel()
	fake := newFake(t, kfake.NumBrokers(2), kfake.SeedTopics(2, "t"))
	cut := newCutter()
	c := dialFake(t, fake, Options{Dialer: cut.dial, Timeout: 2 * time.Second})
	good := withID(t, c, Part{Topic: "t"})
	for i := range int32(2) {
		if err := fake.MoveTopicPartition("t", i, i); err != nil {
			t.Fatal(err)
		}
	}
	dead := Part{Topic: "t", ID: good.ID, Partition: 1}
	recreated := Part{Topic: "t", ID: model.TopicID{9}}
	unknown := Part{Topic: "none"}
	// Broker 1 cannot be reached any more; metadata still names it.
	cut.setRefused(fake.ListenAddrs()[1], true)
	cut.cut(fake.ListenAddrs()[1])

	got := c.ListOffsets(testContext(t), []Part{good, dead, recreated, unknown}, AtEnd, false)
	if len(got) != 4 {
		t.Fatalf("%d answers", len(got))
	}
	if got[good].Err != nil || got[good].Offset != 0 {
		t.Errorf("good partition: %+v", got[good])
	}
	if !errors.Is(got[recreated].Err, ErrRecreated) || !errors.Is(got[unknown].Err, kerr.UnknownTopicOrPartition) {
		t.Errorf("recreated: %v; unknown: %v", got[recreated].Err, got[unknown].Err)
	}
	if got[dead].Err == nil || got[dead].Offset != -1 {
		t.Errorf("dead broker: %+v", got[dead])
	}
	if action, reason := Classify(got[dead].Err); action != Refresh || reason != model.ReasonNetwork {
		t.Errorf("dead broker: Classify(%v) = %v, %v", got[dead].Err, action, reason)
	}
}

func TestListOffsets_SecondRoundForALeaderThatMoved(t *testing.T) {
	t.Parallel()
	fake := newFake(t, kfake.NumBrokers(2), kfake.SeedTopics(1, "t"))
	c := dialFake(t, fake, Options{})
	p := Part{Topic: "t"}
	asked := 0
	fake.ControlKey(kmsg.ListOffsets.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		if asked++; asked > 1 {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
		rt := kmsg.NewListOffsetsResponseTopic()
		rt.Topic = "t"
		rp := kmsg.NewListOffsetsResponseTopicPartition()
		rp.ErrorCode = kerr.NotLeaderForPartition.Code
		rt.Partitions = append(rt.Partitions, rp)
		resp.Topics = append(resp.Topics, rt)
		return resp, nil, true
	})
	if got := c.ListOffsets(testContext(t), []Part{p}, AtEnd, false)[p]; got.Err != nil || got.Offset != 0 {
		t.Errorf("got %+v", got)
	}
}

func TestListOffsets_ContextEnded(t *testing.T) {
	t.Parallel()
	fake := newFake(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	c := dialFake(t, fake, Options{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	p := Part{Topic: "t"}
	if got := c.ListOffsets(ctx, []Part{p}, AtEnd, false)[p]; !errors.Is(got.Err, context.Canceled) {
		t.Errorf("got %+v", got)
	}
	if got := c.ListOffsets(ctx, nil, AtEnd, false); len(got) != 0 {
		t.Errorf("no partitions: %v", got)
	}
}

func TestListOffsets_CommittedStopsAtAnOpenTransaction(t *testing.T) {
	t.Parallel()
	fake := newFake(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	c := dialFake(t, fake, Options{})
	ctx := testContext(t)
	p := withID(t, c, Part{Topic: "t"})
	put(t, c, p, 3, "x")
	tx, err := c.NewClient("test", kgo.TransactionalID("tx"), kgo.DefaultProduceTopic("t"))
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Close()
	if err := tx.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := tx.ProduceSync(ctx, kgo.StringRecord("open")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	parts := []Part{p}
	if got := c.ListOffsets(ctx, parts, AtEnd, false)[p]; got.Offset != 4 {
		t.Errorf("end %+v, want 4", got)
	}
	if got := c.ListOffsets(ctx, parts, AtEnd, true)[p]; got.Offset != 3 {
		t.Errorf("stable end %+v, want 3", got)
	}
	ps := c.DescribeProducers(ctx, parts)[p]
	if ps.Err != nil || len(ps.Active) != 1 || ps.Active[0].TxnStart != 3 {
		t.Fatalf("producers %+v", ps)
	}
	if _, ok := ps.Find(ps.Active[0].PID); !ok {
		t.Error("Find does not find it")
	}
	if _, ok := ps.Find(-5); ok {
		t.Error("Find found nobody")
	}
	if err := tx.EndTransaction(ctx, kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
}

func TestDescribeProducers_AnswersPerPartition(t *testing.T) {
	t.Parallel()
	fake := newFake(t, kfake.NumBrokers(3), kfake.SeedTopics(3, "t"))
	c := dialFake(t, fake, Options{})
	parts := append(partsOf("t", 3), Part{Topic: "none"})
	got := c.DescribeProducers(testContext(t), parts)
	for _, p := range parts[:3] {
		if got[p].Err != nil {
			t.Errorf("%s: %v", p, got[p].Err)
		}
	}
	if !errors.Is(got[parts[3]].Err, kerr.UnknownTopicOrPartition) {
		t.Errorf("unknown topic: %v", got[parts[3]].Err)
	}
}

func TestReadPartProducers_KeepsEveryField(t *testing.T) {
	t.Parallel()
	in := kmsg.NewDescribeProducersResponseTopicPartition()
	in.ActiveProducers = []kmsg.DescribeProducersResponseTopicPartitionActiveProducer{{
		ProducerID: 7, ProducerEpoch: 3, LastSequence: 41, LastTimestamp: 99, CoordinatorEpoch: 2, CurrentTxnStartOffset: -1,
	}}
	want := Producers{Active: []Producer{{PID: 7, Epoch: 3, LastSequence: 41, LastTimestamp: 99, CoordinatorEpoch: 2, TxnStart: -1}}}
	if diff := cmp.Diff(want, readPartProducers(in)); diff != "" {
		t.Error(diff)
	}
	in.ErrorCode, in.ErrorMessage = kerr.TopicAuthorizationFailed.Code, kmsg.StringPtr("no READ")
	if err := readPartProducers(in).Err; !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Errorf("error %v", err)
	}
}
