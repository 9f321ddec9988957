package replicator

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/kafkatest"
	"lockstep/internal/model"
	"lockstep/offsetsync"
)

// large is a record that a topic of small limits refuses.
func large(n int) *kgo.Record { return &kgo.Record{Value: []byte(strings.Repeat("x", n))} }

// stuck is a lane that stopped at source offset 10, whose record is too large for the target. The source has 21 records.
func stuck(t *testing.T, src, dst kafkatest.Target) (*rig, string) {
	t.Helper()
	r := newRig(t, src, dst, nil)
	topic := r.topic(2, map[string]string{"max.message.bytes": "3000"})
	r.produce(topic, 0, 10)
	kafkatest.Produce(t, src, topic, 0, []*kgo.Record{large(5000)})
	r.produce(topic, 0, 10)
	r.produce(topic, 1, 10)
	r.offer(topic)
	r.stopsAs(topic, 0, model.ReasonTooLarge)
	r.copied(topic, 1)
	return r, topic
}

func TestOrder_RetryReadsTheLimitsAgain(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, src, dst kafkatest.Target) {
		r, topic := stuck(t, src, dst)
		retry := model.Order{Kind: model.OrderRetry, Lanes: ref(topic, 0), By: "anna", Reason: "raised"}
		opening := r.lane(topic, 0).Opening
		r.does(retry)
		s := r.await(topic, 0, func(s model.LaneStatus) bool { return s.Opening > opening && s.State == model.StateStopped })
		if s.Cursor.Src != 10 || kafkatest.End(t, dst, topic, 0) != 10 {
			t.Fatalf("after a retry in vain the lane is %+v, the target ends at %d", s, kafkatest.End(t, dst, topic, 0))
		}
		setConfig(t, dst, topic, "max.message.bytes", "100000")
		r.does(model.Order{Kind: model.OrderRetry, All: true})
		r.copied(topic, 0)
		r.equal(topic, kafkatest.CompareOptions{})
		if end := kafkatest.End(t, dst, topic, 0); end != 21 {
			t.Errorf("the target ends at %d, want 21: a lane that ended well needs no marker", end)
		}
		r.refuses(retry, "not stopped")
		if steps := r.order(model.Order{Kind: model.OrderRetry, All: true}); len(steps) != 0 {
			t.Errorf("nothing is stopped, and still %+v", steps)
		}
		r.gaps()
	})
}

func TestOrder_SkipLeavesAHole(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, src, dst kafkatest.Target) {
		r, topic := stuck(t, src, dst)
		r.equal(topic, kafkatest.CompareOptions{SrcTo: map[int32]int64{0: 10, 1: 10}})
		skip := func(to int64) model.Order {
			return model.Order{Kind: model.OrderSkip, Lanes: ref(topic, 0), To: to, Reason: "spam"}
		}
		r.refuses(skip(9), "twice")
		r.refuses(skip(10), "lanes retry")
		r.refuses(skip(22), "ends at offset 21")
		s := r.does(skip(11))
		if s[0].Leaves != 1 {
			t.Errorf("step %+v leaves %d offsets, want 1", s[0], s[0].Leaves)
		}
		r.copied(topic, 0)
		r.gaps(topic + "/0 10 11 skipped: spam")
		r.equal(topic, kafkatest.CompareOptions{SrcFrom: map[int32]int64{0: 11}, DstFrom: map[int32]int64{0: 10}})
		want := map[int64]string{0: "0 exact", 9: "9 exact", 10: "10 hole", 11: "10 exact", 20: "19 exact", 21: "20 exact"}
		r.translates(topic, 0, want)
		r.die() // and after a death
		r.start()
		r.offer(topic)
		r.produce(topic, 0, 5)
		r.copied(topic, 0)
		delete(want, 21)
		r.translates(topic, 0, want)
		r.equal(topic, kafkatest.CompareOptions{SrcFrom: map[int32]int64{0: 11}, DstFrom: map[int32]int64{0: 10}})
	})
}

