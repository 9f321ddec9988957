package e2e

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockstep/internal/kafkatest"
)

// Two links that write one topic: refused by the configuration, and by the second process when each has its own.
func TestRefuse_SecondLinkOnSameTarget(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	some := sequel()
	topic := kafkatest.Topic(t, src, kafkatest.TopicOptions{Partitions: 2})
	kafkatest.Produce(t, src, topic, 0, some(50)) // partition 1 is empty on both sides

	both := linkBetween(src, dst, []string{topic}).complete(t)
	both.links = append(both.links, linkConf{name: linkName(), include: []string{exactly(topic)}})
	for _, command := range []string{"run", "validate"} {
		lockstep(t, command, "-c", both.write(t)).want(t, 2).says(t, "two links would write topic", topic, both.links[0].name, both.links[1].name, "exclude")
	}
	if topicExists(t, dst, topic) || topicExists(t, dst, stateTopic(both.links[0].name)) {
		t.Error("a refused configuration left topics on the target")
	}

	first := newService(t, linkBetween(src, dst, []string{topic})).start()
	first.equal(src, dst, topic)
	was := logEnds(t, dst, topic)
	second := newService(t, linkBetween(src, dst, []string{topic})).start()
	for p := range int32(2) {
		l := second.stopsAs(topic, p, "other_link")
		if !strings.Contains(l.Detail, first.link()) {
			t.Errorf("the detail %q does not name the other link %s", l.Detail, first.link())
		}
		checkRemedy(t, l.Remedy)
	}
	was.unchanged(t, logEnds(t, dst, topic))
	second.stop()
	kafkatest.Produce(t, src, topic, 1, some(50))
	first.equal(src, dst, topic)
	first.stop()
}

// A topic that was copied must not flow back under the same name.
func TestRefuse_ReverseLinkOverSameNames(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	some := sequel()
	topic := kafkatest.Topic(t, src, kafkatest.TopicOptions{Partitions: 2})
	kafkatest.Produce(t, src, topic, 0, some(50))

	circle := linkBetween(src, dst, []string{topic}).complete(t)
	circle.links = append(circle.links, linkConf{name: linkName(), include: []string{exactly(topic)}, back: true})
	for _, command := range []string{"run", "validate"} {
		lockstep(t, command, "-c", circle.write(t)).want(t, 2).says(t, "circle", topic, circle.links[0].name, circle.links[1].name, "exclude")
	}

	there := newService(t, linkBetween(src, dst, []string{topic})).start()
	there.equal(src, dst, topic)
	was := logEnds(t, src, topic)
	c := linkBetween(src, dst, []string{topic})
	c.links[0].back = true
	back := newService(t, c).start()
	for p := range int32(2) {
		l := back.stopsAs(topic, p, "cycle")
		if !strings.Contains(l.Detail, there.link()) {
			t.Errorf("the detail %q does not name the other link %s", l.Detail, there.link())
		}
		checkRemedy(t, l.Remedy)
	}
	was.unchanged(t, logEnds(t, src, topic))
	back.stop()
	there.stop()
	was.unchanged(t, logEnds(t, src, topic))
}

func TestRefuse_TargetNotEmpty(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	some := sequel()
	full, free := kafkatest.Topic(t, src), kafkatest.Topic(t, src)
	kafkatest.Topic(t, dst, kafkatest.TopicOptions{Name: full})
	kafkatest.Produce(t, dst, full, 0, some(7))
	kafkatest.Produce(t, src, full, 0, some(50))
	kafkatest.Produce(t, src, free, 0, some(50))
	s := newService(t, linkBetween(src, dst, []string{full, free})).start()
	l := s.stopsAs(full, 0, "not_empty")
	if !strings.Contains(l.Detail, "0 to 6") {
		t.Errorf("the detail %q does not say what stands there", l.Detail)
	}
	checkRemedy(t, l.Remedy)
	s.equal(src, dst, free)
	if end := kafkatest.End(t, dst, full, 0); end != 7 {
		t.Errorf("the target's end moved from 7 to %d", end)
	}
	s.stop()
	if r := s.once(5); !strings.Contains(r.stderr, "1 lanes or topics could not be copied") {
		t.Errorf("run --once does not say that one lane was not copied\n%s", r)
	}
}

