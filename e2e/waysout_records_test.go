package e2e

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"lockstep/internal/kafkatest"
)

// A record that the target does not take, in the middle of good ones, on two lanes of three. Everything before it is
// copied. One lane leaves it out by `lanes skip --to`, the other goes on by `lanes retry` once the target's settings were
// changed as the remedy says.
func TestWayOut_RecordRefused(t *testing.T) {
	t.Parallel()
	forEver := "9223372036854775807"
	for _, c := range []struct {
		reason           string
		src, tight, mend map[string]string // settings: the source's, the target's, and what mends the target's
		bad              *kgo.Record
	}{
		{
			reason: "too_large", tight: map[string]string{"max.message.bytes": "100000"}, mend: map[string]string{"max.message.bytes": "1000000"},
			bad: &kgo.Record{Key: []byte("large"), Value: noise(200_000, 1)},
		},
		{
			reason: "timestamp_refused",
			src:    map[string]string{"message.timestamp.before.max.ms": forEver, "retention.ms": "-1"},
			tight:  map[string]string{"message.timestamp.before.max.ms": "86400000", "retention.ms": "-1"},
			mend:   map[string]string{"message.timestamp.before.max.ms": forEver},
			bad:    &kgo.Record{Key: []byte("old"), Value: []byte("old"), Timestamp: time.Now().Add(-30 * 24 * time.Hour)},
		},
		{
			reason: "missing_key", tight: map[string]string{"cleanup.policy": "compact", "min.compaction.lag.ms": "86400000"},
			mend: map[string]string{"cleanup.policy": "delete"},
			bad:  &kgo.Record{Value: []byte("without a key")},
		},
	} {
		t.Run(c.reason, func(t *testing.T) {
			t.Parallel()
			src, dst := pair(t)
			topic := kafkatest.Topic(t, src, kafkatest.TopicOptions{Partitions: 3, Configs: c.src})
			kafkatest.Topic(t, dst, kafkatest.TopicOptions{Name: topic, Partitions: 3, Configs: c.tight})
			for p := range uint64(2) {
				good := keyed(20, 1+p)
				kafkatest.Produce(t, src, topic, int32(p), good[:5])
				kafkatest.Produce(t, src, topic, int32(p), append(append(good[5:12:12], c.bad), good[12:]...), kafkatest.ProduceOptions{Codec: "lz4"})
			}
			s := newService(t, linkBetween(src, dst, []string{topic})).start()
			s.repeats = 8 // a refusal does not tell the limit: lanes come down to it in steps
			for p := range int32(2) {
				l := s.stopsFor(topic, p, c.reason)
				if n := len(kafkatest.Read(t, dst, topic, p, true)); l.SourceOffset != 12 || n != 12 {
					t.Errorf("lane %d stands at source offset %d with %d records; the bad record stands at 12", p, l.SourceOffset, n)
				}
			}
			s.othersGoOn(src, dst, topic, 2)

			step := s.follow(s.lane(topic, 0), "lanes skip", "13").Steps[0]
			if step.Leaves != 1 {
				t.Errorf("the step leaves %d offsets, want 1: %+v", step.Leaves, step)
			}
			s.reached(ends{topic: {21}})
			s.wantGaps(topic + "/0 12-13 skipped: because of a test")
			s.translates(src, dst, topic, 0, 0)

			setTopic(t, dst, topic, c.mend)
			s.follow(s.lane(topic, 1), "lanes retry")
			s.reached(ends{topic: {21, 21}})
			s.othersGoOn(src, dst, topic, 2)
			s.stop()
			s.start()
			for p := range int32(3) {
				kafkatest.Produce(t, src, topic, p, keyed(10, 20))
			}
			s.copied(src, topic)
			allBut(t, src, dst, topic, 0, 12, 13)
			for _, p := range []int32{1, 2} {
				s.translates(src, dst, topic, p, 0)
			}
			s.wantGaps(topic + "/0 12-13 skipped: because of a test")
			s.stop()
		})
	}
}

