package offsetsync

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/internal/model"
	"lockstep/internal/statelog"
)

// feed is a source that hands over what it is given and then waits.
type feed struct{ entries []statelog.Entry }

func (f feed) Follow(ctx context.Context, fn func([]statelog.Entry)) error {
	fn(f.entries)
	<-ctx.Done()
	return context.Cause(ctx)
}

func (f feed) Barrier(context.Context) error { return nil }

// newer returns the record with the format version after the present one.
func newer(e statelog.Entry) statelog.Entry {
	if e.Value[0] != '{' {
		e.Value = append([]byte{segmentVersion + 1}, e.Value[1:]...)
		return e
	}
	e.Value = []byte(strings.Replace(string(e.Value), `"v":1`, `"v":2`, 1))
	return e
}

func TestView_NewerFormatStopsReading(t *testing.T) {
	t.Parallel()
	entries := goldenEntries(t)
	for name, e := range entries {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			es := []statelog.Entry{newer(e)}
			if name == "plan" || name == "land" {
				es = append([]statelog.Entry{entries["opening"]}, es...)
			}
			err := newView(feed{es}, "dr").Run(t.Context())
			format := (*NewerFormatError)(nil)
			if !errors.As(err, &format) || format.Key != e.Key || format.Version != 2 {
				t.Fatalf("got %v", err)
			}
			if !strings.Contains(err.Error(), e.Key) || !strings.Contains(err.Error(), "version 2") {
				t.Errorf("the text names neither key nor version: %v", err)
			}
		})
	}
}

func TestView_MalformedRecordStopsReading(t *testing.T) {
	t.Parallel()
	entries := goldenEntries(t)
	for name, e := range entries {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e.Value = []byte("{")
			es := []statelog.Entry{entries["opening"], e}
			v := newView(feed{es}, "dr")
			err := v.Run(t.Context())
			var format *NewerFormatError // '{' is a version that no segment has
			if !errors.Is(err, ErrMalformed) && !errors.As(err, &format) || !strings.Contains(err.Error(), e.Key) {
				t.Errorf("got %v", err)
			}
			if v.Barrier(t.Context()) == nil {
				t.Error("a barrier hides the error")
			}
		})
	}
}

func TestView_UnknownKindsAreCounted(t *testing.T) {
	t.Parallel()
	v := replay([]statelog.Entry{
		{Key: "group/g/t/0", Value: []byte("x")},
		{Key: "lane/orders/3/weather/1/a", Value: []byte("x")},
		{Key: "lane/orders/x/cursor/1/a", Value: []byte("x")},
		{Key: "lane/orders/3/plan/1/a", Value: []byte("x")},
		{Key: "%zz", Value: []byte("x")},
		{Key: "", Value: nil},
		{Key: "claim", Value: []byte("x")},
		{Key: "seal/orders/3/1", Value: []byte("x")},
	})
	want := map[string]int64{"group": 1, "lane/weather": 1, "lane": 2, "?": 1, "": 1, "claim": 1, "seal": 1}
	if diff := cmp.Diff(want, v.Unknown()); diff != "" || v.err != nil {
		t.Error(diff, v.err)
	}
	if len(v.Lanes()) > 0 {
		t.Errorf("lanes: %v", v.Lanes())
	}
}

func TestView_HandleGivesOtherKindsAway(t *testing.T) {
	t.Parallel()
	v := newView(&memLog{}, "dr")
	var got []string
	refused := errors.New("refused")
	v.Handle("group", func(e statelog.Entry) error {
		got = append(got, e.Key)
		if e.Key == "group/c" {
			return refused
		}
		return nil
	})
	v.apply([]statelog.Entry{{Key: "group/a", Value: []byte("1")}, {Key: "group/b"}})
	if diff := cmp.Diff([]string{"group/a", "group/b"}, got); diff != "" || len(v.Unknown()) > 0 || v.err != nil {
		t.Error(diff, v.Unknown(), v.err)
	}
	v.apply([]statelog.Entry{{Key: "group/c"}, {Key: "group/d"}})
	if len(got) != 3 || !errors.Is(v.err, refused) {
		t.Errorf("read %v; %v", got, v.err)
	}
}