func TestOrder_RetryGoesOnBehindAGap(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, src, dst kafkatest.Target) {
		r := newRig(t, src, dst, func(o *Options) { o.Tuning.PauseOnGap = true })
		topic := r.topic(1, nil)
		r.produce(topic, 0, 50)
		r.offer(topic)
		r.copied(topic, 0)
		r.does(model.Order{Kind: model.OrderPause})
		r.produce(topic, 0, 50)
		deleteBelow(t, src, topic, 0, 80)
		r.does(model.Order{Kind: model.OrderResume})
		r.stopsAs(topic, 0, model.ReasonGap)
		r.gaps()
		if s := r.does(model.Order{Kind: model.OrderRetry, Lanes: ref(topic, 0)}); s[0].Leaves != 30 {
			t.Errorf("step %+v", s[0])
		}
		r.copied(topic, 0)
		r.gaps(topic + "/0 50 80 retention")
		r.translates(topic, 0, map[int64]string{49: "49 exact", 50: "50 hole", 79: "50 hole", 80: "50 exact", 99: "69 exact", 100: "70 exact"})
		r.equal(topic, kafkatest.CompareOptions{SrcFrom: map[int32]int64{0: 80}, DstFrom: map[int32]int64{0: 50}})
	})
}

// loseEnd makes the state say that more was copied than the target holds, as after an unclean election: 20 records more.
func (r *rig) loseEnd(topic string, partition int32) {
	r.t.Helper()
	r.stop()
	r.start()
	ctx, id := r.t.Context(), r.id(topic, partition)
	st, ok := r.view.Lane(id)
	if !ok {
		r.t.Fatalf("no state of %s", id)
	}
	at := st.Cursor
	store := offsetsync.NewStore(r.m.opt.Log, r.view, "lost")
	if won, err := store.Open(ctx, []offsetsync.Opening{{Lane: id, N: st.Opening.N + 1, Prev: st.Opening.Nonce, Term: st.Opening.Term,
		Identity: st.Opening.Identity, Origin: at, Closed: &offsetsync.Closed{Cursor: at}}}); err != nil || !won[0] {
		r.t.Fatal(won, err)
	}
	more := model.Cursor{Src: at.Src + 20, Dst: at.Dst + 20, Count: at.Count + 20, SrcEpoch: -1}
	if err := store.Save(ctx, []offsetsync.Progress{{Lane: id, Opening: st.Opening.N + 1, Cursor: more}}); err != nil {
		r.t.Fatal(err)
	}
	if err := r.view.Barrier(ctx); err != nil {
		r.t.Fatal(err)
	}
}

// lostItsEnd is a lane whose target holds 50 of the 70 records that were copied; the source has 100.
func lostItsEnd(t *testing.T, src, dst kafkatest.Target) (*rig, string) {
	t.Helper()
	r := newRig(t, src, dst, nil)
	topic := r.topic(1, nil)
	r.produce(topic, 0, 50)
	r.offer(topic)
	r.copied(topic, 0)
	r.loseEnd(topic, 0)
	r.produce(topic, 0, 50)
	r.offer(topic)
	s := r.stopsAs(topic, 0, model.ReasonDiverged)
	for _, text := range []string{"ends at 50", "up to 70", "source offset 50"} {
		if !strings.Contains(s.Detail, text) {
			t.Errorf("detail %q does not say %q", s.Detail, text)
		}
	}
	return r, topic
}

func TestOrder_SkipBackWhereTheTargetLostItsEnd(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, src, dst kafkatest.Target) {
		r, topic := lostItsEnd(t, src, dst)
		skip := func(to int64) model.Order {
			return model.Order{Kind: model.OrderSkip, Lanes: ref(topic, 0), To: to, Reason: "lost"}
		}
		r.refuses(skip(49), "may go back to source offset 50")
		r.does(skip(50))
		r.copied(topic, 0)
		r.gaps()
		r.equal(topic, kafkatest.CompareOptions{})
		r.translates(topic, 0, map[int64]string{49: "49 exact", 50: "51 exact", 69: "70 exact", 99: "100 exact"}) // a marker at 50
	})
}

