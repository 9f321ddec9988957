package e2e

import (
	"strings"
	"testing"

	"lockstep/api"
	"lockstep/internal/kafkatest"
)

// A link is paused and resumed under traffic, also over restarts: the target's ends move by records only, not by markers,
// and not at all while it is paused.
func TestWayOut_LinkPaused(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	topics := trafficTopics(t, src, 1)
	x := startTraffic(t, src, topics, seeded(t))
	s := newService(t, linkBetween(src, dst, topics)).start()
	s.reached(stableEnds(t, src, topics...))
	for round, restart := range []bool{false, true} {
		s.command("links", "pause", s.link(), "--yes", "--reason", "a look").want(t, 0)
		s.command("links", "pause", s.link(), "--yes").want(t, 0) // once more changes nothing
		was := logEnds(t, dst, topics...)
		if restart {
			s.stop()
			s.start()
		}
		s.shownAsPaused("a look")
		x.paused(func() {}) // traffic went on until here
		was.unchanged(t, logEnds(t, dst, topics...))
		args := adviceOn(t, s.ownLink().Remedy, "links resume")
		s.command(append(args, "--dry-run")...).want(t, 0)
		was.unchanged(t, logEnds(t, dst, topics...))
		s.command(append(args, "--yes")...).want(t, 0)
		s.reached(stableEnds(t, src, topics...))
		t.Logf("round %d is over", round)
	}
	s.command("links", "resume", s.link(), "--yes").want(t, 3).says(t, "not paused")
	x.end()
	s.equal(src, dst, topics...)
	atMostMarkers(t, dst, topics, 0)
	for _, topic := range topics {
		for p := range partitions(t, src, topic) {
			s.translates(src, dst, topic, p, 0)
		}
	}
	s.stop()
}

// shownAsPaused checks that the whole link is seen to be paused, by whom and why.
func (s *service) shownAsPaused(reason string) {
	s.t.Helper()
	link := s.ownLink()
	if link.State != api.LinkStatePaused || link.Reason != "paused" || !strings.Contains(link.Detail, reason) || link.Lanes.ByState["paused"] != link.Lanes.Total {
		s.t.Errorf("the link is shown as %+v", link)
	}
	if n := s.metric("lockstep_lane_state", `reason="paused"`, `state="paused"`); n != float64(link.Lanes.Total) {
		s.t.Errorf("lockstep_lane_state counts %v lanes as paused of %d", n, link.Lanes.Total)
	}
	s.command("status").want(s.t, 0).says(s.t, "paused", reason, "lockstep links resume "+s.link())
}

// One topic is paused, the others go on; the remedy that its lanes show resumes it.
func TestWayOut_TopicPaused(t *testing.T) {
	t.Parallel()
	s, src, dst, held, healthy := twoTopics(t)
	subject := s.link() + ":" + held
	s.command("topics", "pause", subject, "--yes", "--reason", "a look").want(t, 0)
	for _, again := range []func(){func() {}, func() { s.stop(); s.start() }} {
		again()
		l := s.awaitLane(held, 0, wayOutPatience, func(l laneDetail) bool { return l.State == "paused" })
		kafkatest.Produce(t, src, held, 0, sequel()(20))
		s.goesOn(src, dst, healthy)
		if end := kafkatest.End(t, dst, held, 0); end != 100 {
			t.Errorf("the paused topic's copy grew to %d", end)
		}
		if !strings.Contains(l.Detail, "a look") {
			t.Errorf("the detail %q lacks the reason", l.Detail)
		}
		s.command("lanes", "retry", s.laneName(held, 0), "--yes").want(t, 3).says(t, "resume")
		s.command("links", "resume", s.link(), "--yes").want(t, 3) // the link is not paused
	}
	args := adviceOn(t, s.advice(s.laneName(held, 0)), "topics resume")
	s.command(append(args, "--yes")...).want(t, 0)
	s.equal(src, dst, held, healthy)
	atMostMarkers(t, dst, []string{held, healthy}, 0)
	s.translates(src, dst, held, 0, 0)
	s.stop()
}

// What a link stored is deleted once it left the configuration and nobody runs it, never before; its copies stay.
func TestWayOut_LinkRemoved(t *testing.T) {
	t.Parallel()
	s, src, dst, some, other := twoTopics(t)
	remove := []string{"links", "remove", s.link(), "--target", "backup", "--yes"}
	s.command(remove...).want(t, 3).says(t, "take it out there")
	c := s.conf
	c.links = []linkConf{{name: linkName(), include: []string{"nothing-of-this-name"}}}
	c.dataDir, c.listen = "", ""
	next := newService(t, c)
	next.command(remove...).want(t, 3).says(t, "an owner that lives")
	s.equal(src, dst, some, other)
	s.stop()
	was := logEnds(t, dst, some, other)
	next.command(append(remove[:len(remove)-1:len(remove)-1], "--dry-run")...).want(t, 0).says(t, "2 lanes")
	if !topicExists(t, dst, stateTopic(s.link())) {
		t.Fatal("a dry run deleted the state topic")
	}
	next.command(remove...).want(t, 0)
	if topicExists(t, dst, stateTopic(s.link())) {
		t.Error("the state topic is still there")
	}
	was.unchanged(t, logEnds(t, dst, some, other))
	next.command(remove...).want(t, 3).says(t, "has stored nothing")

	// A link that begins anew there finds the copies, and can adopt them.
	kafkatest.Produce(t, src, some, 0, sequel()(10))
	s.start()
	l := s.stopsFor(some, 0, "not_empty")
	s.follow(l, "topics adopt", "--from", "latest")
	kafkatest.Produce(t, src, some, 0, sequel()(10))
	s.reached(ends{some: {120}})
	kafkatest.MustEqual(t, src, dst, same(some), kafkatest.CompareOptions{SrcFrom: map[int32]int64{0: 110}, DstFrom: map[int32]int64{0: 100}})
	s.stop()
}
