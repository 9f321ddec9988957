package mm2

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/checkpoint"
	"lockstep/config"
	"lockstep/internal/kafka"
	"lockstep/internal/kafkatest"
	"lockstep/internal/model"
)

func TestMain(m *testing.M) { kafkatest.Main(m) }

var names = Names{Source: "primary", Target: "backup"}

func dial(t testing.TB, name string, c interface{ Brokers() []string }) *kafka.Cluster {
	t.Helper()
	k, err := kafka.Dial(config.Cluster{Name: name, Brokers: c.Brokers()}, kafka.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

// start runs a writer until the test or the returned function ends it.
func start(t testing.TB, o Options) (*Writer, func()) {
	t.Helper()
	w := New(o)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := w.Run(ctx); err != nil {
			t.Errorf("run the writer: %v", err)
		}
	})
	stop := func() { cancel(); wg.Wait() }
	t.Cleanup(stop)
	return w, stop
}

// records reads what a topic has; one that is not there has nothing.
func records(t testing.TB, c kafkatest.Target, topic string) []*kgo.Record {
	t.Helper()
	ends, err := kadm.NewClient(c.Admin()).ListEndOffsets(t.Context(), topic)
	if _, ok := ends.Lookup(topic, 0); err != nil || !ok || ends.Error() != nil {
		return nil
	}
	return kafkatest.Read(t, c, topic, 0, false)
}

func passOf(lanes map[checkpoint.Key]checkpoint.Lane, rows ...checkpoint.Row) checkpoint.Pass {
	return checkpoint.Pass{At: time.UnixMilli(1700000000000), Rows: rows, Lanes: lanes}
}

func row(group string, src, dst int64) checkpoint.Row {
	return checkpoint.Row{Group: group, DstGroup: group, Key: orders3, DstTopic: "orders", Source: src, Translated: dst, Target: -1, State: checkpoint.StateSynced}
}

func lanesOf(opening uint64, dst int64, spans ...model.Span) map[checkpoint.Key]checkpoint.Lane {
	m := mapOf(fatal{}, 0, dst, spans...)
	_, end := m.End()
	return map[checkpoint.Key]checkpoint.Lane{orders3: {DstTopic: "orders", Map: m, Opening: opening, DstEnd: end}}
}

type fatal struct{}

func (fatal) Fatal(args ...any) { panic(args) }

func checkpointsIn(t testing.TB, c kafkatest.Target) (out []Checkpoint) {
	t.Helper()
	for _, r := range records(t, c, names.Checkpoints()) {
		if cp, err := DecodeCheckpoint(r.Key, r.Value); err == nil {
			out = append(out, cp)
		}
	}
	return out
}

// awaitCheckpoints waits until the topic holds these, in this order.
func awaitCheckpoints(t *testing.T, c kafkatest.Target, want ...Checkpoint) {
	t.Helper()
	kafkatest.Eventually(t, 20*time.Second, func() (bool, string) {
		diff := cmp.Diff(want, checkpointsIn(t, c))
		return diff == "", diff
	})
}

func cp(group string, up, down int64) Checkpoint {
	return Checkpoint{Group: group, Key: checkpoint.Key{Topic: "orders", Partition: 3}, Upstream: up, Downstream: down}
}