func TestOrder_SkipOnWhereTheTargetLostItsEnd(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, src, dst kafkatest.Target) {
		r, topic := lostItsEnd(t, src, dst)
		r.does(model.Order{Kind: model.OrderSkip, Lanes: ref(topic, 0), To: 75, Reason: "lost"})
		r.copied(topic, 0)
		r.gaps(topic + "/0 50 75 skipped: lost")
		r.equal(topic, kafkatest.CompareOptions{SrcFrom: map[int32]int64{0: 75}, DstFrom: map[int32]int64{0: 51}})
		r.translates(topic, 0, map[int64]string{49: "49 exact", 50: "51 hole", 70: "51 hole", 74: "51 hole", 75: "51 exact", 99: "75 exact"})
	})
}

func TestOrder_RebuildInTheSameTopic(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, src, dst kafkatest.Target) {
		r, topic := lostItsEnd(t, src, dst)
		deleteBelow(t, src, topic, 0, 10)
		s := r.does(model.Order{Kind: model.OrderRebuild, All: true, By: "anna"})
		if s[0].Deletes != 50 || s[0].Leaves != 10 {
			t.Errorf("step %+v, want 50 records deleted and 10 left", s[0])
		}
		r.copied(topic, 0)
		r.gaps(topic + "/0 0 10 rebuilt")
		if start := kafkatest.LogStart(t, dst, topic, 0); start != 51 {
			t.Errorf("the target's log starts at %d, want 51, behind the marker", start)
		}
		r.equal(topic, kafkatest.CompareOptions{})
		r.translates(topic, 0, map[int64]string{0: "51 before_start", 10: "51 exact", 99: "140 exact", 100: "141 exact"})
		r.stop() // a restart deletes nothing more
		r.start()
		r.offer(topic)
		r.produce(topic, 0, 5)
		r.copied(topic, 0)
		r.equal(topic, kafkatest.CompareOptions{})
	})
}

