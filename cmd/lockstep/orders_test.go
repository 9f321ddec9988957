package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/api"
	"lockstep/internal/model"
)

// orderBackend answers orders with the steps it holds, and remembers them.
type orderBackend struct {
	cannedBackend
	steps []model.OrderStep // of every order, as they end
	err   error             // of orders that are not dry runs, from the second on when later is set
	later bool

	mu  sync.Mutex // guards got
	got []model.Order
}

func (b *orderBackend) Order(_ context.Context, _ string, o model.Order) ([]model.OrderStep, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	real := len(b.done())
	b.got = append(b.got, o)
	if !o.DryRun && b.err != nil && (!b.later || real > 0) {
		return nil, b.err
	}
	out := slices.Clone(b.steps)
	for i := range out {
		if o.DryRun {
			out[i].Done, out[i].Error = false, ""
		}
	}
	return out, nil
}

// done returns the orders that were no dry runs.
func (b *orderBackend) done() (out []model.Order) {
	for _, o := range b.got {
		if !o.DryRun {
			out = append(out, o)
		}
	}
	return out
}

func (b *orderBackend) serve(t *testing.T) string {
	t.Helper()
	srv := httptest.NewServer(api.Handler(b, nil, nil))
	t.Cleanup(srv.Close)
	return srv.URL
}

// typed runs one command line with somebody at the terminal who types text.
func typed(t *testing.T, text io.Reader, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	a := &app{stdin: text, interactive: true, stdout: &out, stderr: &errs}
	code = a.run(args)
	return out.String(), errs.String(), code
}

// A file with faults keeps nobody from asking the service, which goes on with the configuration from before them.
func TestService_IsAskedDespiteFaults(t *testing.T) {
	t.Parallel()
	addr := strings.TrimPrefix((&orderBackend{}).serve(t), "http://")
	file := filepath.Join(t.TempDir(), "lockstep.yaml")
	text := fmt.Sprintf("api: {listen: %q}\nclusters: {a: {brokerz: [x]}}\nlinks: []\n", addr)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, errs, code := lockstep(t, "status", "-c", file)
	if code != exitOK || !strings.Contains(out, "too_large") || !strings.Contains(errs, addr) || !strings.Contains(errs, "lockstep validate") {
		t.Fatalf("exit code %d\n%s\n%s", code, out, errs)
	}
}

func goldenText(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.MkdirAll("testdata", 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (UPDATE_GOLDEN=1 accepts): -want +got\n%s", file, d)
	}
}

func skipStep(end func(*model.OrderStep)) model.OrderStep {
	s := model.OrderStep{Subject: "dr:orders/1", State: "stopped: too_large",
		Does: "goes on at source offset 10; the offsets 9 to 9 are left out and stand in the ledger afterwards", Leaves: 1, CanUndo: false}
	end(&s)
	return s
}

func isDone(s *model.OrderStep)    { s.Done = true }
func isFailed(s *model.OrderStep)  { s.Error = "no leader answers" }
func isRefused(s *model.OrderStep) { s.Refused = "it copies" }
func isPending(*model.OrderStep)   {}

func TestChange_PlanAndResult(t *testing.T) {
	t.Parallel()
	rebuild := model.OrderStep{Subject: "dr:orders/2", State: "stopped: diverged", Does: "deletes what the target partition holds and copies from source offset 0",
		Deletes: 1_234_567, Done: true}
	url := (&orderBackend{steps: []model.OrderStep{skipStep(isDone), rebuild, skipStep(isRefused)}}).serve(t)
	args := []string{"lanes", "rebuild", "--link", "dr", "--all", "--server", url}
	plan, _, code := lockstep(t, append(args, "--dry-run")...)
	if code != exitOK {
		t.Errorf("dry run: exit code %d", code)
	}
	goldenText(t, "plan.txt", plan)
	for _, line := range strings.Split(plan, "\n") {
		if len(line) > planWidth {
			t.Errorf("line of %d characters: %s", len(line), line)
		}
	}
	result, shown, code := lockstep(t, append(args, "--yes")...)
	if code != exitPartly || !strings.HasPrefix(shown, plan) {
		t.Errorf("exit code %d, the plan is not shown first:\n%s", code, shown)
	}
	goldenText(t, "result.txt", result)
}

