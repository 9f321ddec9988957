package statelog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestFollow_FromTheStartInOrder(t *testing.T) {
	t.Parallel()
	l, _ := ready(t)
	es, before := numbered(3, 0, 500)
	put(t, l, es...)
	f := follow(t, l)
	es, after := numbered(3, 500, 1000)
	other, otherKeys := numbered(9, 0, 10)
	put(t, l, append(other, es...)...)
	barrier(t, l)
	equal(t, "partition 3", f.keys(3), append(before, after...))
	equal(t, "partition 9", f.keys(9), otherKeys)
	if s := l.Stats(); s.Entries != 1010 || s.Bytes == 0 || s.Read == 0 {
		t.Errorf("stats: %+v", s)
	}
}

func TestFollow_TombstoneAndEmptyValueDiffer(t *testing.T) {
	t.Parallel()
	l, _ := ready(t)
	put(t, l, Entry{Key: "gone"}, Entry{Key: "empty", Value: []byte{}}, Entry{Key: "full", Value: []byte("x")})
	f := follow(t, l)
	barrier(t, l)
	got := f.entries
	if len(got) != 3 || got[0].Value != nil || got[1].Value == nil || string(got[2].Value) != "x" {
		t.Errorf("got %+v", got)
	}
	for i, e := range got {
		if e.Offset != int64(i) || e.Time.IsZero() {
			t.Errorf("%s: offset %d, time %s", e.Key, e.Offset, e.Time)
		}
	}
}