// The process dies between the opening that copies a lane anew and the deletion that it promises: whoever comes next keeps
// the promise before anything is copied.
func TestOrder_RebuildDiesBeforeItDeletes(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	r, topic := lostItsEnd(t, src, dst)
	var broken, refused atomic.Bool
	broken.Store(true)
	dst.ControlKey(int16(kmsg.DeleteRecords), func(req kmsg.Request) (kmsg.Response, error, bool) {
		dst.KeepControl()
		q, _ := req.(*kmsg.DeleteRecordsRequest)
		if !broken.Load() || q.Topics[0].Partitions[0].Offset == 0 { // the latter only asks whether it may
			return nil, nil, false
		}
		refused.Store(true)
		return undeleted(q), nil, true
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan []model.OrderStep, 1)
	go func() {
		steps, _ := r.m.Order(ctx, model.Order{Kind: model.OrderRebuild, Lanes: ref(topic, 0)})
		ended <- steps
	}()
	kafkatest.Eventually(t, orderPatience, func() (bool, string) { return refused.Load(), "nothing was to be deleted yet" })
	if n := len(kafkatest.Read(t, dst, topic, 0, true)); n != 50 {
		t.Fatalf("the target holds %d records, want the old 50 and no new one before those are gone", n)
	}
	cancel()
	if steps := <-ended; len(steps) != 1 || steps[0].Done {
		t.Errorf("steps %+v", steps)
	}
	r.die()
	r.start()
	r.offer(topic)
	r.await(topic, 0, func(s model.LaneStatus) bool { return s.State == model.StateOpening })
	if n := len(kafkatest.Read(t, dst, topic, 0, true)); n != 50 {
		t.Fatalf("the target holds %d records, want the old 50 and no new one before those are gone", n)
	}
	broken.Store(false)
	r.copied(topic, 0)
	r.equal(topic, kafkatest.CompareOptions{})
	r.gaps()
	first := kafkatest.LogStart(t, dst, topic, 0)
	got := kafkatest.Read(t, dst, topic, 0, true)
	r.translates(topic, 0, map[int64]string{0: fmt.Sprint(got[0].Offset, " exact"), 99: fmt.Sprint(got[99].Offset, " exact")})
	if first < 51 {
		t.Errorf("the target's log starts at %d", first)
	}
}

func undeleted(q *kmsg.DeleteRecordsRequest) kmsg.Response {
	resp, _ := q.ResponseKind().(*kmsg.DeleteRecordsResponse)
	rt := kmsg.NewDeleteRecordsResponseTopic()
	rt.Topic = q.Topics[0].Topic
	rp := kmsg.NewDeleteRecordsResponseTopicPartition()
	rp.ErrorCode = kerr.UnknownServerError.Code
	rt.Partitions = append(rt.Partitions, rp)
	resp.Topics = append(resp.Topics, rt)
	return resp
}

func TestOrder_RebuildRefusedByACompactedTopic(t *testing.T) {
	t.Parallel()
	r, topic := func() (*rig, string) {
		r := newRig(t, kafkatest.Shared(t, kafkatest.Kafka3, 1), kafkatest.Shared(t, kafkatest.Kafka4, 1), nil)
		topic := r.topic(1, map[string]string{"cleanup.policy": "compact"})
		kafkatest.Produce(t, r.src, topic, 0, kafkatest.KeyedRecords(50, 50, 1))
		r.offer(topic)
		r.copied(topic, 0)
		r.loseEnd(topic, 0)
		r.offer(topic)
		r.stopsAs(topic, 0, model.ReasonDiverged)
		return r, topic
	}()
	r.refuses(model.Order{Kind: model.OrderRebuild, Lanes: ref(topic, 0)}, "delete the topic, then order this again")
	// Which is what the operator does.
	deleteTopicNow(t, r.dst, topic)
	r.m.Gone([]model.Lane{r.id(topic, 0)}, model.ReasonTargetLost)
	r.onRemake = func(string) {
		kafkatest.Topic(t, r.dst, kafkatest.TopicOptions{Name: topic, Configs: map[string]string{"cleanup.policy": "compact"}})
		r.offer(topic)
	}
	r.does(model.Order{Kind: model.OrderRebuild, Lanes: ref(topic, 0)})
	r.copied(topic, 0)
	r.equal(topic, kafkatest.CompareOptions{})
}

// Case: a target topic of three partitions was deleted and made again with two, by somebody who wrote into it.
func TestOrder_RebuildATopicThatOthersMadeAgain(t *testing.T) {
	t.Parallel()
	for _, away := range []bool{false, true} {
		t.Run(fmt.Sprint("away ", away), func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(t *testing.T, src, dst kafkatest.Target) {
				r := newRig(t, src, dst, nil)
				topic := r.topic(3, nil)
				for p := range int32(3) {
					r.produce(topic, p, 40)
				}
				r.offer(topic)
				r.copied(topic, 0, 1, 2)
				if away {
					r.stop()
				}
				deleteTopicNow(t, dst, topic)
				kafkatest.Topic(t, dst, kafkatest.TopicOptions{Name: topic, Partitions: 2})
				kafkatest.Produce(t, dst, topic, 1, kafkatest.Records(9, 999))
				if away {
					r.start()
				}
				r.offer(topic)
				r.stopsAs(topic, 0, model.ReasonTargetLost)
				r.stopsAs(topic, 1, model.ReasonTargetLost)
				if !away {
					r.stopsAs(topic, 2, model.ReasonTargetLost)
				}
				r.onRemake = func(string) {
					growTopic(t, dst, topic, 3)
					r.offer(topic)
				}
				steps := r.does(model.Order{Kind: model.OrderRebuild, All: true})
				if len(steps) != 3 || steps[0].Deletes != 0 || steps[1].Deletes != 9 {
					t.Errorf("steps %+v", steps)
				}
				r.copied(topic, 0, 1, 2)
				r.equal(topic, kafkatest.CompareOptions{})
				r.gaps()
				for p, first := range []int64{1, 10, 1} { // behind a marker, and behind what others wrote
					r.translates(topic, int32(p), map[int64]string{0: fmt.Sprint(first, " exact"), 39: fmt.Sprint(first+39, " exact")})
				}
			})
		})
	}
}

