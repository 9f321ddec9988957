package replicator

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/kafkatest"
	"lockstep/internal/model"
)

// endsEarlier makes the source say that the newest epoch ends at an offset, and that nothing is behind it, as one does that
// was restored from an older copy.
func (f *fakes) endsEarlier(at int64, on *atomic.Bool) {
	f.src.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		f.src.KeepControl()
		if !on.Load() {
			return nil, nil, false
		}
		req := kreq.(*kmsg.OffsetForLeaderEpochRequest)
		resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
		for _, t := range req.Topics {
			rt := kmsg.NewOffsetForLeaderEpochResponseTopic()
			rt.Topic = t.Topic
			for _, p := range t.Partitions {
				rp := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
				rp.Partition, rp.LeaderEpoch, rp.EndOffset = p.Partition, p.LeaderEpoch, at
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp, nil, true
	})
	f.polls(func(req *kmsg.FetchRequest) kmsg.Response {
		if !on.Load() {
			return nil
		}
		for _, t := range req.Topics {
			for _, p := range t.Partitions {
				if p.FetchOffset == at {
					on.Store(false) // it goes on from there, with what it had before
					return nil
				}
				if p.FetchOffset > at {
					return answerPart(req, p.Partition, func(p *kmsg.FetchResponseTopicPartition) { p.ErrorCode = kerr.OffsetOutOfRange.Code })
				}
			}
		}
		return withoutSession(req)
	})
}

// The source forgot records and has no newer leader epoch: it was restored from an older copy. The link stops as a whole
// before anything is written, while it runs and at the next start; once an operator has accepted that, and for ever after,
// the lane is cut there like one of a truncated source.
func TestReplaced_RestoredFromAnOlderCopy(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"running", "stopped"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			f := newFakes(t, 2, nil)
			f.produce(0, 4)
			f.produce(0, 6)
			f.produce(1, 5)
			f.copied(0)
			f.copied(1)
			var older atomic.Bool
			if how == "stopped" {
				f.stop()
			}
			f.endsEarlier(4, &older)
			older.Store(true)
			if how == "stopped" {
				f.start()
				f.offer()
			}
			for p := range int32(2) {
				f.stopped(p, model.ReasonSourceReplaced)
			}
			s := f.m.Status()
			if s.Reason != model.ReasonSourceReplaced || !strings.Contains(s.Detail, "orders/") || !strings.Contains(s.Remedy, "links accept dr") || s.Since.IsZero() {
				t.Errorf("the link shows %q, %q, %q", s.Reason, s.Detail, s.Remedy)
			}
			f.offer() // again, as topicsync does
			for p, want := range []int64{10, 5} {
				if end := kafkatest.End(t, f.dst, f.topic, int32(p)); end != want {
					t.Errorf("the target's partition %d ends at %d, want %d", p, end, want)
				}
			}
			if steps, err := f.m.acceptSource(t.Context(), model.Order{Kind: model.OrderAccept, DryRun: true}); err != nil || len(steps) != 1 || steps[0].Done {
				t.Fatalf("%+v, %v", steps, err)
			}
			f.stopped(0, model.ReasonSourceReplaced)
			steps, err := f.m.acceptSource(t.Context(), model.Order{Kind: model.OrderAccept, By: "me"})
			if err != nil || len(steps) != 1 || !steps[0].Done {
				t.Fatalf("%+v, %v", steps, err)
			}
			f.offer()
			f.copied(0)
			f.copied(1)
			f.produce(0, 3)
			f.copied(0)
			gaps := f.m.view.Gaps()
			if len(gaps) == 0 || gaps[0].From != 4 || gaps[0].To != 10 || gaps[0].DstFrom != 4 || gaps[0].DstTo != 10 || gaps[0].Reason != "source_truncated" {
				t.Errorf("the ledger has %+v", gaps)
			}
			if tr, _ := f.m.view.Translate(f.lane(0), 3); tr.Offset != 3 {
				t.Errorf("source offset 3 is at %+v", tr)
			}
			f.stop()
			f.start()
			f.offer()
			f.copied(0)
			if r, _ := f.m.Replaced(); r != nil {
				t.Errorf("asked again: %+v", r)
			}
		})
	}
}

// Another cluster answers at the source's address. The link stays up and shows it; accepted, its topics are other ones.
func TestReplaced_OtherCluster(t *testing.T) {
	t.Parallel()
	f := newFakes(t, 1, nil)
	f.produce(0, 5)
	f.copied(0)
	f.stop()
	f.src = kafkatest.NewFake(t, kfake.ClusterID("another"), kfake.NumBrokers(1), kfake.SeedTopics(1, f.topic))
	f.produce(0, 50)
	f.start()
	s := f.stopped(0, model.ReasonSourceReplaced)
	if !strings.Contains(s.Detail, "another") || !strings.Contains(s.Detail, "fake-source") {
		t.Errorf("the detail is %q, want both ids", s.Detail)
	}
	f.stop()
	f.start() // a restart accepts nothing
	f.stopped(0, model.ReasonSourceReplaced)
	if steps, err := f.m.acceptSource(t.Context(), model.Order{Kind: model.OrderAccept}); err != nil || !steps[0].Done {
		t.Fatalf("%+v, %v", steps, err)
	}
	f.offer()
	f.stopped(0, model.ReasonRecreated)
	f.stop()
	f.start()
	if r, _ := f.m.Replaced(); r != nil {
		t.Errorf("asked again: %+v", r)
	}
	if end := kafkatest.End(t, f.dst, f.topic, 0); end != 5 {
		t.Errorf("the target ends at %d, want 5", end)
	}
}
