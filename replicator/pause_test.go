package replicator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/kafkatest"
	"lockstep/internal/model"
)

func TestOrder_PauseOutlivesARestart(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, src, dst kafkatest.Target) {
		r := newRig(t, src, dst, nil)
		topic, later := r.topic(2, nil), r.topic(1, nil)
		r.produce(topic, 0, 100)
		r.produce(topic, 1, 100)
		r.offer(topic)
		r.copied(topic, 0, 1)
		r.refuses(model.Order{Kind: model.OrderResume}, "not paused")
		r.does(model.Order{Kind: model.OrderPause, By: "anna", Reason: "maintenance"})
		held := func() {
			t.Helper()
			for p := range int32(2) {
				if s := r.shows(topic, p, model.StatePaused); s.Reason != model.ReasonPaused || s.Remedy != "lockstep links resume "+r.link || s.Cursor.Src != 100 {
					t.Errorf("lane %+v", s)
				}
				if end := kafkatest.End(t, dst, topic, p); end != 100 {
					t.Errorf("the target ends at %d, want 100", end)
				}
			}
			s := r.m.Status()
			if s.Reason != model.ReasonPaused || !strings.Contains(s.Detail, "anna: maintenance") || s.Remedy == "" || s.Since.IsZero() {
				t.Errorf("link %+v", s)
			}
		}
		held()
		r.produce(topic, 0, 50)
		r.produce(later, 0, 10)
		r.offer(later) // one that appears while the link is paused
		r.shows(later, 0, model.StatePaused)
		r.await(topic, 0, func(s model.LaneStatus) bool { return s.LagRecords() == 50 }) // one that is paused falls behind, and says so
		r.beats()
		r.does(model.Order{Kind: model.OrderPause}) // again: it is a fact already
		r.stop()
		r.start()
		r.offer(topic, later)
		held()
		r.shows(later, 0, model.StatePaused)
		r.beats()
		if s := r.order(model.Order{Kind: model.OrderRetry, Lanes: ref(topic, 0)}); s[0].Refused == "" {
			t.Errorf("a lane of a paused link was retried: %+v", s)
		}
		r.does(model.Order{Kind: model.OrderResume, By: "anna"})
		r.copied(topic, 0, 1)
		r.copied(later, 0)
		r.equal(topic, kafkatest.CompareOptions{})
		r.equal(later, kafkatest.CompareOptions{})
		if end := kafkatest.End(t, dst, topic, 0); end != 150 {
			t.Errorf("the target ends at %d, want 150: pause and resume leave no marker", end)
		}
		if s := r.m.Status(); s.Reason != model.ReasonNone {
			t.Errorf("link %+v", s)
		}
		r.gaps()
	})
}

// beats waits until the owner shows once more that it lives.
func (r *rig) beats() {
	r.t.Helper()
	first, _ := r.view.LastBeat()
	kafkatest.Eventually(r.t, orderPatience, func() (bool, string) {
		now, ok := r.view.LastBeat()
		return ok && now.Seen.After(first.Seen), fmt.Sprintf("last beat %+v", now)
	})
}

// A topic is paused by itself, the others go on; the pause of the link and of the topic do not lift each other.
func TestOrder_PauseOfATopic(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, src, dst kafkatest.Target) {
		r := newRig(t, src, dst, nil)
		held, free := r.topic(1, nil), r.topic(1, nil)
		r.offer(held, free)
		r.copied(held, 0)
		r.copied(free, 0)
		pause := model.Order{Kind: model.OrderPause, Topics: []string{held}, By: "anna"}
		resume := model.Order{Kind: model.OrderResume, Topics: []string{held}}
		r.does(pause)
		r.shows(held, 0, model.StatePaused)
		r.produce(held, 0, 10)
		r.produce(free, 0, 10)
		r.copied(free, 0)
		r.does(model.Order{Kind: model.OrderPause})
		r.shows(free, 0, model.StatePaused)
		r.does(model.Order{Kind: model.OrderResume})
		r.produce(free, 0, 10)
		r.copied(free, 0)
		if s := r.lane(held, 0); s.State != model.StatePaused || kafkatest.End(t, dst, held, 0) != 0 {
			t.Errorf("the topic is paused still, its lane is %+v", s)
		}
		if s := r.m.Status(); s.Reason != model.ReasonNone {
			t.Errorf("the link is not paused: %+v", s)
		}
		r.does(resume)
		r.copied(held, 0)
		r.equal(held, kafkatest.CompareOptions{})
		r.equal(free, kafkatest.CompareOptions{})
		if end := kafkatest.End(t, dst, free, 0); end != 20 {
			t.Errorf("the target ends at %d, want 20", end)
		}
	})
}

