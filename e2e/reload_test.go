package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"lockstep/api"
	"lockstep/internal/kafkatest"
)

// reloadPatience bounds how long a changed file may take to be in force: two looks at it, and a clean end of a link.
const reloadPatience = 40 * time.Second

// put replaces the configuration file as an operator's tools do: a new file takes the name of the old one.
func (s *service) put(text string) {
	s.t.Helper()
	fresh := s.file + ".new"
	if err := os.WriteFile(fresh, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(fresh, s.file); err != nil {
		s.t.Fatal(err)
	}
}

// reconfigure changes the file and waits until the service says that its content is in force.
func (s *service) reconfigure(change func(*conf)) {
	s.t.Helper()
	change(&s.conf)
	s.put(s.conf.yaml())
	s.inForce()
}

// inForce waits until the file's present content is in force.
func (s *service) inForce() {
	s.t.Helper()
	sum := sha256.Sum256([]byte(s.conf.yaml()))
	want := hex.EncodeToString(sum[:])
	s.awaitConfig(func(c api.ConfigStatus) bool { return c.Hash == want && c.Failed == nil })
}

func (s *service) awaitConfig(ok func(api.ConfigStatus) bool) (c api.ConfigStatus) {
	s.t.Helper()
	kafkatest.Eventually(s.t, reloadPatience, func() (bool, string) {
		st, err := s.client.Status(s.t.Context())
		if err != nil || st.Config == nil {
			return false, fmt.Sprintf("%+v, %v", st, err)
		}
		c = *st.Config
		return ok(c), fmt.Sprintf("%+v", c)
	})
	return c
}

// of is the service as the owner of one of its links.
func (s *service) of(link int) *service {
	one := *s
	one.conf.links = []linkConf{s.conf.links[link]}
	return &one
}

// opened waits until every lane of the source's topics has been opened, and tells in which opening and term each is.
func (s *service) opened(src kafkatest.Target, topics ...string) map[string][2]uint64 {
	s.t.Helper()
	want := 0
	for _, topic := range topics {
		want += int(partitions(s.t, src, topic))
	}
	var out map[string][2]uint64
	kafkatest.Eventually(s.t, copyPatience, func() (bool, string) {
		lanes, err := s.client.Lanes(s.t.Context(), s.link())
		if err != nil {
			return false, err.Error()
		}
		out = make(map[string][2]uint64)
		for _, l := range lanes {
			if slices.Contains(topics, l.Topic) && l.Opening > 0 {
				out[laneKey(l.Topic, l.Partition)] = [2]uint64{l.Opening, l.Term}
			}
		}
		return len(out) == want, fmt.Sprintf("%d of %d lanes are open: %v", len(out), want, out)
	})
	return out
}

// undisturbed fails the test when a lane is not in the term where it was; with openings also when it was opened anew.
func (s *service) undisturbed(src kafkatest.Target, was map[string][2]uint64, openings bool, topics ...string) {
	s.t.Helper()
	now := s.opened(src, topics...)
	for lane, w := range was {
		if n := now[lane]; n[1] != w[1] || openings && n[0] != w[0] {
			s.t.Errorf("lane %s was in opening %d of term %d, and is in opening %d of term %d", lane, w[0], w[1], n[0], n[1])
		}
	}
}

// dense fails the test when the target's logs are not as long as the source's: a marker takes an offset. It is for topics
// without transactions and holes.
func dense(t testing.TB, src, dst kafkatest.Target, topics ...string) {
	t.Helper()
	logEnds(t, src, topics...).unchanged(t, logEnds(t, dst, topics...))
}

func filled(t *testing.T, src kafkatest.Target, some func(int) []*kgo.Record, topics ...string) {
	t.Helper()
	for _, topic := range topics {
		for p := range partitions(t, src, topic) {
			kafkatest.Produce(t, src, topic, p, some(50))
		}
	}
}

// One link copies traffic all the time and must not notice what happens to the other.
func TestReload_UntouchedLanesDoNotNotice(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	src, dst := pair(t)
	busy := trafficTopics(t, src, 1)
	x := startTraffic(t, src, busy, seeded(t))
	name := kafkatest.TopicName(t)
	var others []string
	for _, suffix := range []string{"-a", "-b", "-c"} {
		others = append(others, kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: name + suffix, Partitions: 2}))
	}
	a, b, c := others[0], others[1], others[2]
	some := sequel()
	filled(t, src, some, others...)

	cfg := linkBetween(src, dst, busy)
	cfg.links = append(cfg.links, linkConf{include: []string{exactly(a)}})
	s := newService(t, cfg)
	s.repeats = 10
	s.start()
	second := func() *service { return s.of(1) }
	second().equal(src, dst, a)
	steady, first := s.opened(src, busy...), second().opened(src, a)

	t.Log("a topic more, other limits, another on_gap")
	s.reconfigure(func(c *conf) {
		c.links[1].include = []string{exactly(a), exactly(b)}
		c.links[1].more = []string{"on_gap: pause", "limits: {bytes_per_second: 50MB}"}
		c.more = "log: {level: warn}\nlimits: {buffer_bytes: 64MiB}"
	})
	second().equal(src, dst, a, b)
	second().undisturbed(src, first, true, a)

	t.Log("a topic less, and again")
	s.reconfigure(func(c *conf) { c.links[1].include = []string{exactly(b)} })
	for p := range int32(2) {
		second().awaitLane(a, p, time.Minute, func(l api.LaneDetail) bool { return l.State == "closed" })
	}
	before := logEnds(t, dst, a)
	filled(t, src, some, a, b)
	second().equal(src, dst, b)
	before.unchanged(t, logEnds(t, dst, a))
	s.reconfigure(func(c *conf) { c.links[1].include = []string{exactly(a), exactly(b)} })
	second().equal(src, dst, a, b)
	second().undisturbed(src, first, false, a)
	dense(t, src, dst, a, b)

	t.Log("on_gap counts at once")
	deleteUncopied(t, s, src, dst, a)

	t.Log("a link more, one that starts again, and one less")
	s.reconfigure(func(cf *conf) {
		cf.links = append(slices.Clone(cf.links), linkConf{name: linkName(), include: []string{exactly(c)}})
		cf.links[1].more = []string{"isolation: read_uncommitted"}
	})
	s.of(2).equal(src, dst, c)
	filled(t, src, some, b, c)
	second().equal(src, dst, b)
	s.of(2).equal(src, dst, c)
	dense(t, src, dst, b, c)
	third := s.conf.links[2]
	inThird := s.of(2).opened(src, c)
	s.reconfigure(func(cf *conf) { cf.links = cf.links[:2] })
	if _, err := s.client.Link(t.Context(), third.name); err == nil {
		t.Errorf("link %s is there after it left the configuration", third.name)
	}
	if !topicExists(t, dst, stateTopic(third.name)) {
		t.Error("the state topic went with the link")
	}
	if n := s.metric("lockstep_copied_records_total", `link="`+third.name+`"`); n >= 0 {
		t.Errorf("a link that is gone has metrics: %v", n)
	}
	filled(t, src, some, c)
	s.reconfigure(func(cf *conf) { cf.links = append(slices.Clone(cf.links), third) })
	s.of(2).equal(src, dst, c)
	s.of(2).undisturbed(src, inThird, false, c)
	dense(t, src, dst, c)

	t.Log("a file with faults, and without")
	brokenAndMended(t, s)

	x.end()
	s.undisturbed(src, steady, true, busy...)
	s.equal(src, dst, busy...)
	dense(t, src, dst, busy[0])
	s.stop()
}

