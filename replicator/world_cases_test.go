package replicator

import (
	"context"
	"slices"
	"testing"
	"time"

	"lockstep/internal/model"
)

// The tests below are runs that failed once, without what had nothing to do with it.

// first always chooses the first thing.
type first struct{}

func (first) pick(int) int { return 0 }

// calmWorld is a world in which nothing happens by itself.
func calmWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(newShared(t), first{}, noFault, traits{})
	t.Cleanup(w.close)
	return w
}

// opened starts a process of an owner and lets it open its lanes.
func (w *world) opened(owner string) *proc {
	p := w.runWorker(owner)
	for _, task := range []string{"own", "enter"} {
		p.finishTask(task)
	}
	w.settleLater()
	return p
}

// runTo lets a task go on until it is about to make a call.
func (p *proc) runTo(t *testing.T, name, call string) *task {
	t.Helper()
	for range 100 {
		for _, x := range p.tasks {
			if x.name == name && x.at == call {
				return x
			}
			if x.name == name {
				p.resume(x, orderGo)
				break
			}
		}
	}
	t.Fatalf("%s: task %s never comes to %q", p.name, name, call)
	return nil
}

// mustRest heals and judges the world.
func (w *world) mustRest(t *testing.T) {
	t.Helper()
	w.heal()
	if w.failure == "" {
		w.judge()
	}
	if w.failure != "" {
		t.Fatalf("%s\n%s", w.failure, w.story())
	}
}

func TestCase_BatchThatBeginsBelowALostRange(t *testing.T) {
	t.Parallel()
	w := calmWorld(t)
	p := w.opened("a")
	w.sources[0].append(-1, 5)
	w.sources[0].retain(2) // the batch stays, since its end is still wanted
	p.copy(0, 1)
	p.finishTask("spawned")
	w.after()
	w.now = w.now.Add(time.Minute)
	p.copy(0, 1)
	if n := len(w.targets[0].copies); n != 3 {
		t.Fatalf("copied %d records of the 3 that are not in the ledger of what was lost", n)
	}
	w.mustRest(t)
}

func TestCase_TargetLogBeginsInsideABatch(t *testing.T) {
	t.Parallel()
	w := calmWorld(t)
	p := w.opened("a")
	w.sources[0].append(-1, 5)
	p.copy(0, 1)
	p.end("crash before the cursor was stored")
	w.targets[0].deleteTo(3)
	w.mustRest(t)
	if n := len(w.targets[0].copies); n != 5 {
		t.Fatalf("%d records were appended, want 5", n)
	}
}

func TestCase_TargetDeletedWhatARepairWouldRead(t *testing.T) {
	t.Parallel()
	w := calmWorld(t)
	p := w.opened("a")
	w.sources[0].append(-1, 3)
	p.fetch(0, 1)
	p.send(0)
	p.conn.handle()
	w.replicate()
	w.targets[0].deleteTo(2)
	p.cut(errCut)
	w.mustRest(t)
}

func TestCase_DrainWaitsForARepair(t *testing.T) {
	t.Parallel()
	w := calmWorld(t)
	p := w.opened("a")
	w.sources[0].append(-1, 3)
	p.fetch(0, 1)
	p.send(0)
	p.conn.handle()
	p.cut(errCut)
	p.drain()
	w.targets[0].leaderless = true
	p.finishTask("repair")
	w.targets[0].leaderless = false
	w.replicate()
	for range 20 {
		for _, task := range []string{"spawned", "repair", "finish"} {
			p.finishTask(task)
		}
		w.after()
	}
	r := w.reader(w.state.parts)
	if st, _ := r.view.Lane(w.targets[0].lane); !st.Clean || st.Cursor.Count != 3 {
		t.Fatalf("after a drain the state says clean %v, cursor %+v", st.Clean, st.Cursor)
	}
}