// Case 36: the source topic was made again, and is longer than what was copied.
func TestOrder_AcceptARecreatedSource(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, src, dst kafkatest.Target) {
		r := newRig(t, src, dst, nil)
		topic := r.topic(1, nil)
		r.produce(topic, 0, 100)
		r.offer(topic)
		r.copied(topic, 0)
		deleteTopicNow(t, src, topic)
		kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: topic, Partitions: 2})
		r.produce(topic, 0, 500)
		r.produce(topic, 1, 50)
		growTopic(t, dst, topic, 2)
		r.offer(topic)
		r.stopsAs(topic, 0, model.ReasonRecreated)
		r.copied(topic, 1) // a partition that the old topic did not have is a new lane
		r.refuses(model.Order{Kind: model.OrderSkip, Lanes: ref(topic, 0), To: 200}, "topics accept")
		accept := model.Order{Kind: model.OrderAccept, Topics: []string{topic}}
		r.does(accept)
		r.copied(topic, 0, 1)
		r.gaps(topic + "/0 100 100 recreated: what the old topic held behind this offset is unknown")
		r.equal(topic, kafkatest.CompareOptions{DstFrom: map[int32]int64{0: 101}})
		if n := len(kafkatest.Read(t, dst, topic, 0, true)); n != 600 {
			t.Errorf("the target holds %d records, want the old 100 and the new 500", n)
		}
		r.translates(topic, 0, map[int64]string{0: "101 exact", 99: "200 exact", 499: "600 exact"})
		for _, s := range r.order(accept) {
			if s.Refused == "" {
				t.Errorf("a second accept: %+v", s)
			}
		}
	})
}

// The new source topic is smaller than the old one.
func TestOrder_AcceptASmallerSource(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, src, dst kafkatest.Target) {
		r := newRig(t, src, dst, nil)
		topic := r.topic(2, nil)
		r.produce(topic, 0, 10)
		r.produce(topic, 1, 10)
		r.offer(topic)
		r.copied(topic, 0, 1)
		deleteTopicNow(t, src, topic)
		r.m.Gone([]model.Lane{r.id(topic, 0), r.id(topic, 1)}, model.ReasonSourceDeleted)
		r.refuses(model.Order{Kind: model.OrderRetry, Lanes: ref(topic, 0)}, "source topic is gone")
		kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: topic, Partitions: 1})
		r.produce(topic, 0, 20)
		r.offer(topic)
		r.stopsAs(topic, 0, model.ReasonRecreated)
		r.stopsAs(topic, 1, model.ReasonSourceDeleted)
		r.does(model.Order{Kind: model.OrderAccept, Topics: []string{topic}})
		r.copied(topic, 0)
		if n := len(kafkatest.Read(t, dst, topic, 0, true)); n != 30 {
			t.Errorf("the target holds %d records, want 30", n)
		}
	})
}

func TestOrder_AdoptWhatTheTargetHolds(t *testing.T) {
	t.Parallel()
	for from, first := range map[string]int64{"": 0, "earliest": 0, "latest": 40} {
		t.Run("from "+from, func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(t *testing.T, src, dst kafkatest.Target) {
				r := newRig(t, src, dst, nil)
				topic := r.topic(1, nil)
				kafkatest.Produce(t, dst, topic, 0, kafkatest.Records(30, 999))
				r.produce(topic, 0, 40)
				r.offer(topic)
				r.stopsAs(topic, 0, model.ReasonNotEmpty)
				r.does(model.Order{Kind: model.OrderAdopt, Topics: []string{topic}, From: from})
				r.produce(topic, 0, 10)
				r.copied(topic, 0)
				r.equal(topic, kafkatest.CompareOptions{SrcFrom: map[int32]int64{0: first}, DstFrom: map[int32]int64{0: 30}})
				r.translates(topic, 0, map[int64]string{first: "31 exact", 49: fmt.Sprint(31+49-first, " exact")}) // a marker at 30
				r.refuses(model.Order{Kind: model.OrderAdopt, Topics: []string{topic}}, "not_empty")
			})
		})
	}
}