// deleteUncopied leaves a hole at the source behind what was copied, while the link does not select the topic, and expects
// the lane to pause there; a change back lets later gaps be.
func deleteUncopied(t *testing.T, s *service, src, dst kafkatest.Target, topic string) {
	t.Helper()
	two := s.conf.links[1]
	s.reconfigure(func(c *conf) { c.links[1].include = two.include[1:] })
	s.of(1).awaitLane(topic, 0, time.Minute, func(l api.LaneDetail) bool { return l.State == "closed" })
	kafkatest.Produce(t, src, topic, 0, kafkatest.Records(30, 77))
	deleteBefore(t, src, topic, 0, kafkatest.End(t, src, topic, 0)-10)
	s.reconfigure(func(c *conf) { c.links[1].include = two.include })
	s.of(1).stopsAs(topic, 0, "gap")
	s.of(1).awaitLane(topic, 1, time.Minute, func(l api.LaneDetail) bool { return l.State == "copying" })
}

func brokenAndMended(t *testing.T, s *service) {
	t.Helper()
	good := s.conf.yaml()
	was := s.awaitConfig(func(c api.ConfigStatus) bool { return c.Failed == nil })
	s.put(good + "nodes: {}\n")
	st := s.awaitConfig(func(c api.ConfigStatus) bool { return c.Failed != nil })
	fault := fmt.Sprintf("lockstep.yaml:%d: nodes: unknown key", 1+strings.Count(good, "\n"))
	if st.Hash != was.Hash || !strings.Contains(strings.Join(st.Failed.Faults, "\n"), fault) {
		t.Errorf("status of a file with faults: %+v, %+v", st, st.Failed)
	}
	s.command("status").want(t, 0).says(t, "the changed configuration is not in force", fault) // its faults keep nobody from asking
	lockstep(t, "status", "--server", "http://"+s.conf.listen).want(t, 0).says(t, "the changed configuration is not in force", fault)
	if n := s.metric("lockstep_config_reload_failures_total"); n != 1 {
		t.Errorf("%v failures are counted, want 1", n)
	}
	s.put(good)
	s.inForce()
	s.reconfigure(func(c *conf) { c.more = "log: {level: info, format: json}" })
	lockstep(t, "status", "--server", "http://"+s.conf.listen).want(t, 0).says(t, "in force after the next start: log.format")
}

