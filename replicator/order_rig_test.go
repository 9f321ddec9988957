package replicator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"

	"lockstep/config"
	"lockstep/internal/kafka"
	"lockstep/internal/kafkatest"
	"lockstep/internal/model"
	"lockstep/internal/statelog"
	"lockstep/offsetsync"
	"lockstep/replicator/batch"
)

const orderPatience = 60 * time.Second

// rig is a link of a test: a Manager with everything it needs, that can be stopped, killed and started again.
type rig struct {
	t        *testing.T
	link     string
	src, dst kafkatest.Target
	s, d     *kafka.Cluster
	change   func(*Options)

	m      *Manager
	view   *offsetsync.View
	cancel context.CancelFunc // ends the run
	kill   context.CancelFunc // ends it without draining
	done   chan error

	seed     uint64
	onRemake func(topic string) // what is done when a target topic is ordered to be made again
}

// onBoth runs a scenario on simulated brokers and on real ones.
func onBoth(t *testing.T, scenario func(t *testing.T, src, dst kafkatest.Target)) {
	t.Run("simulated", func(t *testing.T) {
		t.Parallel()
		src, dst := kafkatest.FakePair(t)
		scenario(t, src, dst)
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		scenario(t, kafkatest.Shared(t, kafkatest.Kafka3, 1), kafkatest.Shared(t, kafkatest.Kafka4, 1))
	})
}

