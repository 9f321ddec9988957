package replicator

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"lockstep/internal/kafka"
	"lockstep/internal/model"
	"lockstep/replicator/batch"
)

// clocked is a lane whose manager's clock a test moves.
func clocked(t *testing.T) (*Manager, *lane, func(time.Duration)) {
	t.Helper()
	m, l, _ := newOpenLane(t)
	now := m.now()
	m.now = func() time.Time { return now }
	l.fetch = &fetcher{m: m, broker: 1}
	return m, l, func(d time.Duration) { now = now.Add(d) }
}

func TestLane_HangingTransactionShowsAfterAMinute(t *testing.T) {
	t.Parallel()
	m, l, pass := clocked(t)
	l.observe(0, 100, 130, m.now())
	p := kafka.Producer{PID: 9, Epoch: 2, TxnStart: 100, LastTimestamp: m.now().Add(-time.Hour).UnixMilli()}
	look := func() {
		if w, ok := l.waitsForTxn(m.now()); ok {
			l.hangs(w, p, txnAge(p, w.since, m.now()), m.now())
		}
	}
	pass(59 * time.Second)
	if look(); l.state != model.StateCopying {
		t.Fatalf("after 59 s the lane is %s", l.state)
	}
	l.observe(0, 100, 140, m.now()) // more waits; the stable end stands
	pass(2 * time.Second)
	look()
	if l.state != model.StateRetrying || l.reason != model.ReasonHangingTxn || !strings.Contains(l.detail, "producer id 9, epoch 2") ||
		!strings.Contains(l.detail, "40 source offsets") || !strings.Contains(l.detail, "1h1m1s old") {
		t.Fatalf("after 61 s the lane is %s, %s: %q", l.state, l.reason, l.detail)
	}
	l.observe(0, 101, 140, m.now())
	if l.state != model.StateCopying {
		t.Errorf("after the stable end moved the lane is %s", l.state)
	}
}

func TestLane_NoHangingTransactionWhereNothingWaits(t *testing.T) {
	t.Parallel()
	m, l, pass := clocked(t)
	l.observe(0, 100, 100, m.now())
	pass(time.Hour)
	if _, ok := l.waitsForTxn(m.now()); ok {
		t.Error("a lane at the end of its source waits for a transaction")
	}
	l.observe(0, 100, 130, m.now()) // a transaction has just begun
	if _, ok := l.waitsForTxn(m.now()); ok {
		t.Error("a transaction that has just begun counts as old as the idle time before it")
	}
	l.observe(0, 120, 130, m.now())
	pass(time.Hour)
	if _, ok := l.waitsForTxn(m.now()); ok {
		t.Error("a lane that has not copied up to the stable end waits for a transaction")
	}
}

func TestOpenTxn_TheOneThatHolds(t *testing.T) {
	t.Parallel()
	ps := []kafka.Producer{{PID: 1, TxnStart: -1}, {PID: 2, TxnStart: 150}, {PID: 3, TxnStart: 90}, {PID: 4, TxnStart: 100}}
	if p, ok := openTxn(ps, 100); !ok || p.PID != 3 {
		t.Errorf("found %+v, %v", p, ok)
	}
	if p, ok := openTxn(ps[:2], 100); ok {
		t.Errorf("found %+v, which begins behind the stable end", p)
	}
}

func TestLane_ThrottledIsNoFault(t *testing.T) {
	t.Parallel()
	m, l, pass := clocked(t)
	l.observe(0, 200, 200, m.now())
	if s := l.status(m.now()); s.Reason != model.ReasonNone {
		t.Fatalf("shows %s", s.Reason)
	}
	m.throttled(sideSource, &l.fetch.throttle, 1500)
	s := l.status(m.now())
	if s.State != model.StateCopying || s.Reason != model.ReasonThrottled || !strings.Contains(s.Detail, "source broker 1 asked to wait 1.5s") {
		t.Errorf("shows %s, %s: %q", s.State, s.Reason, s.Detail)
	}
	pass(12 * time.Second)
	if s := l.status(m.now()); s.Reason != model.ReasonNone {
		t.Errorf("still shows %s", s.Reason)
	}
}

