package e2e

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"lockstep/api"
	"lockstep/internal/kafkatest"
)

// The one rule for changes, held by every command: a dry run changes nothing; without a terminal and without --yes nothing
// happens; what is refused says so by its exit code; the plan is printed before the result.
func TestWayOut_OneRuleForChanges(t *testing.T) {
	t.Parallel()
	s, src, dst, lost, healthy := twoTopics(t)
	deleteTopic(t, dst, lost)
	kafkatest.Topic(t, dst, kafkatest.TopicOptions{Name: lost})
	kafkatest.Produce(t, dst, lost, 0, sequel()(5))
	before := s.stopsFor(lost, 0, "target_lost")
	lane, other := s.laneName(lost, 0), s.laneName(healthy, 0)
	was := logEnds(t, dst, lost, healthy)

	for _, line := range []string{
		"links pause " + s.link(), "links resume " + s.link(), "links accept " + s.link(), "lanes retry " + lane, "lanes skip " + lane + " --to 5",
		"lanes rebuild " + lane, "lanes rebuild --all --link " + s.link(), "topics accept " + s.link() + ":" + lost, "topics adopt " + s.link() + ":" + lost,
		"topics pause " + s.link() + ":" + lost, "topics resume " + s.link() + ":" + lost,
	} {
		args := strings.Fields(line)
		if r := s.command(args...); r.code != 2 || r.stdout != "" || !strings.Contains(r.stderr, "--yes") {
			t.Errorf("without a terminal, want exit code 2, no data, and a hint at --yes: %s", r)
		}
		r := s.command(slices.Concat(args, []string{"--dry-run", "-o", "json"})...)
		var plan api.OrderAnswer
		decode(t, r, &plan)
		if len(plan.Steps) != 1 || plan.Schema != api.Schema || plan.Steps[0].Done {
			t.Errorf("a dry run shows %s", r)
		}
		if refused := plan.Steps[0].Refused != ""; r.code != map[bool]int{true: 3}[refused] || !refused && plan.Steps[0].Does == "" {
			t.Errorf("a dry run of what is refused ends with 3, of what is not with 0: %s", r)
		}
	}
	if now := s.lane(lost, 0); now.Reason != before.Reason || !now.Since.Equal(before.Since) || now.Opening != before.Opening {
		t.Errorf("rehearsals changed the lane from %+v to %+v", before.Lane, now.Lane)
	}
	was.unchanged(t, logEnds(t, dst, lost, healthy))

	for line, code := range map[string]int{
		"lanes retry " + other: 3, "lanes skip " + other + " --to 5": 3, "topics adopt " + s.link() + ":" + healthy: 3, // not stopped
		"lanes skip " + lane + " --to 50": 3, "topics adopt " + s.link() + ":" + lost: 3, "links accept " + s.link(): 3, // no way out of this
		"lanes retry " + s.laneName("no-such-topic", 0): 3, "lanes retry " + s.laneName(lost, 7): 3, "lanes retry no-such-link:t/0": 2,
		"lanes retry " + lost: 2, "lanes skip " + lane: 2, "lanes retry": 2, "lanes retry --all": 2, "topics adopt " + s.link() + ":" + lost + " --from here": 2,
		"lanes rebuild " + lane + " --timeout 1ms": 2, "lanes rebuild " + lane + " -o csv": 2,
	} {
		if r := s.command(append(strings.Fields(line), "--yes")...); r.code != code || r.stderr == "" {
			t.Errorf("want exit code %d and a reason: %s", code, r)
		}
	}
	was.unchanged(t, logEnds(t, dst, lost, healthy))
	s.command("lanes", "rebuild", other, lane, "--dry-run").want(t, 0).says(t, "1 refused", "5 records will be deleted", "cannot be undone")

	r := s.command("lanes", "rebuild", other, lane, "--yes").want(t, 5).says(t, "1 of 2 steps are done")
	if !strings.Contains(r.stderr, "DELETES") || !strings.Contains(r.stdout, "RESULT") || !strings.Contains(r.stdout, "done") {
		t.Errorf("want the plan on stderr and the result on stdout: %s", r)
	}
	s.equal(src, dst, lost, healthy)
	s.translates(src, dst, lost, 0, 0)
	s.stop()
	s.command("lanes", "retry", lane, "--yes").want(t, 1).says(t, "lockstep run")
}

// Two operators give the same order at the same moment: the records are deleted and copied once, whoever comes first.
func TestWayOut_TwoOrdersAtOnce(t *testing.T) {
	t.Parallel()
	s, src, dst, lost, healthy := threeLanes(t, nil)
	deleteTopic(t, dst, lost)
	smaller(t, dst, lost)
	for p := range int32(3) {
		s.stopsFor(lost, p, "target_lost")
	}
	const operators = 4
	codes := make([]result, operators)
	var asking sync.WaitGroup
	for i := range operators {
		asking.Go(func() {
			codes[i] = s.command("lanes", "rebuild", "--link", s.link(), "--all", "--yes", "--reason", fmt.Sprint("operator ", i))
		})
	}
	asking.Wait()
	done := 0
	for _, r := range codes {
		switch r.code {
		case 0, 5:
			done++
		case 1, 3:
		default:
			t.Errorf("an order ended unexpectedly: %s", r)
		}
	}
	if done == 0 {
		t.Errorf("nobody's order was carried out: %v", codes)
	}
	s.rebuilt(src, dst, lost)
	s.goesOn(src, dst, healthy)
	s.wantGaps()
	s.stop()
}
