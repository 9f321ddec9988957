package e2e

import (
	"encoding/json"
	"testing"
	"time"

	"lockstep/api"
	"lockstep/internal/kafkatest"
)

// Records are deleted on the source before they were read, while the process is suspended: to it, between two polls.
func TestGap_RetentionOverranWhileRunning(t *testing.T) {
	t.Parallel()
	suspend := func(s *service) func() {
		s.now().freeze(s.t)
		rest(s.t.Context(), 1500*time.Millisecond) // a poll that was under way is answered with nothing meanwhile
		return func() { s.now().thaw(s.t) }
	}
	t.Run("continue", func(t *testing.T) { t.Parallel(); gapContinues(t, suspend) })
	t.Run("pause", func(t *testing.T) { t.Parallel(); gapPauses(t, suspend) })
}

// The same while nothing runs, after a clean stop and after a death.
func TestGap_RetentionOverranWhileDown(t *testing.T) {
	t.Parallel()
	ways := map[string]func(s *service) (comeBack func()){
		"stopped": func(s *service) func() { s.stop(); return func() { s.start() } },
		"killed":  func(s *service) func() { s.kill(); return func() { s.start() } },
	}
	for name, leave := range ways {
		t.Run(name+" continue", func(t *testing.T) { t.Parallel(); gapContinues(t, leave) })
		t.Run(name+" pause", func(t *testing.T) { t.Parallel(); gapPauses(t, leave) })
	}
}

// overrun copies 500 records of partition 0, lets the service be away while 500 more are written and all below 800 are
// deleted, and lets it come back. Partition 1 is healthy.
func overrun(t *testing.T, onGap string, leave func(*service) func()) (s *service, src, dst *kafkatest.Cluster, topic string) {
	t.Helper()
	src, dst = pair(t)
	topic = kafkatest.Topic(t, src, kafkatest.TopicOptions{Partitions: 2})
	some := sequel()
	kafkatest.Produce(t, src, topic, 0, some(500), kafkatest.ProduceOptions{BatchRecords: 50})
	kafkatest.Produce(t, src, topic, 1, some(100))
	s = newService(t, linkBetween(src, dst, []string{topic}, "on_gap: "+onGap)).start()
	s.equal(src, dst, topic)
	comeBack := leave(s)
	kafkatest.Produce(t, src, topic, 0, some(500), kafkatest.ProduceOptions{BatchRecords: 100})
	kafkatest.Produce(t, src, topic, 1, some(100))
	deleteBefore(t, src, topic, 0, 800)
	comeBack()
	return s, src, dst, topic
}

func gapContinues(t *testing.T, leave func(*service) func()) {
	s, src, dst, topic := overrun(t, "continue", leave)
	s.copied(src, topic)
	s.passedTheGap(src, dst, topic)
	s.stop()
	s.start() // a gap is found once
	s.copied(src, topic)
	s.stop()
	oneGap(t, s, topic) // from the target alone
}

// oneGap checks the ledger: one entry, in every form of output.
func oneGap(t testing.TB, s *service, topic string) {
	t.Helper()
	var gaps api.Gaps
	r := s.command("gaps", "-o", "json").want(t, 0)
	if err := json.Unmarshal([]byte(r.stdout), &gaps); err != nil {
		t.Fatalf("%v\n%s", err, r)
	}
	if len(gaps.Gaps) != 1 {
		t.Fatalf("the ledger has %d entries, want 1: %+v", len(gaps.Gaps), gaps.Gaps)
	}
	g := gaps.Gaps[0]
	if g.Topic != topic || g.Partition != 0 || g.From != 500 || g.To != 800 || g.Offsets != 300 || g.Reason == "" || g.At.IsZero() || g.Link != s.link() {
		t.Errorf("the ledger's entry is %+v, want offsets 500 to 799 of %s/0", g, topic)
	}
	s.command("gaps", "--link", s.link()).want(t, 0).says(t, topic, "500", "800", "300", "FROM")
	s.command("gaps", "-o", "csv").want(t, 0).says(t, "link,topic,partition,from,to", s.link()+","+topic+",0,500,800,300,")
}

func gapPauses(t *testing.T, leave func(*service) func()) {
	s, src, dst, topic := overrun(t, "pause", leave)
	paused := func() {
		t.Helper()
		l := s.stopsAs(topic, 0, "gap")
		checkRemedy(t, l.Remedy)
		if l.SourceOffset != 500 {
			t.Errorf("the lane stands at source offset %d, the gap begins at 500", l.SourceOffset)
		}
		s.reached(ends{topic: {0, kafkatest.End(t, src, topic, 1)}})
		if n := len(kafkatest.Read(t, dst, topic, 0, true)); n != 500 {
			t.Errorf("the target holds %d records, want 500", n)
		}
	}
	paused()
	was := logEnds(t, dst, topic)
	s.stop()
	s.start()
	paused()
	was.unchanged(t, logEnds(t, dst, topic))
	s.stop()
	s.command("gaps").want(t, 0)

	// The operator looked, and lets it go on.
	next := newService(t, conf{primary: s.conf.primary, backup: s.conf.backup, dataDir: s.conf.dataDir,
		links: []linkConf{{name: s.link(), include: []string{exactly(topic)}, more: []string{"on_gap: continue"}}}})
	next.start()
	next.copied(src, topic)
	if n := len(kafkatest.Read(t, dst, topic, 0, true)); n != 700 {
		t.Errorf("the target holds %d records, want the first 500 and the last 200", n)
	}
	oneGap(t, next, topic)
	next.stop()
}