// Lanes are released and taken up again, many times, while others run at full speed: these keep their openings, and the
// targets' logs get no marker.
func TestRelease_OthersDoNotNotice(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, src, dst kafkatest.Target) {
		r := newRig(t, src, dst, nil)
		topic, busy := r.topic(1, nil), r.topic(2, nil)
		r.offer(topic, busy)
		r.copied(busy, 0, 1)
		before := r.lane(busy, 0).Opening
		for round := range 10 {
			r.produce(topic, 0, 40)
			r.produce(busy, 0, 200)
			r.produce(busy, 1, 20)
			state := model.StateClosed
			if round%2 == 0 {
				state = model.StatePaused
			}
			ctx, cancel := context.WithTimeout(t.Context(), orderPatience)
			r.m.Release(ctx, []model.Lane{r.id(topic, 0), r.id("unknown", 7)}, state, model.ReasonNone)
			if s := r.lane(topic, 0); s.State != state || ctx.Err() != nil {
				t.Fatalf("released, the lane is %+v (%v)", s, ctx.Err())
			}
			st, _ := r.view.Lane(r.id(topic, 0))
			if end := kafkatest.End(t, dst, topic, 0); !st.Clean && r.view.Barrier(ctx) == nil {
				if st, _ = r.view.Lane(r.id(topic, 0)); !st.Clean || st.Cursor.Dst != end {
					t.Fatalf("its stored end is %+v, clean %v; the target ends at %d", st.Cursor, st.Clean, end)
				}
			}
			cancel()
			r.offer(topic)
		}
		r.copied(topic, 0)
		r.copied(busy, 0, 1)
		if now := r.lane(busy, 0).Opening; now != before {
			t.Errorf("the busy lane was opened again: %d, before %d", now, before)
		}
		for topic, want := range map[string]int64{topic: 400, busy: 2000} {
			r.equal(topic, kafkatest.CompareOptions{})
			if end := kafkatest.End(t, dst, topic, 0); end != want {
				t.Errorf("the target %s ends at %d, want %d", topic, end, want)
			}
		}
	})
}

// A closed lane is not opened by resuming the link: its topic was excluded.
func TestRelease_ClosedStaysClosedOverPauses(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	r := newRig(t, src, dst, nil)
	out, in := r.topic(1, nil), r.topic(1, nil)
	r.offer(out, in)
	r.copied(out, 0)
	r.copied(in, 0)
	r.m.Release(t.Context(), []model.Lane{r.id(out, 0)}, model.StateClosed, model.ReasonNone)
	r.does(model.Order{Kind: model.OrderPause})
	r.does(model.Order{Kind: model.OrderResume})
	r.copied(in, 0)
	if s := r.lane(out, 0); s.State != model.StateClosed {
		t.Errorf("lane %+v", s)
	}
	if done, apart := r.m.Reached(map[model.Lane]int64{r.id(out, 0): 10, r.id(in, 0): 0}); !done || len(apart) != 1 {
		t.Errorf("reached %v, apart %+v: nobody is to wait for a closed lane", done, apart)
	}
	r.offer(out)
	r.copied(out, 0)
}

// A stopped lane keeps its reason while the link is paused, and closes when its topic is excluded.
func TestRelease_StoppedLane(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	r, topic := stuck(t, src, dst)
	r.does(model.Order{Kind: model.OrderPause})
	r.shows(topic, 1, model.StatePaused)
	r.stopsAs(topic, 0, model.ReasonTooLarge)
	r.does(model.Order{Kind: model.OrderResume})
	r.copied(topic, 1)
	r.m.Release(t.Context(), []model.Lane{r.id(topic, 0)}, model.StateClosed, model.ReasonNone)
	r.shows(topic, 0, model.StateClosed)
	r.offer(topic)
	r.stopsAs(topic, 0, model.ReasonTooLarge)
	if end := kafkatest.End(t, dst, topic, 0); end != 10 {
		t.Errorf("the target ends at %d, want 10", end)
	}
}

// A target that does not answer holds a lane up; the others leave, and it leaves when the answer comes.
func TestRelease_GoesOnAfterItsContext(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	r := newRig(t, src, dst, nil)
	topic := r.topic(1, nil)
	r.offer(topic)
	r.copied(topic, 0)
	answer := holdProduce(dst, topic, r.m.lane(r.id(topic, 0)).picture().now.Dst)
	r.produce(topic, 0, 5)
	kafkatest.Eventually(t, orderPatience, func() (bool, string) {
		l := r.m.lane(r.id(topic, 0))
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.inflight) > 0, "nothing was sent"
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	r.m.Release(ctx, []model.Lane{r.id(topic, 0)}, model.StateClosed, model.ReasonNone)
	if s := r.lane(topic, 0); s.State != model.StateDraining {
		t.Fatalf("lane %+v", s)
	}
	close(answer)
	if s := r.shows(topic, 0, model.StateClosed); s.Cursor.Src != 5 {
		t.Errorf("lane %+v", s)
	}
}

// holdProduce lets a simulated broker keep batches for a topic until the returned channel is closed.
func holdProduce(c *kafkatest.Fake, topic string, id model.TopicID) chan struct{} {
	answer := make(chan struct{})
	c.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		q, _ := req.(*kmsg.ProduceRequest)
		if slices.ContainsFunc(q.Topics, func(t kmsg.ProduceRequestTopic) bool { return t.Topic == topic || t.TopicID == id }) {
			c.SleepControl(func() { <-answer })
		}
		return nil, nil, false
	})
	return answer
}
