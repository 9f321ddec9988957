package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockstep/api"
	"lockstep/internal/kafkatest"
)

// A link leaves the configuration; another one is to write its topics. What the first has stored goes only after its owner
// has been silent, and then the second takes the topics over behind what they hold.
func TestCare_RemovedLinkFreesItsTopics(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	src, dst := pair(t)
	some := sequel()
	topic := kafkatest.Topic(t, src)
	kafkatest.Produce(t, src, topic, 0, some(50))
	first := newService(t, linkBetween(src, dst, []string{topic})).start()
	first.equal(src, dst, topic)
	second := newService(t, linkBetween(src, dst, []string{topic})).start()
	second.stopsAs(topic, 0, "other_link")

	remove := []string{"links", "remove", first.link(), "--target", "backup"}
	lockstep(t, append(remove, "--yes", "-c", first.file)...).want(t, 3).says(t, "the configuration has link")
	second.command(append(remove, "--yes")...).want(t, 3).says(t, "an owner that lives")
	first.kill()
	second.command(remove...).want(t, 2).says(t, "--yes")
	second.command(append(remove, "--dry-run")...).want(t, 0).says(t, "no sign of life", "silent for 30s", "1 lane ", "cannot be undone")
	if !topicExists(t, dst, stateTopic(first.link())) {
		t.Fatal("a dry run deleted the state topic")
	}
	second.command(append(remove, "--yes")...).want(t, 0).says(t, "done")
	if topicExists(t, dst, stateTopic(first.link())) || !topicExists(t, dst, topic) {
		t.Fatal("want the state topic deleted, and nothing else")
	}

	second.command("lanes", "retry", "--link", second.link(), "--all", "--yes")
	second.stopsAs(topic, 0, "not_empty")
	second.command("topics", "adopt", second.link()+":"+topic, "--from", "latest", "--yes").want(t, 0).says(t, "done")
	kafkatest.Produce(t, src, topic, 0, some(7))
	second.awaitLane(topic, 0, 30*time.Second, func(l api.LaneDetail) bool { return l.State == "copying" && l.SourceOffset == 57 })
	kafkatest.MustEqual(t, src, dst, same(topic))
	second.stop()
}

// The probe on a real target, run to its end and interrupted in the middle.
func TestProbe_RealTarget(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	s := newService(t, linkBetween(src, dst, []string{"no-such-topic"}))
	r := s.command("validate", "--probe").want(t, 0).says(t, "seal: direct", "probe of backup: deleting lockstep.probe.")
	if strings.Contains(r.stdout, "see below") {
		t.Errorf("not every fact holds: %s", r)
	}

	log := filepath.Join(t.TempDir(), "probe.log")
	p := startProcess(t, log, nil, "validate", "--probe", "-c", s.file)
	const at = "probe of backup: a direct marker"
	kafkatest.Eventually(t, commandPatience, func() (bool, string) { return strings.Contains(p.log(), at), p.log() })
	p.signal(t, os.Interrupt)
	if code, ok := p.wait(stopPatience); !ok || code != 1 {
		t.Errorf("exit code %d, ended %v after Ctrl-C:\n%s", code, ok, p.log())
	}
	_, name, _ := strings.Cut(p.log(), "probe of backup: making ")
	name, _, _ = strings.Cut(name, "\n")
	kafkatest.Eventually(t, 20*time.Second, func() (bool, string) {
		return !topicExists(t, dst, name), fmt.Sprintf("scratch topic %q is still there:\n%s", name, p.log())
	})
}