func dialTest(t *testing.T, name string, c kafkatest.Target) *kafka.Cluster {
	t.Helper()
	k, err := kafka.Dial(config.Cluster{Name: name, Brokers: c.Brokers()}, kafka.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

func newRig(t *testing.T, src, dst kafkatest.Target, change func(*Options)) *rig {
	t.Helper()
	r := &rig{t: t, link: fmt.Sprintf("o-%08x", rand.Uint32()), src: src, dst: dst, change: change,
		s: dialTest(t, "src", src), d: dialTest(t, "dst", dst)}
	r.start()
	t.Cleanup(func() {
		if r.m != nil {
			r.die()
		}
	})
	return r
}

// start begins a run, as a new process does.
func (r *rig) start() {
	r.t.Helper()
	log := statelog.New(r.d, r.link, statelog.Options{})
	ctx, cancel := context.WithTimeout(r.t.Context(), orderPatience)
	defer cancel()
	if err := log.Ensure(ctx); err != nil {
		r.t.Fatal(err)
	}
	r.view = offsetsync.NewView(log)
	opt := Options{Link: r.link, Source: r.s, Target: r.d, Log: log, View: r.view, Owner: "me", Process: fmt.Sprintf("%08x", rand.Uint32()),
		Budget: NewBudget(64 << 20), Metrics: NewMetrics(prometheus.NewRegistry()), Logger: r.logger(),
		Limits: r.limits, Remake: r.remake}
	if r.change != nil {
		r.change(&opt)
	}
	m, err := New(opt)
	if err != nil {
		r.t.Fatal(err)
	}
	run, stop := context.WithCancel(context.Background())
	hard, kill := context.WithCancel(context.Background())
	following, unfollow := context.WithCancel(context.Background())
	r.m, r.cancel, r.kill, r.done = m, stop, kill, make(chan error, 1)
	var wg sync.WaitGroup
	wg.Go(func() { _ = r.view.Run(following) })
	go func() {
		err := m.Run(run, hard)
		unfollow()
		wg.Wait()
		log.Close()
		r.done <- err
	}()
	select {
	case <-m.Owned():
	case err := <-r.done:
		r.t.Fatalf("run: %v", err)
	case <-time.After(orderPatience):
		r.t.Fatal("the link is not ours")
	}
}

func (r *rig) logger() *slog.Logger {
	if os.Getenv("RIG_LOG") == "" {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(r.t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// stop ends the run cleanly.
func (r *rig) stop() {
	r.t.Helper()
	r.cancel()
	if err := r.end(); err != nil {
		r.t.Fatalf("run ended with %v", err)
	}
}

// die ends the run without draining.
func (r *rig) die() {
	r.kill()
	r.cancel()
	_ = r.end()
}

func (r *rig) end() error {
	r.m = nil
	select {
	case err := <-r.done:
		return err
	case <-time.After(orderPatience):
		return errors.New("no end")
	}
}

func (r *rig) limits(ctx context.Context, topic string) (batch.Limits, error) {
	ds, err := kadm.NewClient(r.dst.Admin()).DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return batch.Limits{}, err
	}
	var l batch.Limits
	for _, c := range ds[0].Configs {
		if c.Key == "max.message.bytes" && c.Value != nil {
			_, err = fmt.Sscan(*c.Value, &l.MaxBytes)
		}
	}
	return l, err
}

func (r *rig) remake(topic string) {
	if r.onRemake == nil {
		r.t.Errorf("target topic %s was ordered to be made again", topic)
		return
	}
	r.onRemake(topic)
}

// produce writes n records, each different from all others of the test, to a partition of the source.
func (r *rig) produce(topic string, partition int32, n int) {
	r.t.Helper()
	r.seed++
	kafkatest.Produce(r.t, r.src, topic, partition, kafkatest.Records(n, r.seed), kafkatest.ProduceOptions{BatchRecords: 7})
}

func (r *rig) id(topic string, partition int32) model.Lane {
	return model.Lane{Link: r.link, Topic: topic, Partition: partition}
}

// offer does topicsync's work: it offers the lanes of topics that both sides have.
func (r *rig) offer(topics ...string) {
	r.t.Helper()
	src, err := r.s.Metadata(r.t.Context(), topics...)
	if err != nil {
		r.t.Fatal(err)
	}
	dst, err := r.d.Metadata(r.t.Context(), topics...)
	if err != nil {
		r.t.Fatal(err)
	}
	var as []Assignment
	for _, topic := range topics {
		limits, err := r.limits(r.t.Context(), topic)
		if err != nil {
			r.t.Fatal(err)
		}
		for p := range min(len(src.Topics[topic].Parts), len(dst.Topics[topic].Parts)) {
			as = append(as, Assignment{Lane: r.id(topic, int32(p)), Limits: limits,
				Identity: model.Identity{DstTopic: topic, Src: src.Topics[topic].ID, Dst: dst.Topics[topic].ID}})
		}
	}
	r.m.Offer(as)
}

// topic makes a topic on both sides.
func (r *rig) topic(partitions int32, settings map[string]string) string {
	r.t.Helper()
	name := kafkatest.TopicName(r.t)
	kafkatest.Topic(r.t, r.src, kafkatest.TopicOptions{Name: name, Partitions: partitions})
	kafkatest.Topic(r.t, r.dst, kafkatest.TopicOptions{Name: name, Partitions: partitions, Configs: settings})
	return name
}

func (r *rig) lane(topic string, partition int32) model.LaneStatus {
	for _, s := range r.m.Status().Lanes {
		if s.Lane == r.id(topic, partition) {
			return s
		}
	}
	return model.LaneStatus{}
}

// await waits until a lane is as ok says.
func (r *rig) await(topic string, partition int32, ok func(model.LaneStatus) bool) (s model.LaneStatus) {
	r.t.Helper()
	kafkatest.Eventually(r.t, orderPatience, func() (bool, string) {
		s = r.lane(topic, partition)
		return ok(s), fmt.Sprintf("%s %s (%s) opening %d, cursor %+v, source %d to %d", s.State, s.Reason, s.Detail, s.Opening, s.Cursor, s.SrcStart, s.SrcEnd)
	})
	return s
}

func (r *rig) copied(topic string, partitions ...int32) {
	r.t.Helper()
	for _, p := range partitions {
		end := kafkatest.End(r.t, r.src, topic, p)
		r.await(topic, p, func(s model.LaneStatus) bool { return s.State == model.StateCopying && s.Cursor.Src >= end })
	}
}

func (r *rig) stopsAs(topic string, partition int32, reason model.Reason) model.LaneStatus {
	r.t.Helper()
	return r.await(topic, partition, func(s model.LaneStatus) bool { return s.State == model.StateStopped && s.Reason == reason })
}

func (r *rig) shows(topic string, partition int32, state model.State) model.LaneStatus {
	r.t.Helper()
	return r.await(topic, partition, func(s model.LaneStatus) bool { return s.State == state })
}

// order gives an order and returns its steps.
func (r *rig) order(o model.Order) []model.OrderStep {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), orderPatience)
	defer cancel()
	steps, err := r.m.Order(ctx, o)
	if err != nil {
		r.t.Fatalf("order %+v: %v", o, err)
	}
	return steps
}

// does gives an order, first as a dry run, and expects every step to be done as planned.
func (r *rig) does(o model.Order) []model.OrderStep {
	r.t.Helper()
	dry := o
	dry.DryRun = true
	planned := r.order(dry)
	steps := r.order(o)
	if len(steps) == 0 || len(steps) != len(planned) {
		r.t.Fatalf("planned %+v, did %+v", planned, steps)
	}
	for i, s := range steps {
		if !s.Done || s.Error != "" || s.Refused != "" {
			r.t.Fatalf("not done: %+v", s)
		}
		if p := planned[i]; p.Done || p.Does != s.Does || p.Leaves != s.Leaves || p.Deletes != s.Deletes {
			r.t.Errorf("planned %+v, did %+v", p, s)
		}
	}
	return steps
}

// refuses gives an order and expects its only step to be refused, for what text says.
func (r *rig) refuses(o model.Order, text string) {
	r.t.Helper()
	steps := r.order(o)
	if len(steps) != 1 || steps[0].Done || !strings.Contains(steps[0].Refused, text) {
		r.t.Fatalf("order %+v: %+v; want it refused with %q", o, steps, text)
	}
}

func ref(topic string, partition int32) []model.LaneRef {
	return []model.LaneRef{{Topic: topic, Partition: partition}}
}

// translates checks translations of a lane: pairs of a source offset and the expected answer, as "42 exact".
func (r *rig) translates(topic string, partition int32, want map[int64]string) {
	r.t.Helper()
	r.m.Flush(r.t.Context())
	if err := r.view.Barrier(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	for src, text := range want {
		got, ok := r.view.Translate(r.id(topic, partition), src)
		if now := fmt.Sprintf("%d %s", got.Offset, got.Kind); !ok || now != text {
			r.t.Errorf("source offset %d is %q, want %q", src, now, text)
		}
	}
}

// gaps checks the ledger: entries as "from to reason".
func (r *rig) gaps(want ...string) {
	r.t.Helper()
	if err := r.view.Barrier(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	var got []string
	for _, g := range r.view.Gaps() {
		got = append(got, fmt.Sprintf("%s/%d %d %d %s", g.Lane.Topic, g.Lane.Partition, g.From, g.To, g.Reason))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		r.t.Errorf("the ledger is %q, want %q", got, want)
	}
}

func (r *rig) equal(topic string, o kafkatest.CompareOptions) {
	r.t.Helper()
	kafkatest.MustEqual(r.t, r.src, r.dst, []kafkatest.Pair{{Src: topic, Dst: topic}}, o)
}

func deleteTopicNow(t *testing.T, c kafkatest.Target, topic string) {
	t.Helper()
	adm := kadm.NewClient(c.Admin())
	if _, err := adm.DeleteTopic(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
	kafkatest.Eventually(t, orderPatience, func() (bool, string) {
		ds, err := adm.ListTopics(t.Context(), topic)
		return err == nil && !ds.Has(topic), fmt.Sprint("the topic is still there ", err)
	})
}

func deleteBelow(t *testing.T, c kafkatest.Target, topic string, partition int32, before int64) {
	t.Helper()
	var os kadm.Offsets
	os.AddOffset(topic, partition, before, -1)
	got, err := kadm.NewClient(c.Admin()).DeleteRecords(t.Context(), os)
	if err == nil {
		err = got.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func setConfig(t *testing.T, c kafkatest.Target, topic, key, value string) {
	t.Helper()
	got, err := kadm.NewClient(c.Admin()).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: key, Value: &value}}, topic)
	if err == nil {
		err = got[0].Err
	}
	if err != nil {
		t.Fatal(err)
	}
}
