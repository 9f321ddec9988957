package replicator

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"

	"lockstep/config"
	"lockstep/internal/kafka"
	"lockstep/internal/model"
	"lockstep/replicator/batch"
)

// newTestManager returns a manager whose loops do not run: lanes can be driven by hand.
func newTestManager(t *testing.T) *Manager {
	t.Helper()
	now := time.UnixMilli(1_700_000_000_000)
	// The clients are made, and never asked: dialling does no I/O.
	cl, err := kafka.Dial(config.Cluster{Name: "none", Brokers: []string{"127.0.0.1:1"}}, kafka.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	m, err := New(Options{Link: "dr", Owner: "me", Source: cl, Target: cl, Budget: NewBudget(1 << 20), Metrics: NewMetrics(prometheus.NewRegistry()),
		Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.stopWork(errStopped)
		m.tasks.Wait()
	})
	return m
}

var testTerm = model.Term{N: 3, PID: 42, Epoch: 2, Owner: "me"}

// newOpenLane returns a lane that was opened at source offset 100 and target offset 10.
func newOpenLane(t *testing.T) (*Manager, *lane, *sender) {
	t.Helper()
	m := newTestManager(t)
	l := newLane(m, Assignment{Lane: model.Lane{Link: "dr", Topic: "orders"}, Identity: model.Identity{DstTopic: "orders"}}, m.now())
	m.lanes[l.id] = l
	l.begin(1, testTerm, model.Cursor{Src: 100, Dst: 10, SrcEpoch: -1}, m.now())
	return m, l, &sender{m: m}
}

// feed prepares batches of the given record counts at consecutive source offsets, stamped with the present time.
func feed(t *testing.T, l *lane, from int64, counts ...int) {
	t.Helper()
	feedAged(t, l, 0, from, counts...)
}

// feedAged is feed with records of a certain age.
func feedAged(t *testing.T, l *lane, age time.Duration, from int64, counts ...int) {
	t.Helper()
	codecs, err := batch.NewCodecs(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	var raw []byte
	for _, n := range counts {
		rs := make([]batch.Record, n)
		for i := range rs {
			rs[i] = batch.Record{Offset: from + int64(i), Timestamp: l.m.now().Add(-age).UnixMilli(), Value: []byte("v")}
		}
		built, err := codecs.Encode(rs, batch.CodecNone, 0)
		if err != nil {
			t.Fatal(err)
		}
		b := built[0].Bytes
		for i := range 8 {
			b[i] = byte(from >> (56 - 8*i)) // the base offset is outside of the checksum
		}
		raw = append(raw, b...)
		from += int64(n)
	}
	l.accept(chunk{gen: l.gen, raw: raw, buf: newBuffer(l.m.budget, int64(len(raw))), at: l.m.now()})
	for l.prepareNext() {
	}
}

func takeAll(l *lane, s *sender) (os []*outgoing) {
	for o := l.take(s); o != nil; o = l.take(s) {
		os = append(os, o)
	}
	return os
}

func TestLane_WindowIsOneUntilTheFirstAnswer(t *testing.T) {
	t.Parallel()
	_, l, s := newOpenLane(t)
	feed(t, l, 100, 1, 1, 1, 1, 1, 1, 1)
	first := takeAll(l, s)
	if len(first) != 1 {
		t.Fatalf("sent %d batches before the first answer, want 1", len(first))
	}
	l.settle(first[0], 10, nil)
	if got := takeAll(l, s); len(got) != maxInFlight {
		t.Fatalf("sent %d batches after the first answer, want %d", len(got), maxInFlight)
	}
}

func TestLane_WindowIsOneWhileTheProducerMayBeForgotten(t *testing.T) {
	t.Parallel()
	m, l, s := newOpenLane(t)
	m.producerExpiry = time.Hour
	feed(t, l, 100, 1, 1, 1, 1)
	o := l.take(s)
	o.maxTS = m.now().Add(-31 * time.Minute).UnixMilli()
	l.settle(o, 10, nil)
	if got := takeAll(l, s); len(got) != 1 {
		t.Fatalf("sent %d batches behind an old record, want 1", len(got))
	}
}

func TestLane_OldSmallBatchesAreMerged(t *testing.T) {
	t.Parallel()
	_, l, s := newOpenLane(t)
	feedAged(t, l, 48*time.Hour, 100, 3, 4, 5)
	feedAged(t, l, 48*time.Hour, 120, 2) // behind a hole
	first := l.take(s)
	if first == nil || first.n != 12 || first.srcEnd != 112 {
		t.Fatalf("first batch is %+v, want 12 records up to source offset 112", first)
	}
	if h, err := batch.Parse(first.raw); err != nil || h.Count != 12 || h.BaseSeq != 0 || h.PID != testTerm.PID {
		t.Fatalf("header %+v, %v", h, err)
	}
	l.settle(first, 10, nil)
	l.jumpsDurable(l.takeJumps())
	second := l.take(s)
	if second == nil || second.count != 12 || second.n != 2 {
		t.Fatalf("second batch is %+v, want 2 records behind the first 12", second)
	}
	if l.m.budget.Used() != int64(len(second.raw)) {
		t.Fatalf("budget holds %d bytes, one batch of %d is left", l.m.budget.Used(), len(second.raw))
	}
}

func TestLane_SettleMovesTheCursor(t *testing.T) {
	t.Parallel()
	_, l, s := newOpenLane(t)
	feed(t, l, 100, 3, 2)
	l.settle(l.take(s), 10, nil)
	l.settle(l.take(s), 13, nil)
	if want := (model.Cursor{Src: 105, Dst: 15, Count: 5, SrcEpoch: -1}); l.cursor != want {
		t.Fatalf("cursor is %+v, want %+v", l.cursor, want)
	}
	if l.held != 0 || l.m.budget.Used() != 0 {
		t.Fatalf("lane holds %d bytes, budget %d, after everything was settled", l.held, l.m.budget.Used())
	}
}

func TestLane_JumpWaitsForItsPlan(t *testing.T) {
	t.Parallel()
	_, l, s := newOpenLane(t)
	feed(t, l, 107, 2) // source offsets 100 to 106 hold nothing
	if o := l.take(s); o != nil {
		t.Fatal("a batch behind a jump was sent before the jump was durable")
	}
	p := l.takeJumps()
	if len(p.jumps) != 1 || p.jumps[0] != (model.Jump{Count: 0, Src: 107}) {
		t.Fatalf("jumps are %v", p.jumps)
	}
	l.jumpsDurable(p)
	if o := l.take(s); o == nil {
		t.Fatal("the batch was not sent after its jump was durable")
	}
}

func TestLane_RefusalsOfAllKinds(t *testing.T) {
	t.Parallel()
	unknown := errors.New("connection cut")
	for name, c := range map[string]struct {
		err    error
		want   verdict
		enters bool
		reason model.Reason
	}{
		"moved leader is repaired":         {err: kerr.NotLeaderForPartition, want: mending},
		"no answer is repaired":            {err: unknown, want: mending},
		"below min ISR is repaired":        {err: kerr.NotEnoughReplicas, want: mending},
		"newer epoch enters anew":          {err: kerr.InvalidProducerEpoch, enters: true},
		"first sequence error is repaired": {err: kerr.OutOfOrderSequenceNumber, want: mending},
		"one too large record stops":       {err: kerr.MessageTooLarge, reason: model.ReasonTooLarge},
		"time stamp stops":                 {err: kerr.InvalidTimestamp, reason: model.ReasonTimestampRefused},
		"bad record stops":                 {err: kerr.InvalidRecord, reason: model.ReasonRefused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, l, s := newOpenLane(t)
			feed(t, l, 100, 1, 1)
			l.settle(l.take(s), -1, c.err)
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.verdict != c.want || l.entering != c.enters || l.reason != c.reason {
				t.Fatalf("verdict %d, entering %v, reason %q; want %d, %v, %q", l.verdict, l.entering, l.reason, c.want, c.enters, c.reason)
			}
			if stopped := l.state == model.StateStopped; stopped != (c.reason != "") {
				t.Fatalf("state is %s", l.state)
			}
		})
	}
}

// A target that refuses a whole batch for one of its records: the lane comes again with the records one by one, and stops at
// the one that is meant. What an operator leaves out is that record alone.
func TestLane_RefusedBatchIsSentRecordByRecord(t *testing.T) {
	t.Parallel()
	for _, refused := range []error{kerr.InvalidTimestamp, kerr.InvalidRecord} {
		m, l, s := newOpenLane(t)
		feed(t, l, 100, 3, 2)
		l.settle(l.take(s), -1, refused)
		if !l.entering {
			t.Fatalf("%v: the lane is %s %s", refused, l.state, l.reason)
		}
		l.begin(2, testTerm, l.cursor, m.now())
		feed(t, l, 100, 3, 2)
		l.settle(l.take(s), 10, nil)
		l.settle(l.take(s), -1, refused)
		if l.state != model.StateStopped || l.cursor.Src != 101 || l.cursor.Dst != 11 {
			t.Fatalf("%v: the lane is %s %s at %+v, want it stopped at the second record, 101", refused, l.state, l.reason, l.cursor)
		}
	}
}

// A batch that a broker answers with a server error again and again is looked into here: what cannot be decoded is corrupt,
// and does not wait for ever.
func TestLane_ServerErrorsOfOneBatchAreLookedInto(t *testing.T) {
	t.Parallel()
	m, l, s := newOpenLane(t)
	feed(t, l, 100, 3)
	for try := range corruptTries {
		o := l.take(s)
		if o == nil {
			t.Fatalf("try %d: nothing to send, the lane is %s %s", try, l.state, l.reason)
		}
		l.settle(o, -1, kerr.UnknownServerError)
		if l.entering != (try == corruptTries-1) {
			t.Fatalf("try %d: verdict %d, entering %v", try, l.verdict, l.entering)
		}
		if !l.entering { // what a repair ends with that finds nothing of the batch in the log
			l.mu.Lock()
			l.verdict = goOn
			l.mu.Unlock()
		}
	}
	l.begin(2, testTerm, l.cursor, m.now())
	feed(t, l, 100, 3)
	if o := l.take(s); o == nil || o.n != 1 || o.srcFrom != 100 || o.srcTo != 101 {
		t.Fatalf("the next batch is %+v, want the record at 100 alone", o)
	}
}

// Of a batch that has to be decoded, everything before a record that the target would refuse is sent.
func TestLane_GoodRecordsBeforeABadOneAreSent(t *testing.T) {
	t.Parallel()
	_, l, s := newOpenLane(t)
	l.limits.Compacted = true
	l.singlyTo = 1 // of an earlier batch
	feed(t, l, 100, 2)
	o := l.take(s)
	if o == nil || o.n != 2 {
		t.Fatalf("a batch that may pass is not decoded: %+v", o)
	}
	_, l, s = newOpenLane(t)
	l.limits.BeforeMS = 1000
	feedAged(t, l, time.Minute, 100, 2)
	if l.state != model.StateStopped || l.reason != model.ReasonTimestampRefused || l.take(s) != nil || !strings.Contains(l.detail, "offset 100") {
		t.Fatalf("the lane is %s %s: %s", l.state, l.reason, l.detail)
	}
}

func TestLane_RepairSendsTheSameBytesAgain(t *testing.T) {
	t.Parallel()
	_, l, s := newOpenLane(t)
	feed(t, l, 100, 1, 1, 1, 1)
	l.settle(l.take(s), 10, nil)
	sent := takeAll(l, s)
	if len(sent) != 3 {
		t.Fatalf("sent %d, want 3", len(sent))
	}
	before := make([]string, len(sent))
	for i, o := range sent {
		before[i] = string(o.raw)
	}
	for _, o := range sent {
		l.settle(o, -1, errors.New("connection cut"))
	}
	// The first of the three did land.
	h, err := batch.Parse(sent[0].raw)
	if err != nil {
		t.Fatal(err)
	}
	h.BaseOffset = 11
	if err := l.mend(h, testTerm); err != nil {
		t.Fatal(err)
	}
	l.resume(nil)
	again := takeAll(l, s)
	if len(again) != 1 || string(again[0].raw) != before[1] {
		t.Fatalf("after the repair %d batches went out, want the second one alone", len(again))
	}
	l.settle(again[0], 12, nil)
	if again = takeAll(l, s); len(again) != 1 || string(again[0].raw) != before[2] {
		t.Fatalf("the third batch was not sent again unchanged")
	}
}

func TestLane_RepairMeetsWhatItNeverSent(t *testing.T) {
	t.Parallel()
	_, l, s := newOpenLane(t)
	feed(t, l, 100, 2)
	o := l.take(s)
	l.settle(o, -1, errors.New("connection cut"))
	h, err := batch.Parse(o.raw)
	if err != nil {
		t.Fatal(err)
	}
	h.Count, h.LastOffsetDelta = 1, 0
	err = l.mend(h, testTerm)
	if !errors.Is(err, errNotOurs) {
		t.Fatalf("mend: %v", err)
	}
	l.resume(err)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.entering || l.termAbove != testTerm.N {
		t.Fatalf("entering %v above term %d, want a new term", l.entering, l.termAbove)
	}
}

// A read that took long must not settle what a later opening sends: its counts begin anew, and so it looks the same.
func TestLane_RepairOfAnEarlierOpeningSettlesNothing(t *testing.T) {
	t.Parallel()
	m, l, s := newOpenLane(t)
	feed(t, l, 100, 2)
	o := l.take(s)
	h, err := batch.Parse(o.raw)
	if err != nil {
		t.Fatal(err)
	}
	h.BaseOffset = 10
	l.settle(o, -1, errors.New("connection cut"))
	_, term := l.mended()
	l.stop(model.ReasonRefused, "by an order")
	next := testTerm
	next.N, next.Epoch = next.N+1, next.Epoch+1
	l.mu.Lock()
	l.state = model.StateOpening
	l.mu.Unlock()
	l.begin(2, next, model.Cursor{Src: 102, Dst: 13, SrcEpoch: -1}, m.now())
	feed(t, l, 102, 2)
	l.resume(l.mend(h, term))
	if o = l.take(s); o == nil || o.srcFrom != 102 || l.cursor.Src != 102 {
		t.Fatalf("the cursor is %+v and %+v is sent next: records of the new opening were never sent", l.cursor, o)
	}
}

// A lane that stopped for what its source's log lacks asks for nothing any more: its fetcher polls at leisure.
func TestLane_StoppedAtAGapKeepsNoFetcherBusy(t *testing.T) {
	t.Parallel()
	_, l, _ := newOpenLane(t)
	l.mu.Lock()
	l.ranged = true
	l.mu.Unlock()
	if _, _, _, hold := l.position(); !hold {
		t.Fatal("a lane that is being looked into is wanted soon")
	}
	l.stop(model.ReasonGap, "deleted before it was read")
	if _, _, ok, hold := l.position(); ok || hold {
		t.Fatalf("a stopped lane: ok %v, hold %v", ok, hold)
	}
}

// A group of lanes at a broker that hangs comes back late: a lane that another group has opened meanwhile is in no trouble.
func TestLater_LeavesAnOpenLaneAlone(t *testing.T) {
	t.Parallel()
	m, l, _ := newOpenLane(t)
	l.observe(0, 100, 100, m.now()) // its source answers
	m.later(l, model.ReasonSuperseded, "another opening came first")
	if !l.fault.IsZero() {
		t.Fatalf("an open lane shows %+v", l.why)
	}
}

func TestLane_UnknownOutcomeOfOldRecordsNeedsANewTerm(t *testing.T) {
	t.Parallel()
	m, l, s := newOpenLane(t)
	m.producerExpiry = time.Hour
	feed(t, l, 100, 1, 1)
	o := l.take(s)
	o.maxTS = m.now().Add(-2 * time.Hour).UnixMilli()
	l.settle(o, 10, nil)
	l.settle(l.take(s), -1, errors.New("connection cut"))
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.entering {
		t.Fatalf("verdict %d: the broker may have forgotten the sequence, so the batch must not be sent again", l.verdict)
	}
}

func TestLane_RefusalStopsOnlyBehindWhatWasGood(t *testing.T) {
	t.Parallel()
	_, l, s := newOpenLane(t)
	feed(t, l, 100, 2)
	l.mu.Lock()
	l.refusal = &refusal{reason: model.ReasonTooLarge, detail: "record 102"}
	l.mu.Unlock()
	if l.state == model.StateStopped {
		t.Fatal("stopped before the good batch was sent")
	}
	l.settle(l.take(s), 10, nil)
	if l.state != model.StateStopped || l.reason != model.ReasonTooLarge || l.cursor.Src != 102 {
		t.Fatalf("state %s, reason %s, cursor %+v", l.state, l.reason, l.cursor)
	}
}

func TestLane_OneSenderAtATime(t *testing.T) {
	t.Parallel()
	m, l, a := newOpenLane(t)
	b := &sender{m: m}
	feed(t, l, 100, 1, 1, 1)
	l.settle(l.take(a), 10, nil)
	o := l.take(a)
	if got := l.take(b); got != nil {
		t.Fatal("a batch went through another sender while one was unanswered")
	}
	l.settle(o, 11, nil)
	if got := l.take(b); got == nil {
		t.Fatal("the new leader's sender got nothing")
	}
}

func TestLane_DrainedLeavesUnsentBatchesBehind(t *testing.T) {
	t.Parallel()
	_, l, s := newOpenLane(t)
	feed(t, l, 100, 1, 1)
	o := l.take(s)
	l.mu.Lock()
	l.draining = true
	l.mu.Unlock()
	if _, ok := l.progress(true); !ok {
		t.Log("nothing to store yet")
	}
	l.mu.Lock()
	if l.drainedLocked() {
		t.Error("drained with an unanswered batch")
	}
	l.mu.Unlock()
	l.settle(o, 10, nil)
	p, ok := l.progress(true)
	if !ok || !p.Clean || p.Cursor.Src != 101 || p.Cursor.Count != 1 {
		t.Fatalf("progress %+v, %v", p, ok)
	}
	if l.take(s) != nil {
		t.Fatal("a draining lane sent a batch")
	}
}

func TestLane_SourceFaultEndsWithTheNextGoodAnswer(t *testing.T) {
	t.Parallel()
	m, l, _ := newOpenLane(t)
	start := m.now()
	now := start
	m.now = func() time.Time { return now }
	l.sourceTrouble(model.ReasonNetwork, "connection cut")
	now = start.Add(retryingAfter)
	l.overdue(now)
	if l.state != model.StateRetrying || l.reason != model.ReasonNetwork {
		t.Fatalf("state %s, reason %s after a fault of %v", l.state, l.reason, retryingAfter)
	}
	l.observe(0, 100, 100, now)
	if l.state != model.StateCopying {
		t.Fatalf("state %s although the source answers again", l.state)
	}
	l.trouble(model.ReasonLeaderUnavailable, "no leader on the target")
	l.sourceTrouble(model.ReasonNetwork, "connection cut")
	l.observe(0, 100, 100, now)
	if l.fault.IsZero() {
		t.Fatal("an answer of the source ended a fault of the target")
	}
}

func TestLane_DrainIsNotCleanWhileABatchMayStillLand(t *testing.T) {
	t.Parallel()
	_, l, s := newOpenLane(t)
	feed(t, l, 100, 1)
	l.settle(l.take(s), -1, errors.New("connection cut"))
	l.mu.Lock()
	l.draining = true
	l.mu.Unlock()
	l.resume(nil) // the log did not show it: a late copy may still come
	if p, ok := l.progress(true); ok && p.Clean {
		t.Fatal("ended cleanly although a batch may still land")
	}
}

// What a lane that is on its way to a new term holds is not known before the target's log was read, and a lane that
// diverged does not get to know it by being stopped once more.
func TestLane_NoCleanEndForAnUnknownPosition(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(l *lane, s *sender){
		"on its way to a new term": func(l *lane, s *sender) { l.settle(l.take(s), -1, kerr.InvalidProducerEpoch) },
		"diverged":                 func(l *lane, _ *sender) { l.stop(model.ReasonDiverged, "other records") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, l, s := newOpenLane(t)
			feed(t, l, 100, 1, 1)
			l.settle(l.take(s), 10, nil)
			before(l, s)
			l.stop(model.ReasonSourceDeleted, "the topic does not exist any more")
			if p, ok := l.progress(false); ok && p.Clean {
				t.Fatalf("a clean end at %+v", p.Cursor)
			}
		})
	}
}