func TestWriter_TopicsAndFirstRecords(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	w, _ := start(t, Options{Names: names, Src: dial(t, "primary", src), Dst: dial(t, "backup", dst), Beat: 50 * time.Millisecond})
	r := row("g", 7, 7)
	r.Metadata = "of the consumer"
	w.Passed(passOf(lanesOf(1, 0, model.Span{N: 9}), r))
	want := cp("g", 7, 7)
	want.Metadata = "of the consumer"
	awaitCheckpoints(t, dst, want)
	if at := records(t, dst, names.Checkpoints())[0].Timestamp; at.UnixMilli() != 1700000000000 {
		t.Errorf("the checkpoint's time is %s, want the pass's", at)
	}
	for _, topic := range []string{names.Heartbeats(), names.RemoteHeartbeats()} {
		var rs []*kgo.Record
		kafkatest.Eventually(t, 20*time.Second, func() (bool, string) {
			rs = records(t, dst, topic)
			return len(rs) >= 2, fmt.Sprintf("%d records in %s", len(rs), topic)
		})
		h, err := DecodeHeartbeat(rs[0].Key, rs[0].Value)
		if err != nil || h.Source != "primary" || h.Target != "backup" || h.Milliseconds != rs[0].Timestamp.UnixMilli() {
			t.Errorf("%s: got %+v at %s, %v", topic, h, rs[0].Timestamp, err)
		}
	}
	awaitSyncs(t, dst, pair(0, 0), pair(4, 4), pair(7, 7), pair(8, 8))
	awaitInSync(t, w)
	wantTopics := []string{names.Heartbeats(), names.OffsetSyncs(false), names.Checkpoints(), names.RemoteHeartbeats()}
	if diff := cmp.Diff(wantTopics, topicsOf(t, dst), cmpopts.SortSlices(strings.Compare)); diff != "" {
		t.Errorf("topics of the target: %s", diff)
	}
	for name, made := range details(t, dst, wantTopics...) {
		if len(made.Partitions) != 1 || len(made.Partitions[0].Replicas) != 3 || settingOf(t, dst, name, "cleanup.policy") != "compact" || settingOf(t, dst, name, "segment.bytes") != "16777216" {
			t.Errorf("topic %s: %+v, %s", name, made.Partitions, settingOf(t, dst, name, "cleanup.policy"))
		}
	}
	if topics := topicsOf(t, src); len(topics) != 0 {
		t.Errorf("something was written to the source: %v", topics)
	}
}

func TestWriter_OffsetSyncsOnTheSource(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	w, _ := start(t, Options{Names: names, Src: dial(t, "primary", src), Dst: dial(t, "backup", dst), SyncsOnSource: true, HeartbeatsCopied: func() bool { return true }})
	w.Passed(passOf(lanesOf(1, 0, model.Span{N: 1})))
	kafkatest.Eventually(t, 20*time.Second, func() (bool, string) {
		rs := records(t, src, "mm2-offset-syncs.backup.internal")
		return len(rs) == 1, fmt.Sprintf("%d records; %+v", len(rs), w.Status())
	})
	awaitInSync(t, w)
	want := []string{"heartbeats", "primary.checkpoints.internal"}
	if diff := cmp.Diff(want, topicsOf(t, dst), cmpopts.SortSlices(strings.Compare)); diff != "" {
		t.Errorf("topics of the target: %s", diff)
	}
}

// A restart takes up what stands in the topics, also what others left there: nulls, other versions, MirrorMaker's own.
func TestWriter_RestartUsesExistingCheckpoints(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	o := Options{Names: names, Src: dial(t, "primary", src), Dst: dial(t, "backup", dst)}
	w, stop := start(t, o)
	w.Passed(passOf(lanesOf(1, 0, model.Span{N: 201}), row("g", 200, 200), row("other", 5, 5)))
	awaitCheckpoints(t, dst, cp("g", 200, 200), cp("other", 5, 5))
	before := []OffsetSync{pair(0, 0), pair(136, 136), pair(184, 184), pair(196, 196), pair(199, 199), pair(200, 200)}
	awaitSyncs(t, dst, before...)
	stop()

	key, value, err := cp("g", 200, 200).Encode()
	if err != nil {
		t.Fatal(err)
	}
	mine, _, err := cp("of MirrorMaker", 90, 90).Encode()
	if err != nil {
		t.Fatal(err)
	}
	produce(t, dst, names.Checkpoints(), []*kgo.Record{
		{Key: []byte("g")}, {Value: []byte("x")}, {Key: key}, {Key: key, Value: append([]byte{0, 1}, value[2:]...)},
		{Key: mine, Value: value},
	})
	produce(t, dst, names.OffsetSyncs(false), []*kgo.Record{{Key: []byte{0, 1, 'x', 0, 0, 0, 0}}, {}})

	w, _ = start(t, o)
	w.Passed(passOf(lanesOf(1, 0, model.Span{N: 201}), row("g", 200, 200), row("of MirrorMaker", 200, 180), row("other", 5, 5)))
	awaitIdle(t, w)
	// What comes next shows what came before it: the restart wrote nothing again but what somebody had spoilt.
	w.Passed(passOf(lanesOf(1, 0, model.Span{N: 300}), row("g", 250, 250), row("of MirrorMaker", 250, 220), row("other", 4, 4)))
	awaitCheckpoints(t, dst, cp("g", 200, 200), cp("other", 5, 5), cp("of MirrorMaker", 200, 200), cp("g", 200, 200), cp("g", 250, 250), cp("of MirrorMaker", 250, 220), cp("other", 4, 4))
	awaitSyncs(t, dst, append(before, pair(235, 235), pair(283, 283), pair(295, 295), pair(298, 298), pair(299, 299))...)
}