func TestChange_ExitCodes(t *testing.T) {
	t.Parallel()
	ends := func(fs ...func(*model.OrderStep)) (out []model.OrderStep) {
		for _, f := range fs {
			out = append(out, skipStep(f))
		}
		return out
	}
	for name, c := range map[string]struct {
		steps []model.OrderStep
		err   error
		code  int
		says  string
		sent  int // orders that were no dry runs
	}{
		"all done":              {ends(isDone, isDone), nil, exitOK, "", 1},
		"nothing to do":         {nil, nil, exitOK, "", 0},
		"one refused":           {ends(isDone, isRefused), nil, exitPartly, "1 of 2 steps", 1},
		"one failed":            {ends(isDone, isFailed), nil, exitPartly, "1 of 2 steps", 1},
		"all refused":           {ends(isRefused, isRefused), nil, exitRefused, "all 2 steps are refused", 0},
		"one alone refused":     {ends(isRefused), nil, exitRefused, "dr:orders/1 is refused", 0},
		"failed":                {ends(isFailed, isRefused), nil, exitFailed, "nothing is done", 1},
		"not in time":           {ends(isPending, isDone), nil, exitTimeout, "1 of 2 steps were not done in time", 1},
		"the service refuses":   {ends(isDone), api.Refused("wait", "not owned here"), exitRefused, "not owned here", 1},
		"the service times out": {ends(isDone), context.DeadlineExceeded, exitTimeout, "deadline", 1},
		"the service fails":     {ends(isDone), errors.New("state topic is gone"), exitFailed, "state topic is gone", 1},
		"no such link":          {ends(isDone), api.NotFound("lockstep status lists the links", "no link"), exitUsage, "lists the links", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &orderBackend{steps: c.steps, err: c.err}
			_, errs, code := lockstep(t, "lanes", "retry", "dr:orders/1", "--yes", "--server", b.serve(t))
			if code != c.code || !strings.Contains(errs, c.says) || len(b.done()) != c.sent {
				t.Errorf("exit code %d, want %d; %d orders, want %d; said %q", code, c.code, len(b.done()), c.sent, errs)
			}
		})
	}
}

// What is not done when the time is over fails with a time-out, whatever the step says.
func TestChange_NotDoneInTime(t *testing.T) {
	t.Parallel()
	steps := []model.OrderStep{skipStep(isFailed)}
	for late, want := range map[bool]int{true: exitTimeout, false: exitFailed} {
		if code := exitCode(verdict(steps, late)); code != want {
			t.Errorf("late %v: exit code %d, want %d", late, code, want)
		}
	}
	if code := exitCode(verdict(append(steps, skipStep(isDone)), true)); code != exitPartly {
		t.Errorf("partly done, and late: exit code %d", code)
	}
}

func TestChange_AsksAndTakesOnlyAYes(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]int{"y\n": exitOK, "YES\n": exitOK, "yes": exitOK, "n\n": exitFailed, "\n": exitFailed, "": exitFailed, "yess\n": exitFailed} {
		b := &orderBackend{steps: []model.OrderStep{skipStep(isDone)}}
		out, errs, code := typed(t, strings.NewReader(answer), "lanes", "skip", "dr:orders/1", "--to", "10", "--server", b.serve(t))
		if code != want || !strings.Contains(errs, "Go ahead?") || (len(b.done()) == 1) != (want == exitOK) {
			t.Errorf("answer %q: exit code %d, want %d, %d orders\n%s%s", answer, code, want, len(b.done()), out, errs)
		}
		if want != exitOK && (out != "" || !strings.Contains(errs, "nothing was done")) {
			t.Errorf("answer %q: printed %q, said %q", answer, out, errs)
		}
	}
}

// A person who is asked and presses Ctrl-C has changed nothing.
func TestChange_InterruptedWhileAsking(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	keyboard, keys := io.Pipe()
	t.Cleanup(func() { keys.Close() })
	var out bytes.Buffer
	asked := &awaitText{want: "Go ahead?", seen: cancel}
	b := &orderBackend{steps: []model.OrderStep{skipStep(isDone)}}
	a := &app{stdin: keyboard, interactive: true, stdout: &out, stderr: asked}
	root := newRoot(a)
	root.SetArgs([]string{"links", "pause", "dr", "--server", b.serve(t)})
	err := root.ExecuteContext(ctx)
	if err == nil || !strings.Contains(err.Error(), "nothing was done") || len(b.done()) > 0 {
		t.Errorf("%v; %d orders", err, len(b.done()))
	}
}

// awaitText calls seen when a text has been written to it.
type awaitText struct {
	want string
	seen func()
	text strings.Builder
}

func (w *awaitText) Write(p []byte) (int, error) {
	w.text.Write(p)
	if strings.Contains(w.text.String(), w.want) {
		w.seen()
	}
	return len(p), nil
}