func TestCase_OpeningAppearsWhileTheTargetIsAsked(t *testing.T) {
	t.Parallel()
	for name, known := range map[string]bool{"of a lane that was never opened": false, "of a known lane": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := calmWorld(t)
			w.sources[0].append(-1, 3)
			if known {
				w.opened("a").end("crash")
			}
			b := w.runWorker("b")
			b.finishTask("own")
			b.runTo(t, "enter", "target ends")
			if known { // the end is asked before the start
				b.resume(b.tasks[0], orderGo)
			}
			w.targets[0].refuses = 0
			a := w.opened("a") // it looked for b, and heard nothing
			a.copy(0, 1)
			if known {
				b.state.readAll()
			}
			b.finishTask("enter")
			if l := b.lane(0); l.state == model.StateStopped {
				t.Fatalf("the lane has stopped: %s: %s", l.reason, l.detail)
			}
			w.mustRest(t)
		})
	}
}

func TestCase_NewestTermIsMineAndMarkedOver(t *testing.T) {
	t.Parallel()
	w := calmWorld(t)
	w.opened("a").end("crash")
	p := w.runWorker("a")
	p.finishTask("own")
	p.runTo(t, "enter", "describe before the seal")
	w.coordinator.open = []*target{w.targets[0]} // somebody died between the two calls of a seal by transaction
	w.coordinator.timeOut()
	w.coordinator.write()
	w.sources[0].append(-1, 3)
	w.mustRest(t)
}

func TestCase_StopIsSeenBeforeANewTermIsUsed(t *testing.T) {
	t.Parallel()
	w := calmWorld(t)
	w.sources[0].append(-1, 3)
	p := w.runWorker("a")
	p.finishTask("own")
	p.runTo(t, "enter", "init producer id") // it looked for stops before
	w.runFailover().finishTask("failover")
	p.finishTask("enter")
	if p.alive {
		p.copy(0, 1)
	}
	w.mustRest(t)
}

func TestCase_GapOfAReplacedOwnerIsNotBelieved(t *testing.T) {
	t.Parallel()
	w := calmWorld(t)
	old := w.opened("a")
	b := w.opened("b")
	w.sources[0].append(-1, 2)
	b.fetch(0, 1) // holds what the source is about to lose
	w.sources[0].retain(2)
	old.fetch(0, 1)
	old.finishTask("spawned")
	for range 3 {
		b.copy(0, 1)
	}
	w.mustRest(t)
	if gaps := b.view.Gaps(); len(gaps) != 0 || len(w.targets[0].copies) != 2 {
		t.Fatalf("%d records were copied, and the ledger says %v", len(w.targets[0].copies), gaps)
	}
}

func TestCase_ReachedOnlyBehindWhatCanBeRead(t *testing.T) {
	t.Parallel()
	w := calmWorld(t)
	p := w.opened("a")
	for _, txn := range []int64{1, 2, -1} {
		w.sources[0].append(txn, 2)
	}
	p.fetch(0, 1) // brings nothing: two transactions are open
	w.sources[0].finish(1, true)
	if p.lane(0).reached(w.sources[0].stable()) {
		t.Fatal("the lane claims to have copied records that it could not read yet")
	}
	w.mustRest(t)
}

func TestCase_SourceTakesAnotherBranch(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]fault{"seen": noFault, "passed over": faultEpochNotSent} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := calmWorld(t)
			w.fault = f
			p := w.opened("a")
			w.sources[0].append(-1, 4)
			p.copy(0, 1)
			w.sources[0].truncate(0)
			w.sources[0].append(-1, 6) // beyond what was read
			w.heal()
			w.judge()
			if found := w.failure != ""; found != (f != noFault) {
				t.Fatalf("found %q\n%s", w.failure, w.story())
			}
		})
	}
}

func TestCase_TwoTermsOfANewIDAndALaneOfTheOldOne(t *testing.T) {
	t.Parallel()
	w := calmWorld(t)
	w.sources[0].append(-1, 2)
	p := w.opened("a")
	p.copy(0, 1)
	p.end("crash")
	w.coordinator.known = false
	a := w.runWorker("a")
	a.finishTask("own")
	a.runTo(t, "enter", "describe before the seal") // it has a term of the new id
	w.runFailover().finishTask("failover")
	a.finishTask("enter")
	w.sources[0].append(-1, 2)
	a.copy(0, 1)
	w.mustRest(t)
}

