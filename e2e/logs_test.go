package e2e

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// checkLogs holds what is true of every run: no panic, no data race, and no line for every retry. A condition is one
// line when it begins and one when it is over.
func (s *service) checkLogs() {
	for i, p := range s.runs {
		text := p.log()
		for _, bad := range []string{"panic:", "DATA RACE", "fatal error:", "internal"} {
			if at := strings.Index(text, bad); at >= 0 && (bad != "internal" || strings.Contains(text, "reason=internal")) {
				s.t.Errorf("run %d logged %q:\n%s", i+1, bad, head(text[at:], 40))
			}
		}
		for line, n := range repeated(text) {
			if n > s.repeats {
				s.t.Errorf("run %d logged this %d times: %s", i+1, n, line)
			}
		}
	}
}

var (
	logTime   = regexp.MustCompile(`^time=\S+ `)
	logTopic  = regexp.MustCompile(` (?:topic|dst_topic|lane|partition)=\S+`)
	logNumber = regexp.MustCompile(`\d+`)
)

// repeated counts lines that differ in time and figures only. Lines about different topics are different; "offered lanes"
// names no topic but is about other lanes each time.
func repeated(text string) map[string]int {
	n := make(map[string]int)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(logTime.ReplaceAllString(line, ""))
		if line == "" || strings.Contains(line, `msg="offered lanes"`) {
			continue
		}
		about := strings.Join(logTopic.FindAllString(line, -1), "")
		n[logNumber.ReplaceAllString(line, "#")+about]++
	}
	return n
}

func TestRepeated_CountsLinesThatDifferInFiguresOnly(t *testing.T) {
	t.Parallel()
	text := "time=a level=WARN msg=x topic=t1 dst=5\ntime=b level=WARN msg=x topic=t1 dst=7\ntime=c level=WARN msg=x topic=t2 dst=7\n"
	var counts []int
	for _, n := range repeated(text) {
		counts = append(counts, n)
	}
	slices.Sort(counts)
	if !slices.Equal(counts, []int{1, 2}) {
		t.Fatalf("counted %v, want one line twice and another once", counts)
	}
}
