package kafka

import (
	"bytes"
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"lockstep/internal/model"
)

func TestReadAt_DataEndAndOutOfRange(t *testing.T) {
	t.Parallel()
	fake := newFake(t, kfake.NumBrokers(2), kfake.SeedTopics(2, "t"))
	c := dialFake(t, fake, Options{})
	ctx := testContext(t)
	for _, p := range []Part{{Topic: "t"}, withID(t, c, Part{Topic: "t", Partition: 1})} {
		put(t, c, p, 5, "hello")
		got, err := c.ReadAt(ctx, p, 2, 1<<20, false)
		if err != nil || !bytes.Contains(got.RecordBatches, []byte("hello")) || got.HighWatermark != 5 {
			t.Errorf("%s: %d bytes, high watermark %d, %v", p, len(got.RecordBatches), got.HighWatermark, err)
		}
		got, err = c.ReadAt(ctx, p, 0, 1, true) // smaller than the batch
		if err != nil || len(got.RecordBatches) == 0 {
			t.Errorf("%s: a batch larger than maxBytes is not delivered: %v", p, err)
		}
		got, err = c.ReadAt(ctx, p, 5, 1<<20, true)
		if err != nil || len(got.RecordBatches) != 0 {
			t.Errorf("%s: at the end: %d bytes, %v", p, len(got.RecordBatches), err)
		}
		if _, err = c.ReadAt(ctx, p, 77, 1<<20, false); !errors.Is(err, kerr.OffsetOutOfRange) {
			t.Errorf("%s: out of range: %v", p, err)
		}
	}
}

func TestReadAt_FollowsTheLeader(t *testing.T) {
	t.Parallel()
	fake := newFake(t, kfake.NumBrokers(2), kfake.SeedTopics(1, "t"))
	cut := newCutter()
	c := dialFake(t, fake, Options{Dialer: cut.dial})
	p := withID(t, c, Part{Topic: "t"})
	put(t, c, p, 1, "x")
	for i := range 4 {
		if err := fake.MoveTopicPartition("t", 0, int32(i%2)); err != nil {
			t.Fatal(err)
		}
		if i == 3 {
			cut.cut("") // an idle connection that the broker closed is no error either
		}
		if got, err := c.ReadAt(testContext(t), p, 0, 1<<20, false); err != nil || len(got.RecordBatches) == 0 {
			t.Errorf("move %d: %v", i, err)
		}
	}
}

func TestReadAt_TopicCreatedAgain(t *testing.T) {
	t.Parallel()
	fake := newFake(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	c := dialFake(t, fake, Options{})
	ctx := testContext(t)
	old := withID(t, c, Part{Topic: "t"})
	put(t, c, old, 1, "old")
	if _, err := c.ReadAt(ctx, old, 0, 1<<20, false); err != nil {
		t.Fatal(err)
	}
	if err := fake.DeleteTopic("t"); err != nil {
		t.Fatal(err)
	}
	if err := fake.CreateTopic("t", 1, nil); err != nil {
		t.Fatal(err)
	}
	put(t, c, Part{Topic: "t"}, 1, "new")
	if _, err := c.ReadAt(ctx, old, 0, 1<<20, false); !errors.Is(err, kerr.UnknownTopicID) {
		t.Errorf("read by the old id: %v", err)
	}
	got, err := c.ReadAt(ctx, Part{Topic: "t"}, 0, 1<<20, false)
	if err != nil || !bytes.Contains(got.RecordBatches, []byte("new")) {
		t.Errorf("read by name: %v", err)
	}
}

func TestReadAt_BrokersWithoutFetchByID(t *testing.T) {
	t.Parallel()
	versions := kversion.V3_0_0() // fetch up to 12
	fake := newFake(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "t"), kfake.MaxVersions(versions))
	c := dialFake(t, fake, Options{})
	p := withID(t, c, Part{Topic: "t"})
	put(t, c, p, 1, "x")
	got, err := c.ReadAt(testContext(t), p, 0, 1<<20, false)
	if err != nil || len(got.RecordBatches) == 0 {
		t.Fatalf("%d bytes, %v", len(got.RecordBatches), err)
	}
	if v, err := c.FetchMaxVersion(testContext(t)); err != nil || v != 12 {
		t.Errorf("FetchMaxVersion = %d, %v", v, err)
	}
}

func TestReadRequest_WithoutAnyIDIsPinnedToNames(t *testing.T) {
	t.Parallel()
	byName := readRequest(Part{Topic: "t"}, leaderInfo{}, 0, 1, false)
	if byName.MaxVersion() != FetchByID-1 {
		t.Errorf("without id: MaxVersion %d", byName.MaxVersion())
	}
	if byID := readRequest(Part{Topic: "t", ID: model.TopicID{1}}, leaderInfo{}, 0, 1, false); byID.MaxVersion() < FetchByID {
		t.Errorf("with id: MaxVersion %d", byID.MaxVersion())
	}
	byMeta := readRequest(Part{Topic: "t"}, leaderInfo{id: model.TopicID{2}}, 0, 1, true).(*kmsg.FetchRequest)
	if byMeta.Topics[0].TopicID != [16]byte{2} || byMeta.IsolationLevel != 1 || byMeta.SessionEpoch != sessionNone {
		t.Errorf("request %+v", byMeta)
	}
}