func TestCase_LaneNobodyOpenedAndTermsOfThreeIDs(t *testing.T) {
	t.Parallel()
	w := calmWorld(t)
	w.sources[0].append(-1, 2)
	var ps []*proc
	for _, owner := range []string{"a", "b"} {
		p := w.runWorker(owner)
		p.finishTask("own")
		p.runTo(t, "enter", "source ends") // it has a term, and has looked for stops
		ps, w.coordinator.known = append(ps, p), false
	}
	w.runFailover().finishTask("failover")
	w.settleLater()
	if !w.targets[0].shut {
		t.Fatal("the failover left the lane unsealed")
	}
	for _, p := range ps {
		p.finishTask("enter")
		p.copy(0, 1)
	}
	w.mustRest(t)
}

// flushed stores the lanes' cursors.
func (p *proc) flushed() {
	p.start("flush", func(ctx context.Context) { p.m.flush(ctx, false) })
	p.finishTask("flush")
}

// orphansAre compares what the ledger says of copies that the source lost.
func (w *world) orphansAre(t *testing.T, want ...model.Gap) {
	t.Helper()
	var got []model.Gap
	st, _ := w.reader(w.state.parts).view.Lane(w.targets[0].lane)
	for _, g := range st.Gaps {
		got = append(got, model.Gap{From: g.From, To: g.To, DstFrom: g.DstFrom, DstTo: g.DstTo})
	}
	if !slices.Equal(got, want) {
		t.Fatalf("the ledger says %+v, want %+v\n%s", got, want, w.story())
	}
}

func TestCase_CutBehindRecordsOfAnEpochThatWasNotStored(t *testing.T) {
	t.Parallel()
	w := calmWorld(t)
	p := w.opened("a")
	w.sources[0].append(-1, 1)
	p.copy(0, 1)
	p.flushed()
	w.sources[0].elect()
	w.sources[0].append(-1, 2)
	w.sources[0].append(-1, 4)
	p.copy(0, 2)
	p.end("crash before the cursor was stored")
	w.sources[0].truncate(3)
	w.sources[0].append(-1, 3)
	w.mustRest(t)
	w.orphansAre(t, model.Gap{From: 3, To: 7, DstFrom: 3, DstTo: 7})
}

func TestCase_WhatTellsTheBranchesApartWasCompacted(t *testing.T) {
	t.Parallel()
	w := calmWorld(t)
	p := w.opened("a")
	w.sources[0].append(-1, 1)
	p.copy(0, 1)
	p.flushed()
	w.sources[0].append(-1, 2)
	p.copy(0, 1)
	p.end("crash before the cursor was stored")
	w.sources[0].truncate(1)
	w.sources[0].append(-1, 2)
	w.sources[0].compact(1, func(r rec) bool { return r.off == 2 })
	w.targets[0].compact(1, func(r rec) bool { return r.off == 1 })
	w.mustRest(t)
	w.orphansAre(t, model.Gap{From: 1, To: 3, DstFrom: 1, DstTo: 3})
}

func TestCase_SourceIsTruncatedWhileItIsCompared(t *testing.T) {
	t.Parallel()
	w := calmWorld(t)
	p := w.opened("a")
	w.sources[0].append(-1, 1)
	p.copy(0, 1)
	p.flushed()
	w.sources[0].append(-1, 3)
	p.copy(0, 1)
	p.end("crash before the cursor was stored")
	q := w.runWorker("a")
	q.finishTask("own")
	read := q.runTo(t, "enter", "read source")
	q.resume(read, orderGo) // both have the last record
	w.sources[0].truncate(1)
	w.sources[0].append(-1, 5)
	w.mustRest(t)
	w.orphansAre(t, model.Gap{From: 1, To: 4, DstFrom: 1, DstTo: 4})
}

func TestCase_TheSameRangeIsLostTwice(t *testing.T) {
	t.Parallel()
	w := calmWorld(t)
	p := w.opened("a")
	w.sources[0].append(-1, 1)
	p.copy(0, 1)
	for range 2 {
		w.sources[0].append(-1, 2)
		p.copy(0, 1)
		p.flushed()
		p.end("crash")
		w.sources[0].truncate(1)
		p = w.opened("a")
	}
	w.sources[0].append(-1, 2)
	w.mustRest(t)
	w.orphansAre(t, model.Gap{From: 1, To: 3, DstFrom: 1, DstTo: 3}, model.Gap{From: 1, To: 3, DstFrom: 4, DstTo: 6})
}

