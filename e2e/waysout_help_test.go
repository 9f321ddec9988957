package e2e

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/api"
	"lockstep/internal/kafkatest"
)

// What can happen to a lane is driven in, seen wherever somebody could look, and driven out with the very command that
// `lockstep status` names. These helpers are the looking and the driving.

// wayOutPatience is how long a lane may take to stop, or to go again.
const wayOutPatience = 60 * time.Second

// stopsFor waits until a lane has stopped for a reason, and checks that it is seen: in status with a remedy that can be
// followed, in the link's counts, in the metric, and in the log by exactly one line.
func (s *service) stopsFor(topic string, partition int32, reason string) laneDetail {
	s.t.Helper()
	l := s.awaitLane(topic, partition, wayOutPatience, func(l laneDetail) bool { return l.State == "stopped" && l.Reason == reason })
	if l.Detail == "" || l.Since.IsZero() {
		s.t.Errorf("%s stopped as %s without saying what was seen, or since when: %+v", laneKey(topic, partition), reason, l.Lane)
	}
	checkRemedy(s.t, l.Remedy)
	if advice := s.advice(s.laneName(topic, partition)); advice != l.Remedy {
		s.t.Errorf("lockstep status says %q, the interface %q", advice, l.Remedy)
	}
	link := s.ownLink()
	if link.Lanes.ByState[reason] < 1 || link.State != "degraded" && link.State != "stopped" {
		s.t.Errorf("the link is %s with lanes %v; lane %s stopped as %s", link.State, link.Lanes.ByState, laneKey(topic, partition), reason)
	}
	if n := s.metric("lockstep_lane_state", `link="`+s.link()+`"`, `reason="`+reason+`"`, `state="stopped"`); n != float64(link.Lanes.ByState[reason]) {
		s.t.Errorf("lockstep_lane_state counts %v lanes as %s, status %d", n, reason, link.Lanes.ByState[reason])
	}
	if n := s.stopLines(topic, partition, reason); n != 1 {
		s.t.Errorf("the log has %d lines that %s stopped as %s, want 1", n, laneKey(topic, partition), reason)
	}
	return l
}

// stopLines counts the lines of the present run's log that say that a lane stopped for a reason.
func (s *service) stopLines(topic string, partition int32, reason string) (n int) {
	for line := range strings.Lines(s.now().log()) {
		if strings.Contains(line, `msg="lane stopped"`) && hasAll(line, []string{"topic=" + topic + " ", fmt.Sprintf("partition=%d ", partition), "reason=" + reason + " "}) {
			n++
		}
	}
	return n
}

func (s *service) laneName(topic string, partition int32) string {
	return s.link() + ":" + laneKey(topic, partition)
}

// advice is what `lockstep status` tells an operator to do about a lane.
func (s *service) advice(lane string) string {
	s.t.Helper()
	shown := s.command("status").want(s.t, 0)
	_, block, ok := strings.Cut(shown.stdout, "\n"+lane+" ")
	_, text, told := strings.Cut(block, "what to do: ")
	if !ok || !told {
		s.t.Fatalf("lockstep status does not say what to do about %s: %s", lane, shown)
	}
	line, _, _ := strings.Cut(text, "\n")
	return line
}

var advised = regexp.MustCompile(`lockstep ((?:links|lanes|topics) [a-z]+ [^\s;,]+(?: --to OFFSET)?)`)

// adviceOn returns the arguments of the command in a remedy that begins with words, as "lanes retry".
func adviceOn(t testing.TB, remedy, words string) []string {
	t.Helper()
	for _, m := range advised.FindAllStringSubmatch(remedy, -1) {
		if strings.HasPrefix(m[1], words+" ") {
			return strings.Fields(m[1])
		}
	}
	t.Fatalf("the remedy %q names no lockstep %s", remedy, words)
	return nil
}

// follow does what status tells about a stopped lane with the command that begins with words. An OFFSET in it becomes the
// first of more; what is left of more is added. The command is rehearsed first: that changes nothing.
func (s *service) follow(l laneDetail, words string, more ...string) api.OrderAnswer {
	s.t.Helper()
	args := adviceOn(s.t, s.advice(s.laneName(l.Topic, l.Partition)), words)
	if i := slices.Index(args, "OFFSET"); i >= 0 {
		args[i], more = more[0], more[1:]
	}
	return s.order(l, append(args, more...)...)
}

// order rehearses a command about a lane that it gets going, and carries it out.
func (s *service) order(l laneDetail, args ...string) api.OrderAnswer {
	s.t.Helper()
	s.command(slices.Concat(args, []string{"--dry-run"})...).want(s.t, 0).says(s.t, "SUBJECT")
	if now := s.lane(l.Topic, l.Partition); now.State != l.State || now.Reason != l.Reason || now.Opening != l.Opening || !now.Since.Equal(l.Since) {
		s.t.Errorf("a dry run of %v changed the lane from %+v to %+v", args, l.Lane, now.Lane)
	}
	r := s.command(slices.Concat(args, []string{"--yes", "--reason", "because of a test", "-o", "json"})...).want(s.t, 0)
	var got api.OrderAnswer
	decode(s.t, r, &got)
	for _, step := range got.Steps {
		if !step.Done || step.Refused != "" || step.Error != "" || step.Does == "" {
			s.t.Errorf("a step was not done: %+v", step)
		}
	}
	if got.Schema != api.Schema || len(got.Steps) == 0 {
		s.t.Errorf("the result has schema %d and %d steps: %s", got.Schema, len(got.Steps), r)
	}
	return got
}

// gaps is the link's ledger, without the times.
func (s *service) gaps() []string {
	s.t.Helper()
	var answer api.Gaps
	decode(s.t, s.command("gaps", "-o", "json").want(s.t, 0), &answer)
	var out []string
	for _, g := range answer.Gaps {
		if g.Link == s.link() {
			out = append(out, fmt.Sprintf("%s/%d %d-%d %s", g.Topic, g.Partition, g.From, g.To, g.Reason))
		}
	}
	slices.Sort(out)
	return out
}

// wantGaps checks the whole ledger.
func (s *service) wantGaps(want ...string) {
	s.t.Helper()
	slices.Sort(want)
	if got := s.gaps(); !slices.Equal(got, want) {
		s.t.Errorf("the ledger is %q, want %q", got, want)
	}
}

// translates checks every translation of a partition, from the target's own records behind dstFrom.
func (s *service) translates(src, dst kafkatest.Target, topic string, partition int32, dstFrom int64) {
	s.t.Helper()
	end := kafkatest.End(s.t, src, topic, partition)
	asked := count(end)
	got := s.translate(false, topic, partition, asked...)
	truthFrom(s.t, src, dst, topic, partition, dstFrom).checkForth(s.t, got)
}