// Every way in which a link's state topic can lose state, and what repairs it.
func TestRefuse_StateTopicWrongPolicy(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	topic := kafkatest.Topic(t, src)
	kafkatest.Produce(t, src, topic, 0, kafkatest.Records(20, 1))
	s := newService(t, linkBetween(src, dst, []string{topic}))
	state := stateTopic(s.link())
	kafkatest.Topic(t, dst, kafkatest.TopicOptions{Name: state, Partitions: 16, Configs: map[string]string{"cleanup.policy": "delete"}})
	repair := []string{state, "cleanup.policy is delete, must be compact", "kafka-configs.sh", "--alter --add-config cleanup.policy=compact"}
	s.command("run").want(t, 3).says(t, repair...)
	s.command("validate").want(t, 1).says(t, repair...)
	if topicExists(t, dst, topic) {
		t.Error("a refused start made the target topic")
	}
	setTopic(t, dst, state, map[string]string{"cleanup.policy": "compact"})
	s.start()
	s.equal(src, dst, topic)
	s.stop()
	if got := setting(t, dst, state, "min.cleanable.dirty.ratio"); got != "0.1" {
		t.Errorf("min.cleanable.dirty.ratio of the state topic is %s", got)
	}
	setTopic(t, dst, state, map[string]string{"cleanup.policy": "compact,delete"})
	s.command("run").want(t, 3).says(t, "cleanup.policy is", "delete")
}

func TestRefuse_StateTopicWrongPartitions(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	topic := kafkatest.Topic(t, src)
	s := newService(t, linkBetween(src, dst, []string{topic}))
	deleteTopicAfter(t, dst, stateTopic(s.link()))
	kafkatest.Topic(t, dst, kafkatest.TopicOptions{Name: stateTopic(s.link()), Partitions: 3, Configs: map[string]string{"cleanup.policy": "compact"}})
	s.command("run").want(t, 3).says(t, "number of partitions is 3, must be 16", "kafka-topics.sh")
}

// Two addresses of one cluster.
func TestRefuse_SameCluster(t *testing.T) {
	t.Parallel()
	src, _ := pair(t)
	topic := kafkatest.Topic(t, src)
	c := linkBetween(src, src, []string{topic})
	c.backup = []string{strings.Replace(src.Brokers()[0], "127.0.0.1", "localhost", 1)}
	c.links[0].rename = "copy.{topic}"
	s := newService(t, c)
	s.command("run").want(t, 3).says(t, "one and the same cluster", src.ID())
	s.once(3)
	s.command("validate").want(t, 1).says(t, "one and the same cluster")
	if topicExists(t, src, "copy."+topic) || topicExists(t, src, stateTopic(s.link())) {
		t.Error("topics were made")
	}
	same := linkBetween(src, src, []string{topic})
	lockstep(t, "run", "-c", same.complete(t).write(t)).want(t, 2).says(t, "are one cluster")
}

func TestRefuse_SecondProcessSameDataDir(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	topic := kafkatest.Topic(t, src)
	s := newService(t, linkBetween(src, dst, []string{topic})).start()
	c := linkBetween(src, dst, []string{topic})
	c.dataDir = s.conf.dataDir
	other := newService(t, c)
	began := time.Now()
	other.command("run").want(t, 3).says(t, s.conf.dataDir, "node.data_dir")
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the refusal took %s", took)
	}
	kafkatest.Produce(t, src, topic, 0, kafkatest.Records(10, 1))
	s.equal(src, dst, topic)
	s.stop()
}

// An instance with another identity does not touch a link whose owner lives: no claim, no producer id, no marker.
func TestRefuse_SecondInstanceWhileOwnerLives(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	some := sequel()
	topic := kafkatest.Topic(t, src)
	kafkatest.Produce(t, src, topic, 0, some(50))
	s := newService(t, linkBetween(src, dst, []string{topic})).start()
	s.equal(src, dst, topic)
	before := s.term()
	second := newService(t, secondInstance(s, t))
	second.launch()
	log := second.exits(3, 20*time.Second)
	for _, text := range []string{s.link(), "alive", "stop that instance"} {
		if !strings.Contains(log, text) {
			t.Errorf("the refusal lacks %q:\n%s", text, log)
		}
	}
	kafkatest.Produce(t, src, topic, 0, some(50))
	s.equal(src, dst, topic)
	if now := s.term(); now != before {
		t.Errorf("the term went from %d to %d", before, now)
	}
	atMostMarkers(t, dst, []string{topic}, 0)
	s.stop()

	// Given up cleanly, the link is there for the taking.
	second.start()
	kafkatest.Produce(t, src, topic, 0, some(50))
	second.equal(src, dst, topic)
	second.stop()
}

