package topicsync

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"lockstep/config"
	"lockstep/internal/kafka"
	"lockstep/internal/kafkatest"
	"lockstep/internal/model"
)

// dial returns the product's clients of a test cluster, as a user of SASL PLAIN whose password is its name, if one is
// given.
func dial(t *testing.T, name string, c kafkatest.Target, user string) *kafka.Cluster {
	t.Helper()
	cfg := config.Cluster{Name: name, Brokers: c.Brokers()}
	if user != "" {
		cfg.SASL = &config.SASL{Mechanism: "plain", Username: user, Password: config.NewSecret(user)}
	}
	k, err := kafka.Dial(cfg, kafka.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

// within is a context of a minute.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// book records what a Syncer hands over.
type book struct {
	mu     sync.Mutex // guards the fields below
	ready  []Ready
	gone   map[model.Lane]model.Reason
	left   []string
	refuse error // what Offer answers
}

func (b *book) Offer(_ context.Context, _ string, ready []Ready) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refuse != nil {
		return b.refuse
	}
	b.ready = append(b.ready, ready...)
	return nil
}

func (b *book) Gone(_ context.Context, lanes []model.Lane, why model.Reason) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gone == nil {
		b.gone = make(map[model.Lane]model.Reason)
	}
	for _, l := range lanes {
		b.gone[l] = why
	}
}

func (b *book) Leave(_ context.Context, topics []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left = append(b.left, topics...)
}

// takeLeft returns the topics that were left since it was last asked.
func (b *book) takeLeft() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	left := b.left
	b.left = nil
	return left
}

func (b *book) setRefuse(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refuse = err
}

// lanes returns "topic/partition" of everything offered, sorted, repetitions included.
func (b *book) lanes() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []string
	for _, r := range b.ready {
		out = append(out, fmt.Sprintf("%s/%d", r.Lane.Topic, r.Lane.Partition))
	}
	slices.Sort(out)
	return out
}

func (b *book) find(topic string, partition int32) (Ready, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.ready, func(r Ready) bool { return r.Lane.Topic == topic && r.Lane.Partition == partition })
	if i < 0 {
		return Ready{}, false
	}
	return b.ready[i], true
}

func (b *book) goneFor(l model.Lane) model.Reason {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.gone[l]
}

// syncer is a Syncer of everything on src, with what it hands over.
func syncer(t *testing.T, src, dst kafkatest.Target, change func(*Options)) (*Syncer, *book) {
	t.Helper()
	b := &book{}
	o := Options{
		Link: everything(), Lanes: b, Interval: 20 * time.Millisecond,
		Src: dial(t, "src", src, ""), Dst: dial(t, "dst", dst, ""),
	}
	if change != nil {
		change(&o)
	}
	return New(o), b
}

// only limits a link to topics by name.
func only(topics ...string) func(*Options) {
	return func(o *Options) { o.Link.Topics.Include = topics }
}

func mustOnce(t *testing.T, s *Syncer) {
	t.Helper()
	if err := s.Once(within(t)); err != nil {
		t.Fatalf("Once: %v", err)
	}
}

// running starts s.Run for the length of the test.
func running(t *testing.T, s *Syncer) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// state returns the status of one topic.
func state(t *testing.T, s *Syncer, topic string) TopicStatus {
	t.Helper()
	for _, st := range s.Topics() {
		if st.Topic == topic {
			return st
		}
	}
	return TopicStatus{}
}

// await waits until a topic is in a state.
func await(t *testing.T, s *Syncer, topic string, want TopicState) TopicStatus {
	t.Helper()
	var st TopicStatus
	kafkatest.Eventually(t, 20*time.Second, func() (bool, string) {
		st = state(t, s, topic)
		return st.State == want, fmt.Sprintf("%+v", st)
	})
	return st
}

// configOf returns the target's explicit settings of a topic.
func configOf(t *testing.T, s *Syncer, topic string) map[string]string {
	t.Helper()
	settings, errs := readExplicit(within(t), s.o.Dst, []string{topic})
	if err := errs[topic]; err != nil {
		t.Fatal(err)
	}
	return settings[topic]
}
