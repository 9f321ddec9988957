package e2e

import (
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"lockstep/api"
	"lockstep/internal/kafkatest"
)

// Somebody else writes into a mirror topic while many clients ask for translations. The foreign records are reported and
// left alone, every record of the source is there once and in order, and each translation is exact, now and afterwards.
func TestForeignWriter_IsReportedAndTranslationStaysExact(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	some := sequel()
	topic := kafkatest.Topic(t, src)
	s := newService(t, linkBetween(src, dst, []string{topic})).start()
	put(t, ownClient(t, src), topic, 0, some(5))
	s.copied(src, topic)

	stop := make(chan struct{})
	var asking sync.WaitGroup
	for range 3 {
		asking.Go(func() { s.keepAsking(stop, topic) })
	}
	stranger, application := ownClient(t, dst), ownClient(t, src)
	for i := range 150 {
		put(t, application, topic, 0, some(1+i%4))
		put(t, stranger, topic, 0, []*kgo.Record{{Key: []byte("stranger"), Value: noise(10, uint64(i))}})
		if i%10 == 0 {
			kafkatest.Produce(t, src, topic, 0, some(3), kafkatest.ProduceOptions{Txn: kafkatest.Commit})
		}
	}
	put(t, application, topic, 0, some(1)) // what is foreign shows when something of ours lands behind it
	s.copied(src, topic)
	close(stop)
	asking.Wait()
	kafkatest.Eventually(t, 10*time.Second, func() (bool, string) {
		n := s.metric("lockstep_foreign_writer_total", s.link())
		return n == 150, offset(new(int64(n)))
	})
	exact := func() {
		t.Helper()
		tr := truthAmongStrangers(t, src, dst, topic)
		tr.checkForth(t, s.translateAll(false, logEnds(t, src, topic))[laneKey(topic, 0)])
	}
	exact()
	s.stop()
	exact()
	s.start()
	put(t, application, topic, 0, some(5))
	s.copied(src, topic)
	s.kill()
	exact()
	s.start()
	s.copied(src, topic)
	exact()
	s.stop()
}

// keepAsking translates without a pause; once there is an answer, there always is one.
func (s *service) keepAsking(stop <-chan struct{}, topic string) {
	req := api.TranslateRequest{Offsets: []api.Position{{Topic: topic, Offset: 2}, {Topic: topic, Offset: 4}}}
	for {
		select {
		case <-stop:
			return
		default:
		}
		got, err := s.client.Translate(s.t.Context(), s.link(), req)
		if err != nil {
			s.t.Errorf("translate: %v", err)
			return
		}
		for i, o := range got {
			if o.TargetOffset == nil || *o.TargetOffset != req.Offsets[i].Offset || o.State != api.OffsetExact {
				s.t.Errorf("source offset %d is %s %s all of a sudden", req.Offsets[i].Offset, offset(o.TargetOffset), o.State)
				return
			}
		}
	}
}

// truthAmongStrangers is readTruth for a target that has records of others.
func truthAmongStrangers(t *testing.T, src, dst kafkatest.Target, topic string) truth {
	t.Helper()
	tr := truth{lane: laneKey(topic, 0)}
	want := kafkatest.Read(t, src, topic, 0, true)
	for _, r := range kafkatest.Read(t, dst, topic, 0, true) {
		if string(r.Key) == "stranger" {
			continue
		}
		n := len(tr.src)
		if n == len(want) || identityOf(r) != identityOf(want[n]) {
			t.Fatalf("target offset %d does not hold source record %d", r.Offset, n)
		}
		tr.src, tr.dst = append(tr.src, want[n].Offset), append(tr.dst, r.Offset)
	}
	if len(tr.src) != len(want) {
		t.Fatalf("%d of %d records are on the target", len(tr.src), len(want))
	}
	return tr
}
