package term

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/kafkatest"
	"lockstep/internal/model"
)

// entry is one log entry of a test: a marker, or n records.
type entry struct {
	marker bool
	pid    int64
	epoch  int16
	n      int32
}

// log builds the bytes of a log from offset base on.
func log(base int64, es ...entry) []byte {
	var raw []byte
	for _, e := range es {
		b := kmsg.RecordBatch{
			FirstOffset: base, PartitionLeaderEpoch: 1, Magic: 2, ProducerID: e.pid, ProducerEpoch: e.epoch, FirstSequence: -1,
		}
		n := max(e.n, 1)
		b.LastOffsetDelta, b.NumRecords = n-1, n
		if e.marker {
			b.Attributes = 0x30 // transactional, control
			key := []byte{0, 0, 0, 0}
			value := []byte{0, 0, 0, 0, 0, 0}
			rec := kmsg.Record{Key: key, Value: value}
			body := rec.AppendTo(nil)
			rec.Length = int32(len(body) - 1)
			b.Records = rec.AppendTo(nil)
		}
		b.Length = int32(49 + len(b.Records))
		bytes := b.AppendTo(nil)
		binary.BigEndian.PutUint32(bytes[17:], crc32.Checksum(bytes[21:], crc32.MakeTable(crc32.Castagnoli)))
		raw = append(raw, bytes...)
		base += int64(n)
	}
	return raw
}

func TestScan(t *testing.T) {
	t.Parallel()
	const pid, epoch = 7, 3
	mine := entry{marker: true, pid: pid, epoch: epoch}
	for name, tc := range map[string]struct {
		raw            []byte
		from           int64
		marker, search int64
		read           bool
		err            error
	}{
		"nothing":                  {nil, 5, -1, 5, false, nil},
		"at once":                  {log(5, mine), 5, 5, 6, true, nil},
		"behind a late batch":      {log(5, entry{pid: pid, epoch: 2, n: 10}, mine), 5, 15, 16, true, nil},
		"inside of a batch":        {log(0, entry{pid: pid, epoch: 2, n: 10}, mine), 5, 10, 11, true, nil},
		"two in a row":             {log(5, mine, mine), 5, 6, 7, true, nil},
		"then data":                {log(5, mine, entry{pid: pid, epoch: epoch, n: 4}, mine), 5, 5, 6, true, nil},
		"of another id":            {log(5, entry{marker: true, pid: 8, epoch: epoch}), 5, -1, 6, true, nil},
		"of an older epoch":        {log(5, entry{marker: true, pid: pid, epoch: 2}), 5, -1, 6, true, nil},
		"of a newer epoch":         {log(5, entry{marker: true, pid: pid, epoch: 4}, mine), 5, -1, 5, true, ErrSuperseded},
		"data of that epoch":       {log(5, entry{pid: pid, epoch: epoch, n: 2}), 5, -1, 7, true, nil},
		"a marker that lies below": {log(4, mine), 5, -1, 5, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := makeJobs(model.Term{N: 1, PID: pid, Epoch: epoch}, targets("t", 1))[0]
			j.search = tc.from
			read := j.scan(tc.raw)
			if j.marker != tc.marker || j.search != tc.search || read != tc.read || !errors.Is(j.err, tc.err) {
				t.Errorf("marker %d, search %d, read %t, %v", j.marker, j.search, read, j.err)
			}
		})
	}
}

// A leader that moves between the marker and reading it back is found again.
func TestSeal_FakeLeaderMovesBeforeReadingBack(t *testing.T) {
	t.Parallel()
	c, dst, old, now, ts := fakeSeal(t, 3)
	var once sync.Once
	c.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		once.Do(func() {
			for _, target := range ts {
				to := (c.LeaderFor(target.Topic, target.Partition) + 1) % 3
				if err := c.MoveTopicPartition(target.Topic, target.Partition, to); err != nil {
					t.Error(err)
				}
			}
		})
		return nil, nil, false
	})
	got, _ := NewSealer(dst, "dr", Options{}).Seal(within(t), now, ts)
	for _, target := range ts {
		checkSealed(t, c, got[target.Part], target.Part, old, now, 4)
	}
}

// What a stale owner writes between the question for the end and the marker lies below the marker, however large.
func TestSeal_StaleOwnerWritesUpToTheMarker(t *testing.T) {
	t.Parallel()
	kafkatest.EachVersion(t, func(t *testing.T, c *kafkatest.Cluster) {
		dst := dial(t, c)
		topic := kafkatest.Topic(t, c, kafkatest.TopicOptions{Partitions: 8})
		old, now, ts := twoTerms(t, c, dst, topic, topic, 8, 1)
		stop, done := make(chan struct{}), make(chan int64, len(ts))
		for _, target := range ts {
			go func() { done <- writeUntilRefused(t, c, topic, target.Partition, old, stop) }()
		}
		kafkatest.Eventually(t, 20*time.Second, func() (bool, string) {
			end := kafkatest.End(t, c, topic, 7)
			return end > 20, fmt.Sprint(end)
		})
		got, _ := NewSealer(dst, topic, Options{}).Seal(within(t), now, ts)
		close(stop)
		for range ts {
			<-done
		}
		for _, target := range ts {
			o := got[target.Part]
			if !o.Sealed() || o.Marker+1 != kafkatest.End(t, c, topic, target.Partition) {
				t.Errorf("%s: %+v, end %d", target.Part, o, kafkatest.End(t, c, topic, target.Partition))
			}
		}
	})
}

// writeUntilRefused is a stale owner; it returns how many batches were taken.
func writeUntilRefused(t *testing.T, c kafkatest.Target, topic string, partition int32, term model.Term, stop <-chan struct{}) int64 {
	t.Helper()
	for seq := int32(1); ; seq++ {
		select {
		case <-stop:
			return int64(seq)
		default:
		}
		if answer := write(t, c, topic, partition, term, seq, 1); answer != "NONE" {
			if answer != "INVALID_PRODUCER_EPOCH" {
				t.Errorf("stale owner's batch: %s", answer)
			}
			return int64(seq)
		}
	}
}

// Thousands of lanes are sealed in a few requests.
func TestSeal_FakeManyPartitions(t *testing.T) {
	t.Parallel()
	c := kafkatest.NewFake(t)
	dst := dial(t, c)
	topic := kafkatest.Topic(t, c, kafkatest.TopicOptions{Partitions: 3000})
	fetches := 0
	c.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		fetches++
		return nil, nil, false
	})
	got, _ := NewSealer(dst, "dr", Options{}).Seal(within(t), mustTake(t, dst, "dr", model.Term{}), targets(topic, 3000))
	for part, o := range got {
		if !o.Sealed() || o.Marker != 0 {
			t.Fatalf("%s: %+v", part, o)
		}
	}
	if fetches > 30 {
		t.Errorf("%d fetches", fetches)
	}
	if len(got) != 3000 {
		t.Errorf("%d outcomes", len(got))
	}
}