func TestView_RunStartsAnew(t *testing.T) {
	t.Parallel()
	v := newView(feed{[]statelog.Entry{readGolden(t, "opening"), readGolden(t, "gap")}}, "dr")
	for range 2 {
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error, 1)
		changed := v.Changed()
		go func() { done <- v.Run(ctx) }()
		<-changed
		if got := len(v.Gaps()); got != 1 {
			t.Errorf("%d gaps", got)
		}
		over := errors.New("over")
		cancel(over)
		if err := <-done; !errors.Is(err, over) {
			t.Errorf("Run: %v", err)
		}
	}
}

func TestView_PicturesDoNotChange(t *testing.T) {
	t.Parallel()
	p := (&memLog{}).process("a")
	openFirst(t, p)
	var pictures []LaneState
	var spans [][]model.Span
	for i := range int64(400) {
		if err := p.store.Plan(t.Context(), plan(1, model.Jump{Count: i, Src: 101 + 2*i})); err != nil {
			t.Fatal(err)
		}
		c := model.Cursor{Src: 102 + 2*i, Dst: i + 1, Count: i + 1}
		if err := p.store.Save(t.Context(), []Progress{{Lane: theLane, Opening: 1, Cursor: c}}); err != nil {
			t.Fatal(err)
		}
		st, _ := p.view.Lane(theLane)
		pictures, spans = append(pictures, st), append(spans, spansOf(st.Map))
	}
	for i, st := range pictures {
		if st.Cursor.Count != int64(i+1) || !cmp.Equal(spans[i], spansOf(st.Map)) {
			t.Fatalf("picture %d has changed", i)
		}
	}
}