// Nothing is written before it is known what stands there.
func TestWriter_NothingBeforeLoaded(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	o := Options{Names: names, Src: dial(t, "primary", src), Dst: dial(t, "backup", dst)}
	w, stop := start(t, o)
	w.Passed(passOf(lanesOf(1, 0, model.Span{N: 9}), row("g", 7, 7)))
	awaitCheckpoints(t, dst, cp("g", 7, 7))
	awaitIdle(t, w)
	stop()
	var refusing atomic.Bool
	refusing.Store(true)
	dst.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		dst.KeepControl()
		if !refusing.Load() {
			return nil, nil, false
		}
		return refuseFetch(req.(*kmsg.FetchRequest)), nil, true
	})
	w, _ = start(t, o)
	w.Passed(passOf(lanesOf(1, 0, model.Span{N: 9}), row("g", 8, 8)))
	kafkatest.Eventually(t, 20*time.Second, func() (bool, string) {
		return statusOf(w, names.Checkpoints()) != nil, "the topic counts as in sync although it cannot be read"
	})
	if end := kafkatest.End(t, dst, names.Checkpoints(), 0); end != 1 {
		t.Errorf("the topic ends at %d: something was written before it could be read", end)
	}
	refusing.Store(false)
	awaitCheckpoints(t, dst, cp("g", 7, 7), cp("g", 8, 8))
	awaitInSync(t, w)
}

func refuseFetch(req *kmsg.FetchRequest) *kmsg.FetchResponse {
	resp := req.ResponseKind().(*kmsg.FetchResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewFetchResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			rp := kmsg.NewFetchResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, kerr.TopicAuthorizationFailed.Code
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// What cannot be written shows, is told once, and is written when it can be, in its newest form.
func TestWriter_RefusedWritesAreRepeated(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	var refusing atomic.Bool
	refusing.Store(true)
	dst.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		dst.KeepControl()
		if !refusing.Load() {
			return nil, nil, false
		}
		return refuseProduce(req.(*kmsg.ProduceRequest)), nil, true
	})
	var told logLines
	w, _ := start(t, Options{Names: names, Src: dial(t, "primary", src), Dst: dial(t, "backup", dst),
		Beat: 20 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(&told, nil))})
	w.Passed(passOf(lanesOf(1, 0, model.Span{N: 9}), row("g", 7, 7)))
	kafkatest.Eventually(t, 20*time.Second, func() (bool, string) {
		bad := slices.ContainsFunc(w.Status(), func(s Status) bool { return !errors.Is(s.Err, kerr.TopicAuthorizationFailed) })
		return !bad, fmt.Sprintf("%+v", w.Status())
	})
	w.Passed(passOf(lanesOf(1, 0, model.Span{N: 9}), row("g", 8, 8)))
	refusing.Store(false)
	awaitInSync(t, w)
	kafkatest.Eventually(t, 20*time.Second, func() (bool, string) {
		got := checkpointsIn(t, dst)
		return len(got) > 0 && got[len(got)-1] == cp("g", 8, 8), fmt.Sprintf("%+v", got)
	})
	for _, topic := range []string{names.Heartbeats(), names.RemoteHeartbeats(), names.Checkpoints(), names.OffsetSyncs(false)} {
		if n := told.count("is not in sync", topic); n != 1 {
			t.Errorf("%s: told %d times that it is not in sync", topic, n)
		}
		if n := told.count("is in sync again", topic); n != 1 {
			t.Errorf("%s: told %d times that it is in sync again", topic, n)
		}
	}
}

