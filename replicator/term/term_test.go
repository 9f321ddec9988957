package term

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"lockstep/internal/kafkatest"
	"lockstep/internal/model"
)

// script answers with its producers in turn, and repeats the last one.
func script(calls *int, ps ...producer) func(context.Context) (producer, error) {
	return func(context.Context) (producer, error) {
		p := ps[min(*calls, len(ps)-1)]
		*calls++
		return p, nil
	}
}

func TestTake_WhatCanBeATerm(t *testing.T) {
	t.Parallel()
	last := model.Term{N: 4, PID: 7, Epoch: 10}
	for name, tc := range map[string]struct {
		last    model.Term
		answers []producer
		want    model.Term
		calls   int
	}{
		"first":                        {model.Term{}, []producer{{7, 0}}, model.Term{N: 1, PID: 7}, 1},
		"next epoch":                   {last, []producer{{7, 11}}, model.Term{N: 5, PID: 7, Epoch: 11}, 1},
		"other id, lower epoch":        {last, []producer{{8, 0}}, model.Term{N: 5, PID: 8}, 1},
		"coordinator lost its log":     {last, []producer{{7, 9}, {7, 10}, {7, 11}}, model.Term{N: 5, PID: 7, Epoch: 11}, 3},
		"rotation":                     {last, []producer{{7, 30000}, {7, 30001}, {9, 0}}, model.Term{N: 5, PID: 9}, 3},
		"rotation without a last term": {model.Term{}, []producer{{7, 31000}, {9, 0}}, model.Term{N: 1, PID: 9}, 2},
		"second id is high already":    {last, []producer{{7, 30000}, {9, 30001}}, model.Term{N: 5, PID: 9, Epoch: 30001}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.want.Owner = "me"
			var calls int
			got, err := take(t.Context(), script(&calls, tc.answers...), tc.last, "me")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if calls != tc.calls {
				t.Errorf("%d calls, want %d", calls, tc.calls)
			}
		})
	}
}

// A coordinator that counts as Kafka's does hands out terms that never repeat an (id, epoch) and always can end the
// one before: same id and a higher epoch, or another id.
func TestTake_TermsNeverRepeat(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := producer{id: 1, epoch: int16(rapid.IntRange(29_900, 32_700).Draw(t, "epoch"))}
		ask := func(context.Context) (producer, error) {
			if now.epoch++; now.epoch >= 32_766 {
				now = producer{id: now.id + 1}
			}
			return now, nil
		}
		var last model.Term
		seen := make(map[producer]bool)
		for range rapid.IntRange(1, 200).Draw(t, "terms") {
			if rapid.IntRange(0, 19).Draw(t, "forget") == 0 {
				now = producer{id: now.id + 1, epoch: -1}
			}
			got, err := take(t.Context(), ask, last, "me")
			if err != nil {
				t.Fatal(err)
			}
			p := producer{got.PID, got.Epoch}
			if seen[p] || got.N != last.N+1 || got.PID == last.PID && got.Epoch <= last.Epoch {
				t.Fatalf("term %+v after %+v", got, last)
			}
			seen[p], last = true, got
		}
	})
}

func TestTake_ErrorsAreReturned(t *testing.T) {
	t.Parallel()
	want := errors.New("no")
	_, err := take(t.Context(), func(context.Context) (producer, error) { return producer{}, want }, model.Term{N: 2}, "me")
	if !errors.Is(err, want) {
		t.Errorf("error %v", err)
	}
}

func TestOtherID(t *testing.T) {
	t.Parallel()
	if OtherID(model.Term{}, model.Term{N: 1, PID: 3}) {
		t.Error("the first term has no other id before it")
	}
	if !OtherID(model.Term{N: 1, PID: 3}, model.Term{N: 2, PID: 4}) {
		t.Error("id 4 after id 3 not noticed")
	}
}

func TestTake_FakeRepeatsConcurrentTransactions(t *testing.T) {
	t.Parallel()
	c := kafkatest.NewFake(t)
	n := 0
	c.ControlKey(int16(kmsg.InitProducerID), func(req kmsg.Request) (kmsg.Response, error, bool) {
		if n++; n > 3 {
			return nil, nil, false
		}
		c.KeepControl()
		resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
		resp.ErrorCode = kerr.ConcurrentTransactions.Code
		return resp, nil, true
	})
	first := mustTake(t, dial(t, c), "dr", model.Term{})
	if first.N != 1 || n < 3 {
		t.Errorf("term %+v after %d answers", first, n)
	}
}

func TestTake_FakeEndsWithItsContext(t *testing.T) {
	t.Parallel()
	c := kafkatest.NewFake(t)
	enough := errors.New("waited long enough")
	ctx, cancel := context.WithCancelCause(within(t))
	n := 0
	c.ControlKey(int16(kmsg.InitProducerID), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if n++; n == 3 {
			cancel(enough)
		}
		resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
		resp.ErrorCode = kerr.ConcurrentTransactions.Code
		return resp, nil, true
	})
	_, err := Take(ctx, dial(t, c), "dr", model.Term{}, "me")
	if !errors.Is(err, enough) {
		t.Errorf("error %v, want the cause", err)
	}
}

func TestTake_FakeDenied(t *testing.T) {
	t.Parallel()
	c := kafkatest.NewFake(t)
	c.ControlKey(int16(kmsg.InitProducerID), func(req kmsg.Request) (kmsg.Response, error, bool) {
		resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
		resp.ErrorCode = kerr.TransactionalIDAuthorizationFailed.Code
		return resp, nil, true
	})
	_, err := Take(within(t), dial(t, c), "dr", model.Term{}, "me")
	var de *DeniedError
	if !errors.Is(err, ErrDenied) || !errors.As(err, &de) {
		t.Fatalf("error %v, want ErrDenied", err)
	}
	want := "kafka-acls.sh --bootstrap-server HOST:PORT --command-config admin.properties --add --allow-principal User:NAME --operation Write --transactional-id lockstep.dr"
	if de.Grant() != want {
		t.Errorf("grant\n%s\nwant\n%s", de.Grant(), want)
	}
}