// A link that is refused after a reload is shown, and is the only one to stop; mending it needs no restart.
func TestReload_RefusedLinkStopsAlone(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	topic, other := kafkatest.Topic(t, src), kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: kafkatest.TopicName(t) + "-other"})
	kafkatest.Produce(t, src, topic, 0, kafkatest.Records(20, 1))
	kafkatest.Produce(t, src, other, 0, kafkatest.Records(20, 2))
	s := newService(t, linkBetween(src, dst, []string{topic})).start()
	s.equal(src, dst, topic)
	was := s.opened(src, topic)
	bad := linkConf{name: linkName(), include: []string{exactly(other)}}
	kafkatest.Topic(t, dst, kafkatest.TopicOptions{Name: stateTopic(bad.name), Partitions: 16, Configs: map[string]string{"cleanup.policy": "delete"}})
	s.reconfigure(func(c *conf) { c.links = append(slices.Clone(c.links), bad) })
	kafkatest.Eventually(t, time.Minute, func() (bool, string) {
		l, err := s.client.Link(t.Context(), bad.name)
		return err == nil && l.State == api.LinkStateStopped && strings.Contains(l.Detail, "cleanup.policy is delete"), fmt.Sprintf("%+v, %v", l, err)
	})
	s.command("status").want(t, 0).says(t, bad.name+" stopped", "SIGHUP", "--alter --add-config cleanup.policy=compact")
	if err := s.client.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), bad.name) {
		t.Errorf("ready while a link has stopped: %v", err)
	}
	kafkatest.Produce(t, src, topic, 0, kafkatest.Records(20, 3))
	s.equal(src, dst, topic)
	s.undisturbed(src, was, true, topic)
	setTopic(t, dst, stateTopic(bad.name), map[string]string{"cleanup.policy": "compact"})
	s.now().signal(t, syscall.SIGHUP)
	s.of(1).equal(src, dst, other)
	s.undisturbed(src, was, true, topic)
	s.stop()
}

// The password of a running link changes on the broker and in the file that the configuration names. Nothing else is done.
func TestReload_PasswordFileRotates(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	src := kafkatest.Start(t, kafkatest.Options{Proxied: true,
		Security: kafkatest.Security{SASL: "SCRAM-SHA-512", Users: map[string]string{"lockstep": "first-secret"}}})
	_, dst := pair(t)
	topic := kafkatest.Topic(t, src)
	kafkatest.Produce(t, src, topic, 0, kafkatest.Records(50, 1))
	secret := filepath.Join(t.TempDir(), "password")
	store := func(password string) {
		t.Helper()
		if err := errors.Join(os.WriteFile(secret+".new", []byte(password+"\n"), 0o600), os.Rename(secret+".new", secret)); err != nil {
			t.Fatal(err)
		}
	}
	store("first-secret")
	cfg := linkBetween(src, dst, []string{topic})
	cfg.primaryMore = fmt.Sprintf(", sasl: {mechanism: scram-sha-512, username: lockstep, password: %q}", "file:"+secret)
	s := newService(t, cfg).start()
	s.equal(src, dst, topic)
	was := s.opened(src, topic)

	changed, err := kadm.NewClient(src.Admin()).AlterUserSCRAMs(t.Context(), nil,
		[]kadm.UpsertSCRAM{{User: "lockstep", Mechanism: kadm.ScramSha512, Iterations: 4096, Password: "second-secret"}})
	if err == nil {
		err = changed.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	store("second-secret")
	s.now().signal(t, syscall.SIGHUP)
	src.Proxy(1).Cut()
	kafkatest.Produce(t, src, topic, 0, kafkatest.Records(50, 2))
	s.equal(src, dst, topic)
	s.undisturbed(src, was, true, topic)
	dense(t, src, dst, topic)

	s.reconfigure(func(c *conf) { c.primaryMore = strings.Replace(c.primaryMore, "sasl:", "client_id: renamed, sasl:", 1) })
	kafkatest.Produce(t, src, topic, 0, kafkatest.Records(50, 3))
	s.equal(src, dst, topic)
	s.undisturbed(src, was, false, topic) // its link was started again, with new clients
	dense(t, src, dst, topic)
	if log := s.now().log(); strings.Contains(log, "-secret") {
		t.Error("the log shows a password")
	}
	s.stop()
}
