package offsetsync

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep/internal/model"
	"lockstep/internal/statelog"
)

var theIdentity = model.Identity{DstTopic: "orders", Src: model.TopicID{1}, Dst: model.TopicID{2}}

// openFirst opens the lane for the first time.
func openFirst(t *testing.T, p process) {
	t.Helper()
	o := Opening{Lane: theLane, N: 1, Identity: theIdentity, Origin: model.Cursor{Src: 100, SrcEpoch: -1}}
	won, err := p.store.Open(t.Context(), []Opening{o})
	if err != nil || !won[0] {
		t.Fatalf("open: %v, %v", won, err)
	}
}

func plan(n uint64, js ...model.Jump) map[model.Lane]PlanAdd {
	return map[model.Lane]PlanAdd{theLane: {n, js}}
}

func TestStore_ProgressIsShownByTheView(t *testing.T) {
	t.Parallel()
	p := (&memLog{}).process("a")
	openFirst(t, p)
	if err := p.store.Plan(t.Context(), plan(1, model.Jump{Count: 3, Src: 110}, model.Jump{Count: 90, Src: 500})); err != nil {
		t.Fatal(err)
	}
	c := model.Cursor{Src: 112, Dst: 6, Count: 5, SrcEpoch: 3}
	if err := p.store.Save(t.Context(), []Progress{{Lane: theLane, Opening: 1, Cursor: c, Landings: []model.Landing{{Count: 4, Dst: 5}}}}); err != nil {
		t.Fatal(err)
	}
	st, ok := p.view.Lane(theLane)
	if !ok || st.Cursor != c || st.Clean || st.Fault != nil {
		t.Errorf("got %+v", st)
	}
	want := []model.Span{{Src: 100, Dst: 0, N: 3}, {Src: 110, Dst: 3, N: 1}, {Src: 111, Dst: 5, N: 1}}
	if diff := cmp.Diff(want, spansOf(st.Map)); diff != "" {
		t.Error(diff)
	}
	// What covers the record before the cursor and all behind: recovery needs no more.
	if diff := cmp.Diff([]model.Jump{{Count: 3, Src: 110}, {Count: 90, Src: 500}}, st.Plan); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]model.Landing{{Count: 4, Dst: 5}}, st.Landings); diff != "" {
		t.Error(diff)
	}
}

func TestStore_LaneThatIsNotOpenIsRefusedAlone(t *testing.T) {
	t.Parallel()
	p := (&memLog{}).process("a")
	openFirst(t, p)
	other := model.Lane{Link: "dr", Topic: "other"}
	adds := plan(1, model.Jump{Count: 0, Src: 101})
	adds[other] = PlanAdd{1, []model.Jump{{Count: 0, Src: 5}}}
	err := p.store.Plan(t.Context(), adds)
	if le := (*LaneError)(nil); !errors.As(err, &le) || le.Lane != other || !errors.Is(err, ErrNotOpen) {
		t.Errorf("got %v", err)
	}
	if st, _ := p.view.Lane(theLane); len(st.Plan) != 2 {
		t.Errorf("the open lane's plan is %v", st.Plan)
	}
	if err := p.store.Plan(t.Context(), plan(2, model.Jump{Count: 1, Src: 103})); !errors.Is(err, ErrNotOpen) {
		t.Errorf("another opening's number: %v", err)
	}
	p.store.Forget(theLane)
	if err := p.store.Save(t.Context(), []Progress{{Lane: theLane, Opening: 1}}); !errors.Is(err, ErrNotOpen) {
		t.Errorf("a forgotten lane: %v", err)
	}
}

func TestStore_OlderProgressIsLeftOut(t *testing.T) {
	t.Parallel()
	p := (&memLog{}).process("a")
	openFirst(t, p)
	newer := model.Cursor{Src: 110, Dst: 10, Count: 10}
	for _, c := range []model.Cursor{newer, {Src: 105, Dst: 5, Count: 5}} {
		if err := p.store.Save(t.Context(), []Progress{{Lane: theLane, Opening: 1, Cursor: c, Clean: c == newer}}); err != nil {
			t.Fatal(err)
		}
	}
	if st, _ := p.view.Lane(theLane); st.Cursor != newer || !st.Clean {
		t.Errorf("got %+v, clean %v", st.Cursor, st.Clean)
	}
}

