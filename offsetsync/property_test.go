package offsetsync

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"lockstep/internal/model"
	"lockstep/internal/statelog"
	"lockstep/replicator/batch"
)

// drive lets a world live for a while and returns the process that copies last. What can happen: records with holes
// between them, answers that are lost, foreign writers, strange markers, crashes, clean hand-overs, rival openings,
// stale workers that go on, failing writes, a target that is trimmed, and (with truncations) a source that takes another
// branch or is another topic.
func drive(t *rapid.T, w *world, truncations, trims bool) *worker {
	k := w.start(rapid.Int64Range(0, 4).Draw(t, "start"))
	var stale []*worker
	for range rapid.IntRange(1, 40).Draw(t, "steps") {
		switch op := rapid.IntRange(0, 16).Draw(t, "op"); op {
		case 0, 1, 2, 3:
			k.copy(drawHoles(t), true)
		case 4:
			k.copy(drawHoles(t), rapid.Bool().Draw(t, "acked"))
			fallthroughIfLost(t, w, &k, &stale)
		case 5, 6, 7:
			k.save(false)
		case 8:
			n := rapid.Int32Range(1, 4).Draw(t, "foreign")
			w.write(batch.Header{Magic: 2, PID: -1, Epoch: -1, BaseSeq: -1, Count: n, LastOffsetDelta: n - 1})
		case 9:
			w.control(k.term.Epoch)
		case 10:
			crash(t, w, &k, &stale, truncations)
		case 11:
			if k.ackedAll() {
				k.save(true)
				p := w.process()
				stale = append(stale, k)
				k, _ = w.open(p, w.reopen(p))
			}
		case 12:
			rivals(t, w, &k, &stale)
		case 14:
			if !trims {
				continue
			}
			st, _ := k.p.view.Lane(theLane)
			w.trim(k, rapid.Int64Range(w.logStart, st.Cursor.Dst).Draw(t, "log start"))
		case 15:
			w.failNext(t, k)
		case 16:
			if truncations {
				recreate(t, w, &k, &stale)
			}
		case 13:
			if len(stale) > 0 {
				haunt(t, rapid.SampledFrom(stale).Draw(t, "ghost"))
			}
		}
	}
	return k
}

func drawHoles(t *rapid.T) []int64 {
	return rapid.SliceOfN(rapid.SampledFrom([]int64{0, 0, 0, 1, 2, 5}), 0, 6).Draw(t, "holes")
}

// ackedAll reports whether every record that was sent has been answered.
func (k *worker) ackedAll() bool { return k.acked.Count == k.count }

// fallthroughIfLost replaces a worker that does not know whether its batch landed.
func fallthroughIfLost(t *rapid.T, w *world, k **worker, stale *[]*worker) {
	if !(*k).ackedAll() {
		crash(t, w, k, stale, false)
	}
}

func crash(t *rapid.T, w *world, k **worker, stale *[]*worker, truncations bool) {
	if rapid.Bool().Draw(t, "planned ahead") {
		(*k).plan(rapid.Int64Range(1, 5).Draw(t, "ahead"))
	}
	p := w.process()
	o := w.takeOver(p, func(c model.Cursor) int64 {
		if !truncations || !rapid.Bool().Draw(t, "truncated") {
			return c.Src
		}
		return rapid.Int64Range(0, c.Src).Draw(t, "common")
	})
	if rapid.Bool().Draw(t, "saves late") { // between the successor's reading and its opening
		(*k).save(false)
	}
	*stale = append(*stale, *k)
	*k, _ = w.open(p, o)
}

// recreate goes on with another source topic of the same name, from its first offset on.
func recreate(t *rapid.T, w *world, k **worker, stale *[]*worker) {
	p := w.process()
	o := w.takeOver(p, func(model.Cursor) int64 { return 0 })
	w.ident.Src[1]++
	o.Identity = w.ident
	if rapid.Bool().Draw(t, "without an end") {
		o.Closed = nil
	}
	*stale = append(*stale, *k)
	*k, _ = w.open(p, o)
}

// trim moves the target's log start, and removes from the state what only concerned offsets below it.
func (w *world) trim(k *worker, logStart int64) {
	w.logStart = logStart
	w.target = slices.DeleteFunc(w.target, func(h batch.Header) bool { return h.Next() <= logStart })
	if _, err := k.p.store.Trim(w.t.Context(), theLane, logStart); err != nil {
		w.t.Fatalf("trim: %v", err)
	}
}

// failNext lets the next write fail, with some of its entries written; the worker gives them again.
func (w *world) failNext(t *rapid.T, k *worker) {
	fail := func(es []statelog.Entry) (int, error) {
		w.log.fail = nil
		return rapid.IntRange(0, len(es)).Draw(t, "written"), errors.New("no answer")
	}
	w.log.fail = fail
	p := Progress{Lane: theLane, Opening: k.n, Cursor: k.acked, Landings: k.landed}
	if err := k.p.store.Save(t.Context(), []Progress{p}); err == nil {
		t.Fatal("a failed write was not reported")
	}
	if rapid.Bool().Draw(t, "saved again") {
		k.save(false)
	}
	w.log.fail = fail
	add := map[model.Lane]PlanAdd{theLane: {k.n, []model.Jump{{Count: k.count, Src: k.next + 2}}}}
	if err := k.p.store.Plan(t.Context(), add); err == nil {
		t.Fatal("a failed write was not reported")
	}
	if err := k.p.store.Plan(t.Context(), add); err != nil {
		t.Fatalf("plan again: %v", err)
	}
	k.next += 2
}

