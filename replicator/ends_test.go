package replicator

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"lockstep/internal/kafka"
	"lockstep/internal/model"
)

// toldEnds is a source that tells an end, or why it does not.
type toldEnds struct {
	cluster
	end   int64
	err   error
	asked int
}

func (s *toldEnds) ListOffsets(_ context.Context, parts []kafka.Part, at int64, _ bool) map[kafka.Part]kafka.Offset {
	s.asked++
	out := make(map[kafka.Part]kafka.Offset, len(parts))
	for _, p := range parts {
		o := kafka.Offset{Err: s.err}
		if at == kafka.AtEnd {
			o.Offset = s.end
		}
		out[p] = o
	}
	return out
}

// A lane that may not read any more never shows the lag that it had, let alone 0: it grows, or is not known.
func TestWatchEnds_LaneThatMayNotRead(t *testing.T) {
	t.Parallel()
	m, l, pass := clocked(t)
	src := &toldEnds{end: 100}
	m.src, m.lanes[l.id] = src, l
	l.opening = 1
	l.observe(0, 100, 100, m.now())
	l.cursor.Src = 100
	pass(time.Hour)
	if m.watchEnds(t.Context()); src.asked != 0 {
		t.Fatal("the source is asked for an idle lane's ends, which its fetch session would tell")
	}
	shows := func(what string, state model.State, readable int64, lag time.Duration) {
		t.Helper()
		l.overdue(m.now())
		s := l.status(m.now())
		if s.State != state || s.Readable != readable || s.LagSeconds != lag.Seconds() {
			t.Fatalf("%s: %s, readable up to %d, %v seconds; want %s, %d, %v", what, s.State, s.Readable, s.LagSeconds, state, readable, lag)
		}
	}
	l.sourceTrouble(model.ReasonNotAuthorized, "no READ")
	pass(11 * time.Second)
	src.end = 130
	m.watchEnds(t.Context())
	pass(time.Minute)
	shows("DESCRIBE is left", model.StateRetrying, 130, time.Minute)
	src.err = kerr.TopicAuthorizationFailed
	m.watchEnds(t.Context())
	shows("nothing is left", model.StateRetrying, -1, time.Minute)
	src.err = nil
	m.watchEnds(t.Context())
	shows("DESCRIBE is back", model.StateRetrying, 130, time.Minute)
	src.err = kerr.NotLeaderForPartition
	pass(lookEach)
	m.watchEnds(t.Context())
	shows("a moment without leader", model.StateRetrying, 130, time.Minute+lookEach)
	l.observe(0, 130, 130, m.now())
	shows("READ is back", model.StateCopying, 130, time.Minute+lookEach)
}

// A lane whose ends could not be asked for while it was in trouble asks again when it is not: an idle one would hear nothing.
func TestWatchEnds_IdleLaneWithoutEnds(t *testing.T) {
	t.Parallel()
	m, l, pass := clocked(t)
	src := &toldEnds{end: 100}
	m.src, m.lanes[l.id] = src, l
	l.opening = 1
	l.observe(0, 100, 100, m.now())
	pass(time.Minute)
	l.forgetEnds(m.now())
	m.watchEnds(t.Context())
	if s := l.status(m.now()); s.Readable != 100 {
		t.Errorf("readable up to %d, want 100", s.Readable)
	}
}

func TestWatchEnds_OtherSourceTellsNothing(t *testing.T) {
	t.Parallel()
	m, l, pass := clocked(t)
	src := &toldEnds{end: 7}
	m.src, m.lanes[l.id] = src, l
	l.opening = 1
	l.observe(0, 100, 100, m.now())
	m.replaced("another cluster answers")
	pass(time.Minute)
	m.watchEnds(t.Context())
	if s := l.status(m.now()); s.Readable != -1 || src.asked != 0 {
		t.Errorf("readable up to %d, asked %d times", s.Readable, src.asked)
	}
}
