package topicsync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/kafkatest"
	"lockstep/topicsync/configs"
)

// serverless refuses settings as some managed services do, one at a time (case 62).
func serverless(_ *kmsg.CreateTopicsRequest, t kmsg.CreateTopicsRequestTopic) (*kerr.Error, string) {
	for _, s := range t.Configs {
		switch n, _ := strconv.Atoi(*s.Value); {
		case s.Name == "segment.ms", s.Name == configs.KeyMinISR:
			return kerr.InvalidConfig, s.Name + " cannot be set"
		case s.Name == "retention.ms" && n < 86_400_000:
			return kerr.InvalidConfig, "Invalid value for configuration retention.ms: at least 86400000"
		}
	}
	return nil, ""
}

func serverlessTopic(t *testing.T, src kafkatest.Target) {
	t.Helper()
	kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: "orders", Configs: map[string]string{
		"retention.ms": "3600000", "segment.ms": "60000", configs.KeyMinISR: "1", "max.message.bytes": "2097152"}})
}

// exists asks whether a cluster has a topic, past what the client remembers.
func exists(t *testing.T, c kafkatest.Target, topic string) bool {
	t.Helper()
	resp, err := kmsg.NewPtrMetadataRequest().RequestWith(within(t), c.Admin())
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(resp.Topics, func(x kmsg.MetadataResponseTopic) bool { return *x.Topic == topic })
}

func TestCase62_AcceptedSubset(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	serverlessTopic(t, src)
	picky(dst, serverless)
	s, _ := syncer(t, src, dst, nil)
	mustOnce(t, s)
	st := state(t, s, "orders")
	var left []string
	for _, l := range st.Left {
		left = append(left, l.Key+"="+l.Value)
		if !strings.Contains(l.Why, "the target refuses it: ") {
			t.Errorf("%s: %s", l.Key, l.Why)
		}
	}
	slices.Sort(left)
	if diff := cmp.Diff([]string{configs.KeyMinISR + "=1", "retention.ms=3600000", "segment.ms=60000"}, left); diff != "" || st.State != TopicCopied {
		t.Errorf("%s %s", st.State, diff)
	}
	want := map[string]string{"max.message.bytes": "2097152", configs.KeyAfterMax: unbounded, configs.KeyBeforeMax: unbounded}
	if diff := cmp.Diff(want, configOf(t, s, "orders")); diff != "" {
		t.Error(diff)
	}
}

func TestCase62_StrictRefusesWithTheFullList(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	serverlessTopic(t, src)
	picky(dst, serverless)
	s, _ := syncer(t, src, dst, func(o *Options) { o.Link.Configs.Strict = true })
	mustOnce(t, s)
	st := state(t, s, "orders")
	if exists(t, dst, "orders") || st.State == TopicCopied || st.Err == nil {
		t.Fatalf("status %+v", st)
	}
	for _, key := range []string{"segment.ms", configs.KeyMinISR, "retention.ms", "configs.strict"} {
		if !strings.Contains(st.Err.Error(), key) {
			t.Errorf("%q does not name %s", st.Err, key)
		}
	}
}

// A key that another topic taught is unknown to the target is not left out of a strict topic without a word.
func TestStrict_KnownUnknownsCountToo(t *testing.T) {
	t.Parallel()
	in := Input{Explicit: map[string]map[string]string{"a": {"preallocate": "true"}}, Brokers: 1, Refused: map[string]string{"preallocate": "Unknown"}, Mirror: configs.Mirror{Exclude: nothing}}
	w := Wanted{}
	w.Src.Name, w.Dst.Name = "a", "a"
	for strict, want := range map[bool]bool{true: true, false: false} {
		in.Link.Configs.Strict = strict
		a, ok := planCreate(in, w)
		if asked := slices.ContainsFunc(a.Settings, func(s Setting) bool { return s.Key == "preallocate" }); !ok || asked != want {
			t.Errorf("strict %t: asks for it: %t", strict, asked)
		}
	}
}

// notes is a Journal that records what it is told, and when.
type notes struct {
	mu    sync.Mutex // guards the fields below
	told  []string
	fails error
	there func(topic string) bool // whether the target has it
}

func (n *notes) note(what string, cs []configs.Creation) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range cs {
		n.told = append(n.told, fmt.Sprintf("%s %s there=%t id=%t %d settings", what, c.Dst, n.there(c.Dst), !c.ID.IsZero(), len(c.Settings)))
	}
	return n.fails
}

// mend has further notes succeed.
func (n *notes) mend() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fails = nil
}

func (n *notes) Intend(_ context.Context, cs []configs.Creation) error  { return n.note("intend", cs) }
func (n *notes) Created(_ context.Context, cs []configs.Creation) error { return n.note("created", cs) }

// What is to be created is noted before, and what was created after, with the settings that it got.
func TestSyncer_NotesBeforeAndAfter(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	serverlessTopic(t, src)
	picky(dst, serverless)
	n := &notes{there: func(topic string) bool { return exists(t, dst, topic) }}
	s, _ := syncer(t, src, dst, func(o *Options) { o.Journal = n })
	mustOnce(t, s)
	mustOnce(t, s)
	want := []string{"intend orders there=false id=false 6 settings", "created orders there=true id=true 3 settings"}
	if diff := cmp.Diff(want, n.told); diff != "" {
		t.Error(diff)
	}
}

// A topic whose creation cannot be noted is not created; it is when it can.
func TestSyncer_NothingIsCreatedWithoutANote(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: "orders"})
	n := &notes{there: func(string) bool { return false }, fails: errors.New("no quorum")}
	s, _ := syncer(t, src, dst, func(o *Options) { o.Journal = n })
	running(t, s)
	kafkatest.Eventually(t, 10*time.Second, func() (bool, string) {
		st := state(t, s, "orders")
		return errors.Is(st.Err, n.fails), fmt.Sprintf("%+v", st)
	})
	if exists(t, dst, "orders") {
		t.Error("created without a note")
	}
	n.mend()
	if await(t, s, "orders", TopicCopied); !exists(t, dst, "orders") {
		t.Error("not created")
	}
}