func TestLane_StoredCleanEndIsNotTakenBack(t *testing.T) {
	t.Parallel()
	_, l, s := newOpenLane(t)
	feed(t, l, 100, 1)
	l.settle(l.take(s), 10, nil)
	l.mu.Lock()
	l.draining = true
	l.mu.Unlock()
	p, ok := l.progress(true)
	if !ok || !p.Clean {
		t.Fatalf("progress %+v, %v", p, ok)
	}
	l.stored(p)
	if p, ok := l.progress(false); ok {
		t.Fatalf("the timer would store %+v over the clean end", p)
	}
}

func TestLane_StopAfterARefusalIsAClearEnd(t *testing.T) {
	t.Parallel()
	_, l, s := newOpenLane(t)
	feed(t, l, 100, 1, 1)
	l.settle(l.take(s), 10, nil)
	l.settle(l.take(s), -1, kerr.InvalidTimestamp)
	if p, ok := l.progress(false); !ok || !p.Clean || p.Cursor.Src != 101 {
		t.Fatalf("progress %+v, %v: a refused batch leaves nothing in doubt", p, ok)
	}
}

func TestLeaders_UnknownLaneHasNone(t *testing.T) {
	t.Parallel()
	m := newTestManager(t)
	if _, ok := m.dstLeaders.Lookup(kafka.Part{Topic: "none"}); ok {
		t.Fatal("found a leader of an unknown partition")
	}
}
