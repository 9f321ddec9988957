package replicator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/config"
	"lockstep/internal/kafka"
	"lockstep/internal/kafkatest"
	"lockstep/internal/model"
	"lockstep/internal/statelog"
	"lockstep/offsetsync"
)

// fakes is a manager between two simulated clusters of one broker each, which a test can make lie.
type fakes struct {
	t        *testing.T
	src, dst *kafkatest.Fake
	topic    string
	change   func(*Options)

	m    *Manager
	reg  *prometheus.Registry
	stop func()
}

const fakePatience = 30 * time.Second

// newFakes starts clusters with one topic of the same name on both, and a manager that copies it. A change of options may
// be nil.
func newFakes(t *testing.T, partitions int32, change func(*Options)) *fakes {
	t.Helper()
	src, dst := kafkatest.FakePair(t, kfake.NumBrokers(1), kfake.SeedTopics(partitions, "orders"))
	f := &fakes{t: t, src: src, dst: dst, topic: "orders", change: change}
	f.start()
	f.offer()
	return f
}

func dialFake(t *testing.T, name string, c kafkatest.Target) *kafka.Cluster {
	t.Helper()
	cl, err := kafka.Dial(config.Cluster{Name: name, Brokers: c.Brokers()}, kafka.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return cl
}

// start runs a manager until stop, which expects a clean end.
func (f *fakes) start() {
	t := f.t
	t.Helper()
	src, dst := dialFake(t, "primary", f.src), dialFake(t, "backup", f.dst)
	log := statelog.New(dst, "dr", statelog.Options{})
	if err := log.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	view := offsetsync.NewView(log)
	f.reg = prometheus.NewRegistry()
	opt := Options{Link: "dr", Source: src, Target: dst, Log: log, View: view, Owner: "me", Process: fmt.Sprintf("p%d", time.Now().UnixNano()),
		Budget: NewBudget(64 << 20), Metrics: NewMetrics(f.reg), Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}
	if f.change != nil {
		f.change(&opt)
	}
	m, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	following, unfollow := context.WithCancel(context.Background())
	running, end := context.WithCancel(context.Background())
	followed, ran := make(chan error, 1), make(chan error, 1)
	go func() { followed <- view.Run(following) }()
	if err := view.Barrier(t.Context()); err != nil {
		t.Fatal(err)
	}
	go func() { ran <- m.Run(running, following) }()
	stopped := false
	f.m, f.stop = m, func() {
		if stopped {
			return
		}
		stopped = true
		end()
		if err := <-ran; err != nil {
			t.Errorf("the manager ended with %v", err)
		}
		unfollow()
		if err := <-followed; !errors.Is(err, context.Canceled) {
			t.Errorf("following the state ended with %v", err)
		}
		log.Close()
		src.Close()
		dst.Close()
	}
	t.Cleanup(func() { f.stop() })
	select {
	case <-m.Owned():
	case err := <-ran:
		t.Fatalf("the manager ended: %v", err)
	case <-time.After(fakePatience):
		t.Fatal("the link is not owned")
	}
}

// offer offers every partition, as the topics are now.
func (f *fakes) offer() {
	f.t.Helper()
	src, err := f.m.opt.Source.Metadata(f.t.Context(), f.topic)
	if err != nil {
		f.t.Fatal(err)
	}
	dst, err := f.m.opt.Target.Metadata(f.t.Context(), f.topic)
	if err != nil {
		f.t.Fatal(err)
	}
	var as []Assignment
	for _, p := range src.Topics[f.topic].Parts {
		as = append(as, Assignment{Lane: f.lane(p.Partition),
			Identity: model.Identity{DstTopic: f.topic, Src: src.Topics[f.topic].ID, Dst: dst.Topics[f.topic].ID}})
	}
	f.m.Offer(as)
}

func (f *fakes) lane(partition int32) model.Lane {
	return model.Lane{Link: "dr", Topic: f.topic, Partition: partition}
}

// produce writes n records to a source partition.
func (f *fakes) produce(partition int32, n int) {
	f.t.Helper()
	kafkatest.Produce(f.t, f.src, f.topic, partition, kafkatest.Records(n, uint64(time.Now().UnixNano())))
}

func (f *fakes) status(partition int32) (out model.LaneStatus) {
	for _, s := range f.m.Status().Lanes {
		if s.Lane == f.lane(partition) {
			return s
		}
	}
	return out
}

// await waits until a lane is as ok says.
func (f *fakes) await(partition int32, ok func(model.LaneStatus) bool) (s model.LaneStatus) {
	f.t.Helper()
	kafkatest.Eventually(f.t, fakePatience, func() (bool, string) {
		s = f.status(partition)
		return ok(s), fmt.Sprintf("%s %s %q at %+v, source end %d", s.State, s.Reason, s.Detail, s.Cursor, s.SrcEnd)
	})
	return s
}

// copied waits until a lane has copied its source's log.
func (f *fakes) copied(partition int32) model.LaneStatus {
	f.t.Helper()
	end := kafkatest.End(f.t, f.src, f.topic, partition)
	return f.await(partition, func(s model.LaneStatus) bool { return s.State == model.StateCopying && s.Cursor.Src == end })
}

func (f *fakes) stopped(partition int32, r model.Reason) model.LaneStatus {
	f.t.Helper()
	return f.await(partition, func(s model.LaneStatus) bool { return s.State == model.StateStopped && s.Reason == r })
}

// polls lets a test answer the polls of lanes instead of the source's broker; single reads are left alone. fn returns nil to
// leave a poll to the broker.
func (f *fakes) polls(fn func(*kmsg.FetchRequest) kmsg.Response) {
	f.src.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		f.src.KeepControl()
		req := kreq.(*kmsg.FetchRequest)
		if req.SessionEpoch == -1 {
			return nil, nil, false
		}
		resp := fn(req)
		return resp, nil, resp != nil
	})
}

// answerPart is a poll's answer that says something about one partition and nothing about others; it is of no session, so
// that each poll names all it asks for.
func answerPart(req *kmsg.FetchRequest, partition int32, say func(*kmsg.FetchResponseTopicPartition)) kmsg.Response {
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			if p.Partition != partition {
				continue
			}
			resp := req.ResponseKind().(*kmsg.FetchResponse)
			rt := kmsg.NewFetchResponseTopic()
			rt.Topic, rt.TopicID = t.Topic, t.TopicID
			rp := kmsg.NewFetchResponseTopicPartition()
			rp.Partition = partition
			say(&rp)
			rt.Partitions = append(rt.Partitions, rp)
			resp.Topics = append(resp.Topics, rt)
			return resp
		}
	}
	return nil
}

// withoutSession makes the next polls name all that they ask for.
func withoutSession(req *kmsg.FetchRequest) kmsg.Response {
	if req.SessionID == 0 {
		return nil
	}
	resp := req.ResponseKind().(*kmsg.FetchResponse)
	resp.ErrorCode = 70 // FETCH_SESSION_ID_NOT_FOUND
	return resp
}

// counted returns the value of a counter of the link since the last start.
func (f *fakes) counted(name string) (sum float64) {
	f.t.Helper()
	families, err := f.reg.Gather()
	if err != nil {
		f.t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			for _, m := range family.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}
