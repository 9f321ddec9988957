package e2e

import (
	"fmt"
	"testing"
	"time"

	"lockstep/internal/kafkatest"
)

// Records that are gone before they were read, on a link that is to stop there: while it is suspended, after a clean stop
// and after a death. `lanes retry` goes on behind them, and the ledger keeps what they were.
func TestWayOut_GapPauses(t *testing.T) {
	t.Parallel()
	suspended := func(s *service) func() {
		s.now().freeze(s.t)
		rest(s.t.Context(), 1500*time.Millisecond) // a poll that was under way is answered with nothing meanwhile
		return func() { s.now().thaw(s.t) }
	}
	ways := map[string]func(*service) func(){"suspended": suspended, "stopped": awayWays()["stopped"], "killed": awayWays()["killed"]}
	for name, leave := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, src, dst, topic := overrun(t, "pause", leave)
			l := s.stopsFor(topic, 0, "gap")
			s.reached(ends{topic: {0, kafkatest.End(t, src, topic, 1)}})
			s.wantGaps()
			step := s.follow(l, "lanes retry").Steps[0]
			if step.Leaves != 300 || step.CanUndo {
				t.Errorf("the step leaves %d offsets, can be undone: %v; want 300 and false", step.Leaves, step.CanUndo)
			}
			s.copied(src, topic)
			s.passedTheGap(src, dst, topic)
			s.stop()
			s.start() // a gap is found once
			s.copied(src, topic)
			s.stop()
			oneGap(t, s, topic)
		})
	}
}

// passedTheGap checks what stands on the target when source offsets 500 to 799 were lost: in records, ledger, metric and
// translation.
func (s *service) passedTheGap(src, dst kafkatest.Target, topic string) {
	s.t.Helper()
	behind := kafkatest.End(s.t, dst, topic, 0) - 200 // where source offset 800 stands; a marker may be before it
	kafkatest.MustEqual(s.t, src, dst, same(topic), kafkatest.CompareOptions{DstFrom: map[int32]int64{0: behind}})
	if n := len(kafkatest.Read(s.t, dst, topic, 0, true)); n != 700 {
		s.t.Errorf("the target holds %d records, want the first 500 and the last 200", n)
	}
	oneGap(s.t, s, topic)
	if n := s.metric("lockstep_gap_records_total", s.link()); n != 300 {
		s.t.Errorf("lockstep_gap_records_total is %v, want 300", n)
	}
	got := s.translate(false, topic, 0, 499, 500, 600, 799, 800, 999, 1000)
	for i, want := range []string{
		"499 exact", fmt.Sprint(behind, " hole"), fmt.Sprint(behind, " hole"), fmt.Sprint(behind, " hole"), fmt.Sprint(behind, " exact"),
		fmt.Sprint(behind+199, " exact"), fmt.Sprint(behind+200, " exact"),
	} {
		if text := shortly(got[i]); text != want {
			s.t.Errorf("source offset %d is %q, want %q", *got[i].SourceOffset, text, want)
		}
	}
}