func TestCase_TargetDeletedPartOfWhatIsCompared(t *testing.T) {
	t.Parallel()
	w := calmWorld(t)
	p := w.opened("a")
	for range 3 {
		w.sources[0].append(-1, 2)
		p.copy(0, 1)
	}
	p.end("crash before the cursor was stored")
	w.targets[0].deleteTo(2)
	w.sources[0].truncate(4)
	w.sources[0].append(-1, 2)
	w.mustRest(t)
	w.orphansAre(t, model.Gap{From: 4, To: 6, DstFrom: 4, DstTo: 6})
}

func TestCase_MarkerWhereARecordWasCopied(t *testing.T) {
	t.Parallel()
	w := calmWorld(t)
	p := w.opened("a")
	w.sources[0].append(1, 2)
	w.sources[0].append(-1, 1)
	w.sources[0].append(-1, 1)
	w.sources[0].finish(1, true)
	for range 3 {
		p.copy(0, 1)
	}
	p.end("crash before the cursor was stored")
	w.sources[0].truncate(3) // the last of them goes, and the transaction ends there
	w.sources[0].finish(1, true)
	w.sources[0].append(-1, 2)
	w.mustRest(t)
}

func TestCase_OnlyAbortedDataIsTruncated(t *testing.T) {
	t.Parallel()
	w := calmWorld(t)
	p := w.opened("a")
	w.sources[0].append(1, 2)
	w.sources[0].finish(1, false)
	p.copy(0, 3)
	p.copy(0, 3)
	p.flushed()
	p.end("crash")
	w.sources[0].truncate(0)
	w.sources[0].append(-1, 5)
	w.mustRest(t)
	w.orphansAre(t)
}

func TestCase_OlderReplicaHasWhatCompactionTookFromTheOther(t *testing.T) {
	t.Parallel()
	w := calmWorld(t)
	p := w.opened("a")
	w.sources[0].append(-1, 2)
	w.sources[0].append(-1, 2)
	w.sources[0].truncate(2)
	w.sources[0].append(-1, 1)
	w.sources[0].append(-1, 2)
	w.sources[0].compact(1, func(rec) bool { return true })
	p.copy(0, 3)
	p.copy(0, 3)
	p.flushed()
	p.end("crash")
	w.sources[0].swap()
	w.mustRest(t)
}

func TestCase_OlderReplicaHasARecordThatTheLedgerCallsLost(t *testing.T) {
	t.Parallel()
	w := calmWorld(t)
	p := w.opened("a")
	w.sources[0].append(-1, 1)
	p.copy(0, 1)
	p.flushed()
	w.sources[0].append(-1, 2)
	p.copy(0, 1)
	p.end("crash before the cursor was stored")
	w.sources[0].append(-1, 2)
	w.sources[0].truncate(3)
	w.sources[0].compact(1, func(r rec) bool { return r.off == 2 }) // on this replica alone
	p = w.opened("a")
	w.orphansAre(t, model.Gap{From: 2, To: 3, DstFrom: 2, DstTo: 3})
	p.end("crash")
	w.sources[0].swap()
	w.mustRest(t)
	if n := len(w.truths[2].landed); n != 2 {
		t.Fatalf("the record was copied %d times: nobody could know that the source had it", n)
	}
}

func TestCase_StateWipedWhileABatchIsNotReplicated(t *testing.T) {
	t.Parallel()
	for name, sent := range map[string]bool{"found while it copies": true, "found by its successor": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := calmWorld(t)
			w.targets[0].refuses = 0
			p := w.opened("a")
			w.sources[0].append(-1, 2)
			p.fetch(0, 1)
			p.send(0)
			p.conn.handle()
			w.stepWipe()
			p = w.opened("a") // for which the target looks empty
			if sent {
				p.copy(0, 1)
			} else {
				p.end("crash")
			}
			w.mustRest(t)
			for _, p := range w.alive(true) {
				if l := p.lane(0); l.state != model.StateStopped || l.reason != model.ReasonDiverged {
					t.Fatalf("the lane is %s %s: it holds what its state does not know", l.state, l.reason)
				}
			}
			if n := len(w.truths[0].landed); n > 2 || !sent && n != 1 {
				t.Fatalf("the record was copied %d times", n)
			}
		})
	}
}