func TestLane_BehindAndQuietIsStuck(t *testing.T) {
	t.Parallel()
	m, l, pass := clocked(t)
	l.observe(0, 100, 100, m.now())
	pass(time.Hour)
	if !l.quiet(m.now()) {
		t.Fatal("a lane that heard nothing for an hour is not looked at")
	}
	if l.stuck(100, m.now()) != nil || l.stuck(105, m.now()) != nil {
		t.Fatal("records that have just come make an idle lane stuck")
	}
	l.observe(0, 105, 105, m.now())
	pass(behindFor)
	if l.stuck(105, m.now()) != nil {
		t.Fatal("a lane that has just heard of them is stuck")
	}
	pass(quietAfter)
	if l.stuck(105, m.now()) != nil {
		t.Fatal("stuck at the first look")
	}
	pass(behindFor)
	if f := l.stuck(105, m.now()); f != l.fetch || l.state != model.StateRetrying || l.reason != model.ReasonInternal {
		t.Fatalf("not stuck: %s %s", l.state, l.reason)
	}
	l.observe(0, 105, 105, m.now())
	if l.state != model.StateCopying {
		t.Errorf("after an answer the lane is %s", l.state)
	}
	pass(time.Hour)
	l.fetch.held.Store(true)
	if l.quiet(m.now()) {
		t.Error("a lane whose fetcher waits for memory or its limit counts as quiet")
	}
}

// The exact range of a damaged batch is told, so that it can be left out.
func TestLane_CorruptNamesTheRange(t *testing.T) {
	t.Parallel()
	_, l, s := newOpenLane(t)
	for try := range corruptTries {
		feed(t, l, l.cursor.Src, 3)
		o := l.take(s)
		if o == nil {
			t.Fatalf("try %d: nothing to send, the lane is %s", try, l.state)
		}
		l.settle(o, -1, &kafka.RefusedError{Err: kerr.CorruptMessage, Base: -1})
		if try < corruptTries-1 {
			l.begin(uint64(try+2), testTerm, l.cursor, l.m.now())
		}
	}
	if l.state != model.StateStopped || l.reason != model.ReasonCorrupt || !strings.Contains(l.detail, "source offsets 100 to 102:") {
		t.Errorf("the lane is %s, %s: %q", l.state, l.reason, l.detail)
	}
}

// The same for a batch that cannot be decoded.
func TestLane_UndecodableNamesTheRange(t *testing.T) {
	t.Parallel()
	_, l, _ := newOpenLane(t)
	codecs, err := batch.NewCodecs(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	for try := range corruptTries {
		built, err := codecs.Encode([]batch.Record{{Timestamp: 1, Value: []byte("a")}, {Offset: 1, Timestamp: 1, Value: []byte("b")}}, batch.CodecNone, 0)
		if err != nil {
			t.Fatal(err)
		}
		b := built[0].Bytes
		b[7] = 200          // base offset
		b[len(b)-1] ^= 0xff // a bit has flipped; records this old are decoded to be merged
		l.accept(chunk{gen: l.gen, from: 200, raw: b, buf: newBuffer(l.m.budget, int64(len(b))), at: l.m.now()})
		for l.prepareNext() {
		}
		if try < corruptTries-1 {
			if l.state != model.StateOpening {
				t.Fatalf("try %d: the lane is %s", try, l.state)
			}
			l.begin(uint64(try+2), testTerm, l.cursor, l.m.now())
		}
	}
	if l.state != model.StateStopped || l.reason != model.ReasonCorrupt || !strings.Contains(l.detail, "source offsets 200 to 201:") {
		t.Errorf("the lane is %s, %s: %q", l.state, l.reason, l.detail)
	}
}