func refuseProduce(req *kmsg.ProduceRequest) *kmsg.ProduceResponse {
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewProduceResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			rp := kmsg.NewProduceResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, kerr.TopicAuthorizationFailed.Code
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// A position that the format cannot hold shows, holds up no other, and does not have the topic read again at each pass.
func TestWriter_WhatCannotBeToldHoldsUpNothing(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	var fetches atomic.Int64
	dst.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		dst.KeepControl()
		fetches.Add(1)
		return nil, nil, false
	})
	w, _ := start(t, Options{Names: names, Src: dial(t, "primary", src), Dst: dial(t, "backup", dst)})
	lanes, bad := lanesOf(1, 0, model.Span{N: 9}), row("bad", 3, 3)
	bad.Metadata = strings.Repeat("x", maxString+1)
	w.Passed(passOf(lanes, bad, row("g", 1, 1)))
	awaitCheckpoints(t, dst, cp("g", 1, 1))
	faulty := func() (bool, string) {
		err := statusOf(w, names.Checkpoints())
		return err != nil && strings.Contains(err.Error(), `group "bad"`), fmt.Sprint(err)
	}
	kafkatest.Eventually(t, 20*time.Second, faulty)
	before := fetches.Load()
	want := []Checkpoint{cp("g", 1, 1)}
	for n := int64(2); n < 6; n++ {
		want = append(want, cp("g", n, n))
		w.Passed(passOf(lanes, bad, row("g", n, n)))
		kafkatest.Eventually(t, 20*time.Second, func() (bool, string) {
			end := kafkatest.End(t, dst, names.Checkpoints(), 0)
			return end == n, fmt.Sprintf("the topic ends at %d", end)
		})
	}
	kafkatest.Eventually(t, 20*time.Second, faulty)
	if n := fetches.Load() - before; n > 0 {
		t.Errorf("%d more fetches for four passes", n)
	}
	awaitCheckpoints(t, dst, want...)
}

// A topic that somebody deletes is made and filled again with the next thing to write.
func TestWriter_DeletedTopicComesBack(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	w, _ := start(t, Options{Names: names, Src: dial(t, "primary", src), Dst: dial(t, "backup", dst)})
	w.Passed(passOf(lanesOf(1, 0, model.Span{N: 9}), row("g", 7, 7), row("h", 1, 1)))
	awaitCheckpoints(t, dst, cp("g", 7, 7), cp("h", 1, 1))
	if _, err := kadm.NewClient(dst.Admin()).DeleteTopic(t.Context(), names.Checkpoints()); err != nil {
		t.Fatal(err)
	}
	w.Passed(passOf(lanesOf(1, 0, model.Span{N: 9}), row("g", 8, 8), row("h", 1, 1)))
	kafkatest.Eventually(t, 60*time.Second, func() (bool, string) {
		got := checkpointsIn(t, dst)
		return len(got) >= 2 && slices.Contains(got, cp("g", 8, 8)) && slices.Contains(got, cp("h", 1, 1)), fmt.Sprintf("%+v %+v", got, w.Status())
	})
}

// Where a cluster allows none of the settings that keep a topic short, it is made with the one that it has to have.
func TestWriter_SettingsThatAreNotAllowed(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	dst.ControlKey(int16(kmsg.CreateTopics), func(req kmsg.Request) (kmsg.Response, error, bool) {
		dst.KeepControl()
		asked := req.(*kmsg.CreateTopicsRequest)
		if len(asked.Topics[0].Configs) == 1 {
			return nil, nil, false
		}
		resp := asked.ResponseKind().(*kmsg.CreateTopicsResponse)
		rt := kmsg.NewCreateTopicsResponseTopic()
		rt.Topic, rt.ErrorCode = asked.Topics[0].Topic, kerr.PolicyViolation.Code
		resp.Topics = append(resp.Topics, rt)
		return resp, nil, true
	})
	w, _ := start(t, Options{Names: names, Src: dial(t, "primary", src), Dst: dial(t, "backup", dst)})
	w.Passed(passOf(lanesOf(1, 0, model.Span{N: 9}), row("g", 7, 7)))
	awaitCheckpoints(t, dst, cp("g", 7, 7))
	awaitInSync(t, w)
	if policy := settingOf(t, dst, names.Checkpoints(), "cleanup.policy"); policy != "compact" {
		t.Errorf("cleanup.policy is %q", policy)
	}
}

