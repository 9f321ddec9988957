package configs

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/config"
	"lockstep/internal/kafka"
	"lockstep/internal/kafkatest"
	"lockstep/internal/model"
	"lockstep/internal/statelog"
	"lockstep/topicsync/drift"
)

func TestMain(m *testing.M) { kafkatest.Main(m) }

// stateTopic is one in memory.
type stateTopic struct {
	mu      sync.Mutex // guards the fields below
	entries []statelog.Entry
	fns     map[string]func(statelog.Entry) error
	puts    int
	err     error // what Put answers
}

func (s *stateTopic) Handle(kind string, fn func(statelog.Entry) error) {
	s.fns = map[string]func(statelog.Entry) error{kind: fn}
}

func (s *stateTopic) Put(_ context.Context, entries ...statelog.Entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	s.puts++
	s.entries = append(s.entries, entries...)
	return nil
}

func (s *stateTopic) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.puts
}

// replay returns the journal of a process that starts now.
func (s *stateTopic) replay(t *testing.T) *Journal {
	t.Helper()
	j := newJournal(s, s)
	for _, e := range s.entries {
		if err := s.fns[kindTopic](e); err != nil {
			t.Fatal(err)
		}
	}
	return j
}

// rig is a Part between two clusters.
type rig struct {
	t        *testing.T
	src, dst kafkatest.Target
	state    *stateTopic
	part     *Part
	scope    drift.Scope
	logged   *logs
	trims    bool
}

// logs counts what is logged at warn and above.
type logs struct {
	slog.Handler
	mu   sync.Mutex // guards warn
	warn []string
}

func (l *logs) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Level >= slog.LevelWarn {
		l.warn = append(l.warn, r.Message)
	}
	return nil
}

func dialed(t *testing.T, name string, c kafkatest.Target, cfg func(*config.Cluster)) *kafka.Cluster {
	t.Helper()
	cc := config.Cluster{Name: name, Brokers: c.Brokers()}
	if cfg != nil {
		cfg(&cc)
	}
	k, err := kafka.Dial(cc, kafka.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

func newRig(t *testing.T, src, dst kafkatest.Target) *rig {
	t.Helper()
	r := &rig{t: t, src: src, dst: dst, state: &stateTopic{}, logged: &logs{Handler: slog.DiscardHandler}, trims: true}
	r.scope.Link = config.Link{Name: "dr", Configs: config.Configs{Sync: true, Retention: "open"}}
	r.scope.Now = time.Unix(1_000_000, 0)
	r.part = New(Options{
		Source: dialed(t, "src", src, nil), Target: dialed(t, "dst", dst, nil), Journal: newJournal(r.state, r.state),
		CanTrim: func(string) bool { return r.trims }, Logger: slog.New(r.logged),
	})
	return r
}

// both makes a topic on both sides, with these explicit settings, and has the link copy it to dstName.
func (r *rig) both(name, dstName string, source, target map[string]string) {
	r.t.Helper()
	kafkatest.CreateTopic(r.t, r.src, kafkatest.TopicOptions{Name: name, Configs: source})
	kafkatest.CreateTopic(r.t, r.dst, kafkatest.TopicOptions{Name: dstName, Configs: target})
	kafkatest.AwaitLeaders(r.t, r.src, name)
	kafkatest.AwaitLeaders(r.t, r.dst, dstName)
	r.copies(name, dstName)
}

func (r *rig) copies(name, dstName string) {
	r.t.Helper()
	r.scope.Topics = append(r.scope.Topics, drift.Topic{Src: name, Dst: dstName, SrcID: idOf(r.t, r.src, name), DstID: idOf(r.t, r.dst, dstName), Replicas: 1, DstReplicas: 1})
}

// made notes that lockstep created a topic's copy, with these settings.
func (r *rig) made(topic string, settings, source map[string]string) {
	r.t.Helper()
	for _, x := range r.scope.Topics {
		if x.Src == topic {
			if err := r.part.o.Journal.Created(r.ctx(), []Creation{{Topic: topic, Dst: x.Dst, Settings: settings, Source: source, ID: x.DstID}}); err != nil {
				r.t.Fatal(err)
			}
		}
	}
}

func idOf(t *testing.T, c kafkatest.Target, topic string) model.TopicID {
	t.Helper()
	var id model.TopicID
	kafkatest.Eventually(t, 10*time.Second, func() (bool, string) {
		ds, err := kadm.NewClient(c.Admin()).ListTopics(t.Context(), topic)
		id = model.TopicID(ds[topic].ID)
		return err == nil && ds[topic].Err == nil, fmt.Sprint(err, ds[topic].Err)
	})
	return id
}

func (r *rig) ctx() context.Context {
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	r.t.Cleanup(cancel)
	return ctx
}

func (r *rig) pass() drift.Outcome { return r.part.Pass(r.ctx(), r.scope) }

// order makes a pass that an operator asks for.
func (r *rig) order(o drift.Order) drift.Outcome {
	s := r.scope
	s.Order = &o
	return r.part.Pass(r.ctx(), s)
}

// set changes explicit settings by hand; nil removes one.
func set(t *testing.T, c kafkatest.Target, topic string, settings map[string]*string) {
	t.Helper()
	var alter []kadm.AlterConfig
	for k, v := range settings {
		op := kadm.SetConfig
		if v == nil {
			op = kadm.DeleteConfig
		}
		alter = append(alter, kadm.AlterConfig{Op: op, Name: k, Value: v})
	}
	rs, err := kadm.NewClient(c.Admin()).AlterTopicConfigs(t.Context(), alter, topic)
	if err == nil {
		_, err = rs.On(topic, func(r *kadm.AlterConfigsResponse) error { return r.Err })
	}
	if err != nil {
		t.Fatal(err)
	}
}

// explicit reads a topic's explicit settings, by another client than the product's.
func explicit(t *testing.T, c kafkatest.Target, topic string) map[string]string {
	t.Helper()
	rs, err := kadm.NewClient(c.Admin()).DescribeTopicConfigs(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]string)
	for _, r := range rs {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		for _, c := range r.Configs {
			if c.Source == kmsg.ConfigSourceDynamicTopicConfig {
				out[c.Key] = c.MaybeValue()
			}
		}
	}
	return out
}

// states returns items as KEY: state.
func states(items []drift.Item) map[string]drift.State {
	out := make(map[string]drift.State)
	for _, i := range items {
		out[i.Topic+" "+i.Name] = i.State
	}
	return out
}

// eventually waits until a topic of the target has these settings: brokers show a change a little after they answer.
func (r *rig) eventually(topic string, want map[string]string) {
	r.t.Helper()
	kafkatest.Eventually(r.t, 10*time.Second, func() (bool, string) {
		got := explicit(r.t, r.dst, topic)
		return fmt.Sprint(got) == fmt.Sprint(want), fmt.Sprintf("has %v, want %v", got, want)
	})
}