// The source's replicas are cleaned independently of each other: where compaction emptied the branch that was read, the one
// that leads afterwards may hold records below the offset at which the epochs part, and none of them was ever seen.
func TestCase_OtherBranchHoldsWhatCompactionHadTaken(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ copied, trimmed, alive bool }{
		"nothing was ever copied":                        {},
		"something was":                                  {copied: true},
		"something was, by the process that still lives": {copied: true, alive: true},
		"the target deleted it":                          {copied: true, trimmed: true},
		"nothing was, and the target was trimmed too":    {trimmed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := calmWorld(t)
			s := w.sources[0]
			p := w.opened("a")
			if c.copied {
				s.append(-1, 3)
				p.copy(0, 9)
			} else if c.trimmed {
				w.targets[0].stranger(3)
			}
			s.append(-1, 2)
			from := s.log[len(s.log)-1].BaseOffset
			s.truncate(from)
			s.append(-1, 6)
			s.compact(len(s.log)-1, func(rec) bool { return true })
			s.append(1, 1)
			s.finish(1, false)
			p.copyAll(t)
			if !c.alive {
				p = w.restarted(t, p)
			}
			if c.trimmed {
				w.targets[0].deleteTo(w.targets[0].end)
				p.start("trim", p.m.trim)
				p.finishTask("trim")
				w.state.compact(w.state.next, true)
				p = w.restarted(t, p)
			}
			s.swap()
			p.copy(0, 1)
			for range 3 { // where it lives, nothing of what it read was stored
				w.after()
				p.finishTask("spawned")
				p.finishTask("enter")
			}
			w.mustRest(t)
			if n, want := len(w.targets[0].copies), int(s.end); n != want {
				t.Fatalf("%d records were copied, want %d\n%s", n, want, w.story())
			}
		})
	}
}

// copyAll lets a process copy all there is, and store nothing of it.
func (p *proc) copyAll(t *testing.T) {
	t.Helper()
	for range 20 {
		if p.lane(0).reached(p.w.sources[0].stable()) {
			return
		}
		p.copy(0, 9)
		p.w.after()
	}
	t.Fatalf("%s does not copy everything\n%s", p.name, p.w.story())
}

// restarted lets a process end cleanly, and starts the next one.
func (w *world) restarted(t *testing.T, p *proc) *proc {
	t.Helper()
	p.drain()
	w.after()
	p.finishTask("finish")
	w.settleLater()
	if p.alive {
		t.Fatalf("%s does not end\n%s", p.name, w.story())
	}
	return w.opened("a")
}

// A log that begins inside a batch shows all of that batch. What stood below its start is not known for certain, and says
// nothing about what stands behind it.
func TestCase_ComparedOnlyWhatTheTargetStillHolds(t *testing.T) {
	t.Parallel()
	w := calmWorld(t)
	p := w.opened("a")
	w.targets[0].stranger(1)
	w.replicate()
	s := w.sources[0]
	s.append(-1, 6)
	s.append(-1, 1)
	for range 3 {
		p.copy(0, 1)
	}
	p.end("crash before the cursor was stored")
	w.targets[0].deleteTo(4)
	w.targets[0].compact(len(w.targets[0].log)-1, func(rec) bool { return true })
	s.elect()
	s.append(-1, 1)
	w.mustRest(t)
}

// What the cleaner took from the replica that leads cannot be known to be what was copied: the ledger names it, and where
// the other replica brings it back it is copied once more. The records that both logs hold stand once.
func TestCase_OtherReplicaBringsBackWhatTheCleanerTook(t *testing.T) {
	t.Parallel()
	w := calmWorld(t)
	p := w.opened("a")
	s := w.sources[0]
	s.append(-1, 1)
	s.append(-1, 1)
	s.append(-1, 1)
	s.truncate(2)
	p.copy(0, 2)
	p.copy(0, 2)
	p.end("crash before the cursor was stored")
	s.append(-1, 3)
	s.compact(1, func(rec) bool { return true })
	w.opened("a")
	s.swap()
	w.mustRest(t)
	w.orphansAre(t, model.Gap{From: 1, To: 2, DstFrom: 1, DstTo: 2})
}