// What a lane of a young topic would begin with is what its plan says, whatever the link's start is.
func TestOrder_AdoptOfAYoungTopic(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	r := newRig(t, src, dst, func(o *Options) { o.Tuning.Start.Latest = true })
	topic := r.topic(1, nil)
	r.produce(topic, 0, 10)
	kafkatest.Produce(t, dst, topic, 0, kafkatest.Records(3, 1), kafkatest.ProduceOptions{})
	r.offer(topic)
	r.stopsAs(topic, 0, model.ReasonNotEmpty)
	l := r.m.lane(r.id(topic, 0))
	l.mu.Lock()
	l.born = true // as topicsync tells
	l.mu.Unlock()
	steps := r.does(model.Order{Kind: model.OrderAdopt, Topics: []string{topic}})
	r.copied(topic, 0)
	if from := 10 - (kafkatest.End(t, dst, topic, 0) - 4); !strings.Contains(steps[0].Does, fmt.Sprintf("from source offset %d,", from)) {
		t.Errorf("it began at source offset %d, the plan was: %s", from, steps[0].Does)
	}
}

func TestOrder_AdoptRefusedForAnotherLinksTopic(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	first := newRig(t, src, dst, nil)
	topic := first.topic(1, nil)
	first.produce(topic, 0, 10)
	first.offer(topic)
	first.copied(topic, 0)
	second := newRig(t, src, dst, nil)
	second.offer(topic)
	kafkatest.Eventually(t, orderPatience, func() (bool, string) {
		s := second.lane(topic, 0)
		return s.State == model.StateStopped, fmt.Sprintf("%+v", s)
	})
	steps := second.order(model.Order{Kind: model.OrderAdopt, Topics: []string{topic}})
	if len(steps) != 1 || steps[0].Done || !strings.Contains(steps[0].Refused, "another link") {
		t.Fatalf("steps %+v", steps)
	}
}

// What the source cannot read stops a lane, what it might be able to read later does not: an operator may move on either.
func TestOrder_SkipWhatTheSourceCannotRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		answer *kerr.Error
		state  model.State
		reason model.Reason
	}{{kerr.CorruptMessage, model.StateStopped, model.ReasonCorrupt}, {kerr.KafkaStorageError, model.StateRetrying, model.ReasonLeaderUnavailable}} {
		t.Run(c.answer.Message, func(t *testing.T) {
			t.Parallel()
			skipUnreadable(t, c.answer, c.state, c.reason)
		})
	}
}

func skipUnreadable(t *testing.T, answer *kerr.Error, state model.State, reason model.Reason) {
	src, dst := kafkatest.FakePair(t)
	var ahead atomic.Int64
	r := newRig(t, src, dst, func(o *Options) { o.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) } })
	topic := r.topic(1, nil)
	r.produce(topic, 0, 21)
	r.offer(topic)
	r.copied(topic, 0)
	r.does(model.Order{Kind: model.OrderPause}) // no poll is under way that would be answered with what follows
	meta, err := r.s.Metadata(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	unreadableBelow(src, meta.Topics[topic].ID, 28, answer)
	r.produce(topic, 0, 9)
	r.does(model.Order{Kind: model.OrderResume})
	kafkatest.Eventually(t, orderPatience, func() (bool, string) {
		l := r.m.lane(r.id(topic, 0))
		l.mu.Lock()
		defer l.mu.Unlock()
		return !l.fault.IsZero() || l.state == model.StateStopped, "the lane reads without a fault"
	})
	ahead.Store(int64(time.Minute))
	if s := r.shows(topic, 0, state); s.Reason != reason {
		t.Fatalf("lane %+v", s)
	}
	r.does(model.Order{Kind: model.OrderSkip, Lanes: ref(topic, 0), To: 28, Reason: "corrupt"})
	r.copied(topic, 0)
	r.gaps(topic + "/0 21 28 skipped: corrupt")
	r.translates(topic, 0, map[int64]string{20: "20 exact", 21: "21 hole", 28: "21 exact", 29: "22 exact"})
}

// unreadableBelow lets a simulated source refuse every read of a topic until one begins at an offset. A read of a session
// may not say again where it begins.
func unreadableBelow(c *kafkatest.Fake, id model.TopicID, good int64, answer *kerr.Error) {
	var passed atomic.Bool
	c.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		q, _ := req.(*kmsg.FetchRequest)
		for _, t := range q.Topics {
			for _, p := range t.Partitions {
				if t.TopicID == id && p.FetchOffset >= good {
					passed.Store(true)
				}
			}
		}
		if passed.Load() {
			return nil, nil, false
		}
		return fetchAnswer(q, id, func(p *kmsg.FetchResponseTopicPartition) { p.ErrorCode = answer.Code }), nil, true
	})
}