func TestOrders_AsTheyAreSent(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]model.Order{
		"links pause dr":                           {{Kind: model.OrderPause}},
		"links resume dr":                          {{Kind: model.OrderResume}},
		"links accept dr":                          {{Kind: model.OrderAccept}},
		"lanes retry dr:orders/3 dr:pay.ments/0":   {{Kind: model.OrderRetry, Lanes: []model.LaneRef{{Topic: "orders", Partition: 3}, {Topic: "pay.ments"}}}},
		"lanes retry --link dr --all":              {{Kind: model.OrderRetry, All: true}},
		"lanes rebuild dr:a/0 up:a/0 dr:a/1":       {{Kind: model.OrderRebuild, Lanes: []model.LaneRef{{Topic: "a"}, {Topic: "a", Partition: 1}}}, {Kind: model.OrderRebuild, Lanes: []model.LaneRef{{Topic: "a"}}}},
		"lanes skip dr:orders/3 --to 17":           {{Kind: model.OrderSkip, Lanes: []model.LaneRef{{Topic: "orders", Partition: 3}}, To: 17}},
		"topics pause dr:orders":                   {{Kind: model.OrderPause, Topics: []string{"orders"}}},
		"topics resume dr:orders up:orders":        {{Kind: model.OrderResume, Topics: []string{"orders"}}, {Kind: model.OrderResume, Topics: []string{"orders"}}},
		"topics accept dr:orders dr:b":             {{Kind: model.OrderAccept, Topics: []string{"orders", "b"}}},
		"topics adopt dr:orders --from latest":     {{Kind: model.OrderAdopt, Topics: []string{"orders"}, From: "latest"}},
		"topics adopt dr:orders --from earliest":   {{Kind: model.OrderAdopt, Topics: []string{"orders"}, From: "earliest"}},
		"topics adopt dr:orders up:orders dr:more": {{Kind: model.OrderAdopt, Topics: []string{"orders", "more"}}, {Kind: model.OrderAdopt, Topics: []string{"orders"}}},
	} {
		b := &orderBackend{steps: []model.OrderStep{skipStep(isDone)}}
		args := append(strings.Fields(line), "--yes", "--reason", "ticket 7", "--server", b.serve(t))
		if out, errs, code := lockstep(t, args...); code != exitOK {
			t.Errorf("%s: exit code %d: %s%s", line, code, out, errs)
			continue
		}
		got := b.done()
		for i := range got {
			if !strings.Contains(got[i].By, "@") || got[i].Reason != "ticket 7" {
				t.Errorf("%s: by %q, reason %q", line, got[i].By, got[i].Reason)
			}
			got[i].By, got[i].Reason = "", ""
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: -want +got\n%s", line, d)
		}
	}
}

// Two links take two orders; once the first was carried out, the second's failure is one of its steps.
func TestOrders_SecondLinkFails(t *testing.T) {
	t.Parallel()
	b := &orderBackend{steps: []model.OrderStep{skipStep(isDone)}, err: errors.New("no owner"), later: true}
	out, _, code := lockstep(t, "lanes", "retry", "dr:a/0", "up:a/0", "--yes", "-o", "json", "--server", b.serve(t))
	var got api.OrderAnswer
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != exitPartly || len(got.Steps) != 2 || !strings.Contains(got.Steps[1].Error, "no owner") {
		t.Errorf("exit code %d, %v: %s", code, err, out)
	}
}

func TestChange_JSON(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		steps []model.OrderStep
		flag  string
		done  bool
	}{
		"plan": {[]model.OrderStep{skipStep(isDone)}, "--dry-run", false}, "done": {[]model.OrderStep{skipStep(isDone)}, "--yes", true},
		"refused": {[]model.OrderStep{skipStep(isRefused)}, "--yes", false}, "nothing": {nil, "--yes", false},
	} {
		out, errs, _ := lockstep(t, "links", "pause", "dr", c.flag, "-o", "json", "--server", (&orderBackend{steps: c.steps}).serve(t))
		var got struct {
			Schema int
			Steps  []model.OrderStep
		}
		if err := json.Unmarshal([]byte(out), &got); err != nil || got.Schema != 1 || got.Steps == nil || len(got.Steps) != len(c.steps) {
			t.Errorf("%s: %v\n%s%s", name, err, out, errs)
		} else if len(got.Steps) > 0 && got.Steps[0].Done != c.done {
			t.Errorf("%s: done is %v", name, got.Steps[0].Done)
		}
	}
}