func TestStore_LandingsComeBeforeTheirCursor(t *testing.T) {
	t.Parallel()
	log := &memLog{}
	p := log.process("a")
	openFirst(t, p)
	// The write breaks off between the two.
	log.fail = func(es []statelog.Entry) (int, error) { log.fail = nil; return 1, errors.New("no answer") }
	pr := Progress{Lane: theLane, Opening: 1, Cursor: model.Cursor{Src: 110, Dst: 12, Count: 10}, Landings: []model.Landing{{Count: 4, Dst: 6}}}
	if err := p.store.Save(t.Context(), []Progress{pr}); err == nil {
		t.Fatal("no error")
	}
	st, _ := p.view.Lane(theLane)
	if st.Cursor.Count != 0 || len(st.Landings) != 2 {
		t.Fatalf("cursor %+v, landings %v", st.Cursor, st.Landings)
	}
	if err := p.store.Save(t.Context(), []Progress{pr}); err != nil {
		t.Fatal(err)
	}
	st, _ = p.view.Lane(theLane)
	if got := st.Map.Translate(105); got.Offset != 7 {
		t.Errorf("Translate(105) = %+v, want 7", got)
	}
}

// blocking is a log whose writes are answered when the test says so.
type blocking struct {
	memLog
	mu      sync.Mutex
	answer  chan error
	started chan struct{}
}

func (b *blocking) Queue(ctx context.Context, es ...statelog.Entry) (func(context.Context) error, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, err := b.memLog.Queue(ctx, es...); err != nil || b.answer == nil {
		return func(context.Context) error { return nil }, err
	}
	b.started <- struct{}{}
	return func(context.Context) error { return <-b.answer }, nil
}