func TestPut_ManyCallersKeepTheirOrder(t *testing.T) {
	t.Parallel()
	l, _ := ready(t)
	f := follow(t, l)
	var wg sync.WaitGroup
	for c := range 8 {
		wg.Go(func() {
			for i := range 40 {
				var es []Entry
				for p := range int32(3) {
					es = append(es, Entry{Partition: p, Key: fmt.Sprintf("%d/%d", c, i), Value: []byte("v")})
				}
				if err := l.Put(testContext(t), es...); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	barrier(t, l)
	for p := range int32(3) {
		next := map[string]int{}
		for _, key := range f.keys(p) {
			parts, _ := SplitKey(key)
			if want := fmt.Sprint(next[parts[0]]); parts[1] != want {
				t.Fatalf("partition %d: caller %s's entry %s came when %s was due", p, parts[0], parts[1], want)
			}
			next[parts[0]]++
		}
		if len(next) != 8 || next["5"] != 40 {
			t.Errorf("partition %d: %v", p, next)
		}
	}
}

func TestQueue_OrderIsThatOfTheCalls(t *testing.T) {
	t.Parallel()
	l, _ := ready(t)
	f := follow(t, l)
	var want []string
	var waits []func(context.Context) error
	for i := range 200 {
		key := fmt.Sprint(i)
		wait, err := l.Queue(testContext(t), Entry{Partition: 5, Key: key, Value: []byte("v")})
		if err != nil {
			t.Fatal(err)
		}
		want, waits = append(want, key), append(waits, wait)
	}
	for _, wait := range waits {
		if err := wait(testContext(t)); err != nil {
			t.Fatal(err)
		}
	}
	barrier(t, l)
	equal(t, "partition 5", f.keys(5), want)
}

func TestPut_Refusals(t *testing.T) {
	t.Parallel()
	l, _ := ready(t)
	if err := l.Put(testContext(t), Entry{Partition: Partitions, Key: "x"}); err == nil {
		t.Error("a partition that does not exist was accepted")
	}
	if err := l.Put(testContext(t)); err != nil {
		t.Errorf("nothing to write: %v", err)
	}
	l.Close()
	if err := l.Put(testContext(t), Entry{Key: "x"}); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestPut_ContextEndsTheWaiting(t *testing.T) {
	t.Parallel()
	l, fake := ready(t)
	put(t, l, Entry{Key: "first", Value: []byte("v")})
	failProduces(fake, kerr.NotEnoughReplicas, 1_000_000)
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the lane moved")
	cancel(gone)
	if err := l.Put(ctx, Entry{Key: "second", Value: []byte("v")}); !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
}

func TestPut_RefusedWhileTooMuchIsOutstanding(t *testing.T) {
	t.Parallel()
	l, fake := ready(t)
	l.backlog = 3
	put(t, l, Entry{Key: "first", Value: []byte("v")})
	failProduces(fake, kerr.NotEnoughReplicas, 1_000_000)
	for range 4 {
		if _, err := l.Queue(testContext(t), Entry{Key: "more", Value: []byte("v")}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Put(testContext(t), Entry{Key: "more", Value: []byte("v")}); !errors.Is(err, ErrBacklog) {
		t.Errorf("got %v", err)
	}
}

func TestPut_WritesOnUnderAnotherProducer(t *testing.T) {
	t.Parallel()
	l, fake := ready(t)
	put(t, l, Entry{Key: "first", Value: []byte("v")})
	failProduces(fake, kerr.OutOfOrderSequenceNumber, 1)
	if err := l.Put(testContext(t), Entry{Key: "second", Value: []byte("v")}); !errors.Is(err, kerr.OutOfOrderSequenceNumber) {
		t.Fatalf("got %v", err)
	}
	put(t, l, Entry{Key: "third", Value: []byte("v")})
	f := follow(t, l)
	barrier(t, l)
	equal(t, "partition 0", f.keys(0), []string{"first", "third"})
}

func TestFollow_LeadersMoveAndBrokersComeAndGo(t *testing.T) {
	t.Parallel()
	l, fake := ready(t, kfake.NumBrokers(3))
	f := follow(t, l)
	want := map[int32][]string{}
	for round := range 12 {
		for p := range int32(Partitions) {
			es, keys := numbered(p, round*20, round*20+20)
			put(t, l, es...)
			want[p] = append(want[p], keys...)
			if round%3 == 1 {
				if err := fake.MoveTopicPartition(l.Topic(), p, int32(round+int(p))%3); err != nil {
					t.Fatal(err)
				}
			}
		}
		if round%3 == 2 {
			fake.ShufflePartitionLeaders()
		}
	}
	node, _, err := fake.AddNode(-1, 0)
	if err != nil {
		t.Fatal(err)
	}
	for p := range int32(Partitions) {
		if err := fake.MoveTopicPartition(l.Topic(), p, node); err != nil {
			t.Fatal(err)
		}
	}
	if err := fake.RemoveNode(0); err != nil {
		t.Fatal(err)
	}
	es, keys := numbered(2, 1000, 1020)
	put(t, l, es...)
	want[2] = append(want[2], keys...)
	barrier(t, l)
	for p := range int32(Partitions) {
		equal(t, fmt.Sprint("partition ", p), f.keys(p), want[p])
	}
}

func TestFollow_BrokerErrorsPass(t *testing.T) {
	t.Parallel()
	l, fake := ready(t)
	put(t, l, Entry{Key: "a", Value: []byte("v")})
	left := []*kerr.Error{kerr.UnknownServerError, kerr.KafkaStorageError, kerr.OffsetNotAvailable, kerr.FencedLeaderEpoch, nil}
	fake.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		if len(left) == 0 {
			return nil, nil, false
		}
		fake.KeepControl()
		next := left[0]
		left = left[1:]
		if next == nil {
			return nil, errors.New("the connection breaks"), true
		}
		return refuseFetch(req.(*kmsg.FetchRequest), next), nil, true
	})
	f := follow(t, l)
	barrier(t, l)
	equal(t, "partition 0", f.keys(0), []string{"a"})
}

func refuseFetch(r *kmsg.FetchRequest, e *kerr.Error) kmsg.Response {
	resp := r.ResponseKind().(*kmsg.FetchResponse)
	for _, t := range r.Topics {
		rt := kmsg.NewFetchResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			rp := kmsg.NewFetchResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, e.Code
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

func TestFollow_EndsWithWhatDoesNotPass(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do   func(t *testing.T, l *Log, admin *kadm.Client)
		want error
	}{
		"the topic is created again": {func(t *testing.T, l *Log, admin *kadm.Client) {
			t.Helper()
			if _, err := admin.DeleteTopic(testContext(t), l.Topic()); err != nil {
				t.Fatal(err)
			}
			if err := l.Ensure(testContext(t)); err != nil {
				t.Fatal(err)
			}
		}, ErrLost},
		"records that were not read yet are deleted": {func(t *testing.T, l *Log, admin *kadm.Client) {
			t.Helper()
			es, _ := numbered(0, 0, 10)
			put(t, l, es...)
			offsets := kadm.Offsets{}
			offsets.AddOffset(l.Topic(), 0, 10, -1)
			if _, err := admin.DeleteRecords(testContext(t), offsets); err != nil {
				t.Fatal(err)
			}
		}, ErrLost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, fake := ready(t)
			put(t, l, Entry{Key: "a", Value: []byte("v")})
			held := make(chan struct{})
			reading := make(chan struct{}, 100)
			done := make(chan error, 1)
			go func() {
				done <- l.Follow(testContext(t), func([]Entry) {
					reading <- struct{}{}
					<-held
				})
			}()
			<-reading // it stands still while the log changes
			c.do(t, l, kadm.NewClient(fake.Admin()))
			close(held)
			if err := <-done; !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

func TestFollow_WithoutTopic(t *testing.T) {
	t.Parallel()
	l, _ := newLog(t)
	if err := l.Follow(testContext(t), func([]Entry) {}); !errors.Is(err, ErrNoTopic) {
		t.Errorf("got %v", err)
	}
}

func TestFollow_OnceAtATime(t *testing.T) {
	t.Parallel()
	l, _ := ready(t)
	f := follow(t, l)
	barrier(t, l)
	if err := l.Follow(testContext(t), func([]Entry) {}); !errors.Is(err, ErrFollowed) {
		t.Errorf("got %v", err)
	}
	f.stop()
	if err := <-f.err; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if err := l.Barrier(testContext(t)); err == nil {
		t.Error("a barrier behind an ended Follow is passed")
	}
	put(t, l, Entry{Key: "a", Value: []byte("v")})
	again := follow(t, l)
	barrier(t, l)
	equal(t, "partition 0", again.keys(0), []string{"a"})
}

func TestBarrier_EmptyLog(t *testing.T) {
	t.Parallel()
	l, _ := ready(t)
	follow(t, l)
	barrier(t, l)
}

func TestBarrier_NoRecordAtTheEnd(t *testing.T) {
	t.Parallel()
	l, fake := ready(t)
	f := follow(t, l)
	barrier(t, l)
	put(t, l, Entry{Partition: 4, Key: "a", Value: []byte("v")})
	writeMarkers(t, fake, l.Topic(), 4, 3)
	writeMarkers(t, fake, l.Topic(), 5, 2)
	barrier(t, l)
	equal(t, "partition 4", f.keys(4), []string{"a"})
	if pos := l.follow.pos; pos[4] != 4 || pos[5] != 2 {
		t.Errorf("positions %v", pos)
	}
}

func TestBarrier_BehindCompactedOffsets(t *testing.T) {
	t.Parallel()
	l, fake := ready(t)
	for range 50 {
		put(t, l, Entry{Partition: 1, Key: "same", Value: []byte("v")})
	}
	put(t, l, Entry{Partition: 1, Key: "last", Value: []byte("v")})
	fake.Compact()
	f := follow(t, l)
	barrier(t, l)
	if got := f.keys(1); len(got) > 10 || got[len(got)-1] != "last" {
		t.Errorf("delivered %v", got)
	}
	writeMarkers(t, fake, l.Topic(), 1, 1)
	barrier(t, l)
}

func TestBarrier_CoversEveryPutBefore(t *testing.T) {
	t.Parallel()
	l, _ := ready(t)
	f := follow(t, l)
	for i := range 60 {
		p := int32(i % Partitions)
		put(t, l, Entry{Partition: p, Key: fmt.Sprint(i), Value: []byte("v")})
		barrier(t, l)
		if keys := f.keys(p); len(keys) == 0 || keys[len(keys)-1] != fmt.Sprint(i) {
			t.Fatalf("entry %d was not delivered: %v", i, keys)
		}
	}
}

func TestLastEpoch_CountsEmptyBatches(t *testing.T) {
	t.Parallel()
	raw := func(epoch int32, cut int) []byte {
		b := kmsg.RecordBatch{PartitionLeaderEpoch: epoch, Magic: 2}
		out := b.AppendTo(nil)
		out[11] = byte(len(out) - 12)
		return out[:len(out)-cut]
	}
	if e, ok := lastEpoch(append(append(raw(3, 0), raw(5, 0)...), raw(9, 1)...)); !ok || e != 5 {
		t.Errorf("got %d, %v", e, ok)
	}
	if _, ok := lastEpoch(raw(9, 1)); ok {
		t.Error("a cut batch has an epoch")
	}
}

func FuzzLastEpoch(f *testing.F) {
	f.Add([]byte{})
	f.Add(make([]byte, 61))
	f.Fuzz(func(_ *testing.T, b []byte) { lastEpoch(b) })
}