// othersGoOn checks that a lane of a topic with stopped ones copies what comes.
func (s *service) othersGoOn(src, dst kafkatest.Target, topic string, partition int32) {
	s.t.Helper()
	kafkatest.Produce(s.t, src, topic, partition, keyed(10, 99))
	want := make([]int64, partition+1)
	want[partition] = kafkatest.End(s.t, src, topic, partition)
	s.reached(ends{topic: want})
	if got, want := len(kafkatest.Read(s.t, dst, topic, partition, true)), len(kafkatest.Read(s.t, src, topic, partition, true)); got != want {
		s.t.Errorf("%s holds %d records on the target, %d on the source", laneKey(topic, partition), got, want)
	}
}

// allBut checks that a partition's copy holds every record of the source but those at offsets from left to below to.
func allBut(t testing.TB, src, dst kafkatest.Target, topic string, partition int32, left, to int64) {
	t.Helper()
	var want, got []string
	for _, r := range kafkatest.Read(t, src, topic, partition, true) {
		if r.Offset < left || r.Offset >= to {
			want = append(want, identityOf(r))
		}
	}
	for _, r := range kafkatest.Read(t, dst, topic, partition, true) {
		got = append(got, identityOf(r))
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s holds %d records on the target; want %d, all of the source but offsets %d to %d", laneKey(topic, partition), len(got), len(want), left, to-1)
	}
}

// A batch that is damaged where the source stores it, in the middle of a lane that copies: once by its checksum, once by what
// is compressed in it. The detail says up to where it reaches; `lanes skip --to` goes on behind it.
func TestWayOut_CorruptBatch(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(batch []byte){
		"checksum":      func(b []byte) { b[len(b)-1] ^= 1 },
		"decompression": func(b []byte) { copy(b[61:], bytes.Repeat([]byte{0xff}, len(b)-61)); kafkatest.Reseal(b) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src, dst := pair(t)
			topic := kafkatest.Topic(t, src, kafkatest.TopicOptions{Partitions: 2})
			for _, n := range []int{200, 3, 20} { // batches 0-199, 200-202, 203-222
				kafkatest.Produce(t, src, topic, 0, sequel()(n), kafkatest.ProduceOptions{Codec: "gzip"})
			}
			readable := kafkatest.Read(t, src, topic, 0, true)
			src.EditBatch(t, 1, topic, 0, 200, damage)
			s := newService(t, linkBetween(src, dst, []string{topic})).start()
			s.repeats = 8 // each try is a new term
			l := s.stopsFor(topic, 0, "corrupt")
			if l.SourceOffset != 200 || !strings.Contains(l.Detail, "200") || !strings.Contains(l.Detail, "202") {
				t.Errorf("the lane stands at source offset %d, and its detail %q does not say that offsets 200 to 202 are damaged", l.SourceOffset, l.Detail)
			}
			s.othersGoOn(src, dst, topic, 1)
			s.follow(l, "lanes skip", "203")
			s.reached(ends{topic: {223}})
			s.wantGaps(topic + "/0 200-203 skipped: because of a test")
			var got []string
			for _, r := range kafkatest.Read(t, dst, topic, 0, true) {
				got = append(got, identityOf(r))
			}
			var want []string
			for _, r := range slices.Delete(readable, 200, 203) {
				want = append(want, identityOf(r))
			}
			if !slices.Equal(got, want) {
				t.Errorf("the target holds %d records, want the %d that are not damaged", len(got), len(want))
			}
			for i, o := range s.translate(false, topic, 0, 199, 200, 202, 203, 223) {
				behind := kafkatest.End(t, dst, topic, 0) - 20
				if want := []string{"199 exact", fmt.Sprint(behind, " hole"), fmt.Sprint(behind, " hole"), fmt.Sprint(behind, " exact"), fmt.Sprint(behind+20, " exact")}[i]; shortly(o) != want {
					t.Errorf("source offset %d is %q, want %q", *o.SourceOffset, shortly(o), want)
				}
			}
			s.othersGoOn(src, dst, topic, 1)
			s.stop()
		})
	}
}