// plan makes a jump durable of which no record is ever sent.
func (k *worker) plan(hole int64) {
	add := PlanAdd{k.n, []model.Jump{{Count: k.count, Src: k.next + hole}}}
	if err := k.p.store.Plan(k.w.t.Context(), map[model.Lane]PlanAdd{theLane: add}); err != nil {
		k.w.t.Fatalf("plan ahead: %v", err)
	}
	k.next += hole
}

// rivals lets two processes take the lane over at once: one opening wins, the other is void.
func rivals(t *rapid.T, w *world, k **worker, stale *[]*worker) {
	a, b := w.process(), w.process()
	same := func(c model.Cursor) int64 { return c.Src }
	oa := w.takeOver(a, same)
	ob := w.takeOver(b, same)
	*stale = append(*stale, *k)
	if rapid.Bool().Draw(t, "first loses") {
		a, b, oa, ob = b, a, ob, oa
	}
	*k, _ = w.open(a, oa)
	if _, ok := w.open(b, ob); ok {
		t.Fatal("both rivals won")
	}
	if (*k).term.Epoch < w.epoch { // the loser's marker ended the winner's term
		crash(t, w, k, stale, false)
	}
}

// haunt lets a replaced worker go on: it is fenced on the target, but not in the state topic.
func haunt(t *rapid.T, k *worker) {
	if k.term.Epoch >= k.w.epoch {
		return // it ended cleanly in a term that goes on: it stopped by itself
	}
	k.copy(drawHoles(t), false)
	if rapid.Bool().Draw(t, "saves") {
		k.save(rapid.Bool().Draw(t, "clean"))
	}
}

func TestView_EqualsTheTruth(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		k := drive(t, w, true, true)
		k.p.view.DropBefore(theLane, w.logStart)
		st, ok := k.p.view.Lane(theLane)
		if !ok || st.Opening.Nonce != k.ch.id.nonce {
			t.Fatalf("newest opening is %+v, want %+v", st.Opening, k.ch.id)
		}
		w.check(st)
	})
}

// What landed behind the stored cursor is read from the target's headers: every record is exact, whoever is dead.
func TestExtend_EqualsTheTruth(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		k := drive(t, w, true, true)
		k.copy(drawHoles(t), rapid.Bool().Draw(t, "acked"))
		if rapid.Bool().Draw(t, "compacted target") {
			w.compactTarget(t)
		}
		st, _ := replay(w.log.entries).Lane(theLane)
		tail, err := Tail(w.headers(st.Cursor.Dst), w.pid, st.Opening.Term.Epoch, st, nil)
		if err != nil {
			t.Fatal(err)
		}
		st, err = st.Extend(tail)
		if err != nil {
			t.Fatal(err)
		}
		st.Map.DropBefore(w.logStart)
		w.check(st)
		for _, r := range k.ch.records {
			if got := st.Map.Translate(r.src); r.dst >= w.logStart && got.Offset != r.dst {
				t.Fatalf("Translate(%d) = %+v, the record stands at %d", r.src, got, r.dst)
			}
		}
	})
}

// compactTarget thins batches out, as the cleaner of a compacted topic does: their offsets and sequences stay.
func (w *world) compactTarget(t *rapid.T) {
	for i := range w.target {
		if h := &w.target[i]; !h.Control() && h.Count > 1 {
			h.Count = rapid.Int32Range(1, h.Count).Draw(t, "left")
		}
	}
}

func TestView_CompactedLogGivesTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		drive(t, w, true, true)
		clean := rapid.IntRange(0, len(w.log.entries)).Draw(t, "cleaned up to")
		v := replay(compact(w.log.entries, clean))
		v.DropBefore(theLane, w.logStart)
		st, _ := v.Lane(theLane)
		w.check(st)
	})
}

func TestView_PrefixOfACompactedLogSkipsNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		drive(t, w, false, false)
		clean := rapid.IntRange(0, len(w.log.entries)).Draw(t, "cleaned up to")
		es := compact(w.log.entries, clean)
		v := replay(es[:rapid.IntRange(1, len(es)).Draw(t, "read up to")])
		st, ok := v.Lane(theLane)
		if !ok {
			return
		}
		var els []landed
		for _, c := range w.chapters {
			els = append(els, c.records...)
		}
		st.Map.DropBefore(w.logStart)
		els = slices.DeleteFunc(els, func(r landed) bool { return r.dst < w.logStart })
		for g := int64(0); g <= 200; g++ {
			got := st.Map.Translate(g)
			for _, r := range els {
				if r.src >= g && got.Offset > r.dst {
					t.Fatalf("Translate(%d) = %+v skips the record %d → %d\n%s", g, got, r.src, r.dst, w.dump(st.Map))
				}
				if _, stop := st.Map.End(); r.src == g && got.Kind == Exact && got.Offset != r.dst && got.Offset != stop {
					t.Fatalf("Translate(%d) = %+v, record stands at %d", g, got, r.dst)
				}
			}
		}
	})
}

// compact keeps of the first n entries only the newest of each key, as seen from the whole log.
func compact(es []statelog.Entry, n int) []statelog.Entry {
	newest := map[string]int{}
	for i, e := range es {
		newest[e.Key] = i
	}
	var out []statelog.Entry
	for i, e := range es {
		if i >= n || newest[e.Key] == i {
			out = append(out, e)
		}
	}
	return out
}
