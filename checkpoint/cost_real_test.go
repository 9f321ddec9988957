package checkpoint

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"lockstep/internal/kafka"
	"lockstep/internal/kafkatest"
)

// cpuTime returns how much processor time this process has used.
func cpuTime(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// What one look costs at 5,000 groups with 50,000 positions: 2 s apart, 20 ms of processor time are 1 % of a core.
func TestObserve_Cost(t *testing.T) {
	kafkatest.Long(t)
	const (
		groups, parts, rounds = 5000, 10, 10
		limit                 = 50 * time.Millisecond
	)
	kc := kafkatest.Start(t, kafkatest.Options{})
	c := dial(t, kc.Brokers(), kafka.Options{})
	topic := kafkatest.Topic(t, kc, kafkatest.TopicOptions{Partitions: parts})
	var rows []Row
	for g := range groups {
		for p := range int32(parts) {
			rows = append(rows, Row{DstGroup: fmt.Sprintf("application-%04d", g), Key: Key{topic, p}, DstTopic: topic, Target: -1, Translated: int64(g), Write: true})
		}
	}
	mustCommit(t, c, "application-0000", map[Key]Committed{{topic, 0}: {Offset: 0}})
	began, used := time.Now(), cpuTime(t)
	out := Apply(testContext(t), c, rows)
	t.Logf("apply: %d groups, %d positions: %s, %s of processor time", groups, len(rows), time.Since(began), cpuTime(t)-used)
	for _, r := range out {
		if r.State != StateSynced {
			t.Fatalf("%+v", r)
		}
	}
	o, best := NewObserver(c), time.Hour
	for range rounds {
		began, used := time.Now(), cpuTime(t)
		p, err := o.Observe(testContext(t), nil)
		took, cpu := time.Since(began), cpuTime(t)-used
		n := 0
		for _, g := range p.Groups {
			n += len(g.Offsets)
		}
		if err != nil || p.Partial != nil || len(p.Failed) > 0 || n != groups*parts {
			t.Fatalf("%d groups, %d positions, %d failed, partial %v, error %v", len(p.Groups), n, len(p.Failed), p.Partial, err)
		}
		t.Logf("observe: %s, %s of processor time", took, cpu)
		best = min(best, cpu)
	}
	if best > limit {
		t.Errorf("the cheapest of %d looks took %s of processor time, more than %s", rounds, best, limit)
	}
}