// A topic that is there and does not keep what it should is used, and told of once.
func TestWriter_TopicThatIsNotCompacted(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	kafkatest.CreateTopic(t, dst, kafkatest.TopicOptions{Name: names.Checkpoints(), Partitions: 2, Configs: map[string]string{"cleanup.policy": "delete"}})
	var told logLines
	w, _ := start(t, Options{Names: names, Src: dial(t, "primary", src), Dst: dial(t, "backup", dst), Logger: slog.New(slog.NewTextHandler(&told, nil))})
	w.Passed(passOf(lanesOf(1, 0, model.Span{N: 9}), row("g", 7, 7)))
	awaitCheckpoints(t, dst, cp("g", 7, 7))
	awaitInSync(t, w)
	for topic, want := range map[string]int{names.Checkpoints(): 1, names.OffsetSyncs(false): 0, names.Heartbeats(): 0} {
		if n := told.count("is not compacted", topic); n != want {
			t.Errorf("%s: told %d times that it is not compacted, want %d", topic, n, want)
		}
	}
}

// Whoever hands passes over never waits, and the newest wins.
func TestInbox_NewestWins(t *testing.T) {
	t.Parallel()
	in := newInbox()
	for i := range 1000 {
		in.put(checkpoint.Pass{Took: time.Duration(i)})
	}
	if got := <-in; got.Took != 999 {
		t.Errorf("got pass %d, want the newest", got.Took)
	}
	select {
	case p := <-in:
		t.Errorf("an older pass is left: %+v", p)
	default:
	}
}

func produce(t testing.TB, c kafkatest.Target, topic string, rs []*kgo.Record) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.Brokers()...), kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableClientMetrics())
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(t.Context(), rs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func awaitSyncs(t *testing.T, c kafkatest.Target, want ...OffsetSync) {
	t.Helper()
	kafkatest.Eventually(t, 20*time.Second, func() (bool, string) {
		var got []OffsetSync
		for _, r := range records(t, c, names.OffsetSyncs(false)) {
			if s, err := DecodeOffsetSync(r.Key, r.Value); err == nil {
				got = append(got, s)
			}
		}
		diff := cmp.Diff(want, got)
		return diff == "", diff
	})
}

func statusOf(w *Writer, topic string) error {
	for _, s := range w.Status() {
		if s.Topic == topic {
			return s.Err
		}
	}
	return errors.New("no such topic")
}

// awaitInSync waits until every topic was tried and is in sync.
func awaitInSync(t *testing.T, w *Writer) {
	t.Helper()
	kafkatest.Eventually(t, 20*time.Second, func() (bool, string) {
		w.mu.Lock()
		tried := len(w.status)
		w.mu.Unlock()
		bad := slices.ContainsFunc(w.Status(), func(s Status) bool { return s.Err != nil })
		return tried == len(w.order) && !bad, fmt.Sprintf("%d of %d tried: %+v", tried, len(w.order), w.Status())
	})
}

// awaitIdle waits until nobody has a pass to look at any more.
func awaitIdle(t *testing.T, w *Writer) {
	t.Helper()
	awaitInSync(t, w)
	kafkatest.Eventually(t, 20*time.Second, func() (bool, string) {
		return len(w.passes[0]) == 0 && len(w.passes[1]) == 0, "a pass waits"
	})
}

func topicsOf(t testing.TB, c kafkatest.Target) []string {
	t.Helper()
	all, err := kadm.NewClient(c.Admin()).ListTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all.Names()
}

func details(t testing.TB, c kafkatest.Target, topics ...string) kadm.TopicDetails {
	t.Helper()
	all, err := kadm.NewClient(c.Admin()).ListTopics(t.Context(), topics...)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func settingOf(t testing.TB, c kafkatest.Target, topic, name string) string {
	t.Helper()
	all, err := kadm.NewClient(c.Admin()).DescribeTopicConfigs(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all[0].Configs {
		if s.Key == name {
			return s.MaybeValue()
		}
	}
	return ""
}

// logLines keeps what is logged.
type logLines struct {
	mu    sync.Mutex
	lines []string
}

func (l *logLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(b))
	return len(b), nil
}

// count returns how many lines about a topic have the text.
func (l *logLines) count(text, topic string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if strings.Contains(line, text) && slices.Contains(strings.Fields(line), "topic="+topic) {
			n++
		}
	}
	return n
}