func TestView_CursorInFrontOfItsPlanIsNotJoined(t *testing.T) {
	t.Parallel()
	log := &memLog{}
	p := log.process("a")
	openFirst(t, p)
	for i, js := range [][]model.Jump{{{Count: 0, Src: 105}}, {{Count: 9, Src: 200}}} {
		if err := p.store.Plan(t.Context(), plan(1, js...)); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			c := model.Cursor{Src: 110, Dst: 5, Count: 5}
			if err := p.store.Save(t.Context(), []Progress{{Lane: theLane, Opening: 1, Cursor: c}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	// The first version of the segment is gone: the cursor stands in front of the second.
	es := compact(log.entries, len(log.entries))
	v := replay(es[:2])
	st, _ := v.Lane(theLane)
	if st.Fault == nil || st.Cursor.Count != 0 {
		t.Errorf("cursor %+v, fault %v", st.Cursor, st.Fault)
	}
	if got := st.Map.Translate(107); got.Kind != Ahead {
		t.Errorf("Translate(107) = %+v", got)
	}
	v.apply(es[2:])
	if st, _ = v.Lane(theLane); st.Fault != nil || st.Map.Translate(107).Offset != 2 {
		t.Errorf("fault %v, %+v", st.Fault, st.Map.Translate(107))
	}
}

func TestView_CursorThatDisagreesWithItsPlanIsNotJoined(t *testing.T) {
	t.Parallel()
	p := (&memLog{}).process("a")
	openFirst(t, p)
	c := model.Cursor{Src: 104, Dst: 5, Count: 5} // five records from 100 on end at 105
	if err := p.store.Save(t.Context(), []Progress{{Lane: theLane, Opening: 1, Cursor: c}}); err != nil {
		t.Fatal(err)
	}
	st, _ := p.view.Lane(theLane)
	if src, _ := st.Map.End(); st.Fault == nil || src != 100 {
		t.Errorf("fault %v, map ends at %d", st.Fault, src)
	}
}

func TestView_AnotherTopicNeverAnswers(t *testing.T) {
	t.Parallel()
	p := (&memLog{}).process("a")
	openFirst(t, p)
	if err := p.store.Save(t.Context(), []Progress{{Lane: theLane, Opening: 1, Cursor: model.Cursor{Src: 150, Dst: 50, Count: 50}}}); err != nil {
		t.Fatal(err)
	}
	st, _ := p.view.Lane(theLane)
	other := theIdentity
	other.Src[0] = 9
	o := Opening{Lane: theLane, N: 2, Prev: st.Opening.Nonce, Identity: other, Origin: model.Cursor{Src: 120, Dst: 51}}
	if won, err := p.store.Open(t.Context(), []Opening{o}); err != nil || !won[0] {
		t.Fatal(won, err)
	}
	if got, _ := p.view.Translate(theLane, 110); got != (Translation{51, BeforeStart, 10}) {
		t.Errorf("Translate(110) = %+v", got)
	}
	if got, _ := p.view.Invert(theLane, 20); got != (Translation{120, BeforeStart, 31}) {
		t.Errorf("Invert(20) = %+v", got)
	}
}

func TestView_UnknownLane(t *testing.T) {
	t.Parallel()
	v := newView(&memLog{}, "dr")
	if _, ok := v.Translate(theLane, 1); ok {
		t.Error("an unknown lane translates")
	}
	if _, ok := v.Lane(theLane); ok {
		t.Error("an unknown lane has state")
	}
}

func TestView_SilentOwnerShowsNoNewBeat(t *testing.T) {
	t.Parallel()
	log := &memLog{}
	p := log.process("a")
	now := goldenTime
	p.view.now = func() time.Time { return now }
	put := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	put(p.store.PutClaim(t.Context(), Claim{ID: "c1", Owner: "x"}))
	put(p.store.PutBeat(t.Context(), Beat{Claim: "c1", Owner: "x", Node: "n1", Seq: 1}))
	now = now.Add(time.Minute)
	put(p.store.PutBeat(t.Context(), Beat{Claim: "c0", Owner: "y", Node: "n9", Seq: 5})) // of a void claim
	b, ok := p.view.LastBeat()
	if !ok || b.Node != "n1" || !b.Seen.Equal(goldenTime) {
		t.Errorf("got %+v", b)
	}
	put(p.store.PutBeat(t.Context(), Beat{Claim: "c1", Owner: "x", Node: "n2", Seq: 1}))
	if b, _ = p.view.LastBeat(); b.Node != "n2" || !b.Seen.Equal(now) {
		t.Errorf("got %+v", b)
	}
}

// FuzzRecord gives any bytes to every kind of record.
func FuzzRecord(f *testing.F) {
	keys := []string{
		"lane/orders/3/opening/1/a", "lane/orders/3/plan/1/a/0", "lane/orders/3/land/1/a/0", "lane/orders/3/cursor/1/a",
		"lane/orders/3/gap/5/a", "lane/orders/3/trim/1/a", "seal/orders/3/1/a", "claim/a", "claim/a/released", "beat/a/b",
		"term/1/a", "stop/a", "stop/a/lifted",
	}
	opening, _ := json.Marshal(openingValue{V: 1, Origin: model.Cursor{Src: 5, Dst: 6}})
	for i, key := range keys {
		f.Add(key, opening, opening)
		f.Add(key, []byte(`{"v":1,"src":9,"dst":9,"count":4,"plan_n":1,"closed":{"cursor":{"count":3},"landings":"AQAB"}}`), encodePoints([]point{{1, 9}, {int64(i), 30}}))
	}
	f.Fuzz(func(t *testing.T, key string, a, b []byte) {
		v := newView(&memLog{}, "dr")
		v.apply([]statelog.Entry{{Key: keys[0], Value: opening}, {Key: key, Value: a}, {Key: key, Value: b}, {Key: keys[3], Value: a}, {Key: key, Value: nil}})
		if st, ok := v.Lane(theLane); ok {
			st.Map.Translate(7)
			for range st.Map.Spans() {
				break
			}
		}
		v.Translate(theLane, 7)
		_, _ = v.LastBeat()
	})
}
