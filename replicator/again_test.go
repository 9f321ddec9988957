package replicator

import (
	"context"
	"fmt"
	"testing"
	"time"

	"lockstep/internal/kafkatest"
	"lockstep/internal/model"
)

// sendsInVain produces a record that the target does not answer, and waits until it is on its way. Closing what is returned
// lets the answer come.
func (r *rig) sendsInVain(dst *kafkatest.Fake, topic string) chan struct{} {
	r.t.Helper()
	l := r.m.lane(r.id(topic, 0))
	answer := holdProduce(dst, topic, l.picture().now.Dst)
	r.produce(topic, 0, 5)
	kafkatest.Eventually(r.t, orderPatience, func() (bool, string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.inflight) > 0, "nothing was sent"
	})
	return answer
}

func (r *rig) accept() {
	r.t.Helper()
	if steps := r.order(model.Order{Kind: model.OrderAccept}); len(steps) != 1 || !steps[0].Done {
		r.t.Fatalf("%+v", steps)
	}
}

// A source that was replaced and accepted while the link is paused, in whichever order that came: the pause holds, and
// lifting it brings back every lane.
func TestAgain_AcceptedWhilePaused(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"paused", "replaced"} {
		t.Run(first, func(t *testing.T) {
			t.Parallel()
			src, dst := kafkatest.FakePair(t)
			r := newRig(t, src, dst, nil)
			topic := r.topic(1, nil)
			r.produce(topic, 0, 10)
			r.offer(topic)
			r.copied(topic, 0)
			if first == "paused" {
				r.does(model.Order{Kind: model.OrderPause})
				r.m.replaced("test")
			} else {
				r.m.replaced("test")
				r.stopsAs(topic, 0, model.ReasonSourceReplaced)
				r.does(model.Order{Kind: model.OrderPause})
			}
			r.produce(topic, 0, 5)
			r.accept()
			r.shows(topic, 0, model.StatePaused)
			if end := kafkatest.End(t, dst, topic, 0); end != 10 {
				t.Errorf("the target of a paused link ends at %d, want 10", end)
			}
			r.does(model.Order{Kind: model.OrderResume})
			r.copied(topic, 0)
			r.equal(topic, kafkatest.CompareOptions{})
		})
	}
}

// A replaced source is accepted while a lane that stopped for it still waits for an answer: it goes on once that has come.
func TestAgain_AcceptedBeforeTheLastAnswer(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	r := newRig(t, src, dst, nil)
	topic := r.topic(1, nil)
	r.offer(topic)
	r.copied(topic, 0)
	answer := r.sendsInVain(dst, topic)
	r.m.replaced("test")
	r.stopsAs(topic, 0, model.ReasonSourceReplaced)
	r.accept()
	close(answer)
	r.copied(topic, 0)
	r.equal(topic, kafkatest.CompareOptions{})
}

// A topic that vanished and is there again stays paused.
func TestAgain_BackWhilePaused(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	r := newRig(t, src, dst, nil)
	topic := r.topic(1, nil)
	r.offer(topic)
	r.copied(topic, 0)
	r.m.Gone([]model.Lane{r.id(topic, 0)}, model.ReasonSourceDeleted)
	r.stopsAs(topic, 0, model.ReasonSourceDeleted)
	r.does(model.Order{Kind: model.OrderPause})
	r.offer(topic)
	r.shows(topic, 0, model.StatePaused)
	r.does(model.Order{Kind: model.OrderResume})
	r.copied(topic, 0)
}

// A lane that is wanted again before it has ended comes back by itself: it is offered and resumed only once.
func TestAgain_WantedBeforeItHasLeft(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"resumed", "offered"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			src, dst := kafkatest.FakePair(t)
			r := newRig(t, src, dst, nil)
			topic := r.topic(1, nil)
			r.offer(topic)
			r.copied(topic, 0)
			answer := r.sendsInVain(dst, topic)
			short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			if how == "resumed" {
				steps, err := r.m.Order(short, model.Order{Kind: model.OrderPause})
				if err != nil || len(steps) != 1 || steps[0].Done {
					t.Fatalf("%+v, %v: a lane waits for an answer", steps, err)
				}
				r.shows(topic, 0, model.StateDraining)
				r.does(model.Order{Kind: model.OrderResume})
			} else {
				r.m.Release(short, []model.Lane{r.id(topic, 0)}, model.StateClosed, model.ReasonNone)
				r.shows(topic, 0, model.StateDraining)
				r.offer(topic)
			}
			opening := r.lane(topic, 0).Opening
			close(answer)
			r.await(topic, 0, func(s model.LaneStatus) bool { return s.State == model.StateCopying && s.Opening == opening+1 })
			r.copied(topic, 0)
			r.equal(topic, kafkatest.CompareOptions{})
			if end := kafkatest.End(t, dst, topic, 0); end != 5 {
				t.Errorf("the target ends at %d, want 5: it ended well", end)
			}
		})
	}
}

// A lane that an order takes up while the link is being stopped is left to the next start.
func TestAgain_NotWhileTheLinkStops(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	r, topic := stuck(t, src, dst)
	l := r.m.lane(r.id(topic, 0))
	r.m.beginDrain()
	l.obey(&intent{kind: model.OrderRetry, was: l.stoppedFor(), answer: make(chan error, 1)}, false)
	l.mu.Lock()
	draining, entering := l.draining, fmt.Sprintf("state %s, entering %v", l.state, l.entering)
	l.mu.Unlock()
	if !draining {
		t.Errorf("it is opened: %s", entering)
	}
}
