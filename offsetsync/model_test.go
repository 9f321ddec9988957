package offsetsync

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"lockstep/internal/model"
	"lockstep/internal/statelog"
)

// lagging is a view's source that delivers only when it is told to: by Barrier, as the real one, or in between.
type lagging struct {
	log  *memLog
	v    *View
	read int
}

func (l *lagging) Follow(ctx context.Context, _ func([]statelog.Entry)) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func (l *lagging) Barrier(context.Context) error {
	l.deliver(len(l.log.entries))
	return nil
}

func (l *lagging) deliver(upTo int) {
	l.v.apply(l.log.entries[l.read:upTo])
	l.read = upTo
}

// owner is a process that believes, by what it has read, to own the lane.
type owner struct {
	process
	src  *lagging
	mine uint64 // the opening it holds, 0 none
}

func newOwner(log *memLog, nonce string) *owner {
	src := &lagging{log: log}
	src.v = newView(src, "dr")
	return &owner{process: process{newStore(log, src.v, nonce), src.v}, src: src}
}

// chain is the model: the valid openings of a log in which nobody trimmed anything.
func chain(es []statelog.Entry) (valid []openingID) {
	for _, e := range es {
		parts, _ := statelog.SplitKey(e.Key)
		r, ok := parseLaneKey("dr", parts)
		if !ok || r.kind != kindOpening {
			continue
		}
		o, _ := decodeOpening(e.Key, r, e.Value)
		prev := openingID{}
		if len(valid) > 0 {
			prev = valid[len(valid)-1]
		}
		if o.N == prev.n+1 && o.Prev == prev.nonce {
			valid = append(valid, r.id)
		}
	}
	return valid
}

// act lets an owner do one thing with what it has read so far. It reports what it has learnt about an opening.
func (o *owner) act(t *rapid.T) (opened, won bool) {
	switch rapid.IntRange(0, 4).Draw(t, "act") {
	case 0:
		o.src.deliver(rapid.IntRange(o.src.read, len(o.src.log.entries)).Draw(t, "read up to"))
	case 1:
		return o.open(t)
	case 2, 3:
		if o.mine > 0 {
			c := rapid.Int64Range(1, 50).Draw(t, "count")
			add := PlanAdd{o.mine, []model.Jump{{Count: c, Src: 1000 * c}}}
			_ = o.store.Plan(t.Context(), map[model.Lane]PlanAdd{theLane: add}) // may go back: refused
		}
	case 4:
		if st, ok := o.view.Lane(theLane); ok && o.mine > 0 {
			c := model.Cursor{Src: 1 << 40, Dst: 1 << 30, Count: st.Cursor.Count}
			if err := o.store.Save(t.Context(), []Progress{{Lane: theLane, Opening: o.mine, Cursor: c}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return false, false
}

func (o *owner) open(t *rapid.T) (opened, won bool) {
	next := Opening{Lane: theLane, N: 1, Identity: model.Identity{DstTopic: "orders"}}
	if st, ok := o.view.Lane(theLane); ok {
		next.N, next.Prev = st.Opening.N+1, st.Opening.Nonce
		next.Closed = &Closed{Cursor: st.Cursor}
		next.Origin = model.Cursor{Src: st.Cursor.Src + 1, Dst: st.Cursor.Dst + 1}
	}
	wons, err := o.store.Open(t.Context(), []Opening{next})
	if err != nil {
		t.Fatal(err)
	}
	o.mine = 0
	if wons[0] {
		o.mine = next.N
	}
	return true, wons[0]
}

func TestOpenings_TwoOwnersInterleaved(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		log := &memLog{}
		owners := []*owner{newOwner(log, "a"), newOwner(log, "b")}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			o := rapid.SampledFrom(owners).Draw(t, "who")
			before := len(chain(log.entries))
			if opened, won := o.act(t); opened && won != (len(chain(log.entries)) > before) {
				t.Fatalf("the opening's writer thinks won=%v, the log says otherwise", won)
			}
		}
		want := chain(log.entries)
		clean := rapid.IntRange(0, len(log.entries)).Draw(t, "cleaned up to")
		for name, es := range map[string][]statelog.Entry{"whole": log.entries, "compacted": compact(log.entries, clean)} {
			st, ok := replay(es).Lane(theLane)
			if ok != (len(want) > 0) || ok && (openingID{st.Opening.N, st.Opening.Nonce}) != want[len(want)-1] {
				t.Fatalf("%s log: newest opening is %d %s, want %v", name, st.Opening.N, st.Opening.Nonce, want)
			}
		}
	})
}

func TestClaims_TwoClaimantsAtOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		log := &memLog{}
		owners := []*owner{newOwner(log, "a"), newOwner(log, "b"), newOwner(log, "c")}
		var valid []string
		for i := range rapid.IntRange(1, 25).Draw(t, "steps") {
			o := rapid.SampledFrom(owners).Draw(t, "who")
			if rapid.Bool().Draw(t, "reads") {
				_ = o.src.Barrier(t.Context())
				continue
			}
			last, _ := o.view.Claim()
			c := Claim{ID: fmt.Sprint("claim", i), Prev: last.ID, Owner: "x", Link: "dr"}
			if last.ID != "" && rapid.IntRange(0, 3).Draw(t, "release") == 0 {
				c = last
				c.Released = true
			} else if len(valid) == 0 && last.ID == "" || len(valid) > 0 && valid[len(valid)-1] == last.ID {
				valid = append(valid, c.ID)
			}
			if err := o.store.PutClaim(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		clean := rapid.IntRange(0, len(log.entries)).Draw(t, "cleaned up to")
		got, ok := replay(compact(log.entries, clean)).Claim()
		if ok != (len(valid) > 0) || ok && got.ID != valid[len(valid)-1] {
			t.Fatalf("newest valid claim is %q, want the last of %v", got.ID, slices.Clone(valid))
		}
	})
}