func TestPlanTable_ManyStepsAreCounted(t *testing.T) {
	t.Parallel()
	steps := make([]model.OrderStep, 2000)
	for i := range steps {
		steps[i] = skipStep(isDone)
		steps[i].Subject = fmt.Sprintf("dr:orders/%d", i)
	}
	isFailed(&steps[1999])
	steps[1999].Done = false
	plan, result := planTable(steps), resultTable(steps)
	if len(plan.rows) > maxSteps*4 || plan.rows[len(plan.rows)-1][0] != "and 1,980 more" {
		t.Errorf("%d rows, the last %q", len(plan.rows), plan.rows[len(plan.rows)-1])
	}
	want := [][]string{{"dr:orders/1999", "failed", "no leader answers"}, {"1999 in all", "done", ""}, {"1 in all", "failed", ""}}
	if d := cmp.Diff(want, result.rows); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	if s := planSummary(steps); s != "2,000 steps\n2,000 source offsets will not be copied and go to the ledger\n2,000 steps cannot be undone" {
		t.Error(s)
	}
}

// troubledBackend has lanes that stopped for one reason, and a link that is held as a whole.
type troubledBackend struct{ cannedBackend }

func (troubledBackend) Lanes(context.Context, string) ([]api.Lane, error) {
	lanes := make([]api.Lane, 2000)
	for i := range lanes {
		lane := model.Lane{Link: "dr", Topic: "orders", Partition: int32(i)}
		lanes[i] = api.NewLane(model.LaneStatus{Lane: lane, DstTopic: "orders", State: model.StateStopped, Reason: model.ReasonTargetLost,
			Detail: "the target topic is gone", Since: time.Unix(1_700_000_000, 0), Remedy: model.Remedy(model.ReasonTargetLost, lane), Readable: -1, DstEnd: -1})
	}
	lanes[1999].Reason, lanes[1999].Remedy = "too_large", model.Remedy(model.ReasonTooLarge, model.Lane{Link: "dr", Topic: "orders", Partition: 1999})
	return lanes, nil
}

func (b troubledBackend) Links(ctx context.Context) ([]api.Link, error) {
	lanes, err := b.Lanes(ctx, "dr")
	l := api.Link{Name: "dr", Source: "primary", Target: "backup", Owner: "c1f0", Term: 7, Seal: "direct", SafeToFailOver: api.SafetyUnknown(),
		Reason: "source_replaced", Detail: "primary is cluster id B now, it was A", Remedy: "lockstep links accept dr goes on with it", Since: time.Unix(1_700_000_000, 0).UTC(),
		SourceID: "A", TargetID: "T", Pauses: []api.Pause{{Topic: "orders", By: "ann@ops", Reason: "ticket 7", At: time.Unix(1_700_000_000, 0).UTC()}},
		Problems: []api.TopicProblem{{Topic: "primary.checkpoints.internal", State: api.TopicNotInSync, Detail: "NOT_ENOUGH_REPLICAS", Remedy: "by itself"}}}
	l.State, l.Lanes, l.RPO = api.Summarize(lanes)
	return []api.Link{l}, err
}

func TestStatus_ManyLanesOfOneReasonAreToldOnce(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(api.Handler(troubledBackend{}, nil, nil))
	t.Cleanup(srv.Close)
	out, errs, code := lockstep(t, "status", "--server", srv.URL)
	if code != exitOK {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	goldenText(t, "status_troubled.txt", out)
	shown, _, _ := lockstep(t, "links", "show", "dr", "--server", srv.URL)
	for _, want := range []string{"primary, cluster id A", "backup, cluster id T", "c1f0", "topic orders, by ann@ops", "ticket 7", "1999 target_lost", "lockstep links accept dr"} {
		if !strings.Contains(shown, want) {
			t.Errorf("links show lacks %q:\n%s", want, shown)
		}
	}
	list, _, _ := lockstep(t, "links", "list", "--server", srv.URL)
	if want := "NAME  FROM     TO      STATE    REASON\ndr    primary  backup  stopped  source_replaced\n"; list != want {
		t.Errorf("links list:\n%s", list)
	}
}

func TestCompletion_NamesOfARunningService(t *testing.T) {
	t.Parallel()
	url := (&orderBackend{}).serve(t)
	for line, want := range map[string]string{
		"links pause ": "dr\n", "links pause dr ": "", "lanes retry ": "dr:orders/1\n", "lanes retry dr:orders/1 ": "", "topics adopt ": "dr:orders\n",
	} {
		args := append([]string{"__complete", "--server", url}, strings.Split(line, " ")...)
		out, _, code := lockstep(t, args...)
		if got, _, _ := strings.Cut(out, ":4\n"); code != exitOK || got != want {
			t.Errorf("%q completes to %q, exit code %d", line, got, code)
		}
	}
	if out, _, code := lockstep(t, "__complete", "--server", "http://127.0.0.1:1", "links", "pause", ""); code != exitOK || out != ":4\n" {
		t.Errorf("without a service: %q, exit code %d", out, code)
	}
}
