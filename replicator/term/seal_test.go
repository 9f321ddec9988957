package term

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/kafka"
	"lockstep/internal/kafkatest"
	"lockstep/internal/model"
)

func TestMakeJobs_OldIDIsEndedForGood(t *testing.T) {
	t.Parallel()
	now := model.Term{N: 5, PID: 8, Epoch: 2}
	ts := targets("t", 3)
	ts[1].Ends = model.Term{N: 4, PID: 8, Epoch: 1}
	ts[2].Ends = model.Term{N: 3, PID: 7, Epoch: 12}
	jobs := makeJobs(now, ts)
	type carried struct {
		PID   int64
		Epoch int16
	}
	var got []carried
	for _, j := range jobs {
		got = append(got, carried{j.pid, j.epoch})
	}
	if diff := cmp.Diff([]carried{{8, 2}, {8, 2}, {7, lastEpoch}}, got); diff != "" {
		t.Error(diff)
	}
	own, old := splitJobs(jobs, now.PID)
	if len(own) != 2 || len(old) != 1 || old[0] != jobs[2] {
		t.Errorf("%d of the own id, %d of an old one", len(own), len(old))
	}
}

func TestOutcomes_WithoutMarkerIsNeverSealed(t *testing.T) {
	t.Parallel()
	jobs := makeJobs(model.Term{N: 1, PID: 1}, targets("t", 1))
	jobs[0].written = true
	if o := outcomes(jobs)[jobs[0].Part]; o.Sealed() || !errors.Is(o.Err, ErrNoMarker) {
		t.Errorf("outcome %+v", o)
	}
}

func TestOutcome_ZeroIsNotSealed(t *testing.T) {
	t.Parallel()
	if (Outcome{}).Sealed() {
		t.Error("an outcome that nobody filled in counts as sealed")
	}
}

func TestChoose_NeedsClearAnswers(t *testing.T) {
	t.Parallel()
	written, refused, silent, hidden := &job{written: true}, &job{refused: ErrDenied, err: ErrDenied}, &job{err: errors.New("EOF")}, &job{err: ErrDenied}
	for _, tc := range []struct {
		way, want Way
		jobs      []*job
	}{
		{WayUnknown, WayUnknown, nil},
		{WayUnknown, WayUnknown, []*job{silent, hidden}}, // a topic that may not be described refused no marker
		{WayUnknown, WayDirect, []*job{silent, written}},
		{WayUnknown, WayTransaction, []*job{silent, refused}},
		{WayUnknown, WayDirect, []*job{refused, written}},
		{WayNone, WayNone, []*job{silent}},
		{WayNone, WayDirect, []*job{written}},
	} {
		if got := choose(tc.way, tc.jobs); got != tc.want {
			t.Errorf("%+v: %q", tc, got)
		}
	}
}

// fakeSeal takes two terms on a fake cluster, writes in the first and returns what a seal needs.
func fakeSeal(t *testing.T, partitions int32) (c *kafkatest.Fake, dst *kafka.Cluster, old, now model.Term, ts []Target) {
	t.Helper()
	c = kafkatest.NewFake(t, kfake.NumBrokers(3))
	dst = dial(t, c)
	topic := kafkatest.Topic(t, c, kafkatest.TopicOptions{Partitions: partitions})
	old = mustTake(t, dst, "dr", model.Term{})
	for p := range partitions {
		mustWrite(t, c, topic, p, old, 0, 4)
	}
	return c, dst, old, mustTake(t, dst, "dr", old), targets(topic, partitions)
}

func TestSeal_FakeDirect(t *testing.T) {
	t.Parallel()
	c, dst, old, now, ts := fakeSeal(t, 6)
	got, way := NewSealer(dst, "dr", Options{}).Seal(within(t), now, ts)
	if way != WayDirect {
		t.Errorf("way %q", way)
	}
	for _, target := range ts {
		checkSealed(t, c, got[target.Part], target.Part, old, now, 4)
	}
}

func TestSeal_FakeByTransaction(t *testing.T) {
	t.Parallel()
	c, dst, _, now, ts := fakeSeal(t, 6)
	refuseMarkers(c)
	s := NewSealer(dst, "dr", Options{})
	got, way := s.Seal(within(t), now, ts)
	if way != WayTransaction || s.Way() != WayTransaction {
		t.Errorf("way %q", way)
	}
	for _, target := range ts {
		if o := got[target.Part]; !o.Sealed() || o.Marker != 4 || o.Way != WayTransaction {
			t.Errorf("outcome of %s: %+v", target.Part, o)
		}
	}
}

// refuseMarkers makes every broker answer direct markers as one does without Alter on the cluster.
func refuseMarkers(c *kafkatest.Fake) {
	c.ControlKey(int16(kmsg.WriteTxnMarkers), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		return markerAnswer(req, kerr.ClusterAuthorizationFailed.Code), nil, true
	})
}

// markerAnswer answers every partition with a code.
func markerAnswer(kreq kmsg.Request, code int16) kmsg.Response {
	req := kreq.(*kmsg.WriteTxnMarkersRequest)
	resp := req.ResponseKind().(*kmsg.WriteTxnMarkersResponse)
	for _, m := range req.Markers {
		rm := kmsg.NewWriteTxnMarkersResponseMarker()
		rm.ProducerID = m.ProducerID
		for _, mt := range m.Topics {
			rt := kmsg.NewWriteTxnMarkersResponseMarkerTopic()
			rt.Topic = mt.Topic
			for _, p := range mt.Partitions {
				rp := kmsg.NewWriteTxnMarkersResponseMarkerTopicPartition()
				rp.Partition, rp.ErrorCode = p, code
				rt.Partitions = append(rt.Partitions, rp)
			}
			rm.Topics = append(rm.Topics, rt)
		}
		resp.Markers = append(resp.Markers, rm)
	}
	return resp
}

