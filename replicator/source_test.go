package replicator

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/kafkatest"
	"lockstep/internal/model"
)

// A replica that lags denies a position that the leader has, by one error or the other: nothing is lost, nothing is cut,
// nothing is copied twice.
func TestSource_ReplicaThatLagsIsNoLoss(t *testing.T) {
	t.Parallel()
	for name, say := range map[string]func(*kmsg.FetchResponseTopicPartition){
		"out of range": func(p *kmsg.FetchResponseTopicPartition) { p.ErrorCode = kerr.OffsetOutOfRange.Code },
		"diverging":    func(p *kmsg.FetchResponseTopicPartition) { p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset = 0, 3 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakes(t, 1, nil)
			f.produce(0, 10)
			was := f.copied(0)
			var lied atomic.Int32
			f.polls(func(req *kmsg.FetchRequest) kmsg.Response {
				if lied.Load() >= 2 {
					return nil
				}
				if resp := answerPart(req, 0, say); resp != nil {
					lied.Add(1)
					return resp
				}
				return withoutSession(req)
			})
			kafkatest.Eventually(t, fakePatience, func() (bool, string) { return lied.Load() >= 2, "the source has not lied yet" })
			f.produce(0, 10)
			s := f.copied(0)
			if s.Term != was.Term || s.Opening != was.Opening || s.Cursor.Dst != 20 {
				t.Errorf("the lane is %+v, it was %+v", s, was)
			}
			if gaps := f.m.view.Gaps(); len(gaps) > 0 || f.counted("lockstep_gap_records_total") != 0 {
				t.Errorf("the ledger has %+v", gaps)
			}
		})
	}
}

// The source itself cannot read what it stored: three tries, then the lane stops and says from where on; other lanes go on.
func TestSource_CorruptWhereItIsStored(t *testing.T) {
	t.Parallel()
	f := newFakes(t, 2, nil)
	f.produce(0, 5)
	f.copied(0)
	var tries atomic.Int32
	f.polls(func(req *kmsg.FetchRequest) kmsg.Response {
		if resp := answerPart(req, 0, func(p *kmsg.FetchResponseTopicPartition) { p.ErrorCode = kerr.CorruptMessage.Code }); resp != nil {
			tries.Add(1)
			return resp
		}
		if tries.Load() == 0 {
			return withoutSession(req)
		}
		return nil
	})
	s := f.stopped(0, model.ReasonCorrupt)
	if !strings.Contains(s.Detail, "source offset 5") || tries.Load() != corruptTries {
		t.Errorf("after %d tries: %q", tries.Load(), s.Detail)
	}
	f.produce(1, 20)
	f.copied(1)
}

// A topic id that the source does not know keeps its lane waiting; the other lane of the session is not held up, and the
// broker is not asked at the speed of the network.
func TestSource_UnknownTopicIDStallsNobodyElse(t *testing.T) {
	t.Parallel()
	for _, code := range []*kerr.Error{kerr.UnknownTopicID, kerr.InconsistentTopicID} {
		t.Run(code.Message, func(t *testing.T) {
			t.Parallel()
			f := newFakes(t, 2, nil)
			f.produce(0, 5)
			f.copied(0)
			var polls, denied atomic.Int32
			f.polls(func(req *kmsg.FetchRequest) kmsg.Response {
				polls.Add(1)
				if resp := answerPart(req, 0, func(p *kmsg.FetchResponseTopicPartition) { p.ErrorCode = code.Code }); resp != nil {
					denied.Add(1)
					return resp
				}
				if denied.Load() == 0 {
					return withoutSession(req)
				}
				return nil
			})
			kafkatest.Eventually(t, fakePatience, func() (bool, string) { return denied.Load() > 5, "the source has not denied it often enough" })
			began, before := time.Now(), polls.Load()
			for range 3 {
				f.produce(1, 10)
				f.copied(1)
			}
			kafkatest.Eventually(t, fakePatience, func() (bool, string) { return time.Since(began) > 3*time.Second, "" })
			if n := float64(polls.Load()-before) / time.Since(began).Seconds(); n > 10 {
				t.Errorf("the source was asked %.0f times a second", n)
			}
			f.await(0, func(s model.LaneStatus) bool {
				return s.State == model.StateRetrying && s.Reason == model.ReasonLeaderUnavailable
			})
		})
	}
}

// A poll that never returns: the fetcher's client is made anew, and the lane goes on.
func TestSource_PollThatNeverReturns(t *testing.T) {
	t.Parallel()
	f := newFakes(t, 1, nil)
	f.stop()
	f.start()
	f.m.fetchPatience = 700 * time.Millisecond
	f.offer()
	f.produce(0, 5)
	f.copied(0)
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	var held atomic.Bool
	f.src.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		f.src.KeepControl()
		if kreq.(*kmsg.FetchRequest).SessionEpoch == -1 || held.Swap(true) {
			return nil, nil, false
		}
		f.src.SleepControl(func() { <-release })
		return nil, nil, false
	})
	kafkatest.Eventually(t, fakePatience, func() (bool, string) { return held.Load(), "no poll was held" })
	f.produce(0, 5)
	f.copied(0)
	if n := f.counted("lockstep_fetch_clients_rebuilt_total"); n < 1 {
		t.Errorf("clients were made anew %v times", n)
	}
}

// A gap that an operator accepts is passed once and for all: not a second time after a restart.
func TestSource_AcceptedGap(t *testing.T) {
	t.Parallel()
	f := newFakes(t, 1, func(o *Options) { o.Tuning.PauseOnGap = true })
	f.produce(0, 5)
	f.copied(0)
	f.stop()
	f.produce(0, 5)
	if err := f.src.DeleteRecords(f.topic, 0, 8); err != nil {
		t.Fatal(err)
	}
	f.start()
	f.offer()
	if s := f.stopped(0, model.ReasonGap); s.Cursor.Src != 5 || s.Cursor.Dst != 5 {
		t.Errorf("the lane stands at %+v", s.Cursor)
	}
	gap := model.Gap{Lane: f.lane(0), From: 5, To: 8, Reason: "retention", At: f.m.now()}
	if err := f.m.store.Gap(t.Context(), gap); err != nil { // what an order to go on does first
		t.Fatal(err)
	}
	f.stop() // before it went on
	f.start()
	f.offer()
	f.copied(0)
	gaps := f.m.view.Gaps()
	if len(gaps) != 1 || gaps[0].From != 5 || gaps[0].To != 8 {
		t.Errorf("the ledger has %+v", gaps)
	}
	if n := len(kafkatest.Read(t, f.dst, f.topic, 0, true)); n != 7 {
		t.Errorf("the target has %d records, want the first 5 and the last 2", n)
	}
}
