package main

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"lockstep/internal/kafkatest"
)

// fill writes n records in batches of ten to every partition of a new topic.
func fillSource(t *testing.T, src kafkatest.Target, parts int32, n int) string {
	t.Helper()
	name := kafkatest.Topic(t, src, kafkatest.TopicOptions{Partitions: parts})
	for p := range parts {
		var rs []*kgo.Record
		for i := range n {
			rs = append(rs, &kgo.Record{Value: fmt.Appendf(nil, "%d/%d", p, i)})
		}
		kafkatest.Produce(t, src, name, p, rs, kafkatest.ProduceOptions{Codec: "lz4", BatchRecords: 10})
	}
	return name
}

func values(rs []*kgo.Record) []string {
	var out []string
	for _, r := range rs {
		out = append(out, string(r.Value))
	}
	return out
}

// A floor that loses or repeats records would be a wrong yardstick.
func TestFloor_CopiesEverythingInOrder(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t, kfake.NumBrokers(1))
	from := fillSource(t, src, partitions, 500)
	to := kafkatest.Topic(t, dst, kafkatest.TopicOptions{Partitions: partitions})
	err := command(t.Context(), []string{"floor", "-src", src.Brokers()[0], "-dst", dst.Brokers()[0], "-topic", from, "-to", to})
	if err != nil {
		t.Fatal(err)
	}
	for p := range int32(partitions) {
		want, got := values(kafkatest.Read(t, src, from, p, true)), values(kafkatest.Read(t, dst, to, p, true))
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("partition %d: -want +got\n%s", p, d)
		}
	}
}

func TestFloor_FollowsUntilItIsStopped(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t, kfake.NumBrokers(1))
	from := kafkatest.Topic(t, src)
	to := kafkatest.Topic(t, dst)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() {
		ended <- command(ctx, []string{"floor", "-src", src.Brokers()[0], "-dst", dst.Brokers()[0], "-topic", from, "-to", to, "-follow"})
	}()
	w := watch{admin: dst.Admin(), topic: to, parts: 1, every: lookEvery}
	for n := range int64(3) {
		kafkatest.Produce(t, src, from, 0, []*kgo.Record{{Value: []byte("x")}})
		if err := w.until(t.Context(), func(sum int64) bool { return sum == n+1 }); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestFloor_StopsWhenTheTargetIsNotEmpty(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t, kfake.NumBrokers(1))
	from := fillSource(t, src, 1, 50)
	to := fillSource(t, dst, 1, 1)
	err := command(t.Context(), []string{"floor", "-src", src.Brokers()[0], "-dst", dst.Brokers()[0], "-topic", from, "-to", to})
	if err == nil {
		t.Error("it copied behind a stranger's record")
	}
}

func TestMeasureTopic_CountsBatches(t *testing.T) {
	t.Parallel()
	src := kafkatest.NewFake(t, kfake.NumBrokers(1))
	name := fillSource(t, src, 2, 40)
	bytes, batches, err := measureTopic(t.Context(), src.Admin(), name)
	if err != nil || batches != 8 || bytes < 8*61 {
		t.Errorf("%d bytes in %d batches, %v; want 8 batches", bytes, batches, err)
	}
}