// answerBelow lets a simulated source answer every read of partition 0 of a topic that begins below an offset with something
// else, until the returned switch is set. Reads that begin behind it bring nothing meanwhile.
func answerBelow(c *kafkatest.Fake, id model.TopicID, good int64, change func(*kmsg.FetchResponseTopicPartition)) *atomic.Bool {
	var mended atomic.Bool
	c.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		q, _ := req.(*kmsg.FetchRequest)
		if mended.Load() {
			return nil, nil, false
		}
		return fetchAnswer(q, id, func(p *kmsg.FetchResponseTopicPartition) {
			p.HighWatermark, p.LastStableOffset = 30, 30
			if !behind(q, id, good) { // a read of a session may not say again where it begins
				change(p)
			}
		}), nil, true
	})
	return &mended
}

// behind reports whether a read of partition 0 begins at or behind an offset.
func behind(q *kmsg.FetchRequest, id model.TopicID, off int64) bool {
	for _, t := range q.Topics {
		for _, p := range t.Partitions {
			if t.TopicID == id && p.Partition == 0 && p.FetchOffset >= off {
				return true
			}
		}
	}
	return false
}

// Case 46: a batch is damaged where the source stores it. After three tries the lane stops and names the range, which can
// be left out.
func TestOrder_SkipADamagedBatch(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	r := newRig(t, src, dst, nil)
	topic := r.topic(2, nil)
	r.produce(topic, 1, 10)
	b := kafkatest.NewBatch(-1, -1, -1, 3)
	b.BaseOffset = 21
	raw := b.Bytes()
	raw[len(raw)-1] ^= 1
	r.produce(topic, 0, 21)
	r.offer(topic)
	r.copied(topic, 0, 1)
	r.does(model.Order{Kind: model.OrderPause, Topics: []string{topic}})
	meta, err := r.s.Metadata(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	r.produce(topic, 0, 9)
	mended := answerBelow(src, meta.Topics[topic].ID, 24, func(p *kmsg.FetchResponseTopicPartition) { p.RecordBatches = raw })
	r.does(model.Order{Kind: model.OrderResume, Topics: []string{topic}})
	s := r.stopsAs(topic, 0, model.ReasonCorrupt)
	if !strings.Contains(s.Detail, "21 to 23") || s.Cursor.Src != 21 {
		t.Errorf("lane %s, cursor %+v; want source offsets 21 to 23", s.Detail, s.Cursor)
	}
	mended.Store(true)
	r.does(model.Order{Kind: model.OrderSkip, Lanes: ref(topic, 0), To: 24, Reason: "damaged"})
	r.copied(topic, 0)
	r.gaps(topic + "/0 21 24 skipped: damaged")
	end := kafkatest.End(t, dst, topic, 0)
	r.translates(topic, 0, map[int64]string{20: "20 exact", 21: fmt.Sprint(end-6, " hole"), 24: fmt.Sprint(end-6, " exact"), 30: fmt.Sprint(end, " exact")})
}

func fetchAnswer(q *kmsg.FetchRequest, id model.TopicID, change func(*kmsg.FetchResponseTopicPartition)) kmsg.Response {
	resp, _ := q.ResponseKind().(*kmsg.FetchResponse)
	rt := kmsg.NewFetchResponseTopic()
	rt.TopicID = id
	rp := kmsg.NewFetchResponseTopicPartition()
	change(&rp)
	rt.Partitions = append(rt.Partitions, rp)
	resp.Topics = append(resp.Topics, rt)
	return resp
}

func TestOrder_SecondForTheSameLaneIsRefused(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	r, topic := stuck(t, src, dst)
	if !r.m.begins(r.id(topic, 0).String()) {
		t.Fatal("the first is refused")
	}
	r.refuses(model.Order{Kind: model.OrderRetry, Lanes: ref(topic, 0)}, "another order")
	r.m.ended(r.id(topic, 0).String())
	r.does(model.Order{Kind: model.OrderSkip, Lanes: ref(topic, 0), To: 11})
}

func TestOrder_NothingIsDoneForWhatIsUnknown(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	r, topic := stuck(t, src, dst)
	for name, o := range map[string]model.Order{
		"no such lane":    {Kind: model.OrderRetry, Lanes: ref(topic, 9)},
		"no such topic":   {Kind: model.OrderAccept, Topics: []string{"none"}},
		"no lane":         {Kind: model.OrderRebuild},
		"skip of two":     {Kind: model.OrderSkip, Lanes: append(ref(topic, 0), ref(topic, 1)...), To: 11},
		"no such kind":    {Kind: "melt"},
		"adopt from when": {Kind: model.OrderAdopt, Topics: []string{topic}, From: "yesterday"},
	} {
		if steps, err := r.m.Order(t.Context(), o); err == nil {
			t.Errorf("%s: %+v, want an error", name, steps)
		}
	}
}

// An order that ends before its lane has taken it is withdrawn; the lane is as it was, and the order can be given again.
func TestOrder_NotDoneInTimeCanBeRepeated(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	r := newRig(t, src, dst, nil)
	topic := r.topic(1, nil)
	r.produce(topic, 0, 10)
	r.offer(topic)
	r.copied(topic, 0)
	deleteTopicNow(t, dst, topic)
	r.m.Gone([]model.Lane{r.id(topic, 0)}, model.ReasonTargetLost)
	ctx, cancel := context.WithCancel(t.Context())
	var once sync.Once
	r.onRemake = func(string) { once.Do(cancel) }
	rebuild := model.Order{Kind: model.OrderRebuild, Lanes: ref(topic, 0)}
	steps, err := r.m.Order(ctx, rebuild)
	if err != nil || len(steps) != 1 || steps[0].Done || !strings.Contains(steps[0].Error, "order it again") {
		t.Fatalf("%+v, %v", steps, err)
	}
	r.stopsAs(topic, 0, model.ReasonTargetLost)
	r.onRemake = func(string) {
		kafkatest.Topic(t, dst, kafkatest.TopicOptions{Name: topic})
		r.offer(topic)
	}
	r.does(rebuild)
	r.copied(topic, 0)
	r.equal(topic, kafkatest.CompareOptions{})
}

func growTopic(t *testing.T, c kafkatest.Target, topic string, n int32) {
	t.Helper()
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.TimeoutMillis = 10_000
	rt := kmsg.NewCreatePartitionsRequestTopic()
	rt.Topic, rt.Count = topic, n
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(t.Context(), c.Admin())
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
	kafkatest.Eventually(t, orderPatience, func() (bool, string) { // it tells clients a little later
		ds, err := kadm.NewClient(c.Admin()).ListTopics(t.Context(), topic)
		return err == nil && len(ds[topic].Partitions) == int(n), fmt.Sprint(len(ds[topic].Partitions), " partitions ", err)
	})
	kafkatest.AwaitLeaders(t, c, topic)
}

// An order that was not done in time is not done later either, when whoever gave it has heard that it was not.
func TestOrder_WithdrawnIsNotCarriedOut(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	r, topic := stuck(t, src, dst)
	l := r.m.lane(r.id(topic, 0))
	answer := make(chan struct{})
	dst.ControlKey(int16(kmsg.ListOffsets), func(kmsg.Request) (kmsg.Response, error, bool) {
		dst.KeepControl()
		l.mu.Lock()
		ordered := l.intent != nil
		l.mu.Unlock()
		if ordered {
			dst.SleepControl(func() { <-answer })
		}
		return nil, nil, false
	})
	opening := r.lane(topic, 0).Opening
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	steps, err := r.m.Order(ctx, model.Order{Kind: model.OrderSkip, Lanes: ref(topic, 0), To: 11, Reason: "spam"})
	if err != nil || len(steps) != 1 || !strings.Contains(steps[0].Error, "not done in time") {
		t.Fatalf("%+v, %v", steps, err)
	}
	close(answer)
	r.await(topic, 0, func(s model.LaneStatus) bool { return s.Opening > opening && s.State != model.StateOpening })
	if s := r.stopsAs(topic, 0, model.ReasonTooLarge); s.Cursor.Src != 10 {
		t.Errorf("lane %+v", s)
	}
	r.gaps()
}