func TestTakePlain_KeepsTheIDAndRaisesTheEpoch(t *testing.T) {
	t.Parallel()
	dst := dial(t, kafkatest.NewFake(t))
	first, err := TakePlain(within(t), dst, model.Term{}, "me")
	if err != nil {
		t.Fatal(err)
	}
	second, err := TakePlain(within(t), dst, first, "me")
	if err != nil {
		t.Fatal(err)
	}
	if want := (model.Term{N: 2, PID: first.PID, Epoch: first.Epoch + 1, Owner: "me"}); second != want {
		t.Errorf("second term %+v, want %+v", second, want)
	}
	third, err := TakePlain(within(t), dst, model.Term{N: 9, PID: first.PID, Epoch: rotateAt}, "me")
	if err != nil {
		t.Fatal(err)
	}
	if third.N != 10 || third.PID == first.PID {
		t.Errorf("term %+v at the last epoch, want another id", third)
	}
}

func TestTerm_TakeCountsEpochsUp(t *testing.T) {
	t.Parallel()
	kafkatest.EachVersion(t, func(t *testing.T, c *kafkatest.Cluster) {
		dst, link := dial(t, c), kafkatest.TopicName(t)
		first := mustTake(t, dst, link, model.Term{})
		second := mustTake(t, dst, link, first)
		if want := (model.Term{N: 2, PID: first.PID, Epoch: first.Epoch + 1, Owner: "me"}); second != want {
			t.Errorf("second term %+v, want %+v", second, want)
		}
	})
}

// A coordinator forgets an id that is not used, and then hands out another producer id whose epoch begins at 0. Lanes
// of the old id are sealed under the old id, whichever epoch a stale owner may have got of it.
func TestTerm_ForgottenTransactionalID(t *testing.T) {
	t.Parallel()
	c := kafkatest.Start(t, kafkatest.Options{Properties: map[string]string{
		"transactional.id.expiration.ms":                             "1000",
		"transaction.remove.expired.transaction.cleanup.interval.ms": "500",
	}})
	dst := dial(t, c)
	topic := kafkatest.Topic(t, c, kafkatest.TopicOptions{Partitions: 2})
	first := mustTake(t, dst, "dr", model.Term{})
	old := mustTake(t, dst, "dr", first)
	mustWrite(t, c, topic, 0, first, 0, 3)
	stranger := old
	stranger.Epoch += 5 // an epoch that somebody got without our knowing
	mustWrite(t, c, topic, 1, stranger, 0, 2)

	kafkatest.Eventually(t, 40*time.Second, func() (bool, string) {
		described, err := c.Kadm().DescribeTransactions(within(t), TransactionalID("dr"))
		state := described[TransactionalID("dr")]
		return errors.Is(state.Err, kerr.TransactionalIDNotFound), fmt.Sprintf("%+v, %v", state, err)
	})
	now := mustTake(t, dst, "dr", old)
	if now.N != old.N+1 || !OtherID(old, now) {
		t.Fatalf("term %+v after %+v", now, old)
	}
	ts := targets(topic, 2)
	ts[0].Ends, ts[1].Ends = first, old
	got, way := NewSealer(dst, "dr", Options{}).Seal(within(t), now, ts)
	if way != WayUnknown {
		t.Errorf("way %q: old ids decide nothing about the link's way", way)
	}
	checkSealed(t, c, got[ts[0].Part], ts[0].Part, old, now, 3)
	checkSealed(t, c, got[ts[1].Part], ts[1].Part, stranger, now, 2)
	if o := got[ts[1].Part]; o.PID != old.PID || o.Epoch != lastEpoch || o.Was == nil || o.Was.LastSequence != 1 {
		t.Errorf("outcome %+v (was %+v)", o, o.Was)
	}
}

// Near the end of the epochs Take goes on until the coordinator hands out another producer id.
func TestTerm_Rotation(t *testing.T) {
	t.Parallel()
	kafkatest.EachVersion(t, func(t *testing.T, c *kafkatest.Cluster) {
		kafkatest.Long(t)
		dst, link := dial(t, c), kafkatest.TopicName(t)
		topic := kafkatest.Topic(t, c)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		coordinator := newCoordinator(dst, link)
		var p producer
		for p.epoch < rotateAt-2 {
			var err error
			if p, err = coordinator.initProducerID(ctx); err != nil {
				t.Fatal(err)
			}
		}
		old := mustTake(t, dst, link, model.Term{N: 8, PID: p.id, Epoch: p.epoch})
		if old.PID != p.id || old.Epoch != rotateAt-1 {
			t.Fatalf("term %+v after %+v", old, p)
		}
		mustWrite(t, c, topic, 0, old, 0, 3)
		now, err := Take(ctx, dst, link, old, "me")
		if err != nil {
			t.Fatal(err)
		}
		if !OtherID(old, now) || now.Epoch >= rotateAt || now.N != 10 {
			t.Fatalf("term %+v after %+v", now, old)
		}
		ts := targets(topic, 1)
		ts[0].Ends = old
		got, _ := NewSealer(dst, link, Options{}).Seal(within(t), now, ts)
		checkSealed(t, c, got[ts[0].Part], ts[0].Part, old, now, 3)
	})
}
