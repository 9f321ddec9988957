package replicator

import (
	"log/slog"
	"slices"
	"testing"
	"time"
)

func TestCrowd_TellsAFewAndTheNumberOfTheRest(t *testing.T) {
	t.Parallel()
	var c crowd
	lost := event{slog.LevelError, "lane stopped", "reason", "target_lost"}
	large := event{slog.LevelError, "lane stopped", "reason", "too_large"}
	begin := time.Unix(1_000, 0)
	told := 0
	for i := range 40 {
		if c.tells(lost, begin.Add(time.Duration(i)*time.Millisecond)) {
			told++
		}
	}
	if told != crowdTold || !c.tells(large, begin.Add(time.Second)) {
		t.Errorf("%d of 40 lanes are told one by one, want %d, and another reason in any case", told, crowdTold)
	}
	if got := c.over(begin.Add(-time.Millisecond)); len(got) != 0 {
		t.Errorf("a burst ended early: %v", got)
	}
	if got, want := c.over(begin.Add(time.Second)), []untold{{lost, 40 - crowdTold}}; !slices.Equal(got, want) {
		t.Errorf("left untold %v, want %v", got, want)
	}
	if !c.tells(lost, begin.Add(time.Minute)) || len(c.bursts) != 1 {
		t.Error("a burst that is over hides later events, or is kept")
	}
}