// secondInstance is the same link in another data directory.
func secondInstance(s *service, t *testing.T) conf {
	t.Helper()
	c := s.conf
	c.dataDir, c.listen = filepath.Join(t.TempDir(), "other"), ""
	return c
}

func (s *service) term() uint64 {
	s.t.Helper()
	l, err := s.client.Link(s.t.Context(), s.link())
	if err != nil {
		s.t.Fatal(err)
	}
	return l.Term
}

// An owner that died is silent; another instance takes the link over by itself after half a minute, and nothing is lost
// or copied twice. The dead one comes back and steps aside.
func TestTakeOver_WhenOwnerIsSilent(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	src, dst := pair(t)
	topics := trafficTopics(t, src, 1)
	x := startTraffic(t, src, topics, seeded(t))
	first := newService(t, linkBetween(src, dst, topics)).start()
	first.reached(stableEnds(t, src, topics...))
	first.kill()
	second := newService(t, secondInstance(first, t))
	p := second.launch()
	kafkatest.Eventually(t, 90*time.Second, func() (bool, string) {
		return second.client.Ready(t.Context()) == nil, tail(p.log(), 3)
	})
	second.reached(stableEnds(t, src, topics...))
	first.launch()
	first.exits(3, 20*time.Second)
	x.end()
	second.equal(src, dst, topics...)
	second.stop()
}

// A process that was suspended for longer than its owner's patience finds another owner when it wakes, and writes
// nothing any more.
func TestTakeOver_FrozenOwnerWakes(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	src, dst := pair(t)
	topics := trafficTopics(t, src, 1)
	x := startTraffic(t, src, topics, seeded(t))
	first := newService(t, linkBetween(src, dst, topics)).start()
	first.reached(stableEnds(t, src, topics...))
	first.now().freeze(t)
	second := newService(t, secondInstance(first, t))
	p := second.launch()
	kafkatest.Eventually(t, 90*time.Second, func() (bool, string) {
		return second.client.Ready(t.Context()) == nil, tail(p.log(), 3)
	})
	first.now().thaw(t)
	log := first.exits(3, 30*time.Second)
	if !strings.Contains(log, "took it over") {
		t.Errorf("the old owner does not say why it ended:\n%s", tail(log, 10))
	}
	x.end()
	second.equal(src, dst, topics...)
	second.stop()
}

// Something that looks like another link's state topic and is none must not hold up this link's new topics.
func TestRefuse_StrangeStateTopicHoldsNobodyUp(t *testing.T) {
	kafkatest.Long(t)
	src, _ := pair(t)
	dst := kafkatest.Start(t, kafkatest.Options{})
	kafkatest.Topic(t, dst, kafkatest.TopicOptions{Name: stateTopic("nobody"), Partitions: 3})
	full := kafkatest.Topic(t, dst, kafkatest.TopicOptions{Name: stateTopic("rubbish"), Partitions: 16})
	kafkatest.Produce(t, dst, full, 0, kafkatest.Records(50, 1))
	topic := kafkatest.Topic(t, src)
	kafkatest.Produce(t, src, topic, 0, kafkatest.Records(50, 1))
	s := newService(t, linkBetween(src, dst, []string{topic})).start()
	s.equal(src, dst, topic)
	s.stop()
}

// A topic whose copy cannot be made on the target, here for its name's length, is seen wherever one looks, and holds up no
// other.
func TestRefuse_TopicThatCannotBeMade(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	prefix := kafkatest.TopicName(t)
	long := kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: prefix + strings.Repeat("x", 240-len(prefix))})
	short := kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: prefix})
	for _, topic := range []string{long, short} {
		kafkatest.Produce(t, src, topic, 0, kafkatest.Records(10, 1))
	}
	c := linkBetween(src, dst, []string{long, short})
	c.links[0].rename = "a-prefix-of-some-length.{topic}"
	s := newService(t, c).start()
	s.copied(src, short)
	kafkatest.MustEqual(t, src, dst, []kafkatest.Pair{{Src: short, Dst: "a-prefix-of-some-length." + short}})
	if r := s.command("status").want(t, 0); !strings.Contains(r.stdout, long) {
		t.Errorf("status does not show the topic that cannot be copied\n%s", r)
	}
	if !strings.Contains(s.now().log(), long) {
		t.Error("the log does not name the topic that cannot be copied")
	}
	s.stop()
	s.once(5)
}
