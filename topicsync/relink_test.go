package topicsync

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"

	"lockstep/config"
	"lockstep/internal/kafkatest"
	"lockstep/internal/model"
)

// selecting returns a link like everything() that selects the given patterns only.
func selecting(include ...string) config.Link {
	l := everything()
	l.Topics.Include = include
	return l
}

func TestSyncer_SetLink(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	for _, name := range []string{"stays", "leaves", "comes"} {
		kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: name, Partitions: 2})
	}
	s, b := syncer(t, src, dst, func(o *Options) { o.Link, o.Interval = selecting("stays", "leaves"), time.Hour })
	running(t, s)
	await(t, s, "leaves", TopicCopied)
	await(t, s, "comes", TopicSkipped)
	s.SetLink(selecting("stays", "comes"), []config.Link{selecting("stays", "comes")})
	await(t, s, "comes", TopicCopied) // though the next pass was an hour away
	await(t, s, "leaves", TopicSkipped)
	if d := cmp.Diff([]string{"leaves"}, b.takeLeft()); d != "" {
		t.Errorf("left (-want +got):\n%s", d)
	}
	want := []string{"comes/0", "comes/1", "leaves/0", "leaves/1", "stays/0", "stays/1"}
	if d := cmp.Diff(want, b.lanes()); d != "" {
		t.Errorf("offered; what stays must not be offered again (-want +got):\n%s", d)
	}
	s.SetLink(selecting("stays", "leaves"), []config.Link{selecting("stays", "leaves")})
	await(t, s, "comes", TopicSkipped)
	await(t, s, "leaves", TopicCopied)
	if d := cmp.Diff([]string{"comes"}, b.takeLeft()); d != "" {
		t.Errorf("left (-want +got):\n%s", d)
	}
	if n := len(b.lanes()); n != len(want)+2 {
		t.Errorf("%d lanes offered, want those of the topic that came back once more", n)
	}
}

// A topic that moves from one link to another must have ended in the first before the second begins.
func TestSyncer_NarrowEndsLanesAndTakesNoNewOnes(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	for _, name := range []string{"stays", "leaves", "comes"} {
		kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: name})
	}
	s, b := syncer(t, src, dst, func(o *Options) { o.Link = selecting("stays", "leaves") })
	mustOnce(t, s)
	next := selecting("stays", "comes")
	if err := s.Narrow(within(t), next); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"leaves"}, b.takeLeft()); d != "" {
		t.Errorf("left (-want +got):\n%s", d)
	}
	mustOnce(t, s)
	if got := b.lanes(); slices.Contains(got, "comes/0") || len(got) != 2 {
		t.Errorf("offered %v while the link was only narrowed", got)
	}
	s.SetLink(next, []config.Link{next})
	mustOnce(t, s)
	if got := b.lanes(); !slices.Contains(got, "comes/0") || len(got) != 3 {
		t.Errorf("offered %v", got)
	}
	if left := b.takeLeft(); len(left) > 0 {
		t.Errorf("left again: %v", left)
	}
}

func TestSyncer_ChosenTopicsFollowTheLinksStart(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: "first"})
	s, b := syncer(t, src, dst, func(o *Options) { o.Link = selecting("first") })
	mustOnce(t, s)
	kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: "chosen"}) // younger than the first pass, and not selected
	mustOnce(t, s)
	s.SetLink(everything(), []config.Link{everything()})
	mustOnce(t, s)
	kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: "younger"})
	mustOnce(t, s)
	type how struct{ born, chosen bool }
	for topic, want := range map[string]how{"first": {}, "chosen": {chosen: true}, "younger": {born: true}} {
		if r, ok := b.find(topic, 0); !ok || (how{r.BornAfterStart, r.Chosen}) != want {
			t.Errorf("%s offered as %+v, want %+v", topic, r, want)
		}
	}
}

// A topic that another link wants too is shown; its lanes go on, and the other link gets none.
func TestSyncer_CollisionsFollowTheLinks(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: "orders"})
	s, b := syncer(t, src, dst, nil)
	mustOnce(t, s)
	second := selecting("orders")
	second.Name = "second"
	s.SetLink(everything(), []config.Link{everything(), second})
	mustOnce(t, s)
	if st := state(t, s, "orders"); st.State != TopicFailed || !strings.Contains(st.Detail, "second") {
		t.Errorf("a topic that another link writes too is %+v", st)
	}
	if left := b.takeLeft(); len(left) > 0 {
		t.Errorf("%v left, though the link selects it still", left)
	}
	s.SetLink(everything(), []config.Link{everything()})
	mustOnce(t, s)
	if st := state(t, s, "orders"); st.State != TopicCopied || len(b.lanes()) != 1 {
		t.Errorf("the other link is gone, and the topic is %+v; offered %v", st, b.lanes())
	}
}

// Leaving a lost topic out ends what is shown of it; selected again it is still not made anew silently.
func TestSyncer_LostTopicIsLeft(t *testing.T) {
	t.Parallel()
	src, dst := kafkatest.FakePair(t)
	kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: "orders"})
	var known model.Identity
	s, b := syncer(t, src, dst, func(o *Options) {
		o.Known = func(model.Lane) (model.Identity, bool) { return known, known.DstTopic != "" }
	})
	mustOnce(t, s)
	r, _ := b.find("orders", 0)
	known = r.Identity
	if _, err := kadm.NewClient(dst.Admin()).DeleteTopic(within(t), "orders"); err != nil {
		t.Fatal(err)
	}
	mustOnce(t, s)
	if st := state(t, s, "orders"); st.State != TopicTargetLost {
		t.Fatalf("status %+v", st)
	}
	s.SetLink(selecting("none"), nil)
	mustOnce(t, s)
	if st := state(t, s, "orders"); st.State != TopicSkipped || !slices.Equal(b.takeLeft(), []string{"orders"}) {
		t.Errorf("status %+v", st)
	}
	s.SetLink(everything(), nil)
	mustOnce(t, s)
	if st := state(t, s, "orders"); st.State != TopicTargetLost {
		t.Errorf("status %+v", st)
	}
}
