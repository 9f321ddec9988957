package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockstep/api"
	"lockstep/internal/kafkatest"
)

// A group's lag is that of the source, in records and in seconds; it shows in the command, in a monitoring check and in
// the metrics, and raises an alarm when it lasts.
func TestGroups_LagAndAlarms(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	src, dst := pair(t)
	topic := kafkatest.Topic(t, src)
	kafkatest.Produce(t, src, topic, 0, sequel()(300))
	late, well := groupName("late"), groupName("well")
	commitAt(t, src, late, topic, 0, 100)
	commitAt(t, src, well, topic, 0, 300)
	began := time.Now()
	s := newService(t, linkBetween(src, dst, []string{topic})).start()
	s.equal(src, dst, topic)

	// What was there before the start has waited at least since then.
	g := s.awaitGroup(late, 15*time.Second, func(g api.GroupDetail) bool {
		return g.State == "synced" && g.LagRecords != nil && *g.LagRecords == 200
	})
	if g.LagSeconds == nil || !g.LagAtLeast || *g.LagSeconds > time.Since(began).Seconds() {
		t.Errorf("the group's oldest record waits for %v s (at least: %t)", g.LagSeconds, g.LagAtLeast)
	}
	if g := s.awaitGroup(well, 15*time.Second, func(g api.GroupDetail) bool { return g.LagRecords != nil }); *g.LagRecords != 0 || *g.LagSeconds != 0 || g.LagAtLeast {
		t.Errorf("a group that has read everything: %d records, %v s (at least: %t)", *g.LagRecords, *g.LagSeconds, g.LagAtLeast)
	}
	// What comes now is dated exactly, although the lane has long copied it.
	came := time.Now()
	kafkatest.Produce(t, src, topic, 0, sequel()(50))
	s.equal(src, dst, topic)
	g = s.awaitGroup(well, 15*time.Second, func(g api.GroupDetail) bool { return *g.LagRecords == 50 })
	if asked := time.Since(came).Seconds(); g.LagAtLeast || *g.LagSeconds > asked || *g.LagSeconds < asked-3 {
		t.Errorf("records of %.1f s ago are %v s old (at least: %t)", asked, *g.LagSeconds, g.LagAtLeast)
	}

	s.command("lag", "--groups", "--link", s.link()).want(t, 0).says(t, late, well, "250")
	s.command("lag", "--group", late, "--link", s.link()).want(t, 0).says(t, topic, "250")
	if r := s.command("lag", "--group", well, "--warn", "100", "--crit", "1h", "--link", s.link()).want(t, 0); !strings.HasPrefix(r.stdout, "LAG OK - 1 group at most 50 records") {
		t.Error(r)
	}
	if r := s.command("lag", "--warn", "100", "--crit", "1000", "--link", s.link()).want(t, 1); !strings.HasPrefix(r.stdout, "LAG WARNING - group "+s.link()+":"+late) {
		t.Error(r)
	}
	s.command("lag", "--groups", "--crit", "100ms", "--link", s.link()).want(t, 2)
	if n := s.metric("lockstep_group_lag_records", `group="`+late+`"`); n != 250 {
		t.Errorf("lockstep_group_lag_records is %v", n)
	}

	// Two thirds of the log for a minute.
	g = s.awaitGroup(late, 2*time.Minute, func(g api.GroupDetail) bool { return len(g.Alarms) > 0 })
	if a := g.Alarms[0]; a.Kind != "lag" || a.Severity != "critical" || !strings.Contains(a.Detail, "250 records behind") {
		t.Errorf("alarms %+v", g.Alarms)
	}
	s.command("status").want(t, 0).says(t, "group "+late+": lag critical", "250 records behind")
	if n := s.metric("lockstep_group_alarm", `group="`+late+`"`, `alarm="lag"`, `severity="critical"`); n != 1 {
		t.Errorf("lockstep_group_alarm is %v", n)
	}
	commitAt(t, src, late, topic, 0, 350)
	s.awaitGroup(late, 2*time.Minute, func(g api.GroupDetail) bool { return len(g.Alarms) == 0 })
	kafkatest.Eventually(t, 15*time.Second, func() (bool, string) {
		n := s.metric("lockstep_group_alarm", `group="`+late+`"`)
		return n == -1, fmt.Sprint("lockstep_group_alarm is ", n)
	})
	s.command("lag", "--warn", "100", "--link", s.link()).want(t, 0)
	s.stop()
}
