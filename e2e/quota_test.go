package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"lockstep/internal/kafkatest"
)

// quota limits a client id on a cluster.
func quota(t *testing.T, c kafkatest.Target, clientID string, rates map[string]float64) {
	t.Helper()
	entry := kadm.AlterClientQuotaEntry{Entity: kadm.ClientQuotaEntity{{Type: "client-id", Name: &clientID}}}
	for key, rate := range rates {
		entry.Ops = append(entry.Ops, kadm.AlterClientQuotaOp{Key: key, Value: rate})
	}
	got, err := kadm.NewClient(c.Admin()).AlterClientQuotas(t.Context(), []kadm.AlterClientQuotaEntry{entry})
	if err == nil {
		err = got[0].Err
	}
	if err != nil {
		t.Fatalf("set quota: %v", err)
	}
}

// Both clusters slow lockstep down. It copies at the rate that they allow, says how long it had to wait, and neither gives
// up nor begins anew; also its start is slowed down and gets there.
func TestQuota_SettlesAtTheAllowedRate(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	short := kafkatest.Options{Properties: map[string]string{"quota.window.num": "3", "quota.window.size.seconds": "1"}}
	both := kafkatest.StartAll(t, short, short)
	src, dst := both[0], both[1]
	const rate, size = 400_000, 4_000_000
	topic := kafkatest.Topic(t, src, kafkatest.TopicOptions{Partitions: 4})
	backlog := func(seed uint64) {
		for p := range int32(4) {
			kafkatest.Produce(t, src, topic, p, noisy(50, size/4/50, seed*10+uint64(p)), kafkatest.ProduceOptions{BatchRecords: 5})
		}
	}
	backlog(1)
	const id = "lockstep"
	quota(t, src, id, map[string]float64{"consumer_byte_rate": rate})
	s := newService(t, linkBetween(src, dst, []string{topic})).start()
	took := s.timed(src, topic)
	t.Logf("limited at the source: %.0f kB/s of %d", size/took.Seconds()/1000, rate/1000)
	if fastest := size / rate * time.Second; took < fastest/2 {
		t.Errorf("%d bytes were copied in %s: the quota was not in force", size, took)
	}
	s.throttledBy(t, "source")

	quota(t, src, id, map[string]float64{"consumer_byte_rate": 1e9})
	quota(t, dst, id, map[string]float64{"producer_byte_rate": rate, "consumer_byte_rate": rate / 4})
	backlog(2)
	took = s.timed(src, topic)
	t.Logf("limited at the target: %.0f kB/s of %d", size/took.Seconds()/1000, rate/1000)
	s.throttledBy(t, "target")
	atMostMarkers(t, dst, []string{topic}, 0)

	backlog(3)
	rest(t.Context(), time.Second)
	s.kill() // in the middle of it
	began := time.Now()
	s.start()
	t.Logf("ready %s after its death, under quotas", time.Since(began).Round(100*time.Millisecond))
	s.equal(src, dst, topic)
	s.stop()
	atMostMarkers(t, dst, []string{topic}, 1)
}

// timed waits until a topic has been copied and returns how long that took.
func (s *service) timed(src kafkatest.Target, topic string) time.Duration {
	s.t.Helper()
	began := time.Now()
	s.copied(src, topic)
	return time.Since(began)
}

func (s *service) throttledBy(t *testing.T, side string) {
	t.Helper()
	if v := s.metric("lockstep_throttle_seconds_total", fmt.Sprintf("side=%q", side)); v <= 0 {
		t.Errorf("throttled for %v s by the %s, as the metric says", v, side)
	}
}