func TestStore_WritesOfOneLaneWaitForEachOther(t *testing.T) {
	t.Parallel()
	log := &blocking{}
	p := process{view: log.view()}
	p.store = newStore(log, p.view, "a")
	openFirst(t, p)
	log.answer, log.started = make(chan error), make(chan struct{}, 9)
	done := make(chan error, 2)
	go func() { done <- p.store.Plan(t.Context(), plan(1, model.Jump{Count: 3, Src: 110})) }()
	<-log.started
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.store.Plan(ctx, plan(1, model.Jump{Count: 9, Src: 200})); !errors.Is(err, context.Canceled) {
		t.Errorf("a second plan write did not wait: %v", err)
	}
	go func() { done <- p.store.Save(t.Context(), []Progress{{Lane: theLane, Opening: 1}}) }()
	<-log.started // a cursor waits for no plan
	log.answer <- nil
	log.answer <- nil
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestStore_ConcurrentPlansOfManyLanes(t *testing.T) {
	t.Parallel()
	log := &blocking{} // only for its lock
	view := log.view()
	s := newStore(log, view, "a")
	var openings []Opening
	for i := range 40 {
		openings = append(openings, Opening{Lane: model.Lane{Link: "dr", Topic: "t", Partition: int32(i)}, N: 1, Identity: theIdentity})
	}
	if _, err := s.Open(t.Context(), openings); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range int64(50) {
				adds := map[model.Lane]PlanAdd{}
				for l := w * 5; l < w*5+5; l++ {
					adds[openings[l].Lane] = PlanAdd{1, []model.Jump{{Count: i, Src: 2*i + 1}}}
				}
				if err := s.Plan(t.Context(), adds); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for _, o := range openings {
		if st, _ := view.Lane(o.Lane); len(st.Plan) != 51 {
			t.Errorf("%s: %d entries", o.Lane, len(st.Plan))
		}
	}
}

func TestStore_EachAttemptToOpenHasItsOwnKey(t *testing.T) {
	t.Parallel()
	log := &memLog{}
	p := log.process("a")
	log.fail = func(es []statelog.Entry) (int, error) { log.fail = nil; return len(es), errors.New("no answer") }
	o := Opening{Lane: theLane, N: 1, Identity: theIdentity}
	if _, err := p.store.Open(t.Context(), []Opening{o}); err == nil {
		t.Fatal("no error")
	}
	won, err := p.store.Open(t.Context(), []Opening{o})
	if err != nil || won[0] {
		t.Fatalf("the second attempt: won %v, %v; the first one stands before it", won, err)
	}
	if log.entries[0].Key == log.entries[1].Key {
		t.Error("both attempts wrote the same key")
	}
}

func TestStore_TrimLeavesWhatIsNeeded(t *testing.T) {
	t.Parallel()
	for _, size := range []segmentSize{{40, 40}, {40, 160}} { // without and with segments that take the place of others
		t.Run(fmt.Sprint(size.whole), func(t *testing.T) { trimLeavesWhatIsNeeded(t, size) })
	}
}

func trimLeavesWhatIsNeeded(t *testing.T, size segmentSize) {
	log := &memLog{}
	p := log.process("a")
	openFirst(t, p)
	p.store.segment = size
	reopen := func(c model.Cursor) {
		st, _ := p.view.Lane(theLane)
		o := Opening{Lane: theLane, N: st.Opening.N + 1, Prev: st.Opening.Nonce, Identity: theIdentity, Origin: c, Closed: &Closed{Cursor: st.Cursor}}
		if won, err := p.store.Open(t.Context(), []Opening{o}); err != nil || !won[0] {
			t.Fatal(won, err)
		}
	}
	reopen(model.Cursor{Src: 100})
	n := uint64(2)
	var landings []model.Landing
	for i := range int64(200) {
		if err := p.store.Plan(t.Context(), plan(n, model.Jump{Count: i, Src: 101 + 2*i})); err != nil {
			t.Fatal(err)
		}
		landings = append(landings, model.Landing{Count: i, Dst: 3*i + 1})
	}
	last := model.Cursor{Src: 500, Dst: 599, Count: 200}
	if err := p.store.Save(t.Context(), []Progress{{Lane: theLane, Opening: n, Cursor: last, Landings: landings}}); err != nil {
		t.Fatal(err)
	}
	if err := p.store.PutSeal(t.Context(), Seal{Lane: theLane, Confirmed: true, Marker: 5}); err != nil {
		t.Fatal(err)
	}
	before, err := p.store.Trim(t.Context(), theLane, 300)
	if err != nil || before < 5 {
		t.Fatalf("%d records removed, %v", before, err)
	}
	if again, err := p.store.Trim(t.Context(), theLane, 300); err != nil || again > 0 {
		t.Errorf("%d records removed again, %v", again, err)
	}
	for name, es := range map[string][]statelog.Entry{"all": log.entries, "compacted": compact(log.entries, len(log.entries))} {
		v := replay(es)
		v.DropBefore(theLane, 300)
		st, ok := v.Lane(theLane)
		if !ok || st.Fault != nil || st.Cursor != last {
			t.Fatalf("%s: %v %v %+v", name, ok, st.Fault, st.Cursor)
		}
		live, _ := p.view.Lane(theLane)
		if diff := cmp.Diff(spansOf(live.Map), spansOf(st.Map)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		for i := int64(100); i < 200; i++ {
			if got := st.Map.Translate(101 + 2*i); got != (Translation{Offset: 3*i + 1}) {
				t.Fatalf("%s: Translate(%d) = %+v", name, 101+2*i, got)
			}
		}
	}
	if kept := len(compact(log.entries, len(log.entries))); kept > len(log.entries)/2 {
		t.Errorf("%d of %d records are left", kept, len(log.entries))
	}
}

func ExampleKind() {
	m := NewMap(100, 0)
	_ = m.Append(model.Span{Src: 100, Dst: 0, N: 10})
	_ = m.Append(model.Span{Src: 120, Dst: 10, N: 5})
	for _, src := range []int64{50, 105, 115, 125, 130} {
		t := m.Translate(src)
		fmt.Println(src, "→", t.Offset, t.Kind)
	}
	// Output:
	// 50 → 0 before_start
	// 105 → 5 exact
	// 115 → 10 hole
	// 125 → 15 exact
	// 130 → 15 ahead
}