func TestSeal_FakeNeitherWay(t *testing.T) {
	t.Parallel()
	c, dst, _, now, ts := fakeSeal(t, 2)
	refuseMarkers(c)
	c.ControlKey(int16(kmsg.AddPartitionsToTxn), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		req := kreq.(*kmsg.AddPartitionsToTxnRequest)
		resp := req.ResponseKind().(*kmsg.AddPartitionsToTxnResponse)
		rt := kmsg.NewAddPartitionsToTxnResponseTopic()
		rt.Topic = req.Topics[0].Topic
		for _, p := range req.Topics[0].Partitions {
			rp := kmsg.NewAddPartitionsToTxnResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p, kerr.TransactionalIDAuthorizationFailed.Code
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
		return resp, nil, true
	})
	got, way := NewSealer(dst, "dr", Options{}).Seal(within(t), now, ts)
	if way != WayNone {
		t.Errorf("way %q", way)
	}
	for _, target := range ts {
		var de *DeniedError
		if o := got[target.Part]; o.Sealed() || !errors.As(o.Err, &de) || de.Resource != "--transactional-id lockstep.dr" {
			t.Errorf("outcome of %s: %+v", target.Part, o)
		}
	}
}

func TestSeal_FakeStoredWayIsKept(t *testing.T) {
	t.Parallel()
	c, dst, _, now, ts := fakeSeal(t, 2)
	direct := false
	c.ControlKey(int16(kmsg.WriteTxnMarkers), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		direct = true
		return nil, nil, false
	})
	got, way := NewSealer(dst, "dr", Options{Way: WayTransaction}).Seal(within(t), now, ts)
	if way != WayTransaction || direct {
		t.Errorf("way %q, a direct marker was sent: %t", way, direct)
	}
	if o := got[ts[0].Part]; !o.Sealed() {
		t.Errorf("outcome %+v", o)
	}
}

// A link that seals directly and loses the permission does not go over to transactions by itself.
func TestSeal_FakeDirectLinkLosesAlter(t *testing.T) {
	t.Parallel()
	c, dst, _, now, ts := fakeSeal(t, 2)
	refuseMarkers(c)
	got, way := NewSealer(dst, "dr", Options{Way: WayDirect}).Seal(within(t), now, ts)
	if way != WayDirect {
		t.Errorf("way %q", way)
	}
	if o := got[ts[0].Part]; o.Sealed() || !errors.Is(o.Err, ErrDenied) {
		t.Errorf("outcome %+v", o)
	}
}

func TestSeal_FakeMovedLeaderIsFollowed(t *testing.T) {
	t.Parallel()
	c, dst, old, now, ts := fakeSeal(t, 1)
	n := 0
	c.ControlKey(int16(kmsg.WriteTxnMarkers), func(req kmsg.Request) (kmsg.Response, error, bool) {
		if n++; n > 2 {
			return nil, nil, false
		}
		c.KeepControl()
		return markerAnswer(req, kerr.NotLeaderForPartition.Code), nil, true
	})
	got, _ := NewSealer(dst, "dr", Options{}).Seal(within(t), now, ts)
	checkSealed(t, c, got[ts[0].Part], ts[0].Part, old, now, 4)
}

func TestSeal_FakeUnknownPartitionAndOtherTopicID(t *testing.T) {
	t.Parallel()
	c, dst, old, now, ts := fakeSeal(t, 1)
	unknown := Target{Part: kafka.Part{Topic: ts[0].Topic, Partition: 9}}
	noTopic := Target{Part: kafka.Part{Topic: "no-such-topic"}}
	remade := ts[0]
	remade.ID = model.TopicID{1}
	got, _ := NewSealer(dst, "dr", Options{}).Seal(within(t), now, []Target{unknown, noTopic, remade, ts[0]})
	for _, target := range []Target{unknown, noTopic, remade} {
		if o := got[target.Part]; o.Sealed() || !errors.Is(o.Err, ErrUnknownPartition) {
			t.Errorf("outcome of %s: %+v", target.Part, o)
		}
	}
	checkSealed(t, c, got[ts[0].Part], ts[0].Part, old, now, 4)
}

func TestSeal_FakeNothingToSeal(t *testing.T) {
	t.Parallel()
	dst := dial(t, kafkatest.NewFake(t))
	got, way := NewSealer(dst, "dr", Options{}).Seal(within(t), model.Term{N: 1, PID: 1}, nil)
	if len(got) != 0 || way != WayUnknown {
		t.Errorf("outcomes %v, way %q", got, way)
	}
}

// A leader that says "written" is believed only when the marker can be read.
func TestSeal_FakeAnswerWithoutMarker(t *testing.T) {
	t.Parallel()
	c, dst, _, now, ts := fakeSeal(t, 1)
	c.ControlKey(int16(kmsg.WriteTxnMarkers), func(req kmsg.Request) (kmsg.Response, error, bool) {
		return markerAnswer(req, 0), nil, true
	})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	got, _ := NewSealer(dst, "dr", Options{}).Seal(ctx, now, ts)
	if o := got[ts[0].Part]; o.Sealed() || !errors.Is(o.Err, ErrNoMarker) {
		t.Errorf("outcome %+v", o)
	}
}

func TestSeal_FakeClusterGone(t *testing.T) {
	t.Parallel()
	c, dst, _, now, ts := fakeSeal(t, 2)
	c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	got, way := NewSealer(dst, "dr", Options{}).Seal(ctx, now, ts)
	if way != WayUnknown {
		t.Errorf("way %q from a cluster that said nothing", way)
	}
	for _, target := range ts {
		if got[target.Part].Sealed() {
			t.Errorf("%s counts as sealed", target.Part)
		}
	}
}
